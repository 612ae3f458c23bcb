# What a training pod should not be able to do.
package stowplan.security

import rego.v1

# METADATA
# title: No container is privileged
# description: >-
#   A privileged container owns the node: its keys, its other pods, and the RAM disk of every job.
# custom:
#   id: SEC001
#   severity: error
#   fix: Remove privileged; the multi-tier volume needs none.
#   reference: Kubernetes documentation, Pod Security Standards (Baseline)
deny_workload contains data.stowplan.lib.error("SEC001", text, fix, path) if {
	some found in data.stowplan.lib.containers
	found.container.securityContext.privileged == true
	path := array.concat(found.path, ["securityContext", "privileged"])
	text := sprintf("container %q is privileged", [object.get(found.container, "name", "")])
	fix := "remove privileged: true"
}

# METADATA
# title: No pod mounts the node's disk
# description: >-
#   A hostPath volume reaches outside the pod; checkpoints there survive neither the node nor a move.
# custom:
#   id: SEC002
#   severity: warning
#   fix: Use the checkpoint volume, an emptyDir or a CSI volume.
#   reference: Kubernetes documentation, Pod Security Standards (Baseline)
warn_workload contains data.stowplan.lib.warning("SEC002", text, fix, path) if {
	some template in data.stowplan.lib.templates
	some i, volume in template.spec.volumes
	_ := volume.hostPath
	path := array.concat(template.path, ["spec", "volumes", i, "hostPath"])
	text := sprintf("volume %q mounts %v of the node", [object.get(volume, "name", ""), object.get(volume.hostPath, "path", "a path")])
	fix := "use the checkpoint volume, an emptyDir or a CSI volume"
}

# METADATA
# title: An image is pinned
# description: >-
#   With latest, or no tag, a restarted pod may run other code than its peers.
# custom:
#   id: SEC003
#   severity: warning
#   fix: Write a version tag or a digest.
#   reference: Kubernetes documentation, Images
warn_workload contains data.stowplan.lib.warning("SEC003", text, fix, path) if {
	some found in data.stowplan.lib.containers
	image := found.container.image
	is_string(image)
	unpinned(image)
	not regex.match(`[<$]|\{\{`, image)
	path := array.concat(found.path, ["image"])
	text := sprintf("image %s is not pinned: a restart may run other code", [image])
	fix := "write a version tag or a digest"
}

unpinned(image) if endswith(image, ":latest")

unpinned(image) if {
	parts := split(image, "/")
	last := parts[count(parts) - 1]
	not contains(last, ":")
	not contains(last, "@")
}

# METADATA
# title: A container states what it needs
# description: >-
#   Without a memory limit or request one container takes what the RAM disk and its neighbours were
#   promised; with nothing at all Kueue assigns no flavor.
# custom:
#   id: SEC004
#   severity: warning
#   fix: Set resources.
#   reference: kubernetes-sigs/kueue issue 891
warn_workload contains data.stowplan.lib.warning("SEC004", text, fix, path) if {
	some found in data.stowplan.lib.containers
	resources := object.get(found.container, "resources", {})
	count(object.get(resources, "limits", {})) == 0
	count(object.get(resources, "requests", {})) == 0
	path := array.concat(found.path, ["resources"])
	text := sprintf("container %q states no resources", [object.get(found.container, "name", "")])
	fix := "set limits, at least of the accelerator or of memory"
}

secret_name := `(?i)(^|_)(password|passwd|secret|token|api_?key|access_?key|private_?key|credentials?)$`

# METADATA
# title: No secret stands in a manifest
# description: >-
#   A value in Git is readable for everybody who can read the repository, for ever.
# custom:
#   id: SEC005
#   severity: error
#   fix: Read it from a Secret that is made elsewhere, or use Workload Identity.
#   reference: Kubernetes documentation, Good practices for Secrets
deny_workload contains data.stowplan.lib.error("SEC005", text, fix, path) if {
	some found in data.stowplan.lib.containers
	some i, variable in found.container.env
	regex.match(secret_name, variable.name)
	is_string(variable.value)
	variable.value != ""
	not contains(variable.value, "/")
	path := array.concat(found.path, ["env", i])
	text := sprintf("the environment variable %s carries its value in plain text", [variable.name])
	fix := "use valueFrom.secretKeyRef"
}

# METADATA
# title: No Secret is kept in Git
# description: >-
#   base64 hides nothing: a Secret in a repository is readable for everybody who can read it.
# custom:
#   id: SEC007
#   severity: error
#   fix: Keep it in a secret store and commit a reference only.
#   reference: Kubernetes documentation, Good practices for Secrets
deny_any contains data.stowplan.lib.error("SEC007", text, fix, [field, key]) if {
	input.kind == "Secret"
	some field in ["data", "stringData"]
	some key, value in input[field]
	is_string(value)
	value != ""
	not startswith(value, "?{")
	text := sprintf("the Secret carries %s.%s in plain text or base64, which hides nothing", [field, key])
	fix := "keep it in a secret store and commit a reference only"
}

# METADATA
# title: A pod keeps its own process and IPC namespace
# description: >-
#   hostPID and hostIPC let a pod see and signal every process of the node.
# custom:
#   id: SEC006
#   severity: error
#   fix: Remove hostPID and hostIPC; shared memory is an emptyDir of medium Memory.
#   reference: Kubernetes documentation, Pod Security Standards (Baseline)
deny_workload contains data.stowplan.lib.error("SEC006", text, fix, path) if {
	some template in data.stowplan.lib.templates
	some field in ["hostPID", "hostIPC"]
	template.spec[field] == true
	path := array.concat(template.path, ["spec", field])
	text := sprintf("%s opens the node's processes to the pod", [field])
	fix := sprintf("remove %s", [field])
}
