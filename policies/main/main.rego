# What `conftest test --policy policies` runs: every rule of every concern. One concern alone is a
# namespace below this one, such as `--namespace main.sizing` (see README.md).
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

deny contains result if some result in data.main.checkpointing.deny

deny contains result if some result in data.main.jobs.deny

deny contains result if some result in data.main.kueue.deny

deny contains result if some result in data.main.operations.deny

deny contains result if some result in data.main.priorities.deny

deny contains result if some result in data.main.security.deny

deny contains result if some result in data.main.sizing.deny

warn contains result if some result in data.main.checkpointing.warn

warn contains result if some result in data.main.jobs.warn

warn contains result if some result in data.main.kueue.warn

warn contains result if some result in data.main.operations.warn

warn contains result if some result in data.main.priorities.warn

warn contains result if some result in data.main.security.warn

warn contains result if some result in data.main.sizing.warn
