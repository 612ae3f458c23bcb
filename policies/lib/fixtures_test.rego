# Objects that break no rule; the tests change one thing in each.
package stowplan.fixtures

import rego.v1

checkpoint_configuration := {
	"apiVersion": "checkpointing.gke.io/v1",
	"kind": "CheckpointConfiguration",
	"metadata": {
		"name": "v6e-configuration",
		"annotations": {
			"stowplan.dev/accelerator": "tpu",
			"stowplan.dev/local-checkpoint-size": "64Gi",
			"stowplan.dev/peers": "1",
			"stowplan.dev/node-allocatable-memory": "706Gi",
			"stowplan.dev/pod-memory": "500Gi",
			"stowplan.dev/bucket-hierarchical-namespace": "true",
			"stowplan.dev/backup-interval-minutes": "30",
			"stowplan.dev/retention": "backup-warden",
			"stowplan.dev/gke-version": "1.33.4-gke.1245000",
			"stowplan.dev/gke-mode": "standard",
		},
	},
	"spec": {
		"cloudStorageBucketName": "acme-checkpoints",
		"nodeSelector": {"node.kubernetes.io/instance-type": "ct6e-standard-4t"},
		"tolerations": [
			{
				"key": "google.com/tpu",
				"operator": "Exists",
				"effect": "NoSchedule",
			},
		],
		"inMemoryVolumeSize": "141Gi",
		"gcsFuseMountOptions": [
			"implicit-dirs",
			"metadata-cache:negative-ttl-secs:0",
			"metadata-cache:ttl-secs:-1",
			"metadata-cache:stat-cache-max-size-mb:-1",
			"metadata-cache:type-cache-max-size-mb:-1",
			"file-system:kernel-list-cache-ttl-secs:0",
			"read_ahead_kb=1024",
			"write:enable-streaming-writes:true",
		],
	},
}

gpu_checkpoint_configuration := {
	"apiVersion": "checkpointing.gke.io/v1",
	"kind": "CheckpointConfiguration",
	"metadata": {
		"name": "h100-configuration",
		"annotations": {
			"stowplan.dev/accelerator": "gpu",
			"stowplan.dev/local-checkpoint-size": "64Gi",
			"stowplan.dev/peers": "1",
			"stowplan.dev/node-allocatable-memory": "1800Gi",
			"stowplan.dev/pod-memory": "500Gi",
			"stowplan.dev/bucket-hierarchical-namespace": "true",
			"stowplan.dev/backup-interval-minutes": "30",
			"stowplan.dev/retention": "backup-warden",
			"stowplan.dev/gke-version": "1.33.4-gke.1245000",
			"stowplan.dev/gke-mode": "standard",
		},
	},
	"spec": {
		"cloudStorageBucketName": "acme-checkpoints",
		"nodeSelector": {"node.kubernetes.io/instance-type": "a3-megagpu-8g"},
		"tolerations": [
			{
				"key": "nvidia.com/gpu",
				"operator": "Exists",
				"effect": "NoSchedule",
			},
		],
		"inMemoryVolumeSize": "423Gi",
		"gcsFuseMountOptions": [
			"implicit-dirs",
			"metadata-cache:negative-ttl-secs:0",
			"metadata-cache:ttl-secs:-1",
			"metadata-cache:stat-cache-max-size-mb:-1",
			"metadata-cache:type-cache-max-size-mb:-1",
			"file-system:kernel-list-cache-ttl-secs:0",
			"read_ahead_kb=1024",
			"write:enable-streaming-writes:true",
		],
	},
}

