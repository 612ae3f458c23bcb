# The wiring between a job and its checkpoints: volume, mount, arguments and restarts.
package stowplan.checkpointing

import rego.v1

# Whether a template mounts the multi-tier checkpointing volume.
wired if {
	some template in data.stowplan.lib.templates
	count(template.checkpoints) > 0
}

# Containers whose command line turns multi-tier checkpointing on.
asking contains found if {
	some found in data.stowplan.lib.containers
	count(found.switches) > 0
}

spec_path(template, rest) := array.concat(template.path, array.concat(["spec"], rest))

# METADATA
# title: A checkpoint volume is mounted
# description: >-
#   A pod that has the volume but no mount trains without checkpoints on the RAM disk, in silence.
# custom:
#   id: MTC020
#   severity: error
#   fix: Mount the volume at the checkpoint directory.
#   reference: GKE documentation, multi-tier checkpointing, update the JobSet manifest
deny_jobset contains data.stowplan.lib.error("MTC020", text, fix, path) if {
	some template in data.stowplan.lib.templates
	count(template.checkpoints) > 0
	not template.path in mounting
	path := spec_path(template, ["volumes"])
	text := sprintf("the checkpoint volume of %q is mounted nowhere", [template.name])
	fix := "add volumeMounts: [{name: checkpoint, mountPath: /checkpoint}] to the training container"
}

# The paths of templates in which a container mounts a multi-tier volume.
mounting contains found.template.path if {
	some found in data.stowplan.lib.containers
	count(found.mounted) > 0
}

# METADATA
# title: A checkpoint mount has its volume
# description: >-
#   A mount called checkpoint without a volume of that name is refused when the pod is made; with an
#   emptyDir or another driver behind it, checkpoints land where no replicator looks.
# custom:
#   id: MTC021
#   severity: error
#   fix: Declare the volume with csi.driver multitier-checkpoint.csi.storage.gke.io.
#   reference: GKE documentation, multi-tier checkpointing, update the JobSet manifest
deny_jobset contains data.stowplan.lib.error("MTC021", text, fix, path) if {
	some found in data.stowplan.lib.containers
	some i, mount in found.container.volumeMounts
	mount.name == "checkpoint"
	volumes := object.get(found.template.spec, "volumes", [])
	not "checkpoint" in {object.get(volume, "name", "") | some volume in volumes}
	path := array.concat(found.path, ["volumeMounts", i])
	text := "the mount checkpoint has no volume"
	fix := sprintf("add volumes: [{name: checkpoint, csi: {driver: %s}}]", [data.stowplan.lib.checkpoint_driver])
}

# METADATA
# title: A job that turns multi-tier checkpointing on has the volume
# description: >-
#   The arguments make the framework wait for replicator.yaml in a directory that no replicator
#   watches: the job hangs at start, or saves to the container's own disk.
# custom:
#   id: MTC022
#   severity: error
#   fix: Add the checkpoint volume and its mount.
#   reference: GKE documentation, multi-tier checkpointing; MaxText multi_tier_checkpointing.md
deny_jobset contains data.stowplan.lib.error("MTC022", text, fix, path) if {
	some found in asking
	count(found.mounted) == 0
	path := found.path
	text := sprintf("container %q turns multi-tier checkpointing on but mounts no checkpoint volume", [object.get(found.container, "name", "")])
	fix := sprintf("add a volume with csi.driver %s and mount it", [data.stowplan.lib.checkpoint_driver])
}

# METADATA
# title: A MaxText or NeMo job with the volume turns multi-tier checkpointing on
# description: >-
#   The RAM disk takes node memory whether it is used or not. A launcher that is known by its command
#   line and does not turn the feature on writes nothing there.
# custom:
#   id: MTC023
#   severity: warning
#   fix: Add the framework's arguments, or remove the volume.
#   reference: GKE documentation, multi-tier checkpointing; MaxText multi_tier_checkpointing.md
warn_jobset contains data.stowplan.lib.warning("MTC023", text, fix, path) if {
	some found in data.stowplan.lib.containers
	count(found.mounted) > 0
	count(found.switches) == 0
	some launcher, arguments in launchers
	contains(lower(found.line), launcher)
	path := found.path
	text := sprintf("container %q mounts the checkpoint volume but does not turn multi-tier checkpointing on", [object.get(found.container, "name", "")])
	fix := sprintf("add %s, or remove the volume", [arguments])
}

