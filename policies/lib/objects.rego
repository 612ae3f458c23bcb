# Readers of Kubernetes objects that are safe on whatever stands in a file.
package stowplan.lib

import rego.v1

annotations := object.get(input, ["metadata", "annotations"], {})

labels := object.get(input, ["metadata", "labels"], {})

spec := object.get(input, ["spec"], {})

# Every pod template of the object, with what the rules ask of it most: tpu and gpu are what one pod
# requests, chips both together, hosts how many pods one slice has, checkpoints the names of its
# multi-tier volumes. What several rules ask is worked out here once: a function call costs the
# embedded engine as much as five comparisons.
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
	"hosts": object.get(job, "parallelism", 1),
	"name": object.get(replicated, "name", ""),
	"tpu": tpu,
	"gpu": gpu,
	"chips": tpu + gpu,
	"checkpoints": checkpoint_volumes(pod),
} if {
	pod := object.get(template, "spec", {})
	tpu := pod_asks(pod, "google.com/tpu")
	gpu := pod_asks(pod, "nvidia.com/gpu")
}

# Every container, with its command line taken apart: line is its text, arguments the pairs of name
# and value that the rules ask for, mounted where it mounts a multi-tier volume, and
# switches the ways in which it turns multi-tier checkpointing on.
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
		"arguments": {[parts[1], concat("", [parts[2], parts[3]])] |
			some parts in regex.find_all_string_submatch_n(argument, line, -1)
		},
		"switches": {parts[1] | some parts in regex.find_all_string_submatch_n(switch, line, -1)} & on_switches,
		"mounted": {object.get(mount, "mountPath", "") |
			some mount in container.volumeMounts
			mount.name in template.checkpoints
		},
	}
}

# A quantity as a number; undefined for what is none.
number_of(value) := value if is_number(value)

number_of(value) := units.parse_bytes(value) if {
	is_string(value)
	regex.match(`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$`, value)
}

# A whole number that is written in digits. Engines differ over zeroes in front: one refuses 05.
whole_number(digits) := to_number(regex.replace(digits, `^0+([0-9])`, "$1"))

# What one pod asks of a resource: of each container the request, or the limit where there is none.
pod_asks(pod, resource) := sum([number |
	some container in pod.containers
	is_object(container)
	limit := object.get(container, ["resources", "limits", resource], null)
	number := number_of(object.get(container, ["resources", "requests", resource], limit))
])

accelerators := {"google.com/tpu", "nvidia.com/gpu"}

# A container's command line as one text; a shell's script counts as its words.
command_line(container) := replace(replace(concat(" ", texts), "\n", " "), "\\", " ") if {
	texts := [text |
		some field in ["command", "args"]
		some text in container[field]
		is_string(text)
	]
}

# An argument that the rules ask for, its name and value written with = or as two words. One pattern
# over the text costs the embedded engine less than a look at each word.
argument := concat("", [
	`(?:^| )(--checkpoint-dir|--checkpoint_dir|--enable-high-scale-ckpt|--local-ckpt-dir|--output-dir`,
	`|base_output_directory|checkpoint_dir|enable_multi_tier_checkpointing|local_checkpoint_directory`,
	`|multi_tier_checkpointing_backup_interval_(?:minutes|steps))(?:=([^ ]*)| +([^- ][^ ]*))`,
])

# A word that may turn multi-tier checkpointing on, and those that do.
switch := `(?:^| )((?:--enable-high-scale-ckpt|enable_multi_tier_checkpointing)[^ ]*)`

on_switches := {
	"--enable-high-scale-ckpt",
	"--enable-high-scale-ckpt=TRUE",
	"--enable-high-scale-ckpt=True",
	"--enable-high-scale-ckpt=true",
	"enable_multi_tier_checkpointing=TRUE",
	"enable_multi_tier_checkpointing=True",
	"enable_multi_tier_checkpointing=true",
}

checkpoint_driver := "multitier-checkpoint.csi.storage.gke.io"

# What the claim of a self-hosted RAM disk is called, less the configuration's name.
checkpoint_claim := "stowplan-checkpoint-"

checkpoint_volumes(pod) := {object.get(volume, "name", "") |
	some volume in pod.volumes
	volume.csi.driver == checkpoint_driver
} | {object.get(volume, "name", "") |
	some volume in pod.volumes
	claim := volume.persistentVolumeClaim.claimName
	is_string(claim)
	startswith(claim, checkpoint_claim)
}

number_text(value) := format_int(value, 10) if value == round(value)

number_text(value) := sprintf("%v", [value]) if value != round(value)