jobset := {
	"apiVersion": "jobset.x-k8s.io/v1alpha2",
	"kind": "JobSet",
	"metadata": {
		"name": "llama",
		"namespace": "team-a",
		"labels": {
			"kueue.x-k8s.io/queue-name": "training",
			"kueue.x-k8s.io/priority-class": "high",
		},
		"annotations": {
			"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool",
		},
	},
	"spec": {
		"failurePolicy": {"maxRestarts": 10, "restartStrategy": "BlockingRecreate"},
		"replicatedJobs": [
			{
				"name": "slice",
				"replicas": 2,
				"template": {
					"spec": {
						"backoffLimit": 0,
						"completionMode": "Indexed",
						"completions": 4,
						"parallelism": 4,
						"template": {
							"spec": {
								"restartPolicy": "OnFailure",
								"nodeSelector": {
									"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
									"cloud.google.com/gke-tpu-topology": "4x4",
								},
								"hostNetwork": true,
								"dnsPolicy": "ClusterFirstWithHostNet",
								"priorityClassName": "high",
								"containers": [
									{
										"name": "jax",
										"image": "registry.example/maxtext:v1.2.0",
										"command": ["python3", "MaxText/train.py", "MaxText/configs/base.yml"],
										"args": [
											"enable_checkpointing=True",
											"enable_multi_tier_checkpointing=True",
											"local_checkpoint_directory=/checkpoint",
											"local_checkpoint_period=20",
											"multi_tier_checkpointing_backup_interval_minutes=30",
											"base_output_directory=gs://acme-runs",
										],
										"resources": {"limits": {"google.com/tpu": 4}},
										"volumeMounts": [{"name": "checkpoint", "mountPath": "/checkpoint"}],
									},
								],
								"volumes": [
									{
										"name": "checkpoint",
										"csi": {"driver": "multitier-checkpoint.csi.storage.gke.io"},
									},
								],
							},
						},
					},
				},
			},
		],
	},
}

plain_jobset := {
	"apiVersion": "jobset.x-k8s.io/v1alpha2",
	"kind": "JobSet",
	"metadata": {
		"name": "llama",
		"namespace": "team-a",
		"labels": {
			"kueue.x-k8s.io/queue-name": "training",
			"kueue.x-k8s.io/priority-class": "high",
		},
		"annotations": {
			"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool",
		},
	},
	"spec": {
		"failurePolicy": {"maxRestarts": 10, "restartStrategy": "BlockingRecreate"},
		"replicatedJobs": [
			{
				"name": "slice",
				"replicas": 2,
				"template": {
					"spec": {
						"backoffLimit": 0,
						"completionMode": "Indexed",
						"completions": 4,
						"parallelism": 4,
						"template": {
							"spec": {
								"restartPolicy": "OnFailure",
								"nodeSelector": {
									"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
									"cloud.google.com/gke-tpu-topology": "4x4",
								},
								"hostNetwork": true,
								"dnsPolicy": "ClusterFirstWithHostNet",
								"priorityClassName": "high",
								"containers": [
									{
										"name": "jax",
										"image": "registry.example/maxtext:v1.2.0",
										"command": ["python3", "MaxText/train.py", "MaxText/configs/base.yml"],
										"args": ["enable_checkpointing=False"],
										"resources": {"limits": {"google.com/tpu": 4}},
									},
								],
							},
						},
					},
				},
			},
		],
	},
}

cluster_queue := {
	"apiVersion": "kueue.x-k8s.io/v1beta2",
	"kind": "ClusterQueue",
	"metadata": {"name": "tpu"},
	"spec": {
		"cohortName": "all",
		"namespaceSelector": {},
		"queueingStrategy": "BestEffortFIFO",
		"preemption": {
			"reclaimWithinCohort": "LowerPriority",
			"withinClusterQueue": "LowerPriority",
			"borrowWithinCohort": {"policy": "LowerPriority"},
		},
		"resourceGroups": [
			{
				"coveredResources": ["google.com/tpu", "cpu", "memory"],
				"flavors": [
					{
						"name": "v6e",
						"resources": [
							{"name": "google.com/tpu", "nominalQuota": 64},
							{"name": "cpu", "nominalQuota": "2880"},
							{"name": "memory", "nominalQuota": "11Ti"},
						],
					},
				],
			},
		],
	},
}

lone_cluster_queue := {
	"apiVersion": "kueue.x-k8s.io/v1beta2",
	"kind": "ClusterQueue",
	"metadata": {"name": "tpu"},
	"spec": {
		"namespaceSelector": {},
		"queueingStrategy": "BestEffortFIFO",
		"preemption": {"withinClusterQueue": "LowerPriority"},
		"resourceGroups": [
			{
				"coveredResources": ["google.com/tpu", "cpu", "memory"],
				"flavors": [
					{
						"name": "v6e",
						"resources": [
							{"name": "google.com/tpu", "nominalQuota": 64},
							{"name": "cpu", "nominalQuota": "2880"},
							{"name": "memory", "nominalQuota": "11Ti"},
						],
					},
				],
			},
		],
	},
}

