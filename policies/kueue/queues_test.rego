package stowplan.kueue

import rego.v1

test_kue010_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [{"op": "remove", "path": "/spec/namespaceSelector"}])
	some result in found
	result.id == "KUE010"
	result.severity == "error"
}

test_kue010_right if {
	found := deny_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE010"
	}
}

test_kue011_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "add",
			"path": "/spec/preemption/reclaimOutOfCohort",
			"value": {"enable": true},
		},
	])
	some result in found
	result.id == "KUE011"
	result.severity == "error"
}

test_kue011_right if {
	found := deny_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE011"
	}
}

test_kue012_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.lone_cluster_queue, [
		{
			"op": "add",
			"path": "/spec/resourceGroups/0/flavors/0/resources/0/lendingLimit",
			"value": 8,
		},
	])
	some result in found
	result.id == "KUE012"
	result.severity == "error"
}

test_kue012_right if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.lone_cluster_queue, [
		{
			"op": "add",
			"path": "/spec/preemption/reclaimWithinCohort",
			"value": "LowerPriority",
		},
		{
			"op": "add",
			"path": "/spec/preemption/borrowWithinCohort",
			"value": {"policy": "LowerPriority"},
		},
		{"op": "add", "path": "/spec/cohortName", "value": "all"},
	])
	every result in found {
		result.id != "KUE012"
	}
}

test_kue013_wrong if {
	found := deny_cohort with input as json.patch(data.stowplan.fixtures.cohort, [{"op": "remove", "path": "/spec/parentName"}])
	some result in found
	result.id == "KUE013"
	result.severity == "error"
}

test_kue013_right if {
	found := deny_cohort with input as data.stowplan.fixtures.cohort
	every result in found {
		result.id != "KUE013"
	}
}

test_kue014_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "replace",
			"path": "/spec/preemption/reclaimWithinCohort",
			"value": "Never",
		},
	])
	some result in found
	result.id == "KUE014"
	result.severity == "error"
}

test_kue014_right if {
	found := deny_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE014"
	}
}

test_kue015_wrong if {
	found := warn_clusterqueue with input as json.patch(data.stowplan.fixtures.lone_cluster_queue, [
		{
			"op": "add",
			"path": "/spec/preemption/reclaimWithinCohort",
			"value": "Any",
		},
	])
	some result in found
	result.id == "KUE015"
	result.severity == "warning"
}

test_kue015_right if {
	found := warn_clusterqueue with input as json.patch(data.stowplan.fixtures.lone_cluster_queue, [
		{
			"op": "add",
			"path": "/spec/preemption/reclaimWithinCohort",
			"value": "LowerPriority",
		},
		{
			"op": "add",
			"path": "/spec/preemption/borrowWithinCohort",
			"value": {"policy": "LowerPriority"},
		},
		{"op": "add", "path": "/spec/cohortName", "value": "all"},
	])
	every result in found {
		result.id != "KUE015"
	}
}

test_kue016_wrong if {
	found := warn_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [{"op": "remove", "path": "/spec/preemption/borrowWithinCohort"}])
	some result in found
	result.id == "KUE016"
	result.severity == "note"
}

test_kue016_right if {
	found := warn_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE016"
	}
}

test_kue017_wrong if {
	found := warn_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [{"op": "add", "path": "/spec/fairSharing", "value": {"weight": 1}}])
	some result in found
	result.id == "KUE017"
	result.severity == "warning"
}

test_kue017_right if {
	found := warn_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE017"
	}
}

test_kue018_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/coveredResources",
			"value": ["google.com/tpu"],
		},
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/flavors/0/resources",
			"value": [{"name": "google.com/tpu", "nominalQuota": 64}],
		},
		{
			"op": "add",
			"path": "/spec/resourceGroups/-",
			"value": {
				"coveredResources": ["cpu", "memory"],
				"flavors": [
					{
						"name": "cpu",
						"resources": [
							{"name": "cpu", "nominalQuota": 100},
							{"name": "memory", "nominalQuota": "1Ti"},
						],
					},
				],
			},
		},
	])
	some result in found
	result.id == "KUE018"
	result.severity == "error"
}

test_kue018_right if {
	found := deny_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE018"
	}
}

test_kue019_wrong if {
	found := warn_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/coveredResources",
			"value": ["google.com/tpu"],
		},
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/flavors/0/resources",
			"value": [{"name": "google.com/tpu", "nominalQuota": 64}],
		},
	])
	some result in found
	result.id == "KUE019"
	result.severity == "note"
}

test_kue019_right if {
	found := warn_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE019"
	}
}

test_kue020_wrong if {
	found := deny_clusterqueue with input as json.patch(data.stowplan.fixtures.cluster_queue, [
		{
			"op": "replace",
			"path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota",
			"value": "500m",
		},
	])
	some result in found
	result.id == "KUE020"
	result.severity == "error"
}

test_kue020_right if {
	found := deny_clusterqueue with input as data.stowplan.fixtures.cluster_queue
	every result in found {
		result.id != "KUE020"
	}
}
