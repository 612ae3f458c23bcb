"""Who can preempt whom between the queues of a cohort."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from generator.checks.references.fit import totals
from generator.checks.references.priorities import values_of
from generator.checks.references.world import (
    Pair,
    World,
    amount,
    cohort_name,
    flavor_quotas,
)
from generator.checks.subject import Subject
from generator.findings import Finding, Severity


def priorities_reach_across_queues(world: World) -> Iterator[Pair]:
    """Between the queues of a cohort a priority reaches only what the other queue has borrowed.

    Kueue looks for victims in other queues only among those above their nominal quota: candidates
    of ``pkg/scheduler/preemption`` leave out a ClusterQueue that is not borrowing, whatever
    ``reclaimWithinCohort`` and ``borrowWithinCohort`` say.
    """
    highest: dict[str, int] = {}
    wants: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    safe: dict[tuple[str, str, str], list[tuple[int, str, Decimal]]] = defaultdict(list)
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        value = next((v for v in values_of(world, workload, sets) if v is not None), None)
        if queue is None or value is None or not cohort_name(queue):
            continue
        highest[queue.name] = max(value, highest.get(queue.name, value))
        root = world.root_cohort(queue)
        needs = totals(sets)
        for resource, wanted in needs.items():
            wants[queue.name, resource] += wanted
        for flavor, resource, nominal in _nominal(queue):
            if 0 < needs.get(resource, 0) <= nominal:
                safe[root, flavor, resource].append((value, queue.name, nominal))
    for entries in safe.values():
        entries.sort()
    for name, value in highest.items():
        queue = world.find("ClusterQueue", name)
        if queue is not None:
            short = {
                resource
                for resource, own in _by_resource(queue).items()
                if wants[name, resource] > own
            }
            yield from _out_of_reach(queue, value, short, world.root_cohort(queue), safe)


def _out_of_reach(
    queue: Subject,
    value: int,
    short: set[str],
    root: str,
    safe: dict[tuple[str, str, str], list[tuple[int, str, Decimal]]],
) -> Iterator[Pair]:
    """One note on a queue whose jobs come before jobs that another queue's quota protects."""
    for flavor, resource, _ in _nominal(queue):
        if resource not in short:
            continue  # its own nominal quota holds all its jobs: it needs nobody else's
        entries = safe.get((root, flavor, resource), [])
        lower = next((entry for entry in entries if entry[1] != queue.name), None)
        if lower is None or lower[0] >= value:
            continue
        other_value, other, nominal = lower
        reclaim = (queue.spec.get("preemption") or {}).get("reclaimWithinCohort", "Never")
        takes = (
            "preempts nothing of other queues (reclaimWithinCohort is Never)"
            if reclaim == "Never"
            else f"takes back only what {other} borrows"
        )
        yield (
            queue,
            Finding(
                "REF030",
                Severity.NOTE,
                f"a job of priority {value} here comes before one of {other_value} in ClusterQueue "
                f"{other}, but {takes}: within its nominal {nominal:f} {resource} of {flavor} the "
                "lower one runs on",
                "put both into one ClusterQueue with withinClusterQueue: LowerPriority, or lower "
                f"the nominal quota of {other} so that it has to borrow",
                path=("spec", "preemption"),
            ),
        )
        return


def _nominal(queue: Subject) -> Iterator[tuple[str, str, Decimal]]:
    """Every ``(flavor, resource, nominal quota)`` of a queue, accelerators first."""
    rows = [
        (flavor, resource, amount(quota.get("nominalQuota")) or Decimal())
        for _, flavor, resource, quota in flavor_quotas(queue)
    ]
    return iter(sorted(rows, key=lambda row: "/" not in row[1]))


def _by_resource(queue: Subject) -> dict[str, Decimal]:
    """The nominal quota of a queue by resource, over its flavors."""
    total: dict[str, Decimal] = defaultdict(Decimal)
    for _, resource, nominal in _nominal(queue):
        total[resource] += nominal
    return total


def fair_sharing_comes_first(world: World) -> Iterator[Pair]:
    """Where Kueue's configuration turns fair sharing on, borrowWithinCohort does nothing.

    Shares decide between queues, and priorities only within one (kueue#10131).
    """
    # A Configuration has no name, so it is in no index.
    if not any(_is_fair(s.body) for s in world.subjects if s.kind == "Configuration"):
        return
    for queue in world.all("ClusterQueue"):
        rules = queue.spec.get("preemption") or {}
        policy = (rules.get("borrowWithinCohort") or {}).get("policy", "Never")
        if policy != "Never":
            yield (
                queue,
                Finding(
                    "REF032",
                    Severity.WARNING,
                    f"borrowWithinCohort {policy} has no effect: Kueue's Configuration turns fair "
                    "sharing on, and shares decide between queues before priorities",
                    "remove borrowWithinCohort, or turn fair sharing off",
                    path=("spec", "preemption", "borrowWithinCohort"),
                ),
            )


def _is_fair(configuration: Mapping[str, Any]) -> bool:
    sharing = configuration.get("fairSharing")
    return isinstance(sharing, dict) and sharing.get("enable", True) is True
