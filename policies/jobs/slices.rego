# TPU slices: a job and the nodes that it selects have the same shape.
package stowplan.jobs

import rego.v1

accelerator_label := "cloud.google.com/gke-tpu-accelerator"

topology_label := "cloud.google.com/gke-tpu-topology"

chips(topology) := product([data.stowplan.lib.whole_number(part) | some part in split(topology, "x")]) if {
	regex.match(`^[0-9]+x[0-9]+(x[0-9]+)?$`, topology)
}

# METADATA
# title: A TPU job fills its slice
# description: >-
#   Pods times chips per pod must be the chips of the topology. Fewer leave hosts of the slice without
#   a pod, and the TPU runtime waits for them for ever.
# custom:
#   id: JOB009
#   severity: error
#   fix: Set parallelism to the chips of the topology over the chips per pod.
#   reference: GKE documentation, TPU multislice
deny_workload contains data.stowplan.lib.error("JOB009", text, fix, path) if {
	some template in data.stowplan.lib.templates
	per_pod := template.tpu
	per_pod > 0
	topology := template.spec.nodeSelector[topology_label]
	wanted := chips(topology)
	pods := object.get(template.job, "parallelism", 1)
	pods * per_pod != wanted
	path := job_path(template, ["parallelism"])
	text := sprintf("%v pods with %v chips each are %v, but a %s slice has %v", [pods, per_pod, pods * per_pod, topology, wanted])
	fix := sprintf("write parallelism and completions %v", [wanted / per_pod])
}

# METADATA
# title: A TPU job selects accelerator and topology
# description: >-
#   GKE places a pod that requests google.com/tpu by both labels; without them it stays pending.
# custom:
#   id: JOB010
#   severity: error
#   fix: Select gke-tpu-accelerator and gke-tpu-topology.
#   reference: GKE documentation, TPUs in GKE
deny_workload contains data.stowplan.lib.error("JOB010", text, fix, path) if {
	some template in data.stowplan.lib.templates
	template.tpu > 0
	selector := object.get(template.spec, "nodeSelector", {})
	missing := [label | some label in [accelerator_label, topology_label]; not selector[label]]
	count(missing) > 0
	not sliced(template)
	not input.metadata.labels["kueue.x-k8s.io/queue-name"]
	path := spec_path(template, ["nodeSelector"])
	text := sprintf("pods that request google.com/tpu must select %s", [concat(" and ", missing)])
	fix := "add the labels of the slice, such as tpu-v6e-slice and 4x4"
}

# With dynamic slicing a job names the topology of its slice, which is made for it, in another key.
slice_topology := "cloud.google.com/gke-tpu-slice-topology"

sliced(template) if template.spec.nodeSelector[slice_topology]

sliced(template) if template.template.metadata.annotations[slice_topology]

# METADATA
# title: Only TPU pods select TPU nodes
# description: >-
#   A pod without google.com/tpu on a TPU node takes the host from the slice; GKE also refuses a TPU
#   selector on a pod that requests none.
# custom:
#   id: JOB011
#   severity: error
#   fix: Remove the TPU selectors, or request google.com/tpu.
#   reference: AI-Hypercomputer/xpk pull request 1006
deny_workload contains data.stowplan.lib.error("JOB011", text, fix, path) if {
	some template in data.stowplan.lib.templates
	template.tpu == 0
	some label in [accelerator_label, topology_label]
	_ := template.spec.nodeSelector[label]
	not asks_for_tpu(template)
	path := spec_path(template, ["nodeSelector", label])
	text := sprintf("%s is selected, but the pods request no google.com/tpu", [label])
	fix := "remove the selector, or request google.com/tpu"
}

# METADATA
# title: A node selector has values
# description: >-
#   An empty value selects nodes whose label is empty: none.
# custom:
#   id: JOB012
#   severity: error
#   fix: Write the value or remove the key.
#   reference: AI-Hypercomputer/xpk pull request 1006
deny_workload contains data.stowplan.lib.error("JOB012", text, fix, path) if {
	some template in data.stowplan.lib.templates
	some key, value in template.spec.nodeSelector
	value in {"", null}
	path := spec_path(template, ["nodeSelector", key])
	text := sprintf("the node selector %s is empty: no node matches", [key])
	fix := "write the value or remove the key"
}

# A request that cannot be read, such as a placeholder, is one all the same.
asks_for_tpu(template) if {
	some container in template.spec.containers
	some side in ["limits", "requests"]
	value := container.resources[side]["google.com/tpu"]
	is_string(value)
	not data.stowplan.lib.number_of(value)
}

ambiguous := {"2x4"}

# METADATA
# title: A topology that two machine types offer names its machine
# description: >-
#   2x4 of v5e and v6e is one host with 8 chips or two hosts with 4. Without the machine type or the
#   node pool a job may land on the wrong kind.
# custom:
#   id: JOB013
#   severity: warning
#   fix: Also select node.kubernetes.io/instance-type or the node pool.
#   reference: AI-Hypercomputer/xpk issue 292; vllm-project/ci-infra pull request 525
warn_workload contains data.stowplan.lib.warning("JOB013", text, fix, path) if {
	some template in data.stowplan.lib.templates
	selector := template.spec.nodeSelector
	selector[topology_label] in ambiguous
	selector[accelerator_label] in {"tpu-v5-lite-podslice", "tpu-v6e-slice"}
	not selector["node.kubernetes.io/instance-type"]
	not selector["cloud.google.com/gke-nodepool"]
	path := spec_path(template, ["nodeSelector", topology_label])
	text := "2x4 is one 8-chip host or two 4-chip hosts"
	fix := "also select node.kubernetes.io/instance-type"
}

# METADATA
# title: A topology is written in lower case
# description: >-
#   GKE refuses 4X4; a topology is numbers with a small x between.
# custom:
#   id: JOB014
#   severity: error
#   fix: Write it as 4x4 or 2x2x4.
#   reference: GoogleCloudPlatform/cluster-toolkit pull request 5820
deny_workload contains data.stowplan.lib.error("JOB014", text, fix, path) if {
	some template in data.stowplan.lib.templates
	topology := template.spec.nodeSelector[topology_label]
	is_string(topology)
	topology != ""
	not regex.match(`[<$]|\{\{`, topology)
	not regex.match(`^[1-9][0-9]*x[1-9][0-9]*(x[1-9][0-9]*)?$`, topology)
	path := spec_path(template, ["nodeSelector", topology_label])
	text := sprintf("%q is no TPU topology", [topology])
	fix := sprintf("write it as 4x4 or 2x2x4 (%s)", [lower(topology)])
}
