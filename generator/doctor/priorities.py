"""Priority classes that jobs name and the cluster does not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import full_name, is_true, labels_of, name_of, some
from generator.doctor.workloads import PRIORITY_LABEL
from generator.findings import Finding, Severity

_E = Severity.ERROR


def missing_classes(look: Look) -> Iterator[Finding]:
    """PriorityClasses and WorkloadPriorityClasses that a live or compiled JobSet names."""
    pods: dict[str, set[str]] = defaultdict(set)
    queues: dict[str, set[str]] = defaultdict(set)
    for jobset in _jobsets(look):
        for name in _pod_classes(jobset):
            pods[name].add(full_name(jobset))
        label = labels_of(jobset).get(PRIORITY_LABEL)
        if label:
            queues[label].add(full_name(jobset))
    there = {name_of(item) for item in look.snapshot.items("priorityclasses")}
    for name in sorted(set(pods) - there):
        yield look.finding(
            "DOC040",
            _E,
            f"PriorityClass {name}",
            f"it does not exist, and the pods of {some(pods[name])} name it: the API server "
            "refuses to create them",
            "apply the PriorityClass of the compiled cluster",
        )
    if not look.snapshot.has("workloadpriorityclasses"):
        return
    there = {name_of(item) for item in look.snapshot.items("workloadpriorityclasses")}
    for name in sorted(set(queues) - there):
        yield look.finding(
            "DOC040",
            _E,
            f"WorkloadPriorityClass {name}",
            f"it does not exist, and {some(queues[name])} name it: Kueue makes no Workload of them",
            "apply the WorkloadPriorityClass of the compiled cluster",
        )


def _jobsets(look: Look) -> Iterator[Mapping[str, Any]]:
    for item in look.snapshot.items("jobsets"):
        if not is_true(item, "Completed") and not is_true(item, "Failed"):
            yield item
    if look.wanted:
        yield from (subject.body for subject in look.wanted.of_kind("JobSet"))


def _pod_classes(jobset: Mapping[str, Any]) -> Iterator[str]:
    for job in dig(dict(jobset), "spec", "replicatedJobs") or []:
        name = dig(job, "template", "spec", "template", "spec", "priorityClassName")
        if name:
            yield str(name)
