# The rules of stowplan.checkpointing, each on the kinds that it is about.
package main.checkpointing

import rego.v1

deny contains result if {
	not data.main.local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.checkpointing.deny_checkpointconfiguration
}

deny contains result if {
	not data.main.local
	input.kind == "JobSet"
	some result in data.stowplan.checkpointing.deny_jobset
}

deny contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.checkpointing.deny_workload
}

warn contains result if {
	not data.main.local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.checkpointing.warn_checkpointconfiguration
}

warn contains result if {
	not data.main.local
	input.kind == "JobSet"
	some result in data.stowplan.checkpointing.warn_jobset
}

warn contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.checkpointing.warn_workload
}
