# The self-hosted replicator: its agents, and the RAM disk that pods share with them.
package stowplan.checkpointing

import rego.v1

agents if {
	input.kind == "DaemonSet"
	input.metadata.annotations["stowplan.dev/provider"] == "self-hosted"
}

# METADATA
# title: A self-hosted RAM disk is mounted by its directory
# description: >-
#   The claim leads to all of the node's shared memory. Only the directory stowplan-<configuration> in
#   it is the RAM disk that the agent watches: elsewhere the job waits for its replicator for ever, and
#   without a subPath the pod reads and writes what belongs to others.
# custom:
#   id: MTC032
#   severity: error
#   fix: Write the subPath stowplan-<configuration> at the mount.
#   reference: this project, docs/replicator-self-hosted.md
deny_workload contains data.stowplan.lib.error("MTC032", text, fix, path) if {
	some found in data.stowplan.lib.containers
	some volume in found.template.spec.volumes
	claim := volume.persistentVolumeClaim.claimName
	startswith(claim, data.stowplan.lib.checkpoint_claim)
	some i, mount in found.container.volumeMounts
	mount.name == volume.name
	directory := concat("", ["stowplan-", trim_prefix(claim, data.stowplan.lib.checkpoint_claim)])
	object.get(mount, "subPath", "") != directory
	path := array.concat(found.path, ["volumeMounts", i])
	text := sprintf("the mount %s of claim %s is not the RAM disk's directory", [mount.name, claim])
	fix := sprintf("write subPath: %s", [directory])
}

# METADATA
# title: Self-hosted checkpoints have a peer, sparse backups and a retention
# description: >-
#   The same advice as for the managed driver: a lost node without a peer sends the job back to the
#   last backup, backups closer than 30 minutes overlap, and without a retention the bucket grows for
#   ever.
# custom:
#   id: MTC033
#   severity: warning
#   fix: Set one peer or more, 30 minutes or more between backups, and a retention.
#   reference: GKE documentation, multi-tier checkpointing
warn_workload contains data.stowplan.lib.warning("MTC033", text, fix, path) if {
	agents
	input.metadata.annotations["stowplan.dev/peers"] == "0"
	path := ["metadata", "annotations", "stowplan.dev/peers"]
	text := "checkpoints have no peer copy: a lost node sends the job back to the last backup"
	fix := "set one peer"
}

warn_workload contains data.stowplan.lib.warning("MTC033", text, fix, path) if {
	agents
	minutes := input.metadata.annotations["stowplan.dev/backup-interval-minutes"]
	regex.match(`^[0-9]+$`, minutes)
	data.stowplan.lib.whole_number(minutes) < data.stowplan.lib.thresholds.min_backup_minutes
	path := ["metadata", "annotations", "stowplan.dev/backup-interval-minutes"]
	text := sprintf("backups every %s minutes; 30 or more are advised", [minutes])
	fix := "write 30 or more"
}

warn_workload contains data.stowplan.lib.warning("MTC033", text, fix, path) if {
	agents
	input.metadata.annotations["stowplan.dev/retention"] == "none"
	path := ["metadata", "annotations", "stowplan.dev/retention"]
	text := "nothing deletes old backups: the bucket grows for ever"
	fix := "set a retention: the replicator's own"
}
