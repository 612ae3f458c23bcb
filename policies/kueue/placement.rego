# Kueue's labels stand where Kueue reads them.
package stowplan.kueue

import rego.v1

prefix := "kueue.x-k8s.io/"

queue_name := "kueue.x-k8s.io/queue-name"

priority_class := "kueue.x-k8s.io/priority-class"

job_labels := {
	"kueue.x-k8s.io/queue-name",
	"kueue.x-k8s.io/priority-class",
	"kueue.x-k8s.io/max-exec-time-seconds",
	"kueue.x-k8s.io/prebuilt-workload-name",
	"kueue.x-k8s.io/pod-group-name",
	"kueue.x-k8s.io/managed",
	"kueue.x-k8s.io/multikueue-origin",
}

job_annotations := {
	"kueue.x-k8s.io/job-completions-equal-parallelism",
	"kueue.x-k8s.io/job-min-parallelism",
	"kueue.x-k8s.io/elastic-job",
	"kueue.x-k8s.io/pod-group-total-count",
	"kueue.x-k8s.io/pod-group-fast-admission",
	"kueue.x-k8s.io/pod-group-serving",
	"kueue.x-k8s.io/retriable-in-group",
	"kueue.x-k8s.io/safe-to-forcefully-delete",
	"kueue.x-k8s.io/admission-gated-by",
	"kueue.x-k8s.io/role-hash",
}

template_annotations := {
	"kueue.x-k8s.io/podset-required-topology",
	"kueue.x-k8s.io/podset-preferred-topology",
	"kueue.x-k8s.io/podset-unconstrained-topology",
	"kueue.x-k8s.io/podset-group-name",
	"kueue.x-k8s.io/podset-slice-required-topology",
	"kueue.x-k8s.io/podset-slice-size",
	"kueue.x-k8s.io/pod-index-label",
}

known_keys := {"labels": job_labels, "annotations": job_annotations | template_annotations}

# METADATA
# title: The queue's name is a label
# description: >-
#   Kueue stopped reading the annotation in 0.15. A job with it starts at once outside the quota, or
#   stays suspended for ever where jobs without a queue are managed.
# custom:
#   id: KUE001
#   severity: error
#   fix: Move it to metadata.labels.
#   reference: Kueue CHANGELOG-0.15 (7271); kubernetes-engine-samples pull request 2052
deny_workload contains data.stowplan.lib.error("KUE001", text, fix, path) if {
	some key in [queue_name, priority_class]
	value := input.metadata.annotations[key]
	path := ["metadata", "annotations", key]
	text := sprintf("%s is an annotation, which Kueue does not read: the job runs outside the quota", [key])
	fix := sprintf("move it to metadata.labels: {%s: %v}", [key, value])
}

# METADATA
# title: Kueue's labels stand on the job, not on its pods
# description: >-
#   Kueue looks up queue and priority on the job's own metadata only. On a template they do nothing,
#   and the priority falls back to the PriorityClass or to 0.
# custom:
#   id: KUE002
#   severity: error
#   fix: Move the label to metadata.labels of the job.
#   reference: Kueue, pkg/controller/jobframework (WorkloadPriorityClassName)
deny_workload contains data.stowplan.lib.error("KUE002", text, fix, found.path) if {
	some found in template_keys
	found.key in {queue_name, priority_class}
	input.kind != "Deployment"
	text := sprintf("%s on the pod template is ignored", [found.key])
	fix := sprintf("move it to metadata.labels of the %s: {%s: %v}", [input.kind, found.key, found.value])
}

template_keys contains {"key": key, "value": value, "path": path} if {
	input.kind != "Pod"
	some template in data.stowplan.lib.templates
	some field in ["labels", "annotations"]
	some key, value in object.get(template.template, ["metadata", field], {})
	startswith(key, prefix)
	path := array.concat(template.path, ["metadata", field, key])
}

template_keys contains {"key": key, "value": value, "path": path} if {
	some i, replicated in input.spec.replicatedJobs
	is_object(replicated)
	some field in ["labels", "annotations"]
	some key, value in object.get(replicated, ["template", "metadata", field], {})
	startswith(key, prefix)
	path := ["spec", "replicatedJobs", i, "template", "metadata", field, key]
}

# METADATA
# title: Every kueue.x-k8s.io key is one that Kueue reads there
# description: >-
#   A misspelled or invented key, such as managed-by, is ignored without a word.
# custom:
#   id: KUE003
#   severity: warning
#   fix: Remove the key or write the one that Kueue knows.
#   reference: Kueue, pkg/controller/constants/constants.go
warn_workload contains data.stowplan.lib.warning("KUE003", text, fix, path) if {
	some field in ["labels", "annotations"]
	some key, _ in object.get(input, ["metadata", field], {})
	startswith(key, prefix)
	not key in {queue_name, priority_class}
	not key in known_keys[field]
	path := ["metadata", field, key]
	text := sprintf("Kueue knows no %s %s", [trim_right(field, "s"), key])
	fix := "remove it, or correct the spelling"
}

warn_workload contains data.stowplan.lib.warning("KUE003", text, fix, found.path) if {
	some found in template_keys
	not found.key in {queue_name, priority_class}
	not found.key in template_annotations
	not found.key in job_labels
	text := sprintf("Kueue knows no key %s on a template", [found.key])
	fix := "remove it, or correct the spelling"
}

# METADATA
# title: A job that takes accelerators goes through a queue
# description: >-
#   Without the queue label a JobSet starts at once, outside every quota, and takes the nodes that
#   admitted jobs were promised.
# custom:
#   id: KUE004
#   severity: warning
#   fix: Label the JobSet with kueue.x-k8s.io/queue-name.
#   reference: kubernetes-sigs/kueue issue 7929
warn_workload contains data.stowplan.lib.warning("KUE004", text, fix, ["metadata", "labels", queue_name]) if {
	input.kind in {"Job", "JobSet"}
	not input.metadata.labels[queue_name]
	not input.metadata.annotations[queue_name]
	some template in data.stowplan.lib.templates
	template.chips > 0
	text := "a job with accelerators and no queue label runs outside the quota"
	fix := sprintf("add metadata.labels: {%s: <a LocalQueue of its namespace>}", [queue_name])
}
