package stowplan.operations

import rego.v1

test_ops001_wrong if {
	found := deny_any with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "replace",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image",
			"value": "<IMAGE LOCATION>",
		},
	])
	some result in found
	result.id == "OPS001"
	result.severity == "error"
}

test_ops001_right if {
	found := deny_any with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "OPS001"
	}
}

test_ops002_wrong if {
	found := warn_any with input as json.patch(data.stowplan.fixtures.jobset, [
		{"op": "add", "path": "/metadata/resourceVersion", "value": "12345"},
	])
	some result in found
	result.id == "OPS002"
	result.severity == "warning"
}

test_ops002_right if {
	found := warn_any with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "OPS002"
	}
}

test_ops003_wrong if {
	found := warn_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/flavors/0/resources/1/nominalQuota",
			"value": "12000m",
		},
	])
	some result in found
	result.id == "OPS003"
	result.severity == "note"
}

test_ops003_right if {
	found := warn_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "OPS003"
	}
}

test_ops004_wrong if {
	found := warn_any with input as json.patch(data.stowplan.fixtures.configuration, [{"op": "remove", "path": "/waitForPodsReady"}])
	some result in found
	result.id == "OPS004"
	result.severity == "warning"
}

test_ops004_right if {
	found := warn_any with input as data.stowplan.fixtures.configuration
	every result in found {
		result.id != "OPS004"
	}
}
