package stowplan.checkpointing

import rego.v1

test_mtc020_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args",
			"value": ["enable_checkpointing=True"],
		},
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/volumeMounts",
		},
	])
	some result in found
	result.id == "MTC020"
	result.severity == "error"
}

test_mtc020_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC020"
	}
}

test_mtc021_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes",
		},
	])
	some result in found
	result.id == "MTC021"
	result.severity == "error"
}

test_mtc021_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC021"
	}
}

test_mtc022_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes/0/csi/driver",
			"value": "phase1-checkpoint.csi.storage.gke.io",
		},
	])
	some result in found
	result.id == "MTC022"
	result.severity == "error"
}

test_mtc022_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC022"
	}
}

test_mtc023_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args",
			"value": ["enable_checkpointing=True"],
		},
	])
	some result in found
	result.id == "MTC023"
	result.severity == "warning"
}

test_mtc023_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC023"
	}
}

test_mtc024_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/failurePolicy/maxRestarts",
			"value": 0,
		},
	])
	some result in found
	result.id == "MTC024"
	result.severity == "error"
}

test_mtc024_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC024"
	}
}

test_mtc025_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/-",
			"value": {
				"name": "head",
				"replicas": 2,
				"template": {
					"spec": {
						"backoffLimit": 0,
						"completionMode": "Indexed",
						"completions": 4,
						"parallelism": 4,
						"template": {
							"spec": {
								"restartPolicy": "OnFailure",
								"nodeSelector": {
									"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
									"cloud.google.com/gke-tpu-topology": "4x4",
								},
								"hostNetwork": true,
								"dnsPolicy": "ClusterFirstWithHostNet",
								"priorityClassName": "high",
								"containers": [
									{
										"name": "jax",
										"image": "registry.example/maxtext:v1.2.0",
										"command": ["python3", "MaxText/train.py", "MaxText/configs/base.yml"],
										"args": ["enable_checkpointing=False"],
										"resources": {"limits": {"google.com/tpu": 4}},
									},
								],
							},
						},
					},
				},
			},
		},
	])
	some result in found
	result.id == "MTC025"
	result.severity == "error"
}

test_mtc025_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC025"
	}
}

test_mtc026_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args/2",
			"value": "local_checkpoint_directory=/tmp/checkpoint",
		},
	])
	some result in found
	result.id == "MTC026"
	result.severity == "error"
}

test_mtc026_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC026"
	}
}

test_mtc027_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes/0/csi/driver",
			"value": "phase1-checkpoint.csi.storage.gke.io",
		},
	])
	some result in found
	result.id == "MTC027"
	result.severity == "error"
}

test_mtc027_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC027"
	}
}

test_mtc028_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [{"op": "remove", "path": "/metadata/annotations"}])
	some result in found
	result.id == "MTC028"
	result.severity == "warning"
}

test_mtc028_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC028"
	}
}

test_mtc029_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args/4",
			"value": "multi_tier_checkpointing_backup_interval_minutes=5",
		},
	])
	some result in found
	result.id == "MTC029"
	result.severity == "warning"
}

test_mtc029_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC029"
	}
}

test_mtc030_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args/-",
			"value": "multi_tier_checkpointing_backup_interval_steps=500",
		},
	])
	some result in found
	result.id == "MTC030"
	result.severity == "error"
}

test_mtc030_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC030"
	}
}

test_mtc031_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args/5",
			"value": "base_output_directory=/gcs/runs",
		},
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/volumeMounts/-",
			"value": {"name": "gcs", "mountPath": "/gcs"},
		},
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes/-",
			"value": {"name": "gcs", "csi": {"driver": "gcsfuse.csi.storage.gke.io"}},
		},
	])
	some result in found
	result.id == "MTC031"
	result.severity == "warning"
}

test_mtc031_right if {
	found := warn_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "MTC031"
	}
}

# The same on GPU, with the launcher of NeMo.
gpu_container := {
	"name": "nemo",
	"image": "registry.example/nemo:v1",
	"command": ["bash", "-c", "torchrun train.py --local-ckpt-dir=/checkpoint --job-name=nemo --enable-high-scale-ckpt"],
	"resources": {"limits": {"nvidia.com/gpu": 8}},
	"volumeMounts": [{"name": "checkpoint", "mountPath": "/checkpoint"}],
}

gpu_jobset := json.patch(data.stowplan.fixtures.jobset, [{
	"op": "replace",
	"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers",
	"value": [gpu_container],
}])

test_a_gpu_job_that_is_wired_breaks_nothing if {
	found := deny_jobset | warn_jobset with input as gpu_jobset
	count(found) == 0
}

test_mtc022_gpu_arguments_without_a_volume if {
	found := deny_jobset with input as json.patch(gpu_jobset, [{
		"op": "remove",
		"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes",
	}])
	some result in found
	result.id == "MTC022"
}

test_mtc023_gpu_volume_without_arguments if {
	found := warn_jobset with input as json.patch(gpu_jobset, [{
		"op": "replace",
		"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/command",
		"value": ["torchrun", "train.py"],
	}])
	some result in found
	result.id == "MTC023"
}

test_mtc026_value_on_the_next_line_of_a_script if {
	found := deny_jobset with input as json.patch(gpu_jobset, [{
		"op": "replace",
		"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/command",
		"value": ["bash", "-c", "torchrun train.py --enable-high-scale-ckpt --local-ckpt-dir \\\n  /checkpoint"],
	}])
	every result in found {
		result.id != "MTC026"
	}
}

test_mtc026_wrong_value_on_the_next_line_of_a_script if {
	found := deny_jobset with input as json.patch(gpu_jobset, [{
		"op": "replace",
		"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/command",
		"value": ["bash", "-c", "torchrun train.py --enable-high-scale-ckpt --local-ckpt-dir \\\n  /tmp"],
	}])
	some result in found
	result.id == "MTC026"
	contains(result.text, "--local-ckpt-dir=/tmp")
}

test_mtc026_gpu_directory_elsewhere if {
	found := deny_jobset with input as json.patch(gpu_jobset, [{
		"op": "replace",
		"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/command",
		"value": ["torchrun", "train.py", "--local-ckpt-dir=/tmp", "--enable-high-scale-ckpt"],
	}])
	some result in found
	result.id == "MTC026"
}
