# The rules of stowplan.kueue, each on the kinds that it is about.
package main.kueue

import rego.v1

deny contains result if {
	not data.main.local
	input.kind == "ClusterQueue"
	some result in data.stowplan.kueue.deny_clusterqueue
}

deny contains result if {
	not data.main.local
	input.kind == "Cohort"
	some result in data.stowplan.kueue.deny_cohort
}

deny contains result if {
	not data.main.local
	input.kind == "LocalQueue"
	some result in data.stowplan.kueue.deny_localqueue
}

deny contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.kueue.deny_workload
}

warn contains result if {
	not data.main.local
	input.kind == "ClusterQueue"
	some result in data.stowplan.kueue.warn_clusterqueue
}

warn contains result if {
	not data.main.local
	input.kind == "LocalQueue"
	some result in data.stowplan.kueue.warn_localqueue
}

warn contains result if {
	not data.main.local
	input.kind == "ProvisioningRequestConfig"
	some result in data.stowplan.kueue.warn_provisioningrequestconfig
}

warn contains result if {
	not data.main.local
	input.kind == "ResourceFlavor"
	some result in data.stowplan.kueue.warn_resourceflavor
}

warn contains result if {
	not data.main.local
	input.kind in data.main.workload_kinds
	some result in data.stowplan.kueue.warn_workload
}
