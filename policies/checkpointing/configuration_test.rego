package stowplan.checkpointing

import rego.v1

test_mtc001_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [{"op": "remove", "path": "/spec/cloudStorageBucketName"}])
	some result in found
	result.id == "MTC001"
	result.severity == "error"
}

test_mtc001_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC001"
	}
}

test_mtc002_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/cloudStorageBucketName",
			"value": "gs://acme-checkpoints",
		},
	])
	some result in found
	result.id == "MTC002"
	result.severity == "error"
}

test_mtc002_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC002"
	}
}

test_mtc003_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "add",
			"path": "/spec/mountOptions",
			"value": ["implicit-dirs"],
		},
	])
	some result in found
	result.id == "MTC003"
	result.severity == "error"
}

test_mtc003_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC003"
	}
}

test_mtc004_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "remove",
			"path": "/spec/nodeSelector/node.kubernetes.io~1instance-type",
		},
	])
	some result in found
	result.id == "MTC004"
	result.severity == "error"
}

test_mtc004_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC004"
	}
}

test_mtc005_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "remove",
			"path": "/spec/nodeSelector/node.kubernetes.io~1instance-type",
		},
		{
			"op": "add",
			"path": "/spec/nodeSelector/kubernetes.io~1os",
			"value": "linux",
		},
	])
	some result in found
	result.id == "MTC005"
	result.severity == "warning"
}

test_mtc005_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC005"
	}
}

test_mtc006_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [{"op": "remove", "path": "/spec/tolerations"}])
	some result in found
	result.id == "MTC006"
	result.severity == "error"
}

test_mtc006_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC006"
	}
}

test_mtc007_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [{"op": "add", "path": "/metadata/namespace", "value": "default"}])
	some result in found
	result.id == "MTC007"
	result.severity == "warning"
}

test_mtc007_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC007"
	}
}

test_mtc008_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/gcsFuseMountOptions",
			"value": ["implicit-dirs"],
		},
	])
	some result in found
	result.id == "MTC008"
	result.severity == "warning"
}

test_mtc008_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC008"
	}
}

test_mtc009_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1bucket-hierarchical-namespace",
			"value": "false",
		},
	])
	some result in found
	result.id == "MTC009"
	result.severity == "error"
}

test_mtc009_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC009"
	}
}

test_mtc010_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "remove",
			"path": "/metadata/annotations/stowplan.dev~1bucket-hierarchical-namespace",
		},
	])
	some result in found
	result.id == "MTC010"
	result.severity == "note"
}

test_mtc010_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC010"
	}
}

test_mtc011_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1gke-version",
			"value": "1.32.3-gke.1000000",
		},
	])
	some result in found
	result.id == "MTC011"
	result.severity == "error"
}

test_mtc011_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC011"
	}
}

test_mtc012_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1gke-mode",
			"value": "autopilot",
		},
	])
	some result in found
	result.id == "MTC012"
	result.severity == "error"
}

test_mtc012_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC012"
	}
}

test_mtc013_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1backup-interval-minutes",
			"value": "10",
		},
	])
	some result in found
	result.id == "MTC013"
	result.severity == "warning"
}

test_mtc013_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC013"
	}
}

test_mtc014_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "add",
			"path": "/metadata/annotations/stowplan.dev~1backup-interval-steps",
			"value": "500",
		},
	])
	some result in found
	result.id == "MTC014"
	result.severity == "error"
}

test_mtc014_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC014"
	}
}

test_mtc015_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1peers",
			"value": "0",
		},
	])
	some result in found
	result.id == "MTC015"
	result.severity == "warning"
}

test_mtc015_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC015"
	}
}

test_mtc016_wrong if {
	found := warn_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1retention",
			"value": "none",
		},
	])
	some result in found
	result.id == "MTC016"
	result.severity == "warning"
}

test_mtc016_right if {
	found := warn_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC016"
	}
}

test_mtc017_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/spec/nodeSelector/node.kubernetes.io~1instance-type",
			"value": "ct5e-hightpu-4t",
		},
	])
	some result in found
	result.id == "MTC017"
	result.severity == "error"
}

test_mtc017_right if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1node-allocatable-memory",
			"value": "370Gi",
		},
		{
			"op": "replace",
			"path": "/metadata/annotations/stowplan.dev~1pod-memory",
			"value": "200Gi",
		},
		{
			"op": "replace",
			"path": "/spec/nodeSelector/node.kubernetes.io~1instance-type",
			"value": "ct5lp-hightpu-8t",
		},
	])
	every result in found {
		result.id != "MTC017"
	}
}

test_mtc018_wrong if {
	found := deny_checkpointconfiguration with input as json.patch(data.stowplan.fixtures.checkpoint_configuration, [
		{
			"op": "replace",
			"path": "/metadata/name",
			"value": "tpu-v6e-long-context-pretraining-of-the-large-language-model-configuration",
		},
	])
	some result in found
	result.id == "MTC018"
	result.severity == "error"
}

test_mtc018_right if {
	found := deny_checkpointconfiguration with input as data.stowplan.fixtures.checkpoint_configuration
	every result in found {
		result.id != "MTC018"
	}
}
