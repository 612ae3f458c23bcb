# Accelerator machine types: host memory in GiB, chips, node label value.
# Sources: the public Compute Engine machine list (vCPU and memory) and GKE's TPU and GPU pages.
package stowplan.lib

import rego.v1

machines := {
	"ct5lp-hightpu-1t": {"memory": 48, "chips": 1, "type": "tpu"},
	"ct5lp-hightpu-4t": {"memory": 192, "chips": 4, "type": "tpu"},
	"ct5lp-hightpu-8t": {"memory": 384, "chips": 8, "type": "tpu"},
	"ct5p-hightpu-4t": {"memory": 448, "chips": 4, "type": "tpu"},
	"ct6e-standard-1t": {"memory": 176, "chips": 1, "type": "tpu"},
	"ct6e-standard-4t": {"memory": 720, "chips": 4, "type": "tpu"},
	"ct6e-standard-8t": {"memory": 1440, "chips": 8, "type": "tpu"},
	"tpu7x-standard-1t": {"memory": 240, "chips": 1, "type": "tpu"},
	"tpu7x-standard-4t": {"memory": 960, "chips": 4, "type": "tpu"},
	"a3-highgpu-8g": {"memory": 1872, "chips": 8, "type": "gpu"},
	"a3-megagpu-8g": {"memory": 1872, "chips": 8, "type": "gpu"},
	"a3-ultragpu-8g": {"memory": 2952, "chips": 8, "type": "gpu"},
	"a4-highgpu-8g": {"memory": 3968, "chips": 8, "type": "gpu"},
	"a4x-highgpu-4g": {"memory": 884, "chips": 4, "type": "gpu"},
}

# Machine types that documents name but that do not exist, and what is meant.
no_such_machine := {"ct5e-hightpu-4t": "ct5lp-hightpu-4t"}

resource_of := {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}
