# The RAM disk: large enough for the checkpoints, small enough for the node.
package stowplan.sizing

import rego.v1

size_path := ["spec", "inMemoryVolumeSize"]

size := input.spec.inMemoryVolumeSize

bytes := data.stowplan.lib.number_of(size)

checkpoint := data.stowplan.lib.number_of(input.metadata.annotations["stowplan.dev/local-checkpoint-size"])

well_formed if {
	is_string(size)
	regex.match(`^[1-9][0-9]*(Mi|Gi|Ti)$`, size)
}

unitless if is_number(size)

unitless if {
	is_string(size)
	regex.match(`^[0-9]+$`, size)
}

instance_type := input.spec.nodeSelector["node.kubernetes.io/instance-type"]

default accelerator := ""

accelerator := input.metadata.annotations["stowplan.dev/accelerator"]

accelerator := data.stowplan.lib.machines[instance_type].type if not input.metadata.annotations["stowplan.dev/accelerator"]

# A GPU node keeps a copy of its own and one for each peer; the documents' figure is for one peer. On TPU
# the replicas of the model are each other's copies. In ten-thousandths: sums of whole numbers are exact,
# also in an engine whose fractions are binary, where 170 * 23.1 is above 3927.
factors := {
	"tpu": round(data.stowplan.lib.thresholds.tpu_ram_disk_factor * 10000),
	"gpu": round((data.stowplan.lib.thresholds.gpu_ram_disk_factor * copies) * 5000),
}

below(have, times, saved) if have * 10000 < times * saved

default copies := 2

copies := 1 + data.stowplan.lib.whole_number(peers) if {
	peers := input.metadata.annotations["stowplan.dev/peers"]
	regex.match(`^[0-9]{1,4}$`, peers)
}

gib(value) := sprintf("%sGi", [data.stowplan.lib.number_text(ceil(value / 1073741824))])

# The least whole GiB of so many ten-thousandths of a checkpoint.
least_gib(times, saved) := gib((times * saved) / 10000)

factor := factors[accelerator]

too_small := text if {
	well_formed
	below(bytes, factor, checkpoint)
	text := sprintf("inMemoryVolumeSize %s is below %v times the local checkpoint of %s", [
		size,
		factor / 10000,
		input.metadata.annotations["stowplan.dev/local-checkpoint-size"],
	])
}

at_least := least_gib(factor, checkpoint)

# METADATA
# title: On TPU the RAM disk holds 2.2 local checkpoints
# description: >-
#   The RAM disk keeps the newest complete checkpoint while the next one is written, and room for
#   what the replicator fetches from a peer. Below 2.2 times the local checkpoint a save fails with
#   "no space left on device".
# custom:
#   id: SIZ001
#   severity: error
#   fix: Raise inMemoryVolumeSize to 2.2 times the size of one node's checkpoint.
#   reference: GKE documentation, multi-tier checkpointing, IN_MEMORY_VOLUME_SIZE
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ001", text, fix, size_path) if {
	accelerator == "tpu"
	text := too_small
	fix := sprintf("write at least %s", [at_least])
}

# METADATA
# title: On GPU the RAM disk holds 6.6 local checkpoints
# description: >-
#   On GPU every node also keeps the copies of its peer, complete and in flight. With one peer the
#   documents ask for 6.6 times the local checkpoint; that is 3.3 for each copy, so 3.3 without a peer
#   and 9.9 with two.
# custom:
#   id: SIZ002
#   severity: error
#   fix: Raise inMemoryVolumeSize to 6.6 times the size of one node's checkpoint, or take fewer peers.
#   reference: GKE documentation, multi-tier checkpointing, IN_MEMORY_VOLUME_SIZE
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ002", text, fix, size_path) if {
	accelerator == "gpu"
	text := too_small
	fix := sprintf("write at least %s", [at_least])
}

# METADATA
# title: The RAM disk and the pods fit the node together
# description: >-
#   The scheduler does not know of the RAM disk: the driver has no memory request. What the pods
#   request and what the RAM disk may fill must fit the node's allocatable memory together, or the
#   kernel kills the training process when the disk fills.
# custom:
#   id: SIZ003
#   severity: error
#   fix: Lower the pods' memory request or the RAM disk.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller (tmpfs, no request)
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ003", text, fix, size_path) if {
	pods := data.stowplan.lib.number_of(input.metadata.annotations["stowplan.dev/pod-memory"])
	node := data.stowplan.lib.number_of(input.metadata.annotations["stowplan.dev/node-allocatable-memory"])
	bytes + pods > node
	text := sprintf("the RAM disk of %s and pods of %s need more than the node's %s", [
		size,
		input.metadata.annotations["stowplan.dev/pod-memory"],
		input.metadata.annotations["stowplan.dev/node-allocatable-memory"],
	])
	fix := sprintf("let the two add up to at most %s", [input.metadata.annotations["stowplan.dev/node-allocatable-memory"]])
}

