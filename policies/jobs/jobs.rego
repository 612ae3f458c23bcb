# JobSets: restarts, placement, and what a Git repository may own of them.
package stowplan.jobs

import rego.v1

spec_path(template, rest) := array.concat(template.path, array.concat(["spec"], rest))

job_path(template, rest) := array.concat(array.slice(template.path, 0, count(template.path) - 1), rest)

# METADATA
# title: A training pod's failure is the JobSet's business at once
# description: >-
#   backoffLimit counts pod retries inside one Job; its default is 6. Until they are used up the
#   JobSet does not restart, and the other pods of an SPMD job hang in a collective.
# custom:
#   id: JOB001
#   severity: error
#   fix: 'Write backoffLimit: 0; failurePolicy.maxRestarts counts the restarts.'
#   reference: kubernetes-sigs/jobset issue 825
deny_jobset contains data.stowplan.lib.error("JOB001", text, fix, path) if {
	some template in data.stowplan.lib.templates
	template.chips > 0
	limit := object.get(template.job, "backoffLimit", 6)
	limit > 0
	path := job_path(template, ["backoffLimit"])
	text := sprintf("backoffLimit of %q is %v: pods are retried inside the Job before the JobSet restarts", [template.name, limit])
	fix := "write backoffLimit: 0"
}

# METADATA
# title: Restarts wait until the old pods are gone
# description: >-
#   With the default restart strategy new pods start while old ones still hold the accelerators and
#   the RAM disk; BlockingRecreate deletes first.
# custom:
#   id: JOB002
#   severity: warning
#   fix: 'Write failurePolicy.restartStrategy: BlockingRecreate.'
#   reference: JobSet API, failurePolicy.restartStrategy (0.7 and later)
warn_jobset contains data.stowplan.lib.warning("JOB002", text, fix, path) if {
	some template in data.stowplan.lib.templates
	template.chips > 0
	template.hosts > 1
	is_object(input.spec.failurePolicy)
	object.get(input.spec.failurePolicy, "restartStrategy", "Recreate") == "Recreate"
	path := ["spec", "failurePolicy", "restartStrategy"]
	text := "restartStrategy Recreate starts new pods while old ones still hold their nodes"
	fix := "write restartStrategy: BlockingRecreate"
}

# METADATA
# title: A multi-host job may restart
# description: >-
#   Without a failure policy the first failed pod ends the JobSet. At scale a node fails every few
#   hours.
# custom:
#   id: JOB003
#   severity: warning
#   fix: Set failurePolicy.maxRestarts.
#   reference: JobSet API, failurePolicy.maxRestarts (default 0)
warn_jobset contains data.stowplan.lib.warning("JOB003", text, fix, ["spec", "failurePolicy"]) if {
	some template in data.stowplan.lib.templates
	template.chips > 0
	template.hosts > 1
	count(template.checkpoints) == 0
	object.get(input, ["spec", "failurePolicy", "maxRestarts"], 0) == 0
	text := "maxRestarts is 0 or left out: the first failed pod ends the job"
	fix := "write failurePolicy: {maxRestarts: 10, restartStrategy: BlockingRecreate}"
}

# METADATA
# title: A JobSet kept in Git has no time to live
# description: >-
#   The controller deletes the finished JobSet after ttlSecondsAfterFinished, Argo CD finds it missing
#   and makes it again: the training runs a second time.
# custom:
#   id: JOB004
#   severity: error
#   fix: Remove ttlSecondsAfterFinished; delete the file when the run is over.
#   reference: argo-cd issue 8586
deny_jobset contains data.stowplan.lib.error("JOB004", text, fix, ["spec", "ttlSecondsAfterFinished"]) if {
	_ := input.spec.ttlSecondsAfterFinished
	text := "ttlSecondsAfterFinished deletes the finished JobSet, and a GitOps controller runs it again"
	fix := "remove it, and remove the manifest when the run is over"
}

