package stowplan.priorities

import rego.v1

test_pri001_wrong if {
	found := deny_priorityclass with input as json.patch(data.stowplan.fixtures.priority_class, [{"op": "replace", "path": "/value", "value": 2000000000}])
	some result in found
	result.id == "PRI001"
	result.severity == "error"
}

test_pri001_right if {
	found := deny_priorityclass with input as data.stowplan.fixtures.priority_class
	every result in found {
		result.id != "PRI001"
	}
}

test_pri002_wrong if {
	found := deny_priorityclass with input as json.patch(data.stowplan.fixtures.priority_class, [
		{
			"op": "replace",
			"path": "/metadata/name",
			"value": "system-training",
		},
	])
	some result in found
	result.id == "PRI002"
	result.severity == "error"
}

test_pri002_right if {
	found := deny_priorityclass with input as data.stowplan.fixtures.priority_class
	every result in found {
		result.id != "PRI002"
	}
}

test_pri003_wrong if {
	found := warn_priorityclass with input as json.patch(data.stowplan.fixtures.priority_class, [{"op": "replace", "path": "/globalDefault", "value": true}])
	some result in found
	result.id == "PRI003"
	result.severity == "warning"
}

test_pri003_right if {
	found := warn_priorityclass with input as data.stowplan.fixtures.priority_class
	every result in found {
		result.id != "PRI003"
	}
}

test_pri004_wrong if {
	found := warn_jobset with input as json.patch(data.stowplan.fixtures.jobset, [
		{
			"op": "remove",
			"path": "/spec/replicatedJobs/0/template/spec/template/spec/priorityClassName",
		},
	])
	some result in found
	result.id == "PRI004"
	result.severity == "note"
}

test_pri004_right if {
	found := warn_jobset with input as data.stowplan.fixtures.jobset
	every result in found {
		result.id != "PRI004"
	}
}
