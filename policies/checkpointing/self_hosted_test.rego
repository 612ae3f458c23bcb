package stowplan.checkpointing

import rego.v1

test_mtc032_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/spec/template/spec/containers/0/volumeMounts/0/subPath",
			"value": "stowplan-h100",
		},
	])
	some result in found
	result.id == "MTC032"
	result.severity == "error"
}

test_mtc032_right if {
	found := deny_workload with input as data.stowplan.fixtures.agents
	every result in found {
		result.id != "MTC032"
	}
}

test_mtc032_no_subpath if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "remove",
			"path": "/spec/template/spec/containers/0/volumeMounts/0/subPath",
		},
	])
	some result in found
	result.id == "MTC032"
	result.fix == "write subPath: stowplan-v6e"
}

# A job that saves through the claim of a self-hosted RAM disk is wired like one with the driver.
test_self_hosted_job_is_wired if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes/0",
			"value": {
				"name": "checkpoint",
				"persistentVolumeClaim": {"claimName": "stowplan-checkpoint-v6e"},
			},
		},
	])
	every result in found {
		result.id != "MTC022"
	}
}

# Any other claim is no checkpoint volume.
test_another_claim_is_not_wired if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes/0",
			"value": {
				"name": "checkpoint",
				"persistentVolumeClaim": {"claimName": "checkpoints"},
			},
		},
	])
	some result in found
	result.id == "MTC022"
}

test_mtc033_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1peers",
			"value": "0",
		},
	])
	some result in found
	result.id == "MTC033"
	result.severity == "warning"
}

test_mtc033_right if {
	found := warn_workload with input as data.stowplan.fixtures.agents
	every result in found {
		result.id != "MTC033"
	}
}

test_mtc033_minutes if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1backup-interval-minutes",
			"value": "5",
		},
	])
	some result in found
	result.id == "MTC033"
	result.severity == "warning"
}

test_mtc033_retention if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1retention",
			"value": "none",
		},
	])
	some result in found
	result.id == "MTC033"
	result.severity == "warning"
}
