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

image_path := "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"

test_ops001_wrong_for_a_templates_variable if {
	every change in [
		{"op": "replace", "path": image_path, "value": "${WORKLOAD_IMAGE}"},
		{"op": "replace", "path": "/metadata/name", "value": "{{ .Release.Name }}-train"},
		{"op": "add", "path": "/metadata/labels/team", "value": "${TEAM}"},
	] {
		found := deny_any with input as json.patch(data.stowplan.fixtures.jobset, [change])
		some result in found
		result.id == "OPS001"
		contains(result.text, "variable")
	}
}

test_ops001_right_for_what_a_shell_fills_in if {
	found := deny_any with input as json.patch(data.stowplan.fixtures.jobset, [{
		"op": "add",
		"path": "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args/-",
		"value": "run=${RUN_NAME}",
	}])
	every result in found {
		result.id != "OPS001"
	}
}

test_ops001_right_for_an_object_with_a_generated_name if {
	found := deny_any with input as {
		"apiVersion": "v1",
		"kind": "Pod",
		"metadata": {"generateName": "probe-", "annotations": {"note": "${ANY}"}},
		"spec": {"containers": [{"name": "main"}]},
	}
	found == set()
}

application := {
	"apiVersion": "argoproj.io/v1alpha1",
	"kind": "Application",
	"metadata": {"name": "fleet", "namespace": "argocd"},
	"spec": {"syncPolicy": {"syncOptions": ["ServerSideApply=true", "ApplyOutOfSyncOnly=true"]}},
}

test_ops005_wrong if {
	every option in ["Replace=true", "Force=true", " Replace = true"] {
		found := warn_any with input as json.patch(application, [{"op": "add", "path": "/spec/syncPolicy/syncOptions/-", "value": option}])
		some result in found
		result.id == "OPS005"
		result.severity == "warning"
	}
}

test_ops005_wrong_in_an_application_set if {
	found := warn_any with input as {
		"apiVersion": "argoproj.io/v1alpha1",
		"kind": "ApplicationSet",
		"metadata": {"name": "fleet"},
		"spec": {"template": {"spec": {"syncPolicy": {"syncOptions": ["Replace=true"]}}}},
	}
	some result in found
	result.id == "OPS005"
}

test_ops005_right if {
	found := warn_any with input as application
	every result in found {
		result.id != "OPS005"
	}
}

test_ops004_wrong_where_a_restart_has_less_time_than_a_start if {
	every change in [
		{"op": "replace", "path": "/waitForPodsReady", "value": {"timeout": "30m", "recoveryTimeout": "1m30s"}},
		{"op": "replace", "path": "/waitForPodsReady", "value": {"timeout": "30m"}},
	] {
		found := warn_any with input as json.patch(data.stowplan.fixtures.configuration, [change])
		some result in found
		result.id == "OPS004"
	}
}

test_ops004_right_where_it_is_off_or_long_enough if {
	every change in [
		{"op": "replace", "path": "/waitForPodsReady", "value": {"enable": false}},
		{"op": "replace", "path": "/waitForPodsReady", "value": {"timeout": "90s", "recoveryTimeout": "1m30s"}},
		{"op": "replace", "path": "/waitForPodsReady", "value": {"timeout": "soon", "recoveryTimeout": "later"}},
	] {
		found := warn_any with input as json.patch(data.stowplan.fixtures.configuration, [change])
		every result in found {
			result.id != "OPS004"
		}
	}
}
