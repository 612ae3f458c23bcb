"""Mistakes that are known from documents and tools, each put right with a word about it.

Only what has one right form is corrected. What each mistake does in a cluster is described in
``docs/rules``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from generator.importing.sources import Log, Source, ValuePath, entries, mapping
from schemas.catalog import MACHINE_LABEL, mistaken_names

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
PODSET_ANNOTATIONS = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-size",
)

_SIZE = re.compile(r"(?P<number>[1-9][0-9]*) *(?P<unit>Ki|Mi|Gi|Ti|KiB|MiB|GiB|TiB)", re.I)
_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def correct(source: Source, log: Log) -> None:
    """Put right what has one right form."""
    for correction in CORRECTIONS.get(source.kind, ()):
        correction(source, log)


def name_generated(source: Source, log: Log) -> None:
    """Name what asks for a new name at each creation: Git and Argo CD apply, they never create."""
    stem = source.metadata.get("generateName")
    if source.name or not isinstance(stem, str) or not stem.rstrip("-."):
        return
    del source.metadata["generateName"]
    source.metadata["name"] = stem.rstrip("-.")
    log.corrected(
        source,
        f"generateName {stem} makes another object with every kubectl create; Git holds one",
        f"named {source.name}",
        ("metadata", "generateName"),
    )


def _cluster_scoped(source: Source, log: Log) -> None:
    if source.namespace:
        log.corrected(
            source,
            f"{source.kind} is cluster-scoped; its namespace is left out",
            path=("metadata", "namespace"),
        )
        del source.metadata["namespace"]


def _in_default(source: Source, log: Log) -> None:
    """kubectl puts an object without a namespace into ``default``; compiled files say so."""
    if not source.namespace:
        source.metadata["namespace"] = "default"


def _checkpoint_fields(source: Source, log: Log) -> None:
    spec = source.spec
    if "mountOptions" in spec and "gcsFuseMountOptions" not in spec:
        value = spec.pop("mountOptions")
        options = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        spec["gcsFuseMountOptions"] = options
        log.corrected(
            source,
            "the field mountOptions does not exist and is pruned without a word",
            "written as gcsFuseMountOptions",
            ("spec", "mountOptions"),
        )
    bucket = spec.get("cloudStorageBucketName")
    if isinstance(bucket, str) and bucket.startswith("gs://"):
        spec["cloudStorageBucketName"] = bucket.removeprefix("gs://").rstrip("/")
        log.corrected(
            source, "the bucket is named without gs://", path=("spec", "cloudStorageBucketName")
        )


def _checkpoint_size(source: Source, log: Log) -> None:
    size = source.spec.get("inMemoryVolumeSize")
    match = _SIZE.fullmatch(str(size).strip()) if size is not None else None
    if match is None:
        return
    right = match["number"] + match["unit"][0].upper() + "i"
    if right != size:
        source.spec["inMemoryVolumeSize"] = right
        log.corrected(
            source,
            f"{size!r} is no quantity; the controller would only log that",
            f"written as {right}",
            ("spec", "inMemoryVolumeSize"),
        )


def _machine_names(source: Source, log: Log) -> None:
    selector = mapping(source.spec.get("nodeSelector"))
    real = mistaken_names().get(str(selector.get(MACHINE_LABEL)))
    if real is not None:
        log.corrected(
            source,
            f"machine type {selector[MACHINE_LABEL]} stands in documents but does not exist",
            f"written as {real}",
            ("spec", "nodeSelector", MACHINE_LABEL),
        )
        selector[MACHINE_LABEL] = real


def _kueue_version(source: Source, log: Log) -> None:
    """v1beta1 to the fields of v1beta2; which of the two is written the cluster decides."""
    spec = source.spec if "spec" in source.body else {}
    if "cohort" in spec:
        spec["cohortName"] = spec.pop("cohort")
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": c} for c in checks]}
    fungibility = mapping(spec.get("flavorFungibility"))
    for key, value in list(fungibility.items()):
        fungibility[key] = _FUNGIBILITY.get(str(value), value)


def _preemption(source: Source, log: Log) -> None:
    preemption = mapping(source.spec.get("preemption"))
    if "reclaimOutOfCohort" in preemption:
        del preemption["reclaimOutOfCohort"]
        log.corrected(
            source,
            "preemption.reclaimOutOfCohort never existed in Kueue; a strict API server refuses it",
            "left out; reclaimWithinCohort and withinClusterQueue say who is preempted",
            ("spec", "preemption", "reclaimOutOfCohort"),
        )


def _covered_resources(source: Source, log: Log) -> None:
    for index, group in enumerate(entries(source.spec.get("resourceGroups"))):
        if group.get("coveredResources"):
            continue
        names = [
            str(resource.get("name"))
            for flavor in entries(group.get("flavors"))[:1]
            for resource in entries(flavor.get("resources"))
        ]
        group["coveredResources"] = names
        log.corrected(
            source,
            "resourceGroups without coveredResources is refused by the API server",
            f"written as {', '.join(names)}, from its quotas",
            ("spec", "resourceGroups", index),
        )


def _namespace_selector(source: Source, log: Log) -> None:
    if "namespaceSelector" not in source.spec:
        log.corrected(
            source,
            "without a namespaceSelector a ClusterQueue admits nothing",
            "compiled to the namespaces of its local queues",
            ("spec",),
        )


def _queue_annotation(source: Source, log: Log) -> None:
    for key in (QUEUE_LABEL, PRIORITY_LABEL):
        value = source.annotations.pop(key, None)
        if value is None:
            continue
        labels = source.metadata.setdefault("labels", {})
        labels.setdefault(key, value)
        log.corrected(
            source,
            f"Kueue reads {key} as a label, no longer as an annotation",
            "written as a label",
            ("metadata", "annotations", key),
        )
    if "annotations" in source.metadata and not source.metadata["annotations"]:
        del source.metadata["annotations"]


def _template_labels(source: Source, log: Log) -> None:
    for index, job in enumerate(entries(source.spec.get("replicatedJobs"))):
        base: ValuePath = ("spec", "replicatedJobs", index, "template", "spec", "template")
        pods = mapping(mapping(mapping(job.get("template")).get("spec")).get("template"))
        metadata = mapping(pods.get("metadata"))
        labels = mapping(metadata.get("labels"))
        for key in [key for key in labels if str(key).startswith("kueue.x-k8s.io/")]:
            value = labels.pop(key)
            fix = "left out"
            if key in {QUEUE_LABEL, PRIORITY_LABEL}:
                source.metadata.setdefault("labels", {}).setdefault(key, value)
                fix = "written as a label of the JobSet"
            log.corrected(
                source,
                f"Kueue does not read {key} on a pod template",
                fix,
                (*base, "metadata", "labels", key),
            )
        notes = mapping(metadata.get("annotations"))
        for key in [k for k in notes if str(k).startswith("kueue.x-k8s.io/")]:
            if key not in PODSET_ANNOTATIONS:
                del notes[key]
                log.dropped(source, f"{key}: written by Kueue", path=(*base, "metadata"))
        for key in ("labels", "annotations"):
            if key in metadata and not metadata[key]:
                del metadata[key]
        if "metadata" in pods and not metadata:
            del pods["metadata"]


def _rule_names(source: Source, log: Log) -> None:
    """JobSet's webhook names the rules that have no name (``pkg/webhooks/jobset_webhook.go``)."""
    rules = entries(mapping(source.spec.get("failurePolicy")).get("rules"))
    for index, rule in enumerate(rules):
        rule.setdefault("name", f"failurePolicyRule{index}")


