# What a file in Git should and should not hold.
package stowplan.operations

import rego.v1

# Words that the documents print for the reader to replace.
placeholders := {
	"BACKUP_NAME",
	"CHECKPOINT_DIR",
	"CLUSTER_LOCATION",
	"CLUSTER_NAME",
	"CLUSTER_VERSION",
	"GCS_BUCKET",
	"GCS_PATH",
	"IN_MEMORY_VOLUME_SIZE",
	"JOB_NAME",
	"MACHINE_TYPE",
	"MTC_CONFIG_NAME",
	"NODE_LOCATION",
	"NUM_NODES",
	"PROJECT_ID",
	"PROJECT_NUMBER",
	"TOLERATION_KEY",
}

# METADATA
# title: No placeholder is left
# description: >-
#   The documents print words such as GCS_BUCKET and texts such as <IMAGE LOCATION> for the reader to
#   replace. Most are valid strings, so the API server takes them.
# custom:
#   id: OPS001
#   severity: error
#   fix: Write the real value.
#   reference: GKE documentation, multi-tier checkpointing and workload prioritization
deny_any contains data.stowplan.lib.error("OPS001", text, fix, path) if {
	suspicious
	walk(input, [path, value])
	is_string(value)
	some word in left_over(value)
	not path[0] in {"data", "stringData", "status"}
	text := sprintf("the placeholder %s is still there", [word])
	fix := "write the real value"
}

deny_any contains data.stowplan.lib.error("OPS001", text, fix, found.path) if {
	left_open
	some found in fields_to_fill
	is_string(found.value)
	some variable in regex.find_n(`\$\{[A-Za-z_][A-Za-z0-9_]*\}|\{\{.*\}\}`, found.value, 1)
	text := sprintf("the template's variable %s is still there", [variable])
	fix := "fill it in first: render the template, or run envsubst"
}

# Where no shell and no other program comes by later: elsewhere ${NAME} may be meant.
fields_to_fill contains {"path": ["metadata", field], "value": value} if {
	some field in ["name", "namespace"]
	value := input.metadata[field]
}

fields_to_fill contains {"path": ["metadata", "labels", key], "value": value} if {
	some key, value in object.get(input, ["metadata", "labels"], {})
}

fields_to_fill contains {"path": array.concat(found.path, ["image"]), "value": value} if {
	some found in data.stowplan.lib.containers
	value := found.container.image
}

fields_to_fill contains {"path": array.concat(template.path, ["spec", "nodeSelector", key]), "value": value} if {
	some template in data.stowplan.lib.templates
	some key, value in template.spec.nodeSelector
}

# One look at the whole text spares most objects the walk; some engines write < as \u003c.
whole_text := json.marshal(input)

suspicious if regex.match(`(<|u003c)[A-Z]|[A-Z]_[A-Z]`, whole_text)

left_open if contains(whole_text, "${")

left_open if contains(whole_text, "{{")

left_over(value) := {word |
	some word in regex.find_n(`<[A-Z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+)*>`, value, -1)
	not regex.match(`^<[a-z]`, word)
} | {word |
	some word in regex.find_n(`[A-Z][A-Z_]*_[A-Z_]*[A-Z]`, value, -1)
	word in placeholders
	not contains(value, sprintf("<%s>", [word]))
	not contains(value, sprintf("$(%s)", [word]))
	not contains(value, sprintf("${%s}", [word]))
	not contains(value, sprintf("$%s", [word]))
	not startswith(value, sprintf("%s=", [word]))
	not value_of_env(value, word)
}

# The name of an environment variable may be such a word.
value_of_env(value, word) if {
	value == word
	some found in data.stowplan.lib.containers
	some variable in found.container.env
	variable.name == word
}

# METADATA
# title: The server's fields are not in Git
# description: >-
#   status, resourceVersion, uid and managedFields come from the server. In a manifest they make every
#   comparison differ, and a resourceVersion makes the apply fail.
# custom:
#   id: OPS002
#   severity: warning
#   fix: Remove the field.
#   reference: Kubernetes API conventions, metadata
warn_any contains data.stowplan.lib.warning("OPS002", text, fix, path) if {
	some field in ["resourceVersion", "uid", "managedFields", "generation", "selfLink"]
	_ := input.metadata[field]
	path := ["metadata", field]
	text := sprintf("metadata.%s is the server's", [field])
	fix := "remove it"
}

warn_any contains data.stowplan.lib.warning("OPS002", text, fix, ["status"]) if {
	count(input.status) > 0
	text := "status is the server's"
	fix := "remove it"
}

