"""What workloads ask for against what queues and node pools have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import combinations
from typing import Any

from generator.checks.references.nodes import pools_for
from generator.checks.references.priorities import values_of
from generator.checks.references.world import (
    Pair,
    PodSet,
    World,
    amount,
    cohort_name,
    flavor_quotas,
    groups,
)
from generator.checks.structure import Path
from generator.checks.subject import Subject
from generator.findings import Finding, Severity
from schemas.quantity import format_quantity

MEMORY_LIKE = ("memory", "ephemeral-storage")


def shown(value: Decimal, resource: str) -> str:
    """Write an amount as people read it."""
    return format_quantity(value, binary=resource in MEMORY_LIKE)


def totals(sets: list[PodSet], *, least: bool = False) -> dict[str, Decimal]:
    """What a workload asks for in all, by resource, or the least that it starts with."""
    out: dict[str, Decimal] = defaultdict(Decimal)
    for pods in sets:
        for resource, value in pods.requests.items():
            out[resource] += value * (pods.least if least else pods.count)
    return dict(out)


def resources_covered(world: World) -> Iterator[Pair]:
    """Every resource that a workload requests is covered by a resource group of its queue."""
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        if queue is None:
            continue
        covered = {r for _, g in groups(queue) for r in g.get("coveredResources") or []}
        if not covered:
            continue
        for pods in sets:
            missing = sorted(set(pods.requests) - covered)
            for resource in missing:
                yield (
                    workload,
                    Finding(
                        "REF018",
                        Severity.ERROR,
                        f"{pods.name!r} requests {resource}, which no resource group of "
                        f"ClusterQueue {queue.name} covers: it is never admitted "
                        f'("resource {resource} unavailable in ClusterQueue")',
                        f"cover {resource} in the group of its node type, or do not request it",
                        path=(*pods.path, "spec", "containers"),
                    ),
                )
            if not set(pods.requests) & covered:
                yield (
                    workload,
                    Finding(
                        "REF019",
                        Severity.WARNING,
                        f"{pods.name!r} requests nothing that ClusterQueue {queue.name} covers: no "
                        "flavor is assigned and no node labels are added",
                        f"request one of {', '.join(sorted(covered))}",
                        path=(*pods.path, "spec", "containers"),
                    ),
                )


def ceilings(world: World, queue: Subject) -> dict[str, Decimal | None]:
    """The most of each resource that one workload could ever get; None for without bound.

    A flavor's ceiling is its nominal quota, plus what the cohort can lend up to ``borrowingLimit``.
    One resource of a pod set comes from one flavor, but pod sets may differ, so flavors add up.
    """
    out: dict[str, Decimal | None] = {}
    cohort = cohort_name(queue)
    lendable = _lendable(world, queue, cohort) if cohort else {}
    for _, flavor, resource, quota in flavor_quotas(queue):
        nominal = amount(quota.get("nominalQuota")) or Decimal(0)
        limit = amount(quota.get("borrowingLimit"))
        borrow = lendable.get((flavor, resource), Decimal(0)) if cohort else Decimal(0)
        if cohort and not world.complete and borrow is not None:
            borrow = None  # other members may stand in files that were not given
        if limit is not None:
            borrow = limit if borrow is None else min(borrow, limit)
        before = out.get(resource, Decimal(0))
        out[resource] = None if before is None or borrow is None else before + nominal + borrow
    return out


def _lendable(world: World, queue: Subject, cohort: str) -> dict[tuple[str, str], Decimal | None]:
    """What the other members of a cohort can lend, by flavor and resource."""
    out: dict[tuple[str, str], Decimal | None] = defaultdict(Decimal)
    for other in world.all("ClusterQueue"):
        if other is queue or cohort_name(other) != cohort:
            continue
        for _, flavor, resource, quota in flavor_quotas(other):
            nominal = amount(quota.get("nominalQuota")) or Decimal(0)
            lending = amount(quota.get("lendingLimit"))
            lent = nominal if lending is None else min(nominal, lending)
            out[flavor, resource] = (out[flavor, resource] or Decimal(0)) + lent
    own = world.find("Cohort", cohort)
    if own is not None:
        if own.spec.get("parentName"):
            return defaultdict(lambda: None)
        for _, flavor, resource, quota in flavor_quotas(own):
            nominal = amount(quota.get("nominalQuota")) or Decimal(0)
            out[flavor, resource] = (out[flavor, resource] or Decimal(0)) + nominal
    return out


def jobs_fit_quota(world: World) -> Iterator[Pair]:
    """No workload asks for more than its queue could ever give."""
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        if queue is None:
            continue
        limits = ceilings(world, queue)
        for resource, wanted in sorted(totals(sets, least=True).items()):
            most = limits.get(resource, None)
            if most is not None and wanted > most:
                yield (
                    workload,
                    Finding(
                        "REF020",
                        Severity.ERROR,
                        f"asks for {shown(wanted, resource)} {resource}, but ClusterQueue "
                        f"{queue.name} can never give more than {shown(most, resource)}: it waits "
                        "for ever",
                        "raise the quota, allow borrowing, or make the job smaller",
                        path=("spec",),
                    ),
                )


def jobs_admitted_together(world: World) -> Iterator[Pair]:
    """Say so when pod priorities promise a replacement that the quota never lets happen.

    Hotswap needs both jobs admitted: the scheduler can replace pods only of a job that runs. If the
    queue's quota holds only one of the two, Kueue decides alone and the pod priorities never meet.
    """
    members: dict[str, list[tuple[Subject, list[PodSet]]]] = defaultdict(list)
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        if queue is not None:
            members[queue.name].append((workload, sets))
    for name, jobs in members.items():
        queue = world.find("ClusterQueue", name)
        if queue is None:
            continue
        limits = ceilings(world, queue)
        within = (queue.spec.get("preemption") or {}).get("withinClusterQueue", "Never")
        other_way = (
            ", or let Kueue preempt (withinClusterQueue: LowerPriority)"
            if within == "Never"
            else "; as it is, Kueue stops the one before it starts the other"
        )
        for (a, a_sets), (b, b_sets) in combinations(jobs[:50], 2):
            a_value, b_value = values_of(world, a, a_sets)[1], values_of(world, b, b_sets)[1]
            if a_value is None or b_value is None or a_value == b_value:
                continue
            over = _over(totals(a_sets), totals(b_sets), limits)
            if over:
                resource, wanted, most = over
                high, low = (a, b) if a_value > b_value else (b, a)
                yield (
                    high,
                    Finding(
                        "REF021",
                        Severity.NOTE,
                        f"its pods have priority over those of {low.resource}, but the two ask for "
                        f"{shown(wanted, resource)} {resource} and ClusterQueue {name} admits "
                        f"{shown(most, resource)}: they never run together, so the scheduler never "
                        "replaces one by the other",
                        "raise the quota to hold both" + other_way,
                        path=("spec",),
                    ),
                )


def _over(
    first: Mapping[str, Decimal], second: Mapping[str, Decimal], limits: Mapping[str, Any]
) -> tuple[str, Decimal, Decimal] | None:
    for resource in sorted(set(first) & set(second)):
        most = limits.get(resource)
        wanted = first[resource] + second[resource]
        if most is not None and wanted > most >= max(first[resource], second[resource]):
            return resource, wanted, most
    return None


def quota_within_capacity(world: World) -> Iterator[Pair]:
    """The quotas of a flavor add up to no more than its node pools hold."""
    if not world.pools:
        return
    promised: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    last: dict[tuple[str, str], tuple[Subject, Path]] = {}
    for kind in ("ClusterQueue", "Cohort"):
        for queue in world.all(kind):
            for path, flavor, resource, quota in flavor_quotas(queue):
                nominal = amount(quota.get("nominalQuota"))
                if nominal is not None:
                    promised[flavor, resource] += nominal
                    last[flavor, resource] = (queue, (*path, "nominalQuota"))
    for (flavor, resource), total in promised.items():
        found = world.find("ResourceFlavor", flavor)
        capacity = _capacity(world, found, resource) if found else None
        if capacity is not None and total > capacity:
            queue, path = last[flavor, resource]
            yield (
                queue,
                Finding(
                    "REF022",
                    Severity.ERROR,
                    f"the quotas of flavor {flavor} promise {shown(total, resource)} {resource}, "
                    f"but its node pools hold {shown(capacity, resource)}: admitted jobs would "
                    "pend while they hold quota",
                    "lower the quotas or grow the node pool",
                    path=path,
                ),
            )


def _capacity(world: World, flavor: Subject, resource: str) -> Decimal | None:
    pools = pools_for(world, flavor.spec.get("nodeLabels") or {})
    total = Decimal(0)
    for pool in pools:
        nodes = amount(pool.get("nodes"))
        accelerator = pool.get("accelerator") or {}
        if accelerator.get("resource") == resource:
            each = amount(accelerator.get("perNode"))
        elif resource == "memory":
            each = amount(pool.get("allocatableMemory") or pool.get("memory"))
        elif resource == "cpu":
            each = amount(pool.get("cpu"))
        else:
            return None
        if nodes is None or each is None:
            return None
        total += nodes * each
    return total if pools else None


def quota_in_whole_nodes(world: World) -> Iterator[Pair]:
    """An accelerator's nominal quota is whole nodes, and whole slices where nobody borrows.

    A pod has all chips of its node and a job all nodes of its slices: what is left over of either
    is never used. The queues of a cohort lend each other what is left, so their sum counts.
    """
    together: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    odd: list[tuple[Subject, Path, str, str, Decimal]] = []
    for kind in ("ClusterQueue", "Cohort"):
        for queue in world.all(kind):
            for path, flavor, resource, quota in flavor_quotas(queue):
                nominal = amount(quota.get("nominalQuota")) or Decimal()
                together[world.root_cohort(queue), flavor, resource] += nominal
                odd.append((queue, (*path, "nominalQuota"), flavor, resource, nominal))
    for queue, path, name, resource, nominal in odd:
        found = world.find("ResourceFlavor", name)
        sizes = _chips(world, found, resource) if found else None
        if sizes is None:
            continue
        root = world.root_cohort(queue)
        total = together[root, name, resource] if root else nominal
        for unit, size, severity in (
            ("node", sizes[0], Severity.WARNING),
            ("slice", sizes[1], Severity.NOTE),
        ):
            if nominal % size and total % size:
                kept = nominal - nominal % size
                yield (
                    queue,
                    Finding(
                        "REF031",
                        severity,
                        f"nominalQuota {shown(nominal, resource)} of {resource} is no multiple of "
                        f"the {size:f} of a {unit} of {name}: {total % size:f} are never used",
                        f"write {kept:f} or {kept + size:f}",
                        path=path,
                    ),
                )
                break


def _chips(world: World, flavor: Subject, resource: str) -> tuple[Decimal, Decimal] | None:
    """Chips of a node and of a slice of a flavor, where all its node pools agree on them."""
    found = set()
    for pool in pools_for(world, flavor.spec.get("nodeLabels") or {}):
        accelerator = pool.get("accelerator")
        if not isinstance(accelerator, dict) or accelerator.get("resource") != resource:
            return None
        each, nodes = amount(accelerator.get("perNode")), amount(pool.get("nodesPerSlice") or 1)
        if not each or not nodes:
            return None
        found.add((each, each * nodes))
    return found.pop() if len(found) == 1 else None