# METADATA
# title: Suspension belongs to Kueue
# description: >-
#   Kueue's webhook suspends a new JobSet and unsuspends it on admission. A manifest with suspend sets
#   it again at every sync, which stops the running job or starts it outside the quota.
# custom:
#   id: JOB005
#   severity: error
#   fix: Remove spec.suspend.
#   reference: tried with server-side apply on a Kubernetes 1.36 server
deny_jobset contains data.stowplan.lib.error("JOB005", text, fix, ["spec", "suspend"]) if {
	_ := input.spec.suspend
	text := "spec.suspend is Kueue's field: the next sync would stop the job or start it unasked"
	fix := "remove suspend; use stopPolicy of the queue to hold jobs"
}

# METADATA
# title: Argo CD does not replace a JobSet by force
# description: >-
#   Replace and Force delete a running job to apply a change; every sync of an immutable field starts
#   the run again. A change belongs in a JobSet of a new name.
# custom:
#   id: JOB006
#   severity: error
#   fix: Remove Replace=true and Force=true; give a changed run a new name.
#   reference: NVIDIA/aicr pull request 2408; argo-cd issue 18245
deny_jobset contains data.stowplan.lib.error("JOB006", text, fix, ["metadata", "annotations", key]) if {
	key := "argocd.argoproj.io/sync-options"
	some option in split(input.metadata.annotations[key], ",")
	regex.match(`^\s*(Replace|Force)\s*=\s*true\s*$`, option)
	text := sprintf("the sync option %s deletes the running job at a change", [trim_space(option)])
	fix := "remove the option; a changed run gets a new name"
}

# METADATA
# title: Pods on the host network still resolve cluster names
# description: >-
#   With hostNetwork and the default dnsPolicy a pod asks the node's resolver, which does not know the
#   headless names of a JobSet's pods: workers never find their coordinator. A DaemonSet or a single
#   Pod on the host network serves its node and is left alone.
# custom:
#   id: JOB007
#   severity: error
#   fix: 'Write dnsPolicy: ClusterFirstWithHostNet.'
#   reference: kubernetes issue 35761
deny_workload contains data.stowplan.lib.error("JOB007", text, fix, path) if {
	some template in data.stowplan.lib.templates
	not input.kind in node_agents
	template.spec.hostNetwork == true
	not object.get(template.spec, "dnsPolicy", "ClusterFirst") in {"ClusterFirstWithHostNet", "None"}
	path := spec_path(template, ["dnsPolicy"])
	text := "hostNetwork without dnsPolicy ClusterFirstWithHostNet: cluster names do not resolve"
	fix := "write dnsPolicy: ClusterFirstWithHostNet"
}

node_agents := {"DaemonSet", "Pod"}

# METADATA
# title: Every pod of a multi-host job is a worker
# description: >-
#   An SPMD job needs all its pods at once: completions must be set and equal parallelism, or pods have
#   no stable index and the job ends early.
# custom:
#   id: JOB008
#   severity: error
#   fix: Set completions to parallelism.
#   reference: Kubernetes documentation, Indexed Jobs; JobSet webhook (pod names)
deny_jobset contains data.stowplan.lib.error("JOB008", text, fix, path) if {
	some template in data.stowplan.lib.templates
	template.chips > 0
	template.hosts > 1
	object.get(template.job, "completions", 0) != template.job.parallelism
	path := job_path(template, ["completions"])
	text := sprintf("%q runs %v pods at once but has completions %v", [template.name, template.job.parallelism, object.get(template.job, "completions", "left out")])
	fix := sprintf("write completions: %v", [template.job.parallelism])
}

exclusive := "alpha.jobset.sigs.k8s.io/exclusive-topology"

# Besides the usual one, cloud.google.com/gke-nodepool.
known_topologies := {
	"cloud.google.com/gke-tpu-slice",
	"cloud.google.com/gce-topology-block",
	"cloud.google.com/gce-topology-subblock",
	"cloud.google.com/gce-topology-host",
	"kubernetes.io/hostname",
	"topology.kubernetes.io/zone",
	"topology.kubernetes.io/region",
}

