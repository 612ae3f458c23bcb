# ClusterQueues, cohorts, flavors and local queues.
package stowplan.kueue

import rego.v1

preemption := object.get(input, ["spec", "preemption"], {})

default cohort := ""

cohort := input.spec.cohortName

cohort := input.spec.cohort if not input.spec.cohortName

reclaim := object.get(preemption, "reclaimWithinCohort", "Never")

within := object.get(preemption, "withinClusterQueue", "Never")

borrowing_policy := object.get(preemption, ["borrowWithinCohort", "policy"], "Never")

quotas contains {"path": path, "quota": quota, "flavor": flavor} if {
	some g, group in input.spec.resourceGroups
	some f, flavor in group.flavors
	some r, quota in flavor.resources
	path := ["spec", "resourceGroups", g, "flavors", f, "resources", r]
}

covered(group) := {resource | some resource in group.coveredResources} | {quota.name |
	some flavor in group.flavors
	some quota in flavor.resources
}

# METADATA
# title: A ClusterQueue says whose jobs it takes
# description: >-
#   A ClusterQueue without namespaceSelector matches no namespace: every job in it waits with
#   "namespace doesn't match ClusterQueue selector". An empty selector {} matches all.
# custom:
#   id: KUE010
#   severity: error
#   fix: 'Write namespaceSelector: {} or select namespaces by label.'
#   reference: kubernetes-sigs/kueue issue 301
deny_clusterqueue contains data.stowplan.lib.error("KUE010", text, fix, ["spec", "namespaceSelector"]) if {
	object.get(input, ["spec", "namespaceSelector"], null) == null
	text := "no namespaceSelector: the queue takes jobs of no namespace"
	fix := "write namespaceSelector: {} for all, or matchLabels: {kubernetes.io/metadata.name: <namespace>}"
}

# METADATA
# title: reclaimOutOfCohort is no field
# description: >-
#   The field has never existed in any release. Strict validation refuses it; without it the API
#   server drops it and nothing is ever preempted.
# custom:
#   id: KUE011
#   severity: error
#   schema: true
#   fix: Write reclaimWithinCohort, and borrowWithinCohort to preempt while borrowing.
#   reference: Kueue, apis/kueue/v1beta2/clusterqueue_types.go and its history
deny_clusterqueue contains data.stowplan.lib.error("KUE011", text, fix, ["spec", "preemption", "reclaimOutOfCohort"]) if {
	_ := input.spec.preemption.reclaimOutOfCohort
	text := "preemption.reclaimOutOfCohort does not exist: it is refused or dropped"
	fix := "write reclaimWithinCohort: LowerPriority or Any"
}

# METADATA
# title: Limits on borrowing and lending need a cohort
# description: >-
#   Without a cohort there is nobody to borrow from or lend to, and Kueue refuses the limit.
# custom:
#   id: KUE012
#   severity: error
#   schema: true
#   fix: Add cohortName or remove the limit.
#   reference: kubernetes-sigs/kueue issue 4392; pkg/webhooks/clusterqueue_webhook.go
deny_clusterqueue contains data.stowplan.lib.error("KUE012", text, fix, path) if {
	cohort == ""
	some found in quotas
	some limit in ["borrowingLimit", "lendingLimit"]
	object.get(found.quota, limit, null) != null
	path := array.concat(found.path, [limit])
	text := sprintf("%s without a cohort", [limit])
	fix := sprintf("add cohortName, or remove %s", [limit])
}

# METADATA
# title: A cohort's limits need a parent
# description: >-
#   borrowingLimit and lendingLimit of a Cohort are against its parent; without one Kueue refuses them.
# custom:
#   id: KUE013
#   severity: error
#   schema: true
#   fix: Add parentName or remove the limit.
#   reference: kubernetes-sigs/kueue issue 4392
deny_cohort contains data.stowplan.lib.error("KUE013", text, fix, path) if {
	object.get(input, ["spec", "parentName"], object.get(input, ["spec", "parent"], "")) == ""
	some found in quotas
	some limit in ["borrowingLimit", "lendingLimit"]
	object.get(found.quota, limit, null) != null
	path := array.concat(found.path, [limit])
	text := sprintf("%s on a Cohort without parentName", [limit])
	fix := sprintf("add parentName, or remove %s", [limit])
}

# METADATA
# title: Preempting while borrowing needs reclaiming
# description: >-
#   borrowWithinCohort works only where reclaimWithinCohort is not Never; Kueue refuses the pair, also
#   when reclaimWithinCohort is merely left out.
# custom:
#   id: KUE014
#   severity: error
#   schema: true
#   fix: Set reclaimWithinCohort to LowerPriority or Any.
#   reference: Kueue, pkg/webhooks/clusterqueue_webhook.go validatePreemption
deny_clusterqueue contains data.stowplan.lib.error("KUE014", text, fix, path) if {
	reclaim == "Never"
	borrowing_policy != "Never"
	path := ["spec", "preemption", "borrowWithinCohort"]
	text := "borrowWithinCohort with reclaimWithinCohort Never"
	fix := "write reclaimWithinCohort: LowerPriority or Any"
}