resource_flavor := {
	"apiVersion": "kueue.x-k8s.io/v1beta2",
	"kind": "ResourceFlavor",
	"metadata": {"name": "v6e"},
	"spec": {
		"nodeLabels": {
			"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
			"cloud.google.com/gke-tpu-topology": "4x4",
		},
	},
}

local_queue := {
	"apiVersion": "kueue.x-k8s.io/v1beta2",
	"kind": "LocalQueue",
	"metadata": {"name": "training", "namespace": "team-a"},
	"spec": {"clusterQueue": "tpu"},
}

cohort := {
	"apiVersion": "kueue.x-k8s.io/v1beta2",
	"kind": "Cohort",
	"metadata": {"name": "all"},
	"spec": {
		"parentName": "root",
		"resourceGroups": [
			{
				"coveredResources": ["cpu"],
				"flavors": [
					{
						"name": "v6e",
						"resources": [{"name": "cpu", "nominalQuota": 100, "borrowingLimit": 50}],
					},
				],
			},
		],
	},
}

priority_class := {
	"apiVersion": "scheduling.k8s.io/v1",
	"kind": "PriorityClass",
	"metadata": {"name": "high"},
	"value": 2000000,
	"globalDefault": false,
	"description": "Training that must not wait.",
}

provisioning_request_config := {
	"apiVersion": "kueue.x-k8s.io/v1beta2",
	"kind": "ProvisioningRequestConfig",
	"metadata": {"name": "queued"},
	"spec": {
		"provisioningClassName": "queued-provisioning.gke.io",
		"managedResources": ["google.com/tpu"],
		"parameters": {"maxRunDurationSeconds": "86400"},
	},
}

configuration := {
	"apiVersion": "config.kueue.x-k8s.io/v1beta2",
	"kind": "Configuration",
	"waitForPodsReady": {"timeout": "10m", "recoveryTimeout": "30m"},
	"manageJobsWithoutQueueName": false,
}

secret := {
	"apiVersion": "v1",
	"kind": "Secret",
	"metadata": {"name": "hf", "namespace": "team-a"},
	"type": "Opaque",
}

job := {
	"apiVersion": "batch/v1",
	"kind": "Job",
	"metadata": {"name": "prune", "namespace": "team-a"},
	"spec": {
		"template": {
			"spec": {
				"restartPolicy": "Never",
				"containers": [
					{
						"name": "main",
						"image": "registry.example/prune:1",
						"resources": {"limits": {"memory": "1Gi"}},
					},
				],
			},
		},
	},
}

agents := {
	"apiVersion": "apps/v1",
	"kind": "DaemonSet",
	"metadata": {
		"name": "replicator-v6e",
		"namespace": "checkpoint-replicator",
		"annotations": {
			"stowplan.dev/provider": "self-hosted",
			"stowplan.dev/accelerator": "tpu",
			"stowplan.dev/local-checkpoint-size": "64Gi",
			"stowplan.dev/ram-disk-size": "141Gi",
			"stowplan.dev/peers": "1",
			"stowplan.dev/node-allocatable-memory": "706Gi",
			"stowplan.dev/pod-memory": "500Gi",
			"stowplan.dev/backup-interval-minutes": "30",
			"stowplan.dev/retention": "replicator",
		},
	},
	"spec": {"template": {"spec": {
		"containers": [
			{
				"name": "agent",
				"image": "registry.example/stowplan-replicator:0.1.0",
				"resources": {"limits": {"memory": "142Gi"}, "requests": {"memory": "142Gi"}},
				"volumeMounts": [
					{
						"name": "ram-disk",
						"mountPath": "/ram-disk",
						"subPath": "stowplan-v6e",
					},
				],
			},
		],
		"volumes": [
			{
				"name": "ram-disk",
				"persistentVolumeClaim": {"claimName": "stowplan-checkpoint-v6e"},
			},
		],
	}}},
}
