"""Priorities mean the same to Kueue and to the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from generator.checks.references.world import PRIORITY_CLASS, Pair, PodSet, World, cohort_name
from generator.checks.subject import Subject
from generator.findings import Finding, Severity


def one_global_default(world: World) -> Iterator[Pair]:
    """At most one PriorityClass is the global default; of several, the lowest value wins."""
    defaults = [c for c in world.all("PriorityClass") if c.body.get("globalDefault") is True]
    for extra in defaults[1:]:
        yield (
            extra,
            Finding(
                "REF015",
                Severity.ERROR,
                f"globalDefault is already true in PriorityClass {defaults[0].name}: the API "
                "server refuses a second",
                "keep it on one class, best on none",
                path=("globalDefault",),
            ),
        )


def values_of(world: World, workload: Subject, sets: list[PodSet]) -> tuple[int | None, int | None]:
    """A workload's value to Kueue (its WorkloadPriorityClass) and to the scheduler."""
    wpc = world.find("WorkloadPriorityClass", str(workload.labels.get(PRIORITY_CLASS)))
    queue_value = wpc.body.get("value") if wpc else None
    pod_value = None
    for pods in sets:
        found = world.find("PriorityClass", str(pods.spec.get("priorityClassName")))
        if found:
            pod_value = found.body.get("value")
            break
    return (
        queue_value if isinstance(queue_value, int) else None,
        pod_value if isinstance(pod_value, int) else None,
    )


def classes_agree(world: World) -> Iterator[Pair]:
    """A workload that comes first in the queue is not the first to be evicted."""
    ranked = []
    for workload, sets in world.workloads:
        queue_value, pod_value = values_of(world, workload, sets)
        if queue_value is not None and pod_value is not None:
            ranked.append((queue_value, pod_value, workload))
    ranked.sort(key=lambda entry: entry[0])
    highest: tuple[int, Subject] | None = None
    for _, same in groupby(ranked, key=lambda entry: entry[0]):
        level = list(same)
        for _, pod_value, workload in level:
            if highest is not None and pod_value < highest[0]:
                yield (
                    workload,
                    Finding(
                        "REF016",
                        Severity.WARNING,
                        f"Kueue puts it before {highest[1].resource}, but the scheduler evicts its "
                        f"pods for {highest[1].resource}: WorkloadPriorityClass and PriorityClass "
                        "disagree",
                        "give both classes the same order",
                        path=("metadata", "labels", PRIORITY_CLASS),
                    ),
                )
        top = max(level, key=lambda entry: entry[1])
        if highest is None or top[1] > highest[0]:
            highest = (top[1], top[2])


def preemption_can_happen(world: World) -> Iterator[Pair]:
    """Different priorities in one queue mean something only if the queue preempts."""
    waiting: dict[str, set[int]] = {}
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        if queue is None:
            continue
        queue_value, pod_value = values_of(world, workload, sets)
        value = queue_value if queue_value is not None else pod_value
        if value is not None:
            waiting.setdefault(queue.name, set()).add(value)
    for name, values in waiting.items():
        queue = world.find("ClusterQueue", name)
        if queue is None or len(values) < 2:
            continue
        rules = queue.spec.get("preemption") or {}
        if rules.get("withinClusterQueue", "Never") == "Never":
            reclaim = rules.get("reclaimWithinCohort", "Never")
            tail = "" if reclaim == "Never" or not cohort_name(queue) else " inside the queue"
            yield (
                queue,
                Finding(
                    "REF017",
                    Severity.NOTE,
                    f"jobs of {len(values)} priorities share this queue, but nothing is preempted"
                    f"{tail}: a higher one waits until a lower one ends",
                    "write preemption.withinClusterQueue: LowerPriority if it should replace it",
                    path=("spec", "preemption"),
                ),
            )