launchers := {
	"maxtext": "enable_checkpointing=True enable_multi_tier_checkpointing=True local_checkpoint_directory=<mountPath>",
	"torchrun": "--enable-high-scale-ckpt --local-ckpt-dir=<mountPath> --job-name=<name>",
}

# METADATA
# title: A checkpointed job may restart
# description: >-
#   Checkpoints in memory are for restarts. Without maxRestarts the first failed pod ends the JobSet,
#   and the RAM disks are never read.
# custom:
#   id: MTC024
#   severity: error
#   fix: Set failurePolicy.maxRestarts.
#   reference: JobSet API, failurePolicy.maxRestarts (default 0)
deny_jobset contains data.stowplan.lib.error("MTC024", text, fix, path) if {
	wired
	object.get(input, ["spec", "failurePolicy", "maxRestarts"], 0) == 0
	path := ["spec", "failurePolicy"]
	text := "maxRestarts is 0 or left out: the first failure ends the job, its checkpoints unread"
	fix := "write failurePolicy: {maxRestarts: 10, restartStrategy: BlockingRecreate}"
}

# METADATA
# title: A checkpointed JobSet has one replicated job
# description: >-
#   The driver's rank service gives ranks only to a JobSet with exactly one replicated job that mounts
#   the volume. With more, jax-init-info.txt never appears and the job hangs at start.
# custom:
#   id: MTC025
#   severity: error
#   fix: Keep one replicated job; express slices as its replicas.
#   reference: high-scale-checkpointing-controller, the ranks server
deny_jobset contains data.stowplan.lib.error("MTC025", text, fix, ["spec", "replicatedJobs"]) if {
	wired
	count(input.spec.replicatedJobs) > 1
	text := sprintf("%s replicated jobs: the rank service serves a JobSet with exactly one", [format_int(count(input.spec.replicatedJobs), 10)])
	fix := "keep one replicated job and write the slices as its replicas"
}

# METADATA
# title: The framework's checkpoint directory is the mount
# description: >-
#   The replicator watches the RAM disk only. A directory elsewhere is the container's own disk: it is
#   lost with the pod.
# custom:
#   id: MTC026
#   severity: error
#   fix: Give the framework the mountPath of the checkpoint volume.
#   reference: GKE documentation, multi-tier checkpointing, CHECKPOINT_DIR
deny_jobset contains data.stowplan.lib.error("MTC026", text, fix, found.path) if {
	some found in asking
	count(found.mounted) > 0
	some [argument, directory] in found.arguments
	argument in {"local_checkpoint_directory", "--local-ckpt-dir"}
	targets := {trim_right(path, "/") | some path in found.mounted}
	not inside(directory, targets)
	text := sprintf("%s=%s is not on the RAM disk, which is mounted at %s", [argument, directory, concat(", ", targets)])
	fix := sprintf("write %s=%s", [argument, concat(", ", targets)])
}

inside(directory, targets) if trim_right(directory, "/") in targets

inside(directory, targets) if {
	some target in targets
	startswith(directory, concat("", [target, "/"]))
}

# Values of the shell or of Kubernetes cannot be judged here.
inside(directory, _) if contains(directory, "$")

# METADATA
# title: The volume's driver is the multi-tier one
# description: >-
#   phase1-checkpoint.csi.storage.gke.io is the driver of an earlier preview; nothing answers to it
#   where multi-tier checkpointing is installed. Another name of the family is a typing mistake.
# custom:
#   id: MTC027
#   severity: error
#   fix: Write multitier-checkpoint.csi.storage.gke.io.
#   reference: GKE documentation, multi-tier checkpointing, volumes
deny_workload contains data.stowplan.lib.error("MTC027", text, fix, path) if {
	some template in data.stowplan.lib.templates
	some i, volume in template.spec.volumes
	driver := volume.csi.driver
	contains(driver, "checkpoint")
	driver != data.stowplan.lib.checkpoint_driver
	path := spec_path(template, ["volumes", i, "csi", "driver"])
	text := sprintf("no driver is called %s", [driver])
	fix := sprintf("write %s", [data.stowplan.lib.checkpoint_driver])
}

