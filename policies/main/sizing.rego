# The rules of stowplan.sizing, each on the kinds that it is about.
package main.sizing

import rego.v1

deny contains result if {
	not data.main.local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.sizing.deny_checkpointconfiguration
}

deny contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.sizing.deny_workload
}

warn contains result if {
	not data.main.local
	input.kind == "CheckpointConfiguration"
	some result in data.stowplan.sizing.warn_checkpointconfiguration
}
