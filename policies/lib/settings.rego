# Thresholds, with the documents' values; override any of them by data:
#   conftest test --policy policies --data policies/settings.yaml ...
package stowplan.lib

import rego.v1

defaults := {
	"tpu_ram_disk_factor": 2.2,
	"gpu_ram_disk_factor": 6.6,
	"min_backup_minutes": 30,
	"min_gke_version": [1, 32, 4, 1415000],
}

default overrides := {}

overrides := data.settings.thresholds

thresholds := object.union(defaults, overrides)

# 1.33.4-gke.1245000 as [1, 33, 4, 1245000]; undefined for what is no GKE version.
gke_version(text) := [whole_number(part) |
	some part in split(replace(text, "-gke.", "."), ".")
] if {
	regex.match(`^[0-9]+\.[0-9]+\.[0-9]+(-gke\.[0-9]+)?$`, text)
}
