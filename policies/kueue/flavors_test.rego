package stowplan.kueue

import rego.v1

test_kue021_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/coveredResources/0",
			"value": "tpu",
		},
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/flavors/0/resources/0/name",
			"value": "tpu",
		},
	])
	some result in found
	result.id == "KUE021"
	result.severity == "error"
}

test_kue021_right if {
	found := deny_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE021"
	}
}

test_kue022_wrong if {
	found := warn_resourceflavor with input as json.patch(data.stowplan.fixtures.resource_flavor, [
		{
			"op": "add",
			"path": "/spec/nodeTaints",
			"value": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
		},
		{
			"op": "add",
			"path": "/spec/tolerations",
			"value": [{"key": "spot", "operator": "Exists"}],
		},
	])
	some result in found
	result.id == "KUE022"
	result.severity == "warning"
}

test_kue022_right if {
	found := warn_resourceflavor with input as data.stowplan.fixtures.resource_flavor
	every result in found {
		result.id != "KUE022"
	}
}

test_kue023_wrong if {
	found := warn_resourceflavor with input as json.patch(data.stowplan.fixtures.resource_flavor, [
		{
			"op": "remove",
			"path": "/spec/nodeLabels/cloud.google.com~1gke-tpu-topology",
		},
	])
	some result in found
	result.id == "KUE023"
	result.severity == "warning"
}

test_kue023_right if {
	found := warn_resourceflavor with input as data.stowplan.fixtures.resource_flavor
	every result in found {
		result.id != "KUE023"
	}
}

test_kue024_wrong if {
	found := warn_localqueue with input as json.patch(data.stowplan.fixtures.local_queue, [{"op": "replace", "path": "/metadata/name", "value": "default"}])
	some result in found
	result.id == "KUE024"
	result.severity == "warning"
}

test_kue024_right if {
	found := warn_localqueue with input as data.stowplan.fixtures.local_queue
	every result in found {
		result.id != "KUE024"
	}
}

test_kue025_wrong if {
	found := deny_localqueue with input as json.patch(data.stowplan.fixtures.local_queue, [{"op": "remove", "path": "/spec/clusterQueue"}])
	some result in found
	result.id == "KUE025"
	result.severity == "error"
}

test_kue025_right if {
	found := deny_localqueue with input as data.stowplan.fixtures.local_queue
	every result in found {
		result.id != "KUE025"
	}
}

test_kue026_wrong if {
	found := warn_provisioningrequestconfig with input as json.patch(data.stowplan.fixtures.provisioning_request_config, [{"op": "remove", "path": "/spec/parameters"}])
	some result in found
	result.id == "KUE026"
	result.severity == "warning"
}

test_kue026_right if {
	found := warn_provisioningrequestconfig with input as data.stowplan.fixtures.provisioning_request_config
	every result in found {
		result.id != "KUE026"
	}
}
