"""Which jobs a new run may push off their nodes although the quota holds both.

Argo CD and Kueue do not wait for the old run's pods: the old JobSet is asked to go, its quota is
free at once, and the new run's pods are created while the old ones still end. Until those are gone
the scheduler makes room by priority, at the cost of whoever is lower. Sources:
``tests/e2e/test_gitops.py``, where it happens, and kubernetes.io/docs/concepts/scheduling-eviction/
pod-priority-preemption.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from generator.diff.cluster_facts import Side
from generator.diff.conditions import dig, entries, mapping
from generator.diff.resources import Loaded

NEEDS = ("JobSet", "PriorityClass")
_ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")


class _Class(NamedTuple):
    """A PriorityClass: its value, and whether its pods evict others."""

    value: int
    evicts: bool


_NONE = _Class(0, True)


def endangered(old: Loaded, new: Loaded, base: Side, head: Side) -> list[str]:
    """Names of the jobs, in both trees, that the new run's pods may evict; sorted.

    Args:
        old: the run that goes.
        new: the run that takes its place.
        base: the tree before.
        head: the tree after.
    """
    cluster = new.resource.cluster
    classes = _classes(head, cluster)
    own = list(_pods(new.body))
    evicting = [(pod, c) for pod in own if (c := _class_of(pod, classes)).evicts]
    runs = {item.resource for item in base.objects(cluster, ("JobSet",))} - {old.resource}
    return sorted(
        job.resource.full_name
        for job in head.objects(cluster, ("JobSet",))
        if job.resource in runs
        and any(
            _class_of(other, classes).value < mine.value and _may_share(pod, other)
            for pod, mine in evicting
            for other in _pods(job.body)
        )
    )


def _classes(side: Side, cluster: str) -> dict[str, _Class]:
    found = {"": _NONE}
    for item in side.objects(cluster, ("PriorityClass",)):
        value = dig(item.body, "value")
        entry = _Class(
            value if isinstance(value, int) else 0, dig(item.body, "preemptionPolicy") != "Never"
        )
        found[item.resource.name] = entry
        if dig(item.body, "globalDefault") is True:
            found[""] = entry
    return found


def _class_of(pod: Any, classes: dict[str, _Class]) -> _Class:
    return classes.get(str(dig(pod, "priorityClassName") or ""), _NONE)


def _pods(body: Any) -> Iterator[Any]:
    """The pod specs of a JobSet."""
    for job in entries(body, "spec", "replicatedJobs"):
        yield dig(job, "template", "spec", "template", "spec")


def _may_share(pod: Any, other: Any) -> bool:
    """Whether both could want one node: the same accelerator, no label on which they differ."""
    labels, others = mapping(pod, "nodeSelector"), mapping(other, "nodeSelector")
    return _accelerator(pod) == _accelerator(other) and all(
        others.get(key, value) == value for key, value in labels.items()
    )


def _accelerator(pod: Any) -> str:
    for container in entries(pod, "containers"):
        wanted = {
            **mapping(container, "resources", "requests"),
            **mapping(container, "resources", "limits"),
        }
        for name in _ACCELERATORS:
            if name in wanted:
                return name
    return ""
