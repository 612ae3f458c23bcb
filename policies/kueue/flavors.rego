# Resource names, flavors, local queues and queued provisioning.
package stowplan.kueue

import rego.v1

misspelled := {
	"google.com/tpus": "google.com/tpu",
	"tpu": "google.com/tpu",
	"cloud.google.com/tpu": "google.com/tpu",
	"nvidia.com/gpus": "nvidia.com/gpu",
	"gpu": "nvidia.com/gpu",
	"google.com/gpu": "nvidia.com/gpu",
	"cpus": "cpu",
	"mem": "memory",
	"ram": "memory",
}

# METADATA
# title: A quota is of a resource that pods can request
# description: >-
#   Kueue accepts any resource name. A quota of one that no pod requests is never used, and the real
#   resource stays uncovered.
# custom:
#   id: KUE021
#   severity: error
#   fix: Write the resource's name as pods request it.
#   reference: tried on Kueue 0.19 (unknown resource names are accepted)
deny_clusterqueue contains data.stowplan.lib.error("KUE021", text, fix, path) if {
	some g, group in input.spec.resourceGroups
	some r, name in group.coveredResources
	meant := misspelled[name]
	path := ["spec", "resourceGroups", g, "coveredResources", r]
	text := sprintf("no pod requests a resource %q", [name])
	fix := sprintf("write %s", [meant])
}

# METADATA
# title: A flavor does not taint and tolerate one key
# description: >-
#   nodeTaints keep out jobs that do not tolerate them; tolerations are given to every job of the
#   flavor. Both for one key cancel out, and every job gets the flavor.
# custom:
#   id: KUE022
#   severity: warning
#   fix: Keep nodeTaints to filter, or tolerations to let everybody in.
#   reference: kubernetes-sigs/kueue issue 4646
warn_resourceflavor contains data.stowplan.lib.warning("KUE022", text, fix, ["spec", "tolerations", i]) if {
	some taint in input.spec.nodeTaints
	some i, toleration in input.spec.tolerations
	object.get(toleration, "key", taint.key) == taint.key
	text := sprintf("%s is both tainted and tolerated by the flavor: the two cancel out", [taint.key])
	fix := "remove the one that you do not mean"
}

# METADATA
# title: A TPU flavor labels accelerator and topology
# description: >-
#   Kueue compares a job's node selector only with keys that the flavor declares. Without the topology
#   a job for another slice shape is admitted, and its pods pend while they hold quota.
# custom:
#   id: KUE023
#   severity: warning
#   fix: Put gke-tpu-topology into nodeLabels too.
#   reference: Kueue, pkg/scheduler/flavorassigner; kubernetes-sigs/kueue issue 12446
warn_resourceflavor contains data.stowplan.lib.warning("KUE023", text, fix, ["spec", "nodeLabels"]) if {
	labels := object.get(input, ["spec", "nodeLabels"], {})
	labels["cloud.google.com/gke-tpu-accelerator"]
	not labels["cloud.google.com/gke-tpu-topology"]
	text := "the flavor names the accelerator but no topology: jobs of every slice shape are admitted"
	fix := "add cloud.google.com/gke-tpu-topology"
}

# METADATA
# title: A LocalQueue called default is meant to catch every job
# description: >-
#   Kueue gives jobs without a queue label to the LocalQueue called default of their namespace, also
#   where they were not to be managed.
# custom:
#   id: KUE024
#   severity: warning
#   fix: >-
#     Rename the queue, or annotate stowplan.dev/catch-all "true" if that is meant.
#   reference: kubernetes-sigs/kueue issue 13374
warn_localqueue contains data.stowplan.lib.warning("KUE024", text, fix, ["metadata", "name"]) if {
	input.metadata.name == "default"
	object.get(input, ["metadata", "annotations", "stowplan.dev/catch-all"], "") != "true"
	text := "a LocalQueue called default captures every job of its namespace without a queue label"
	fix := "rename it, or annotate stowplan.dev/catch-all: \"true\""
}

# METADATA
# title: A LocalQueue leads to a ClusterQueue
# description: >-
#   The schema does not require clusterQueue; without it the queue is inactive.
# custom:
#   id: KUE025
#   severity: error
#   fix: Add spec.clusterQueue.
#   reference: Kueue, apis/kueue/v1beta2/localqueue_types.go
deny_localqueue contains data.stowplan.lib.error("KUE025", text, fix, ["spec", "clusterQueue"]) if {
	object.get(input, ["spec", "clusterQueue"], "") in {"", null}
	text := "the LocalQueue names no ClusterQueue"
	fix := "add spec.clusterQueue"
}

# METADATA
# title: Queued provisioning has a duration and its resources
# description: >-
#   Without maxRunDurationSeconds a request never times out in the capacity queue; without
#   managedResources every pod set, also one without accelerators, makes a request.
# custom:
#   id: KUE026
#   severity: warning
#   fix: Set parameters.maxRunDurationSeconds and managedResources.
#   reference: kubernetes-sigs/kueue issues 3245 and 2260
warn_provisioningrequestconfig contains data.stowplan.lib.warning("KUE026", text, fix, ["spec"]) if {
	input.spec.provisioningClassName == "queued-provisioning.gke.io"
	missing := array.concat(
		["parameters.maxRunDurationSeconds" | not input.spec.parameters.maxRunDurationSeconds],
		["managedResources" | count(object.get(input, ["spec", "managedResources"], [])) == 0],
	)
	count(missing) > 0
	text := sprintf("queued provisioning without %s", [concat(" and ", missing)])
	fix := "set them, such as maxRunDurationSeconds: \"86400\" and managedResources: [google.com/tpu]"
}
