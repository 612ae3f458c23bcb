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

# Every pod template of the object, with what the rules ask of it most:
# tpu and gpu are what one pod requests, checkpoints the names of its multi-tier volumes.
templates contains described(path, template, replicated.template.spec, replicated) if {
	input.kind == "JobSet"
	some i, replicated in input.spec.replicatedJobs
	template := replicated.template.spec.template
	path := ["spec", "replicatedJobs", i, "template", "spec", "template"]
}

template_paths := {
	"CronJob": ["spec", "jobTemplate", "spec", "template"],
	"DaemonSet": ["spec", "template"],
	"Deployment": ["spec", "template"],
	"Job": ["spec", "template"],
	"ReplicaSet": ["spec", "template"],
	"StatefulSet": ["spec", "template"],
}

templates contains described(path, template, object.get(input, "spec", {}), {}) if {
	path := template_paths[input.kind]
	template := object.get(input, path, null)
	is_object(template)
}

templates contains described([], input, {}, {}) if input.kind == "Pod"

described(path, template, job, replicated) := {
	"path": path,
	"template": template,
	"spec": pod,
	"job": job,
	"name": object.get(replicated, "name", ""),
	"tpu": pod_asks(pod, "google.com/tpu"),
	"gpu": pod_asks(pod, "nvidia.com/gpu"),
	"checkpoints": checkpoint_volumes(pod),
} if {
	pod := object.get(template, "spec", {})
}

# Every container, with its command line taken apart.
containers contains found if {
	some template in templates
	some field in ["initContainers", "containers"]
	some i, container in template.spec[field]
	is_object(container)
	line := command_line(container)
	found := {
		"path": array.concat(template.path, ["spec", field, i]),
		"container": container,
		"template": template,
		"line": line,
		"arguments": arguments(line),
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

# What one pod asks of a resource.
pod_asks(pod, resource) := sum([value |
	some container in pod.containers
	value := asks(container, resource)
])

accelerators := {"google.com/tpu", "nvidia.com/gpu"}

uses_accelerator(template) if template.tpu + template.gpu > 0

# A container's command line as one text; a shell's script counts as its words.
command_line(container) := replace(replace(concat(" ", texts), "\n", " "), "\\", " ") if {
	texts := [text |
		some field in ["command", "args"]
		some text in container[field]
		is_string(text)
	]
}

# Arguments that the rules ask for, where written as name=value; a set, since one may stand twice.
argument_pattern := `(?:^| )(--checkpoint[-_]dir|--enable-high-scale-ckpt|--local-ckpt-dir|--output-dir|base_output_directory|checkpoint_dir|enable_multi_tier_checkpointing|local_checkpoint_directory|multi_tier_checkpointing_backup_interval_minutes|multi_tier_checkpointing_backup_interval_steps)=([^ ]*)`

arguments(line) := {name: values |
	found := regex.find_all_string_submatch_n(argument_pattern, line, -1)
	some [_, name, _] in found
	values := {value | some [_, other, value] in found; other == name}
}

# Whether a flag is on.
flag(found, name) if {
	some value in found.arguments[name]
	lower(value) == "true"
}

checkpoint_driver := "multitier-checkpoint.csi.storage.gke.io"

# What the claim of a self-hosted RAM disk is called, less the configuration's name.
checkpoint_claim := "stowplan-checkpoint-"

checkpoint_volumes(pod) := {object.get(volume, "name", "") |
	some volume in pod.volumes
	is_checkpoint_volume(volume)
}

is_checkpoint_volume(volume) if object.get(volume, ["csi", "driver"], "") == checkpoint_driver

is_checkpoint_volume(volume) if startswith(claim_of(volume), checkpoint_claim)

# The claim behind a volume, empty where there is none.
claim_of(volume) := name if {
	name := object.get(volume, ["persistentVolumeClaim", "claimName"], "")
	is_string(name)
}

number_text(value) := format_int(value, 10) if value == round(value)

number_text(value) := sprintf("%v", [value]) if value != round(value)