# METADATA
# title: The RAM disk's size has a unit
# description: >-
#   A quantity without a suffix is bytes. "200000" is 200 kB, which the controller rounds to 1 MiB.
# custom:
#   id: SIZ004
#   severity: error
#   fix: Write the unit, such as 200Gi.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/utils.go newPreparer
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ004", text, fix, size_path) if {
	unitless
	text := sprintf("inMemoryVolumeSize %v has no unit: that is bytes", [size])
	fix := sprintf("write %vGi", [size])
}

# METADATA
# title: The RAM disk's size is a whole number of Mi, Gi or Ti
# description: >-
#   The controller parses the text itself and reports a text that is no quantity only in its log;
#   64GB, 200GiB and 500gi leave the driver uninstalled without an event. 64G is read as decimal and
#   gives less than it seems.
# custom:
#   id: SIZ005
#   severity: error
#   fix: Write a whole number with Mi, Gi or Ti, such as 64Gi.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/utils.go newPreparer
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ005", text, fix, size_path) if {
	is_string(size)
	not well_formed
	not unitless
	not placeholder
	text := sprintf("inMemoryVolumeSize %q is not a whole number of Mi, Gi or Ti", [size])
	fix := sprintf("write %s", [meant])
}

placeholder if regex.match(`^[A-Z][A-Z_]*_[A-Z_]+$`, size)

default meant := "such as 64Gi"

meant := sprintf("%s%si", [number, upper(substring(unit, 0, 1))]) if {
	compact := replace(size, " ", "")
	regex.match(`^[1-9][0-9]*[MGTmgt][A-Za-z]*$`, compact)
	number := regex.find_n(`^[0-9]+`, compact, 1)[0]
	unit := substring(compact, count(number), -1)
}

# METADATA
# title: The RAM disk's size is set
# description: >-
#   The controller has no default for inMemoryVolumeSize; without it no driver is installed and the
#   only trace is in the controller's log.
# custom:
#   id: SIZ006
#   severity: error
#   fix: Add inMemoryVolumeSize.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/utils.go newPreparer
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ006", text, fix, size_path) if {
	object.get(input, ["spec", "inMemoryVolumeSize"], "") in {"", null}
	text := "inMemoryVolumeSize is missing: no driver is installed"
	fix := "add inMemoryVolumeSize: 2.2 (TPU) or 6.6 (GPU) times one node's checkpoint"
}

# METADATA
# title: A foreign CheckpointConfiguration's sizing is not judged
# description: >-
#   Whether a RAM disk is large enough depends on the checkpoint and the node. The generator writes
#   both as annotations; a file without them can be judged only in part, and this note says so.
# custom:
#   id: SIZ007
#   severity: note
#   fix: >-
#     Add stowplan.dev/local-checkpoint-size and stowplan.dev/accelerator, or describe the cluster
#     in an inventory.
#   reference: this project, the annotations that the generator writes
warn_checkpointconfiguration contains data.stowplan.lib.note("SIZ007", text, fix, size_path) if {
	not judged
	text := "whether the RAM disk is large enough was not judged: the checkpoint's size is unknown"
	fix := "annotate stowplan.dev/local-checkpoint-size (one node's share) and stowplan.dev/accelerator"
}

judged if {
	checkpoint > 0
	accelerator in {"tpu", "gpu"}
}

# METADATA
# title: The RAM disk is smaller than the machine
# description: >-
#   A RAM disk of the machine's whole memory leaves nothing for the system and the job.
# custom:
#   id: SIZ008
#   severity: error
#   fix: Choose a RAM disk well below the machine's memory, or a larger machine.
#   reference: public Compute Engine machine list
deny_checkpointconfiguration contains data.stowplan.lib.error("SIZ008", text, fix, size_path) if {
	memory := data.stowplan.lib.machines[instance_type].memory
	well_formed
	bytes >= memory * 1073741824
	text := sprintf("inMemoryVolumeSize %s is all of the %vGi that a %s has", [
		size,
		memory,
		instance_type,
	])
	fix := "leave memory for the job: lower the size or choose a larger machine"
}
