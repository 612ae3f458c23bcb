# Readers of Kubernetes objects that are safe on whatever stands in a file.
package stowplan.lib

import rego.v1

annotations := object.get(input, ["metadata", "annotations"], {})

labels := object.get(input, ["metadata", "labels"], {})

spec := object.get(input, ["spec"], {})

# An annotation that the generator writes; undefined in a foreign file.
fact(name) := annotations[concat("", ["stowplan.dev/", name])]

has_key(value, key) if {
	is_object(value)
	_ := value[key]
}

# Every pod template of the object: {path, template, spec, job, name}.
templates contains found if {
	input.kind == "JobSet"
	some i, replicated in input.spec.replicatedJobs
	template := replicated.template.spec.template
	found := {
		"path": ["spec", "replicatedJobs", i, "template", "spec", "template"],
		"template": template,
		"spec": object.get(template, "spec", {}),
		"job": replicated.template.spec,
		"name": object.get(replicated, "name", ""),
	}
}

template_paths := {
	"CronJob": ["spec", "jobTemplate", "spec", "template"],
	"DaemonSet": ["spec", "template"],
	"Deployment": ["spec", "template"],
	"Job": ["spec", "template"],
	"ReplicaSet": ["spec", "template"],
	"StatefulSet": ["spec", "template"],
}

templates contains found if {
	path := template_paths[input.kind]
	template := object.get(input, path, null)
	is_object(template)
	found := {
		"path": path,
		"template": template,
		"spec": object.get(template, "spec", {}),
		"job": object.get(input, "spec", {}),
		"name": "",
	}
}

templates contains found if {
	input.kind == "Pod"
	found := {"path": [], "template": input, "spec": spec, "job": {}, "name": ""}
}

# Every container: {path, container, template}.
containers contains found if {
	some template in templates
	some field in ["initContainers", "containers"]
	some i, container in template.spec[field]
	is_object(container)
	found := {
		"path": array.concat(template.path, ["spec", field, i]),
		"container": container,
		"template": template,
	}
}

# A quantity as a number; undefined for what is none.
number_of(value) := value if is_number(value)

number_of(value) := units.parse_bytes(value) if {
	is_string(value)
	regex.match(`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$`, value)
}

# What a container asks of a resource, request before limit.
asks(container, resource) := value if {
	value := number_of(container.resources.requests[resource])
}

asks(container, resource) := value if {
	not has_key(object.get(container, ["resources", "requests"], {}), resource)
	value := number_of(container.resources.limits[resource])
}

# What the pods of a template ask of a resource, each.
pod_asks(template, resource) := sum([value |
	some container in template.spec.containers
	value := asks(container, resource)
])

accelerators := {"google.com/tpu", "nvidia.com/gpu"}

uses_accelerator(template) if {
	some resource in accelerators
	pod_asks(template, resource) > 0
}

# The words of a container's command line; a shell's script counts word by word.
words(container) := {word |
	some field in ["command", "args"]
	some text in container[field]
	is_string(text)
	some word in split(replace(replace(text, "\n", " "), "\\", " "), " ")
	word != ""
}

# The value of an argument written as name=value.
argument(container, name) := value if {
	some word in words(container)
	prefix := concat("", [name, "="])
	startswith(word, prefix)
	value := substring(word, count(prefix), -1)
}

# Whether one of several spellings of a flag is on.
flag(container, name) if lower(argument(container, name)) == "true"

checkpoint_driver := "multitier-checkpoint.csi.storage.gke.io"

checkpoint_volumes(template) := {object.get(volume, "name", "") |
	some volume in template.spec.volumes
	object.get(volume, ["csi", "driver"], "") == checkpoint_driver
}

number_text(value) := format_int(value, 10) if value == round(value)

number_text(value) := sprintf("%v", [value]) if value != round(value)
