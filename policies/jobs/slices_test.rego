package stowplan.jobs

import rego.v1

test_job009_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/completions",
			"value": 2,
		},
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/parallelism",
			"value": 2,
		},
	])
	some result in found
	result.id == "JOB009"
	result.severity == "error"
}

test_job009_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB009"
	}
}

test_job010_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.plain_jobset, [
		{"op": "remove", "path": "/metadata/labels"},
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/nodeSelector",
		},
	])
	some result in found
	result.id == "JOB010"
	result.severity == "error"
}

test_job010_right if {
	found := deny_workload with input as data.stowplan.fixtures.plain_jobset
	every result in found {
		result.id != "JOB010"
	}
}

test_job011_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.job, [
		{
			"op": "add",
			"path": "/spec/template/spec/nodeSelector",
			"value": {
				"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
				"cloud.google.com/gke-tpu-topology": "4x4",
			},
		},
	])
	some result in found
	result.id == "JOB011"
	result.severity == "error"
}

test_job011_right if {
	found := deny_workload with input as data.stowplan.fixtures.job
	every result in found {
		result.id != "JOB011"
	}
}

test_job012_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.job, [
		{
			"op": "add",
			"path": "/spec/template/spec/nodeSelector",
			"value": {"pool": ""},
		},
	])
	some result in found
	result.id == "JOB012"
	result.severity == "error"
}

test_job012_right if {
	found := deny_workload with input as data.stowplan.fixtures.job
	every result in found {
		result.id != "JOB012"
	}
}

test_job013_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/completions",
			"value": 2,
		},
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/parallelism",
			"value": 2,
		},
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/nodeSelector/cloud.google.com~1gke-tpu-topology",
			"value": "2x4",
		},
	])
	some result in found
	result.id == "JOB013"
	result.severity == "warning"
}

test_job013_right if {
	found := warn_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB013"
	}
}

test_job014_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/nodeSelector/cloud.google.com~1gke-tpu-topology",
			"value": "4X4",
		},
	])
	some result in found
	result.id == "JOB014"
	result.severity == "error"
}

test_job014_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "JOB014"
	}
}

pod_spec_path := "/spec/replicatedJobs/0/template/spec/template/spec"

unlabelled_slice := [
	{"op": "remove", "path": "/metadata/labels/kueue.x-k8s.io~1queue-name"},
	{"op": "remove", "path": concat("", [pod_spec_path, "/nodeSelector/cloud.google.com~1gke-tpu-topology"])},
]

test_job010_wrong_without_a_topology if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, unlabelled_slice)
	some result in found
	result.id == "JOB010"
}

test_job010_right_with_dynamic_slicing if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, array.concat(unlabelled_slice, [{
		"op": "add",
		"path": "/spec/replicatedJobs/0/template/spec/template/metadata",
		"value": {"annotations": {"cloud.google.com/gke-tpu-slice-topology": "4x4x4"}},
	}]))
	every result in found {
		result.id != "JOB010"
	}
}

test_job011_right_where_the_request_cannot_be_read if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [{
		"op": "replace",
		"path": concat("", [pod_spec_path, "/containers/0/resources/limits"]),
		"value": {"google.com/tpu": "<CHIPS_PER_NODE>"},
	}])
	every result in found {
		result.id != "JOB011"
	}
}

test_job014_right_for_what_is_to_be_filled_in if {
	every left in ["<TOPOLOGY>", "${TOPOLOGY}", "{{ .Values.topology }}"] {
		found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [{
			"op": "replace",
			"path": concat("", [pod_spec_path, "/nodeSelector/cloud.google.com~1gke-tpu-topology"]),
			"value": left,
		}])
		every result in found {
			result.id != "JOB014"
		}
	}
}
