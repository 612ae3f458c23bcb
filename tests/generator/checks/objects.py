"""Valid objects for the tests to break."""

import copy


def cluster_queue(**spec):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "tpu"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["google.com/tpu", "cpu"],
                    "flavors": [
                        {
                            "name": "v6e",
                            "resources": [
                                {"name": "google.com/tpu", "nominalQuota": 32},
                                {"name": "cpu", "nominalQuota": "100"},
                            ],
                        }
                    ],
                }
            ],
            **spec,
        },
    }


def jobset(name="train", **spec):
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "failurePolicy": {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"},
            "replicatedJobs": [
                {
                    "name": "slice",
                    "replicas": 2,
                    "template": {
                        "spec": {
                            "backoffLimit": 0,
                            "completions": 4,
                            "parallelism": 4,
                            "template": {
                                "spec": {
                                    "containers": [
                                        {
                                            "name": "main",
                                            "image": "registry.example/train:1",
                                            "resources": {"limits": {"google.com/tpu": 4}},
                                        }
                                    ]
                                }
                            },
                        }
                    },
                }
            ],
            **spec,
        },
    }


def checkpoint_configuration(**spec):
    return {
        "apiVersion": "checkpointing.gke.io/v1",
        "kind": "CheckpointConfiguration",
        "metadata": {"name": "v6e-configuration"},
        "spec": {
            "cloudStorageBucketName": "acme-checkpoints",
            "inMemoryVolumeSize": "64Gi",
            "nodeSelector": {"node.kubernetes.io/instance-type": "ct6e-standard-4t"},
            **spec,
        },
    }


def job():
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "prune"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "registry.example/prune:1"}],
                }
            }
        },
    }


def changed(document, path, value):
    """A copy with the value at a path set, or removed where the value is ``REMOVED``."""
    out = copy.deepcopy(document)
    node = out
    for part in path[:-1]:
        node = node[part]
    if value is REMOVED:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return out


REMOVED = object()
