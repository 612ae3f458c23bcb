# The rules of stowplan.priorities, each on the kinds that it is about.
package main.priorities

import rego.v1

deny contains result if {
	not data.main.local
	input.kind == "PriorityClass"
	some result in data.stowplan.priorities.deny_priorityclass
}

warn contains result if {
	not data.main.local
	input.kind == "JobSet"
	some result in data.stowplan.priorities.warn_jobset
}

warn contains result if {
	not data.main.local
	input.kind == "PriorityClass"
	some result in data.stowplan.priorities.warn_priorityclass
}
