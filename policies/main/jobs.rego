# The rules of stowplan.jobs, each on the kinds that it is about.
package main.jobs

import rego.v1

deny contains result if {
	not data.main.local
	input.kind == "JobSet"
	some result in data.stowplan.jobs.deny_jobset
}

deny contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.jobs.deny_workload
}

warn contains result if {
	not data.main.local
	input.kind == "JobSet"
	some result in data.stowplan.jobs.warn_jobset
}

warn contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.jobs.warn_workload
}