def _time_to_live(source: Source, log: Log) -> None:
    if "ttlSecondsAfterFinished" in source.spec:
        del source.spec["ttlSecondsAfterFinished"]
        log.corrected(
            source,
            "with ttlSecondsAfterFinished a finished job that Git still holds is made again",
            "left out; remove the workload from the inventory when it is done",
            ("spec", "ttlSecondsAfterFinished"),
        )


def _pods(source: Source, log: Log) -> None:
    for index, job in enumerate(entries(source.spec.get("replicatedJobs"))):
        base: ValuePath = ("spec", "replicatedJobs", index, "template", "spec", "template", "spec")
        pod = mapping(
            mapping(mapping(mapping(job.get("template")).get("spec")).get("template")).get("spec")
        )
        secrets = pod.get("imagePullSecrets")
        if isinstance(secrets, list) and all(
            mapping(entry).get("name") in (None, "", "None") for entry in secrets
        ):
            del pod["imagePullSecrets"]
            log.corrected(
                source,
                "imagePullSecrets names no Secret",
                "left out",
                (*base, "imagePullSecrets"),
            )
        for key in [k for k, v in pod.items() if v in ("", [], {})]:
            del pod[key]
        for position, container in enumerate(entries(pod.get("containers"))):
            _container(source, log, container, (*base, "containers", position))


def _container(source: Source, log: Log, container: dict[str, Any], base: ValuePath) -> None:
    for key in [k for k, v in container.items() if v in ("", [], {})]:
        del container[key]
    for position, mount in enumerate(entries(container.get("volumeMounts"))):
        path = mount.get("mountPath")
        if isinstance(path, str) and "//" in path:
            mount["mountPath"] = re.sub("/+", "/", path)
            log.corrected(
                source,
                f"mountPath {path!r} has a doubled slash",
                f"written as {mount['mountPath']}",
                (*base, "volumeMounts", position, "mountPath"),
            )
    for key in ("command", "args"):
        words = container.get(key)
        if isinstance(words, list):
            container[key] = [
                word if isinstance(word, str) else _text(source, log, word, (*base, key, at))
                for at, word in enumerate(words)
            ]
    for position, variable in enumerate(entries(container.get("env"))):
        value = variable.get("value")
        if value is not None and not isinstance(value, str):
            variable["value"] = _text(source, log, value, (*base, "env", position, "value"))


def _text(source: Source, log: Log, value: Any, path: ValuePath) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    log.corrected(
        source,
        f"{text} is no text to YAML; the API server refuses it",
        f'written as "{text}"',
        path,
    )
    return text


Correction = Callable[[Source, Log], None]

CORRECTIONS: dict[str, tuple[Correction, ...]] = {
    "CheckpointConfiguration": (
        _cluster_scoped, _checkpoint_fields, _checkpoint_size, _machine_names,
    ),
    "ClusterQueue": (
        _cluster_scoped, _kueue_version, _preemption, _covered_resources, _namespace_selector,
    ),
    "Cohort": (_cluster_scoped, _kueue_version),
    "ResourceFlavor": (_cluster_scoped,),
    "PriorityClass": (_cluster_scoped,),
    "WorkloadPriorityClass": (_cluster_scoped,),
    "Topology": (_cluster_scoped,),
    "LocalQueue": (_in_default,),
    "JobSet": (
        _in_default, _queue_annotation, _template_labels, _time_to_live, _rule_names,
        _pods,
    ),
}  # fmt: skip