# METADATA
# title: Reclaiming needs a cohort
# description: >-
#   reclaimWithinCohort takes quota back from borrowers of the cohort. A queue without one has no
#   borrowers.
# custom:
#   id: KUE015
#   severity: warning
#   fix: Add cohortName, or remove reclaimWithinCohort.
#   reference: Kueue documentation, preemption
warn_clusterqueue contains data.stowplan.lib.warning("KUE015", text, fix, path) if {
	cohort == ""
	reclaim != "Never"
	path := ["spec", "preemption", "reclaimWithinCohort"]
	text := sprintf("reclaimWithinCohort %s in a queue without a cohort does nothing", [reclaim])
	fix := "add cohortName, or remove it"
}

# METADATA
# title: A queue that may have to borrow may preempt while it does
# description: >-
#   withinClusterQueue cannot preempt for a job that would still have to borrow while
#   borrowWithinCohort is Never: a job larger than the queue's own quota waits behind lower ones.
# custom:
#   id: KUE016
#   severity: note
#   fix: Set borrowWithinCohort (it needs reclaimWithinCohort), or keep jobs within the nominal quota.
#   reference: kubernetes-sigs/kueue issue 16049
warn_clusterqueue contains data.stowplan.lib.note("KUE016", text, fix, ["spec", "preemption"]) if {
	cohort != ""
	within != "Never"
	borrowing_policy == "Never"
	borrows
	text := "a job that has to borrow preempts nothing: borrowWithinCohort is Never"
	fix := "set borrowWithinCohort.policy: LowerPriority, or keep each job within the nominal quota"
}

# A queue with a limit of 0 on everything never borrows.
borrows if {
	some found in quotas
	object.get(found.quota, "borrowingLimit", "unlimited") != 0
	object.get(found.quota, "borrowingLimit", "unlimited") != "0"
}

# METADATA
# title: Fair sharing and preempting while borrowing exclude each other
# description: >-
#   With fair sharing the share decides between queues and priority only inside one;
#   borrowWithinCohort has no effect there.
# custom:
#   id: KUE017
#   severity: warning
#   fix: Keep fair sharing or borrowWithinCohort.
#   reference: kubernetes-sigs/kueue issue 10131
warn_clusterqueue contains data.stowplan.lib.warning("KUE017", text, fix, ["spec", "fairSharing"]) if {
	is_object(input.spec.fairSharing)
	borrowing_policy != "Never"
	text := "borrowWithinCohort has no effect under fair sharing"
	fix := "keep one of the two"
}

# METADATA
# title: Accelerators, cpu and memory of a node type stand in one resource group
# description: >-
#   Two groups mean two flavors for one pod. Their node labels merge into one selector that no node
#   has.
# custom:
#   id: KUE018
#   severity: error
#   fix: Cover the accelerator, cpu and memory in one group.
#   reference: GoogleCloudPlatform/cluster-toolkit pull request 5841
deny_clusterqueue contains data.stowplan.lib.error("KUE018", text, fix, ["spec", "resourceGroups", g]) if {
	some a, first in input.spec.resourceGroups
	count(covered(first) & data.stowplan.lib.accelerators) > 0
	some g, second in input.spec.resourceGroups
	g != a
	apart := covered(second) & {"cpu", "memory"}
	count(apart) > 0
	count(covered(second) & data.stowplan.lib.accelerators) == 0
	text := sprintf("%s stand in another group than the accelerators: one pod gets two flavors", [concat(" and ", apart)])
	fix := "move them into the accelerator's group"
}

# METADATA
# title: A queue that covers accelerators covers cpu and memory
# description: >-
#   A job that also requests cpu or memory is never admitted by a queue that covers accelerators only:
#   "resource memory unavailable in ClusterQueue".
# custom:
#   id: KUE019
#   severity: note
#   fix: Cover cpu and memory in the accelerator's group.
#   reference: AI-Hypercomputer/xpk issue 603 and pull request 532
warn_clusterqueue contains data.stowplan.lib.note("KUE019", text, fix, ["spec", "resourceGroups"]) if {
	all_covered := union({covered(group) | some group in input.spec.resourceGroups})
	count(all_covered & data.stowplan.lib.accelerators) > 0
	missing := {"cpu", "memory"} - all_covered
	count(missing) > 0
	text := sprintf("%s are not covered: a job that requests them is never admitted", [concat(" and ", missing)])
	fix := "cover them in the accelerator's group"
}

# METADATA
# title: Accelerators are counted whole
# description: >-
#   A quota of half a chip is accepted and can never be used.
# custom:
#   id: KUE020
#   severity: error
#   fix: Write whole chips, a multiple of the chips of a node.
#   reference: Kueue, pkg/webhooks/clusterqueue_webhook.go (no check)
deny_clusterqueue contains data.stowplan.lib.error("KUE020", text, fix, path) if {
	some found in quotas
	found.quota.name in data.stowplan.lib.accelerators
	some field in ["nominalQuota", "borrowingLimit", "lendingLimit"]
	value := found.quota[field]
	fractional(value)
	path := array.concat(found.path, [field])
	text := sprintf("%s %v of %s is no whole number", [field, value, found.quota.name])
	fix := "write whole chips, a multiple of the chips of a node"
}

fractional(value) if {
	is_string(value)
	endswith(value, "m")
}

fractional(value) if {
	is_string(value)
	contains(value, ".")
}

fractional(value) if {
	is_number(value)
	value != round(value)
}