# METADATA
# title: Quantities of a queue are in canonical form
# description: >-
#   The API server keeps a quota as written while Kueue and other tools show it normalised; 12000m
#   against 12 shows as a difference for ever.
# custom:
#   id: OPS003
#   severity: note
#   fix: Write the shortest form, such as 12 or 1Gi.
#   reference: shepherdjerred/monorepo pull request 1620
warn_clusterqueue contains data.stowplan.lib.note("OPS003", text, fix, path) if {
	some g, group in input.spec.resourceGroups
	some f, flavor in group.flavors
	some r, quota in flavor.resources
	some field in ["nominalQuota", "borrowingLimit", "lendingLimit"]
	value := quota[field]
	is_string(value)
	short := canonical(value)
	path := ["spec", "resourceGroups", g, "flavors", f, "resources", r, field]
	text := sprintf("%s %s is not the canonical form", [field, value])
	fix := sprintf("write %q", [short])
}

canonical(value) := trim_suffix(value, "000m") if {
	regex.match(`^[1-9][0-9]*000m$`, value)
}

next_unit := {"Ki": "Mi", "Mi": "Gi", "Gi": "Ti"}

canonical(value) := sprintf("%s%s", [format_int(number / 1024, 10), larger]) if {
	regex.match(`^[1-9][0-9]*[KMG]i$`, value)
	unit := substring(value, count(value) - 2, 2)
	larger := next_unit[unit]
	number := to_number(trim_suffix(value, unit))
	number >= 1024
	number % 1024 == 0
}

# METADATA
# title: Kueue's own configuration is explicit where a default is dangerous
# description: >-
#   From 0.19 waitForPodsReady is on by default with 30 minutes: a JobSet whose restart takes longer is
#   evicted after hours of running. recoveryTimeout is the time for such a restart, which takes as long
#   as a first start. Managing jobs without a queue label suspends every job that has none.
# custom:
#   id: OPS004
#   severity: warning
#   fix: Set waitForPodsReady, with a recoveryTimeout above restart and compile time.
#   reference: kubernetes-sigs/kueue issues 14811 and 7929; CHANGELOG-0.19
warn_any contains data.stowplan.lib.warning("OPS004", text, fix, ["waitForPodsReady"]) if {
	is_configuration
	object.get(input, "waitForPodsReady", "absent") == "absent"
	text := "waitForPodsReady is left to the default, which Kueue 0.19 turns on with 30 minutes"
	fix := "set timeout and recoveryTimeout above the time that a restart and a compile take"
}

warn_any contains data.stowplan.lib.warning("OPS004", text, fix, ["manageJobsWithoutQueueName"]) if {
	is_configuration
	input.manageJobsWithoutQueueName == true
	text := "manageJobsWithoutQueueName suspends every job without a queue label, for ever"
	fix := "make sure that each namespace has a LocalQueue called default, or write false"
}

warn_any contains data.stowplan.lib.warning("OPS004", text, fix, ["waitForPodsReady"]) if {
	is_configuration
	is_object(input.waitForPodsReady)
	object.get(input.waitForPodsReady, "enable", true) == true
	not input.waitForPodsReady.recoveryTimeout
	text := "waitForPodsReady without recoveryTimeout: how long a restart may take is left to the default"
	fix := "set recoveryTimeout above the time that a restart and a compile take"
}

warn_any contains data.stowplan.lib.warning("OPS004", text, fix, ["waitForPodsReady", "recoveryTimeout"]) if {
	is_configuration
	start := seconds(input.waitForPodsReady.timeout)
	recovery := seconds(input.waitForPodsReady.recoveryTimeout)
	recovery < start
	text := sprintf("recoveryTimeout %s is below timeout %s: a restart takes as long as a first start, and evicts the job", [
		input.waitForPodsReady.recoveryTimeout,
		input.waitForPodsReady.timeout,
	])
	fix := "set recoveryTimeout to timeout or more"
}

seconds(text) := time.parse_duration_ns(text) / 1000000000 if {
	is_string(text)
	regex.match(`^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$`, text)
}

is_configuration if {
	input.kind == "Configuration"
	startswith(input.apiVersion, "config.kueue.x-k8s.io/")
}

# METADATA
# title: An Application replaces nothing by force
# description: >-
#   Replace and Force among an Application's own sync options hold for everything that it syncs: a
#   running JobSet is deleted to apply a change, and a CheckpointConfiguration takes its RAM disk along.
# custom:
#   id: OPS005
#   severity: warning
#   fix: Write the option as an annotation of the one object that needs it, never of a JobSet.
#   reference: argo-cd issue 18245; Argo CD documentation, sync options
warn_any contains data.stowplan.lib.warning("OPS005", text, fix, found.path) if {
	input.kind in {"Application", "ApplicationSet"}
	some found in sync_options
	regex.match(`^\s*(Replace|Force)\s*=\s*true\s*$`, found.option)
	text := sprintf("the sync option %s holds for everything that the Application syncs, running jobs too", [trim_space(found.option)])
	fix := "remove it; annotate the one object that needs it"
}

sync_options contains {"path": ["spec", "syncPolicy", "syncOptions", i], "option": option} if {
	some i, option in input.spec.syncPolicy.syncOptions
	is_string(option)
}

sync_options contains {"path": ["spec", "template", "spec", "syncPolicy", "syncOptions", i], "option": option} if {
	some i, option in input.spec.template.spec.syncPolicy.syncOptions
	is_string(option)
}
