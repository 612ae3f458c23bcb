# What `conftest test --policy policies` runs: every rule of every concern. For one concern only, name
# its package instead: `--namespace stowplan.sizing` (see README.md).
package main

import rego.v1

workload_kinds := {
	"CronJob",
	"DaemonSet",
	"Deployment",
	"Job",
	"JobSet",
	"Pod",
	"ReplicaSet",
	"StatefulSet",
}

# Files that a tool reads and no cluster sees.
local if startswith(input.apiVersion, "kustomize.config.k8s.io/")

local if startswith(input.apiVersion, "stowplan.dev/")

local if input.metadata.annotations["config.kubernetes.io/local-config"] == "true"

deny contains result if {
	not local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.checkpointing.deny_checkpointconfiguration
}

deny contains result if {
	not local
	input.kind == "JobSet"
	some result in data.stowplan.checkpointing.deny_jobset
}

deny contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.checkpointing.deny_workload
}

deny contains result if {
	not local
	input.kind == "JobSet"
	some result in data.stowplan.jobs.deny_jobset
}

deny contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.jobs.deny_workload
}

deny contains result if {
	not local
	input.kind == "ClusterQueue"
	some result in data.stowplan.kueue.deny_clusterqueue
}

deny contains result if {
	not local
	input.kind == "Cohort"
	some result in data.stowplan.kueue.deny_cohort
}

deny contains result if {
	not local
	input.kind == "LocalQueue"
	some result in data.stowplan.kueue.deny_localqueue
}

deny contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.kueue.deny_workload
}

deny contains result if {
	not local
	some result in data.stowplan.operations.deny_any
}

deny contains result if {
	not local
	input.kind == "PriorityClass"
	some result in data.stowplan.priorities.deny_priorityclass
}

deny contains result if {
	not local
	some result in data.stowplan.security.deny_any
}

deny contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.security.deny_workload
}

deny contains result if {
	not local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.sizing.deny_checkpointconfiguration
}

deny contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.sizing.deny_workload
}

warn contains result if {
	not local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.checkpointing.warn_checkpointconfiguration
}

warn contains result if {
	not local
	input.kind == "JobSet"
	some result in data.stowplan.checkpointing.warn_jobset
}

warn contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.checkpointing.warn_workload
}

warn contains result if {
	not local
	input.kind == "JobSet"
	some result in data.stowplan.jobs.warn_jobset
}

warn contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.jobs.warn_workload
}

warn contains result if {
	not local
	input.kind == "ClusterQueue"
	some result in data.stowplan.kueue.warn_clusterqueue
}

warn contains result if {
	not local
	input.kind == "LocalQueue"
	some result in data.stowplan.kueue.warn_localqueue
}

warn contains result if {
	not local
	input.kind == "ProvisioningRequestConfig"
	some result in data.stowplan.kueue.warn_provisioningrequestconfig
}

warn contains result if {
	not local
	input.kind == "ResourceFlavor"
	some result in data.stowplan.kueue.warn_resourceflavor
}

warn contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.kueue.warn_workload
}

warn contains result if {
	not local
	some result in data.stowplan.operations.warn_any
}

warn contains result if {
	not local
	input.kind == "ClusterQueue"
	some result in data.stowplan.operations.warn_clusterqueue
}

warn contains result if {
	not local
	input.kind == "JobSet"
	some result in data.stowplan.priorities.warn_jobset
}

warn contains result if {
	not local
	input.kind == "PriorityClass"
	some result in data.stowplan.priorities.warn_priorityclass
}

warn contains result if {
	not local
	input.kind in workload_kinds
	some result in data.stowplan.security.warn_workload
}

warn contains result if {
	not local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.sizing.warn_checkpointconfiguration
}
