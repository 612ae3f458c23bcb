package stowplan.jobs

import rego.v1

test_job001_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/backoffLimit",
			"value": 6,
		},
	])
	some result in found
	result.id == "JOB001"
	result.severity == "error"
}

test_job001_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB001"
	}
}

test_job002_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [{"op": "remove", "path": "/spec/failurePolicy/restartStrategy"}])
	some result in found
	result.id == "JOB002"
	result.severity == "warning"
}

test_job002_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB002"
	}
}

test_job003_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.plain_jobset, [{"op": "remove", "path": "/spec/failurePolicy"}])
	some result in found
	result.id == "JOB003"
	result.severity == "warning"
}

test_job003_right if {
	found := warn_jobset with input as data.stowplan.fixtures.plain_jobset
	every result in found {
		result.id != "JOB003"
	}
}

test_job004_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 3600},
	])
	some result in found
	result.id == "JOB004"
	result.severity == "error"
}

test_job004_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB004"
	}
}

test_job005_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [{"op": "add", "path": "/spec/suspend", "value": true}])
	some result in found
	result.id == "JOB005"
	result.severity == "error"
}

test_job005_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB005"
	}
}

test_job006_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/metadata/annotations/argocd.argoproj.io~1sync-options",
			"value": "Force=true,Replace=true",
		},
	])
	some result in found
	result.id == "JOB006"
	result.severity == "error"
}

test_job006_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB006"
	}
}

test_job007_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/dnsPolicy",
		},
	])
	some result in found
	result.id == "JOB007"
	result.severity == "error"
}

test_job007_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB007"
	}
}

test_job008_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/completions",
		},
	])
	some result in found
	result.id == "JOB008"
	result.severity == "error"
}

test_job008_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB008"
	}
}

test_job015_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/metadata/annotations/alpha.jobset.sigs.k8s.io~1exclusive-topology",
			"value": "example.com/rack",
		},
	])
	some result in found
	result.id == "JOB015"
	result.severity == "warning"
}

test_job015_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB015"
	}
}

test_job016_wrong if {
	found := deny_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/metadata/labels/alpha.jobset.sigs.k8s.io~1exclusive-topology",
			"value": "gke-nodepool",
		},
		{"op": "remove", "path": "/metadata/annotations"},
	])
	some result in found
	result.id == "JOB016"
	result.severity == "error"
}

test_job016_right if {
	found := deny_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB016"
	}
}

test_job017_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/restartPolicy",
		},
	])
	some result in found
	result.id == "JOB017"
	result.severity == "note"
}

test_job017_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB017"
	}
}

test_job018_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/tolerations",
			"value": [
				{
					"key": "cloud.google.com/gke-queued",
					"operator": "Exists",
					"effect": "NoSchedule",
				},
			],
		},
	])
	some result in found
	result.id == "JOB018"
	result.severity == "warning"
}

test_job018_right if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/tolerations",
			"value": [
				{
					"key": "cloud.google.com/gke-queued",
					"operator": "Exists",
					"effect": "NoSchedule",
				},
			],
		},
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/metadata",
			"value": {
				"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
			},
		},
	])
	every result in found {
		result.id != "JOB018"
	}
}

test_job007_leaves_node_agents_alone if {
	every kind in ["DaemonSet", "Pod"] {
		found := deny_workload with input as {
			"apiVersion": "apps/v1",
			"kind": kind,
			"metadata": {"name": "agent"},
			"spec": {"hostNetwork": true, "template": {"spec": {"hostNetwork": true}}},
		}
		every result in found {
			result.id != "JOB007"
		}
	}
}

test_job015_right_for_slices_that_are_made if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [{
		"op": "replace",
		"path": "/metadata/annotations/alpha.jobset.sigs.k8s.io~1exclusive-topology",
		"value": "cloud.google.com/gke-tpu-slice",
	}])
	every result in found {
		result.id != "JOB015"
	}
}
