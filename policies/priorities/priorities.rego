# PriorityClasses, and the two priorities of a job.
package stowplan.priorities

import rego.v1

highest_user_value := 1000000000

# METADATA
# title: A PriorityClass stays below the system's values
# description: >-
#   Values above 1000000000 are reserved for the system's own classes and refused.
# custom:
#   id: PRI001
#   severity: error
#   fix: Write a value of at most 1000000000.
#   reference: Kubernetes documentation, Pod Priority and Preemption
deny_priorityclass contains data.stowplan.lib.error("PRI001", text, fix, ["value"]) if {
	input.value > highest_user_value
	not startswith(input.metadata.name, "system-")
	text := sprintf("the value %v is above 1000000000, which is reserved for the system", [data.stowplan.lib.number_text(input.value)])
	fix := "write a value of at most 1000000000"
}

# METADATA
# title: A PriorityClass has no system name
# description: >-
#   Names that start with system- are reserved and refused.
# custom:
#   id: PRI002
#   severity: error
#   fix: Rename the class.
#   reference: Kubernetes documentation, Pod Priority and Preemption
deny_priorityclass contains data.stowplan.lib.error("PRI002", text, fix, ["metadata", "name"]) if {
	startswith(input.metadata.name, "system-")
	text := sprintf("the name %s is reserved for the system", [input.metadata.name])
	fix := "rename it"
}

# METADATA
# title: No PriorityClass is the global default
# description: >-
#   A global default changes the priority of every pod made from then on, also of system add-ons
#   without a class, and a second one is refused.
# custom:
#   id: PRI003
#   severity: warning
#   fix: 'Write globalDefault: false and name the class in the pods.'
#   reference: Kubernetes documentation, Pod Priority and Preemption
warn_priorityclass contains data.stowplan.lib.warning("PRI003", text, fix, ["globalDefault"]) if {
	input.globalDefault == true
	text := "globalDefault gives this priority to every pod without a class"
	fix := "write globalDefault: false"
}

# METADATA
# title: A queued job has a priority for Kueue and one for the scheduler
# description: >-
#   WorkloadPriorityClass decides who is admitted, PriorityClass whose pods are replaced when a node
#   is lost. A queued job with one of them only is first in one place and last in the other.
# custom:
#   id: PRI004
#   severity: note
#   fix: Set the label kueue.x-k8s.io/priority-class and priorityClassName.
#   reference: GKE documentation, workload prioritization (Kueue and Hotswap)
warn_jobset contains data.stowplan.lib.note("PRI004", text, fix, path) if {
	input.metadata.labels["kueue.x-k8s.io/priority-class"]
	some template in data.stowplan.lib.templates
	template.chips > 0
	object.get(template.spec, "priorityClassName", "") == ""
	path := array.concat(template.path, ["spec", "priorityClassName"])
	text := "the job has a WorkloadPriorityClass but its pods have no PriorityClass: the scheduler cannot put it first after a node is lost"
	fix := "set priorityClassName in the pod template"
}

warn_jobset contains data.stowplan.lib.note("PRI004", text, fix, ["metadata", "labels"]) if {
	input.metadata.labels["kueue.x-k8s.io/queue-name"]
	not input.metadata.labels["kueue.x-k8s.io/priority-class"]
	some template in data.stowplan.lib.templates
	template.chips > 0
	object.get(template.spec, "priorityClassName", "") != ""
	text := "the pods have a PriorityClass but the job has no WorkloadPriorityClass: Kueue uses the pods' value, and a change of it never reaches a waiting job"
	fix := "add the label kueue.x-k8s.io/priority-class"
}
