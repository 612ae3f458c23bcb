package stowplan.security

import rego.v1

test_sec001_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/securityContext",
			"value": {"privileged": true},
		},
	])
	some result in found
	result.id == "SEC001"
	result.severity == "error"
}

test_sec001_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "SEC001"
	}
}

test_sec002_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/volumes/-",
			"value": {"name": "host", "hostPath": {"path": "/var"}},
		},
	])
	some result in found
	result.id == "SEC002"
	result.severity == "warning"
}

test_sec002_right if {
	found := warn_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "SEC002"
	}
}

test_sec003_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image",
			"value": "registry.example/maxtext:latest",
		},
	])
	some result in found
	result.id == "SEC003"
	result.severity == "warning"
}

test_sec003_right if {
	found := warn_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "SEC003"
	}
}

test_sec004_wrong if {
	found := warn_workload with input as json.patch(data.stowplan.fixtures.job, [
		{
			"op": "remove",
			"path": "/spec/template/spec/containers/0/resources",
		},
	])
	some result in found
	result.id == "SEC004"
	result.severity == "warning"
}

test_sec004_right if {
	found := warn_workload with input as data.stowplan.fixtures.job
	every result in found {
		result.id != "SEC004"
	}
}

test_sec005_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/env",
			"value": [{"name": "HF_TOKEN", "value": "hf_abc"}],
		},
	])
	some result in found
	result.id == "SEC005"
	result.severity == "error"
}

test_sec005_right if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/env",
			"value": [
				{
					"name": "HF_TOKEN",
					"valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
				},
			],
		},
	])
	every result in found {
		result.id != "SEC005"
	}
}

test_sec007_wrong if {
	found := deny_any with input as json.patch(data.stowplan.fixtures.secret, [{"op": "add", "path": "/stringData", "value": {"token": "hf_abc"}}])
	some result in found
	result.id == "SEC007"
	result.severity == "error"
}

test_sec007_right if {
	found := deny_any with input as data.stowplan.fixtures.secret
	every result in found {
		result.id != "SEC007"
	}
}

test_sec006_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "add",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/hostIPC",
			"value": true,
		},
	])
	some result in found
	result.id == "SEC006"
	result.severity == "error"
}

test_sec006_right if {
	found := deny_workload with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "SEC006"
	}
}

test_sec003_right_for_an_image_to_be_filled_in if {
	every image in ["${IMAGE}", "{{ .Values.image }}", "<IMAGE>"] {
		found := warn_workload with input as json.patch(data.stowplan.fixtures.jobset, [{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image",
			"value": image,
		}])
		every result in found {
			result.id != "SEC003"
		}
	}
}
