# The rules of stowplan.operations, each on the kinds that it is about.
package main.operations

import rego.v1

deny contains result if {
	not data.main.local
	some result in data.stowplan.operations.deny_any
}

warn contains result if {
	not data.main.local
	some result in data.stowplan.operations.warn_any
}

warn contains result if {
	not data.main.local
	input.kind == "ClusterQueue"
	some result in data.stowplan.operations.warn_clusterqueue
}
