# The RAM disk of a self-hosted replicator: the same sums, and the scheduler knows of them.
package stowplan.sizing

import rego.v1

agents if {
	input.kind == "DaemonSet"
	input.metadata.annotations["stowplan.dev/provider"] == "self-hosted"
}

size_note := ["metadata", "annotations", "stowplan.dev/ram-disk-size"]

ram_disk := data.stowplan.lib.number_of(input.metadata.annotations["stowplan.dev/ram-disk-size"])

# METADATA
# title: A self-hosted RAM disk holds the checkpoints that it is for
# description: >-
#   As with the managed driver: 2.2 local checkpoints on TPU, 6.6 on GPU with one peer (3.3 for each
#   copy, so 3.3 without a peer and 9.9 with two). Below that a save fails with "no space left on
#   device", or is never replicated.
# custom:
#   id: SIZ009
#   severity: error
#   fix: Raise the RAM disk to 2.2 (TPU) or 6.6 (GPU) times the size of one node's checkpoint.
#   reference: GKE documentation, multi-tier checkpointing, IN_MEMORY_VOLUME_SIZE
deny_workload contains data.stowplan.lib.error("SIZ009", text, fix, size_note) if {
	agents
	times := factors[input.metadata.annotations["stowplan.dev/accelerator"]]
	below(ram_disk, times, checkpoint)
	text := sprintf("the RAM disk of %s is below %v times the local checkpoint of %s", [
		input.metadata.annotations["stowplan.dev/ram-disk-size"],
		times / 10000,
		input.metadata.annotations["stowplan.dev/local-checkpoint-size"],
	])
	fix := sprintf("make it at least %s", [least_gib(times, checkpoint)])
}

# METADATA
# title: The agent requests the RAM disk
# description: >-
#   Memory in the node's tmpfs belongs to no pod until somebody writes there. Only a request keeps it
#   free: without one the scheduler fills the node, and the kernel kills the training process when
#   the RAM disk fills.
# custom:
#   id: SIZ010
#   severity: error
#   fix: Let the agent request the RAM disk's size and its own memory.
#   reference: Kubernetes documentation, resource management (memory-backed volumes count as memory)
deny_workload contains data.stowplan.lib.error("SIZ010", text, fix, path) if {
	agents
	some template in data.stowplan.lib.templates
	requested := data.stowplan.lib.pod_asks(template.spec, "memory")
	requested < ram_disk
	path := array.concat(template.path, ["spec", "containers"])
	text := sprintf("the agent requests less memory than the RAM disk of %s", [input.metadata.annotations["stowplan.dev/ram-disk-size"]])
	fix := sprintf("request %s and the agent's own memory", [input.metadata.annotations["stowplan.dev/ram-disk-size"]])
}

# METADATA
# title: The agent with its RAM disk and the pods fit the node together
# description: >-
#   What the agent requests (the RAM disk among it) and what the training pod requests must fit the
#   node's allocatable memory, or one of the two is never scheduled.
# custom:
#   id: SIZ011
#   severity: error
#   fix: Lower the pods' memory request or the RAM disk.
#   reference: Kubernetes documentation, resource management
deny_workload contains data.stowplan.lib.error("SIZ011", text, fix, size_note) if {
	agents
	some template in data.stowplan.lib.templates
	requested := data.stowplan.lib.pod_asks(template.spec, "memory")
	pods := data.stowplan.lib.number_of(input.metadata.annotations["stowplan.dev/pod-memory"])
	node := data.stowplan.lib.number_of(input.metadata.annotations["stowplan.dev/node-allocatable-memory"])
	requested + pods > node
	text := sprintf("the agent's %s and pods of %s need more than the node's %s", [
		gib(requested),
		input.metadata.annotations["stowplan.dev/pod-memory"],
		input.metadata.annotations["stowplan.dev/node-allocatable-memory"],
	])
	fix := sprintf("let the two add up to at most %s", [input.metadata.annotations["stowplan.dev/node-allocatable-memory"]])
}
