package stowplan.sizing

import rego.v1

test_siz009_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1local-checkpoint-size",
			"value": "65Gi",
		},
	])
	some result in found
	result.id == "SIZ009"
	result.severity == "error"
}

test_siz009_right if {
	found := deny_workload with input as data.stowplan.fixtures.agents
	every result in found {
		result.id != "SIZ009"
	}
}

# With one peer a GPU node also keeps its peer's copies: the same size is too small there.
test_siz009_gpu if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1accelerator",
			"value": "gpu",
		},
	])
	some result in found
	result.id == "SIZ009"
	contains(result.fix, "423Gi")
}

# Without a peer it keeps its own copy only, with two it keeps three.
test_siz009_gpu_by_peers if {
	every peers, least in {"0": "212Gi", "2": "634Gi"} {
		found := deny_workload with input as gpu_agents_with(peers, "141Gi")
		some result in found
		result.id == "SIZ009"
		contains(result.fix, least)
		enough := deny_workload with input as gpu_agents_with(peers, least)
		every other in enough {
			other.id != "SIZ009"
		}
	}
}

gpu_agents_with(peers, size) := json.patch(data.stowplan.fixtures.agents, [
	{
		"op": "replace",
		"path": "/metadata/annotations/stowplan.dev~1accelerator",
		"value": "gpu",
	},
	{
		"op": "replace",
		"path": "/metadata/annotations/stowplan.dev~1peers",
		"value": peers,
	},
	{
		"op": "replace",
		"path": "/metadata/annotations/stowplan.dev~1ram-disk-size",
		"value": size,
	},
])

test_siz010_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/spec/template/spec/containers/0/resources/requests/memory",
			"value": "140Gi",
		},
	])
	some result in found
	result.id == "SIZ010"
	result.severity == "error"
}

test_siz010_right if {
	found := deny_workload with input as data.stowplan.fixtures.agents
	every result in found {
		result.id != "SIZ010"
	}
}

test_siz011_wrong if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1pod-memory",
			"value": "565Gi",
		},
	])
	some result in found
	result.id == "SIZ011"
	result.severity == "error"
}

test_siz011_right if {
	found := deny_workload with input as data.stowplan.fixtures.agents
	every result in found {
		result.id != "SIZ011"
	}
}

# Another DaemonSet is none of these rules' business.
test_self_hosted_sizes_of_other_daemon_sets if {
	found := deny_workload with input as json.patch(data.stowplan.fixtures.agents, [
		{
			"op": "remove",
			"path": "/metadata/annotations/stowplan.dev~1provider",
		},
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1local-checkpoint-size",
			"value": "640Gi",
		},
	])
	count(found) == 0
}
