"""Look into live objects: conditions, labels, pods on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from generator.diff.conditions import dig

Object = Mapping[str, Any]

POOL_LABEL = "cloud.google.com/gke-nodepool"
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")
TPU_LABEL, TPU_TOPOLOGY_LABEL = (
    "cloud.google.com/gke-tpu-accelerator",
    "cloud.google.com/gke-tpu-topology",
)
GPU_LABEL = "cloud.google.com/gke-accelerator"


def name_of(item: Object) -> str:
    """``metadata.name``."""
    return str(dig(item, "metadata", "name") or "")


def namespace_of(item: Object) -> str:
    """``metadata.namespace``, empty for a cluster-scoped object."""
    return str(dig(item, "metadata", "namespace") or "")


def full_name(item: Object) -> str:
    """``namespace/name``, or the name of a cluster-scoped object."""
    namespace = namespace_of(item)
    return f"{namespace}/{name_of(item)}" if namespace else name_of(item)


def labels_of(item: Object) -> Mapping[str, str]:
    """``metadata.labels``."""
    return dig(item, "metadata", "labels") or {}


def annotations_of(item: Object) -> Mapping[str, str]:
    """``metadata.annotations``."""
    return dig(item, "metadata", "annotations") or {}


def condition(item: Object, kind: str) -> Object:
    """The condition of a type, empty where there is none."""
    for found in dig(item, "status", "conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return {}


def is_true(item: Object, kind: str) -> bool:
    """Whether a condition says True."""
    return condition(item, kind).get("status") == "True"


def is_going(item: Object) -> bool:
    """Whether the object is being deleted."""
    return bool(dig(item, "metadata", "deletionTimestamp"))


def is_usable(node: Object) -> bool:
    """Whether a node is Ready and open to new pods."""
    return is_true(node, "Ready") and not dig(node, "spec", "unschedulable") and not is_going(node)


def accelerator_of(node: Object) -> str:
    """The accelerator resource of a node, empty for a node without one."""
    allocatable = dig(node, "status", "allocatable") or {}
    for resource in ACCELERATORS:
        if str(allocatable.get(resource, "0")) != "0":
            return resource
    labels = labels_of(node)
    if TPU_LABEL in labels:
        return ACCELERATORS[0]
    return ACCELERATORS[1] if GPU_LABEL in labels else ""


def is_multi_host(node: Object) -> bool:
    """Whether a TPU node is one of several hosts of its slice: 4x4 is more than its own chips."""
    sides = str(labels_of(node).get(TPU_TOPOLOGY_LABEL, "")).split("x")
    chips = str(dig(dict(node), "status", "allocatable", ACCELERATORS[0]) or "0")
    if not chips.isdigit() or not all(side.isdigit() for side in sides):
        return False
    return prod(int(side) for side in sides) > int(chips)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, Any]) -> bool:
    """Whether a node selector matches labels; an empty one matches everything."""
    return all(labels.get(key) == value for key, value in (selector or {}).items())


def untolerated(taints: Iterable[Object], tolerations: Iterable[Object]) -> Object | None:
    """The first taint that keeps a pod away, None if there is none."""
    wanted = list(tolerations)
    for taint in taints:
        if taint.get("effect") == "PreferNoSchedule":
            continue
        if not any(_tolerates(toleration, taint) for toleration in wanted):
            return taint
    return None


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator", "Equal") == "Exists":
        return key in ("", taint.get("key"))
    return bool(key == taint.get("key") and (toleration.get("value") or "") == taint.get("value"))


def taint_text(taint: Object) -> str:
    """A taint as kubectl writes it: ``key=value:effect``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def some(names: Iterable[str], most: int = 4) -> str:
    """A list for people, cut where it gets long: ``a, b, c, d and 12 more``."""
    listed = sorted(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")


def count(number: int, word: str) -> str:
    """``1 pod``, ``3 pods``."""
    return f"{number} {word}{'' if number == 1 else 's'}"