# METADATA
# title: Exclusive placement names a label that nodes have
# description: >-
#   The leader pod takes the value of this node label for its followers. If nodes lack the label,
#   followers get an empty selector and never schedule, and the error hides behind the leader.
# custom:
#   id: JOB015
#   severity: warning
#   fix: Write cloud.google.com/gke-nodepool on GKE.
#   reference: kubernetes-sigs/jobset issues 1088 and 1187
warn_jobset contains data.stowplan.lib.warning("JOB015", text, fix, found.path) if {
	some found in exclusive_annotations
	found.value != "cloud.google.com/gke-nodepool"
	not found.value in known_topologies
	text := sprintf("exclusive-topology %s is no label that GKE gives to nodes", [found.value])
	fix := "write cloud.google.com/gke-nodepool"
}

exclusive_annotations contains {"path": ["metadata", "annotations", exclusive], "value": value} if {
	value := input.metadata.annotations[exclusive]
}

exclusive_annotations contains {"path": path, "value": value} if {
	some i, replicated in input.spec.replicatedJobs
	value := replicated.template.metadata.annotations[exclusive]
	path := ["spec", "replicatedJobs", i, "template", "metadata", "annotations", exclusive]
}

# METADATA
# title: Exclusive placement is an annotation of the JobSet or its Job template
# description: >-
#   As a label, or on the pod template, the key is ignored and slices share a node pool.
# custom:
#   id: JOB016
#   severity: error
#   fix: Move it to metadata.annotations of the JobSet.
#   reference: JobSet, pkg/webhooks/pod_mutating_webhook.go
deny_jobset contains data.stowplan.lib.error("JOB016", text, fix, path) if {
	_ := input.metadata.labels[exclusive]
	path := ["metadata", "labels", exclusive]
	text := "exclusive-topology is an annotation; as a label it is ignored"
	fix := "move it to metadata.annotations"
}

deny_jobset contains data.stowplan.lib.error("JOB016", text, fix, path) if {
	some template in data.stowplan.lib.templates
	some field in ["annotations", "labels"]
	object.get(template.template, ["metadata", field, exclusive], null) != null
	path := array.concat(template.path, ["metadata", field, exclusive])
	text := "exclusive-topology on the pod template is ignored"
	fix := "move it to metadata.annotations of the JobSet"
}

# METADATA
# title: Defaults that the webhook fills in are written out
# description: >-
#   An apply from Git replaces the list of replicated jobs as a whole. Fields that only the webhook
#   filled in vanish from the request, which is refused as a change of an immutable field.
# custom:
#   id: JOB017
#   severity: note
#   fix: Write completionMode and restartPolicy out.
#   reference: tried with client-side apply and JobSet's webhook (0.12)
warn_jobset contains data.stowplan.lib.note("JOB017", text, fix, template.path) if {
	some template in data.stowplan.lib.templates
	missing := array.concat(
		["completionMode: Indexed" | not template.job.completionMode],
		["restartPolicy: OnFailure" | not template.spec.restartPolicy],
	)
	count(missing) > 0
	text := sprintf("a second client-side apply of this JobSet is refused: the webhook fills in %s", [concat(" and ", missing)])
	fix := sprintf("write %s", [concat(" and ", missing)])
}

# METADATA
# title: A job on queued-provisioning nodes is not evicted
# description: >-
#   Nodes of a ProvisioningRequest are removed under a running job unless its pods say that they are
#   not to be evicted.
# custom:
#   id: JOB018
#   severity: warning
#   fix: Annotate the pod template with cluster-autoscaler.kubernetes.io/safe-to-evict "false".
#   reference: kubernetes-sigs/kueue issue 2802
warn_workload contains data.stowplan.lib.warning("JOB018", text, fix, path) if {
	some template in data.stowplan.lib.templates
	queued(template)
	key := "cluster-autoscaler.kubernetes.io/safe-to-evict"
	object.get(template.template, ["metadata", "annotations", key], "") != "false"
	path := array.concat(template.path, ["metadata", "annotations", key])
	text := "a job on queued-provisioning nodes without safe-to-evict false: its nodes may go under it"
	fix := sprintf("annotate the pod template: {%s: \"false\"}", [key])
}

queued(template) if template.spec.nodeSelector["cloud.google.com/gke-queued"]

queued(template) if {
	some toleration in template.spec.tolerations
	object.get(toleration, "key", "") == "cloud.google.com/gke-queued"
}
