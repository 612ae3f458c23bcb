# CheckpointConfiguration: what the CRD lets through and the controller does not.
package stowplan.checkpointing

import rego.v1

fields := {
	"cloudStorageBucketName",
	"csiEphemeralLimit",
	"enableExternalJaxProcessIds",
	"gcsFuseMountOptions",
	"inMemoryVolumeSize",
	"nodeSelector",
	"replicationOptions",
	"tolerations",
}

selector := object.get(input, ["spec", "nodeSelector"], {})

bucket := object.get(input, ["spec", "cloudStorageBucketName"], "")

bucket_path := ["spec", "cloudStorageBucketName"]

selector_path := ["spec", "nodeSelector"]

# METADATA
# title: A bucket is named
# description: >-
#   Without cloudStorageBucketName the controller refuses the configuration, in its log only.
# custom:
#   id: MTC001
#   severity: error
#   fix: Add cloudStorageBucketName.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/utils.go newPreparer
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC001", text, fix, bucket_path) if {
	bucket in {"", null}
	text := "cloudStorageBucketName is missing: no driver is installed, and only a log says so"
	fix := "name the bucket of the backups, which must have a hierarchical namespace"
}

# METADATA
# title: The bucket's name is bare
# description: >-
#   cloudStorageBucketName is a bucket's name, optionally with a directory; it takes no gs:// and
#   bucket names are lower case.
# custom:
#   id: MTC002
#   severity: error
#   fix: Write the bucket's name without gs://.
#   reference: GKE documentation, multi-tier checkpointing; Cloud Storage bucket naming
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC002", text, fix, bucket_path) if {
	is_string(bucket)
	bucket != ""
	not regex.match(`^[A-Z][A-Z_]*_[A-Z_]+$`, bucket)
	not regex.match(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?$`, bucket)
	text := sprintf("cloudStorageBucketName %q is no bucket name", [bucket])
	fix := sprintf("write %s", [bare_bucket])
}

default bare_bucket := "the bucket's name: lower-case letters, digits, '-', '_' and '.'"

bare_bucket := sprintf("%q", [substring(bucket, 5, -1)]) if startswith(bucket, "gs://")

# METADATA
# title: Every field of the spec is one that the controller reads
# description: >-
#   The CRD prunes what it does not know: a misspelled field, or one from another tool's template
#   such as mountOptions, does nothing and nobody says so.
# custom:
#   id: MTC003
#   severity: error
#   schema: true
#   fix: Remove the field or write the name that the controller reads.
#   reference: high-scale-checkpointing-controller, crd/checkpointconfiguration.yaml
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC003", text, fix, ["spec", name]) if {
	some name, _ in data.stowplan.lib.spec
	not name in fields
	text := sprintf("spec.%s is no field of a CheckpointConfiguration: it is dropped", [name])
	fix := object.get(meant_fields, name, "write one of the known fields, or remove it")
}

meant_fields := {
	"mountOptions": "write gcsFuseMountOptions",
	"bucket": "write cloudStorageBucketName",
	"bucketName": "write cloudStorageBucketName",
	"cloudStorageBucket": "write cloudStorageBucketName",
	"size": "write inMemoryVolumeSize",
	"ramdiskSize": "write inMemoryVolumeSize",
	"inMemoryVolume": "write inMemoryVolumeSize",
	"nodeSelectors": "write nodeSelector",
	"toleration": "write tolerations",
}

# METADATA
# title: The configuration selects its nodes
# description: >-
#   An empty nodeSelector installs the driver, and its RAM disk, on every untainted Linux node of the
#   cluster.
# custom:
#   id: MTC004
#   severity: error
#   fix: Select the machine type of the accelerator nodes.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/controller.go
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC004", text, fix, selector_path) if {
	count(selector) == 0
	text := "nodeSelector is missing: the RAM disk is made on every untainted Linux node"
	fix := "write nodeSelector: {node.kubernetes.io/instance-type: <machine type>}"
}

# METADATA
# title: The node selector names accelerator nodes
# description: >-
#   A selector of labels that every node has takes memory on nodes that never train.
# custom:
#   id: MTC005
#   severity: warning
#   fix: Select by machine type, accelerator or node pool.
#   reference: GKE documentation, multi-tier checkpointing, the CheckpointConfiguration example
warn_checkpointconfiguration contains data.stowplan.lib.warning("MTC005", text, fix, selector_path) if {
	count(selector) > 0
	every key, _ in selector {
		key in broad_labels
	}
	text := sprintf("nodeSelector %s also matches nodes without accelerators", [concat(", ", sort(object.keys(selector)))])
	fix := "add node.kubernetes.io/instance-type, the accelerator's label or the node pool"
}

broad_labels := {
	"beta.kubernetes.io/arch",
	"beta.kubernetes.io/os",
	"cloud.google.com/gke-os-distribution",
	"kubernetes.io/arch",
	"kubernetes.io/os",
	"topology.kubernetes.io/region",
	"topology.kubernetes.io/zone",
}

instance_type := selector["node.kubernetes.io/instance-type"]

default accelerator := ""

accelerator := input.metadata.annotations["stowplan.dev/accelerator"]

accelerator := data.stowplan.lib.machines[instance_type].type if not input.metadata.annotations["stowplan.dev/accelerator"]

# METADATA
# title: The driver tolerates the accelerator nodes' taint
# description: >-
#   GKE taints accelerator nodes. The driver's DaemonSet takes its tolerations from the spec only, so
#   without one no driver lands and every pod that mounts the volume hangs in ContainerCreating.
# custom:
#   id: MTC006
#   severity: error
#   fix: Add the toleration for google.com/tpu or nvidia.com/gpu.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/controller.go
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC006", text, fix, ["spec", "tolerations"]) if {
	taint := data.stowplan.lib.resource_of[accelerator]
	not tolerates(taint)
	text := sprintf("no toleration covers the taint %s of these nodes: no driver lands there", [taint])
	fix := sprintf("add {key: %s, operator: Exists, effect: NoSchedule}", [taint])
}

tolerates(taint) if {
	some toleration in input.spec.tolerations
	object.get(toleration, "key", taint) == taint
	object.get(toleration, "effect", "NoSchedule") in {"", "NoSchedule"}
}

tolerates(_) if {
	some toleration in input.spec.tolerations
	regex.match(`^[A-Z][A-Z_]*_[A-Z_]+$`, toleration.key)
}

# METADATA
# title: A cluster-scoped object has no namespace
# description: >-
#   CheckpointConfiguration is cluster-scoped. The API server drops the namespace; a reader, and a
#   tool that compares, believes it.
# custom:
#   id: MTC007
#   severity: warning
#   schema: true
#   fix: Remove metadata.namespace.
#   reference: high-scale-checkpointing-controller, crd/checkpointconfiguration.yaml (scope Cluster)
warn_checkpointconfiguration contains data.stowplan.lib.warning("MTC007", text, fix, ["metadata", "namespace"]) if {
	_ := input.metadata.namespace
	text := "a CheckpointConfiguration is cluster-scoped: its namespace means nothing"
	fix := "remove metadata.namespace"
}

# Each recommended option by its name: an option of that name with another value is a choice.
recommended := {
	"implicit-dirs": "implicit-dirs",
	"metadata-cache:negative-ttl-secs:0": "metadata-cache:negative-ttl-secs",
	"metadata-cache:ttl-secs:-1": "metadata-cache:ttl-secs",
	"metadata-cache:stat-cache-max-size-mb:-1": "metadata-cache:stat-cache-max-size-mb",
	"metadata-cache:type-cache-max-size-mb:-1": "metadata-cache:type-cache-max-size-mb",
	"file-system:kernel-list-cache-ttl-secs:0": "file-system:kernel-list-cache-ttl-secs",
	"read_ahead_kb=1024": "read_ahead_kb",
	"write:enable-streaming-writes:true": "write:enable-streaming-writes",
}

# METADATA
# title: The recommended mount options are set
# description: >-
#   The documents list eight gcsfuse options for checkpoints. Without implicit-dirs a restore may not
#   see directories; without the cache options a new backup may stay invisible.
# custom:
#   id: MTC008
#   severity: warning
#   fix: Add the missing options to gcsFuseMountOptions.
#   reference: GKE documentation, multi-tier checkpointing, the CheckpointConfiguration example
warn_checkpointconfiguration contains data.stowplan.lib.warning("MTC008", text, fix, ["spec", "gcsFuseMountOptions"]) if {
	options := object.get(input, ["spec", "gcsFuseMountOptions"], [])
	is_array(options)
	given := concat("\n", [option | some option in options; is_string(option)])
	missing := [option | some option, name in recommended; not contains(given, name)]
	count(missing) > 0
	text := sprintf("gcsFuseMountOptions lacks %s", [concat(", ", missing)])
	fix := "add them, or set each to the value that you want"
}

# METADATA
# title: The bucket has a hierarchical namespace
# description: >-
#   A backup becomes visible by renaming its directory. Only a bucket with a hierarchical namespace
#   does that in one step; without it backups fail. It can be chosen only when the bucket is made.
# custom:
#   id: MTC009
#   severity: error
#   fix: Make a new bucket with a hierarchical namespace.
#   reference: GKE documentation, multi-tier checkpointing, before you begin
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC009", text, fix, bucket_path) if {
	input.metadata.annotations["stowplan.dev/bucket-hierarchical-namespace"] == "false"
	text := sprintf("the bucket %s has no hierarchical namespace: backups fail", [bucket])
	fix := "make a bucket with --enable-hierarchical-namespace and uniform bucket-level access"
}

# METADATA
# title: Whether the bucket has a hierarchical namespace is declared
# description: >-
#   A file cannot show how a bucket was made. The annotation records that somebody looked.
# custom:
#   id: MTC010
#   severity: note
#   fix: >-
#     Annotate stowplan.dev/bucket-hierarchical-namespace with "true" once it is so.
#   reference: GKE documentation, multi-tier checkpointing, before you begin
warn_checkpointconfiguration contains data.stowplan.lib.note("MTC010", text, fix, bucket_path) if {
	not input.metadata.annotations["stowplan.dev/bucket-hierarchical-namespace"]
	text := "whether the bucket has a hierarchical namespace is not declared; without one backups fail"
	fix := "check with gcloud storage buckets describe, then annotate stowplan.dev/bucket-hierarchical-namespace"
}

# METADATA
# title: The cluster's GKE version has multi-tier checkpointing
# description: >-
#   A new cluster needs GKE 1.32.4-gke.1415000 or later.
# custom:
#   id: MTC011
#   severity: error
#   fix: Upgrade the cluster.
#   reference: GKE documentation, multi-tier checkpointing, requirements
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC011", text, fix, []) if {
	version := input.metadata.annotations["stowplan.dev/gke-version"]
	parsed := data.stowplan.lib.gke_version(version)
	parsed < data.stowplan.lib.thresholds.min_gke_version
	text := sprintf("GKE %s is older than 1.32.4-gke.1415000", [version])
	fix := "upgrade the cluster first"
}

# METADATA
# title: The cluster is a Standard cluster
# description: >-
#   Autopilot does not support multi-tier checkpointing.
# custom:
#   id: MTC012
#   severity: error
#   fix: Use a Standard cluster.
#   reference: GKE documentation, multi-tier checkpointing, limitations
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC012", text, fix, []) if {
	lower(input.metadata.annotations["stowplan.dev/gke-mode"]) == "autopilot"
	text := "the cluster is Autopilot, which has no multi-tier checkpointing"
	fix := "use a Standard cluster"
}

# METADATA
# title: Backups are at least 30 minutes apart
# description: >-
#   A backup copies every node's checkpoint to the bucket. Closer than 30 minutes they overlap at
#   scale and slow the training down.
# custom:
#   id: MTC013
#   severity: warning
#   fix: Raise the interval to 30 minutes or more; frequent saves belong in the RAM disk.
#   reference: GKE documentation, multi-tier checkpointing, backup-interval-minutes
warn_checkpointconfiguration contains data.stowplan.lib.warning("MTC013", text, fix, path) if {
	minutes := input.metadata.annotations["stowplan.dev/backup-interval-minutes"]
	regex.match(`^[0-9]+$`, minutes)
	data.stowplan.lib.whole_number(minutes) < data.stowplan.lib.thresholds.min_backup_minutes
	path := ["metadata", "annotations", "stowplan.dev/backup-interval-minutes"]
	text := sprintf("backups every %s minutes; 30 or more are advised", [minutes])
	fix := "write 30 or more"
}

# METADATA
# title: The backup interval is in minutes or in steps, not both
# description: >-
#   The replicator accepts exactly one of backup-interval-minutes and backup-interval-steps.
# custom:
#   id: MTC014
#   severity: error
#   fix: Keep one of the two.
#   reference: GKE documentation, multi-tier checkpointing, replicator.yaml
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC014", text, fix, ["metadata", "annotations"]) if {
	input.metadata.annotations["stowplan.dev/backup-interval-minutes"]
	input.metadata.annotations["stowplan.dev/backup-interval-steps"]
	text := "the backup interval is given in minutes and in steps"
	fix := "keep one of the two"
}

# METADATA
# title: Every node has a peer
# description: >-
#   Without a peer a lost node loses its part of the newest checkpoint, and the job falls back to the
#   last backup.
# custom:
#   id: MTC015
#   severity: warning
#   fix: Set one peer or more.
#   reference: GKE documentation, multi-tier checkpointing, peers-per-node
warn_checkpointconfiguration contains data.stowplan.lib.warning("MTC015", text, fix, path) if {
	input.metadata.annotations["stowplan.dev/peers"] == "0"
	path := ["metadata", "annotations", "stowplan.dev/peers"]
	text := "checkpoints have no peer copy: a lost node sends the job back to the last backup"
	fix := "set one peer"
}

# METADATA
# title: Somebody deletes old backups
# description: >-
#   Multi-tier checkpointing only ever adds backups. Without a retention job the bucket grows for
#   ever.
# custom:
#   id: MTC016
#   severity: warning
#   fix: Choose a retention, such as backup-warden or the replicator's prune.
#   reference: GKE documentation, multi-tier checkpointing, data retention
warn_checkpointconfiguration contains data.stowplan.lib.warning("MTC016", text, fix, path) if {
	input.metadata.annotations["stowplan.dev/retention"] == "none"
	path := ["metadata", "annotations", "stowplan.dev/retention"]
	text := "nothing deletes old backups: the bucket grows for ever"
	fix := "set a retention: backup-warden or replicator"
}

# METADATA
# title: The machine type exists
# description: >-
#   One document names ct5e-hightpu-4t for TPU v5e; no such machine type is offered. A selector with
#   it matches no node and no driver is installed.
# custom:
#   id: MTC017
#   severity: error
#   fix: Write ct5lp-hightpu-1t, -4t or -8t for TPU v5e.
#   reference: public Compute Engine machine list
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC017", text, fix, path) if {
	meant := data.stowplan.lib.no_such_machine[instance_type]
	path := ["spec", "nodeSelector", "node.kubernetes.io/instance-type"]
	text := sprintf("there is no machine type %s", [instance_type])
	fix := sprintf("write %s", [meant])
}

# METADATA
# title: The configuration's name is short enough for a label
# description: >-
#   The controller writes the name into a label of the driver's DaemonSet; a label value has at most 63
#   characters, and a longer name leaves the driver uninstalled.
# custom:
#   id: MTC018
#   severity: error
#   fix: Shorten metadata.name to 63 characters.
#   reference: high-scale-checkpointing-controller, pkg/multitier-controller/controller.go
deny_checkpointconfiguration contains data.stowplan.lib.error("MTC018", text, fix, ["metadata", "name"]) if {
	is_string(input.metadata.name)
	count(input.metadata.name) > 63
	text := sprintf("the name has %v characters; as a label of the driver it may have 63", [count(input.metadata.name)])
	fix := "shorten it"
}
