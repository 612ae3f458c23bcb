# The rules of stowplan.security, each on the kinds that it is about.
package main.security

import rego.v1

deny contains result if {
	not data.main.local
	some result in data.stowplan.security.deny_any
}

deny contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.security.deny_workload
}

warn contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.security.warn_workload
}