# METADATA
# title: A checkpointed TPU multislice job is placed a slice to a node pool
# description: >-
#   The rank service of newer drivers reads the slice from the node pool, and does so only if the
#   JobSet itself carries the exclusive-topology annotation for cloud.google.com/gke-nodepool.
# custom:
#   id: MTC028
#   severity: warning
#   fix: Annotate the JobSet with the exclusive topology of the node pool.
#   reference: high-scale-checkpointing-controller (March 2026), the ranks server
warn_jobset contains data.stowplan.lib.warning("MTC028", text, fix, ["metadata", "annotations"]) if {
	some template in data.stowplan.lib.templates
	count(template.checkpoints) > 0
	template.tpu > 0
	object.get(input, ["metadata", "annotations", "alpha.jobset.sigs.k8s.io/exclusive-topology"], "") != "cloud.google.com/gke-nodepool"
	some replicated in input.spec.replicatedJobs
	object.get(replicated, "replicas", 1) > 1
	text := "a multislice job without the exclusive-topology annotation on the JobSet: newer drivers give it no ranks"
	fix := "add metadata.annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}"
}

minutes_argument := "multi_tier_checkpointing_backup_interval_minutes"

steps_argument := "multi_tier_checkpointing_backup_interval_steps"

# METADATA
# title: A job's backup interval is sound
# description: >-
#   The interval in the job's arguments is what the replicator gets: 30 minutes or more, and in
#   minutes or in steps, not both.
# custom:
#   id: MTC029
#   severity: warning
#   fix: Raise the interval, or keep one of the two arguments.
#   reference: GKE documentation, multi-tier checkpointing, backup-interval-minutes
warn_jobset contains data.stowplan.lib.warning("MTC029", text, fix, found.path) if {
	some found in data.stowplan.lib.containers
	some [argument, minutes] in found.arguments
	argument == minutes_argument
	regex.match(`^[0-9]+$`, minutes)
	data.stowplan.lib.whole_number(minutes) < data.stowplan.lib.thresholds.min_backup_minutes
	text := sprintf("backups every %s minutes; 30 or more are advised", [minutes])
	fix := sprintf("write %s=30 or more", [minutes_argument])
}

# METADATA
# title: A job's backup interval is given once
# description: >-
#   MaxText passes both intervals on and the replicator refuses a file with both.
# custom:
#   id: MTC030
#   severity: error
#   fix: Keep the minutes or the steps.
#   reference: GKE documentation, multi-tier checkpointing, replicator.yaml
deny_jobset contains data.stowplan.lib.error("MTC030", text, fix, found.path) if {
	some found in data.stowplan.lib.containers
	{minutes_argument, steps_argument} - {argument | some [argument, _] in found.arguments} == set()
	text := "the backup interval is given in minutes and in steps"
	fix := "keep one of the two arguments"
}

# METADATA
# title: Checkpoints are not written through a gcsfuse mount
# description: >-
#   A path below a gcsfuse mount looks local, so Orbax makes a checkpoint visible by renaming it,
#   which on object storage copies and deletes every object. Use a gs:// path, or the RAM disk.
# custom:
#   id: MTC031
#   severity: warning
#   fix: Write the gs:// path of the directory instead of the mounted one.
#   reference: google/orbax pull request 3537
warn_workload contains data.stowplan.lib.warning("MTC031", text, fix, found.path) if {
	some found in data.stowplan.lib.containers
	some mounted in fuse_mounts(found)
	some [argument, directory] in found.arguments
	argument in output_arguments
	inside(directory, {mounted})
	text := sprintf("%s=%s is below a gcsfuse mount: each save copies and deletes its objects", [argument, directory])
	fix := "write the gs:// path"
}

warn_workload contains data.stowplan.lib.warning("MTC031", text, fix, array.concat(found.path, ["env", i])) if {
	some found in data.stowplan.lib.containers
	some mounted in fuse_mounts(found)
	some i, variable in found.container.env
	regex.match(`(?i)(checkpoint|ckpt).*(dir|path)`, variable.name)
	is_string(variable.value)
	inside(variable.value, {mounted})
	text := sprintf("%s=%s is below a gcsfuse mount: each save copies and deletes its objects", [variable.name, variable.value])
	fix := "write the gs:// path"
}

# Where a container mounts a bucket.
fuse_mounts(found) := {trim_right(mount.mountPath, "/") |
	some volume in found.template.spec.volumes
	volume.csi.driver == "gcsfuse.csi.storage.gke.io"
	some mount in found.container.volumeMounts
	mount.name == volume.name
}

output_arguments := {
	"--checkpoint-dir",
	"--checkpoint_dir",
	"--output-dir",
	"base_output_directory",
	"checkpoint_dir",
}
