package stowplan.sizing

import rego.v1

test_siz001_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/inMemoryVolumeSize",
			"value": "128Gi",
		},
	])
	some result in found
	result.id == "SIZ001"
	result.severity == "error"
}

test_siz001_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ001"
	}
}

test_siz002_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.gpu_checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/inMemoryVolumeSize",
			"value": "400Gi",
		},
	])
	some result in found
	result.id == "SIZ002"
	result.severity == "error"
}

test_siz002_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.gpu_checkpoint_configuration
	every result in found {
		result.id != "SIZ002"
	}
}

test_siz003_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1pod-memory",
			"value": "600Gi",
		},
	])
	some result in found
	result.id == "SIZ003"
	result.severity == "error"
}

test_siz003_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ003"
	}
}

test_siz004_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{"op": "replace", "path": "/spec/inMemoryVolumeSize", "value": "200"},
	])
	some result in found
	result.id == "SIZ004"
	result.severity == "error"
}

test_siz004_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ004"
	}
}

test_siz005_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/inMemoryVolumeSize",
			"value": "200GiB",
		},
	])
	some result in found
	result.id == "SIZ005"
	result.severity == "error"
}

test_siz005_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ005"
	}
}

test_siz006_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [{"op": "remove", "path": "/spec/inMemoryVolumeSize"}])
	some result in found
	result.id == "SIZ006"
	result.severity == "error"
}

test_siz006_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ006"
	}
}

test_siz007_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "remove",
			"path": "/metadata/annotations/stowplan.dev~1local-checkpoint-size",
		},
	])
	some result in found
	result.id == "SIZ007"
	result.severity == "note"
}

test_siz007_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ007"
	}
}

test_siz008_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/inMemoryVolumeSize",
			"value": "720Gi",
		},
	])
	some result in found
	result.id == "SIZ008"
	result.severity == "error"
}

test_siz008_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "SIZ008"
	}
}

gpu_configuration_with(peers, size) := json.patch(data.stowplan.fixtures.gpu_checkpoint_configuration, [
	{
		"op": "replace",
		"path": "/metadata/annotations/stowplan.dev~1peers",
		"value": peers,
	},
	{
		"op": "replace",
		"path": "/metadata/annotations/stowplan.dev~1local-checkpoint-size",
		"value": "10Gi",
	},
	{
		"op": "replace",
		"path": "/spec/inMemoryVolumeSize",
		"value": size,
	},
])

# 3.3 for each copy: the node's own and one for each peer.
test_siz002_by_peers if {
	every peers, least in {"0": 33, "1": 66, "2": 99, "3": 132} {
		siz002_wants(peers, least)
	}
}

siz002_wants(peers, least) if {
	right := deny_checkpointconfiguration with input as gpu_configuration_with(peers, sprintf("%dGi", [least]))
	every result in right {
		result.id != "SIZ002"
	}
	wrong := deny_checkpointconfiguration with input as gpu_configuration_with(peers, sprintf("%dGi", [least - 1]))
	some result in wrong
	result.id == "SIZ002"
	contains(result.fix, sprintf("%dGi", [least]))
}
