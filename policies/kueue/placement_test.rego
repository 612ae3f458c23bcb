package stowplan.kueue

import rego.v1

test_kue001_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{"op": "remove", "path": "/metadata/labels"},
		{
			"op": "add",
			"path": "/metadata/annotations/kueue.x-k8s.io~1queue-name",
			"value": "training",
		},
	])
	some result in found
	result.id == "KUE001"
	result.severity == "error"
}

test_kue001_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "KUE001"
	}
}

test_kue002_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/metadata",
			"value": {"labels": {"kueue.x-k8s.io/priority-class": "high"}},
		},
	])
	some result in found
	result.id == "KUE002"
	result.severity == "error"
}

test_kue002_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "KUE002"
	}
}

test_kue003_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/metadata",
			"value": {"labels": {"kueue.x-k8s.io/managed-by": "kueue"}},
		},
	])
	some result in found
	result.id == "KUE003"
	result.severity == "warning"
}

test_kue003_right if {
	found := warn_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "KUE003"
	}
}

test_kue004_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [{"op": "remove", "path": "/metadata/labels"}])
	some result in found
	result.id == "KUE004"
	result.severity == "warning"
}

test_kue004_right if {
	found := warn_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "KUE004"
	}
}

test_kue004_wrong_for_a_plain_job if {
	found := warn_workload with input as object.union(data.stowplan.fixtures.job, {
		"metadata": {"labels": {}},
		"spec": {"template": {"spec": {"containers": [{
			"name": "main",
			"resources": {"limits": {"nvidia.com/gpu": 8}},
		}]}}},
	})
	some result in found
	result.id == "KUE004"
}
