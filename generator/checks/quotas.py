"""Checks of the queueing and priorities sections."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.consistency import Check, shown_quantity, unknown
from generator.fleet import Fleet
from generator.problems import Problem
from generator.quotas import covered_resources, flavor_pool, pool_totals, quota
from generator.spelling import nearest
from schemas.inventory.queueing import ClusterQueue, FlavorQuotas
from schemas.quantity import parse_quantity

CORE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def _priorities(fleet: Fleet) -> Iterator[Problem]:
    default: str | None = None
    for name, priority in fleet.spec.priorities.items():
        path = ("priorities", name)
        if name.startswith("system-"):
            yield Problem(
                "INV040",
                path,
                f"{name!r} begins with system-, which Kubernetes keeps for itself",
                "choose another name",
                key=True,
            )
        if priority.global_default:
            if default is not None:
                yield Problem(
                    "INV041",
                    (*path, "globalDefault"),
                    f"{default!r} is the global default already; there can be one",
                    "write globalDefault: false",
                )
            default = default or name


def _pools_differ(fleet: Fleet) -> Iterator[Problem]:
    seen: dict[tuple[tuple[str, str], ...], str] = {}
    for name, pool in fleet.pools.items():
        other = seen.setdefault(tuple(pool.selector.items()), name)
        if other != name:
            yield Problem(
                "INV042",
                ("nodePools", name),
                f"workloads could not tell {name!r} from {other!r}: both are selected by "
                + ", ".join(f"{k}={v}" for k, v in pool.selector.items()),
                "give one a label and name it in selectBy",
                key=True,
            )


def _flavors(fleet: Fleet) -> Iterator[Problem]:
    queueing = fleet.spec.queueing
    for name, flavor in queueing.flavors.items():
        path = ("queueing", "flavors", name)
        if flavor.node_pool and flavor.node_pool not in fleet.spec.node_pools:
            yield unknown((*path, "nodePool"), "node pool", flavor.node_pool, fleet.spec.node_pools)
        if flavor.topology and flavor.topology not in queueing.topologies:
            yield unknown((*path, "topology"), "topology", flavor.topology, queueing.topologies)


def _cohorts(fleet: Fleet) -> Iterator[Problem]:
    cohorts = fleet.spec.queueing.cohorts
    for name in cohorts:
        trail = [name]
        parent = cohorts[name].parent
        while parent is not None and parent in cohorts and parent not in trail:
            trail.append(parent)
            parent = cohorts[parent].parent
        if parent == name:
            yield Problem(
                "INV043",
                ("queueing", "cohorts", name, "parent"),
                f"cohorts are each other's parents: {' → '.join([*trail, name])}",
                "Kueue would stop every queue in them; remove one parent",
            )


def _cluster_queues(fleet: Fleet) -> Iterator[Problem]:
    queueing = fleet.spec.queueing
    for name, queue in queueing.cluster_queues.items():
        path = ("queueing", "clusterQueues", name)
        for check in queue.admission_checks:
            if check not in queueing.admission_checks:
                index = queue.admission_checks.index(check)
                yield unknown(
                    (*path, "admissionChecks", index),
                    "admission check",
                    check,
                    queueing.admission_checks,
                )
        borrowing = queue.preemption.borrow_within_cohort
        if borrowing.policy != "Never" and queue.preemption.reclaim_within_cohort == "Never":
            yield Problem(
                "INV044",
                (*path, "preemption", "borrowWithinCohort"),
                f"borrowWithinCohort {borrowing.policy} while reclaimWithinCohort is Never; Kueue "
                "refuses this",
                "write reclaimWithinCohort: Any or LowerPriority",
            )
        for flavor, quotas in queue.flavors.items():
            if flavor not in queueing.flavors:
                yield unknown(
                    (*path, "flavors", flavor), "flavor", flavor, queueing.flavors, key=True
                )
                continue
            yield from _quotas(fleet, name, queue, flavor, quotas)


def _quotas(
    fleet: Fleet, name: str, queue: ClusterQueue, flavor: str, quotas: FlavorQuotas
) -> Iterator[Problem]:
    path = ("queueing", "clusterQueues", name, "flavors", flavor)
    pool = flavor_pool(fleet, flavor)
    covered = covered_resources(fleet, queue)
    limits = [("borrowingLimit", quotas.borrowing_limit), ("lendingLimit", quotas.lending_limit)]
    for key, limit in limits:
        if limit is not None and queue.cohort is None:
            yield _limit_without_cohort((*path, key), key)
    for resource, given in quotas.resources.items():
        inside = (*path, "resources", resource)
        known = [*CORE_RESOURCES]
        if pool is not None and pool.accelerator is not None:
            known.append(pool.accelerator.resource)
        if pool is not None and resource not in known:
            near = nearest(resource, known)
            yield Problem(
                "INV045",
                inside,
                f"node pool {pool.name!r} has no resource {resource!r}",
                f"did you mean {near}?" if near else f"it has {', '.join(known)}",
                key=True,
            )
        nominal = parse_quantity(given.nominal)
        if "/" in resource and nominal != nominal.to_integral_value():
            yield Problem(
                "INV046",
                inside,
                f"{given.nominal} of {resource} is no whole number",
                "accelerators come whole",
            )
        for key, own_limit in (
            ("borrowingLimit", given.borrowing_limit),
            ("lendingLimit", given.lending_limit),
        ):
            if own_limit is not None and queue.cohort is None:
                yield _limit_without_cohort((*inside, key), key)
        if given.lending_limit is not None and parse_quantity(given.lending_limit) > nominal:
            yield Problem(
                "INV047",
                (*inside, "lendingLimit"),
                f"{given.lending_limit} is more than the queue's own {given.nominal}",
                f"write at most {given.nominal}",
            )
    named = fleet.spec.queueing.flavors[flavor].node_pool
    if named is not None and pool is None:
        return  # the pool itself is at fault, which is said at the pool
    for resource in covered:
        if quota(fleet, flavor, quotas, resource) is None:
            yield Problem(
                "INV048",
                path,
                f"the quota of {resource} is neither given nor derivable: flavor {flavor!r} has no "
                "node pool",
                f"write resources: {{{resource}: …}}, or give the flavor a nodePool",
                key=True,
            )


def _limit_without_cohort(path: tuple[str | int, ...], key: str) -> Problem:
    return Problem(
        "INV049",
        path,
        f"{key} without a cohort; there is nobody to share with",
        "write cohort:, or remove the limit",
        key=True,
    )


def _capacity(fleet: Fleet) -> Iterator[Problem]:
    for (pool_name, resource), entries in pool_totals(fleet).items():
        pool = fleet.pools[pool_name]
        capacity = fleet.capacity(pool, resource)
        total = sum((nominal for _, _, nominal in entries), start=parse_quantity("0"))
        if total <= capacity or (resource not in ("cpu", "memory") and capacity == 0):
            continue
        queue, flavor, _ = entries[-1]
        parts = " + ".join(f"{shown_quantity(n, resource)} ({q})" for q, _, n in entries)
        path: tuple[str | int, ...] = ("queueing", "clusterQueues", queue, "flavors", flavor)
        quotas = fleet.spec.queueing.cluster_queues[queue].flavors[flavor]
        if resource in quotas.resources:
            path = (*path, "resources", resource)
        elif quotas.share is not None:
            path = (*path, "share")
        sum_text = parts if len(entries) == 1 else f"{parts} = {shown_quantity(total, resource)}"
        yield Problem(
            "INV050",
            path,
            f"quota of {resource} {sum_text}, but node pool {pool_name!r} has "
            f"{shown_quantity(capacity, resource)}",
            f"quotas of one pool together are at most {shown_quantity(capacity, resource)}; "
            "beyond it, jobs are admitted that no node can run",
        )


def _local_queues(fleet: Fleet) -> Iterator[Problem]:
    queueing = fleet.spec.queueing
    for name, queue in queueing.local_queues.items():
        path = ("queueing", "localQueues", name)
        if queue.cluster_queue not in queueing.cluster_queues:
            yield unknown(
                (*path, "clusterQueue"),
                "cluster queue",
                queue.cluster_queue,
                queueing.cluster_queues,
            )


QUEUE_CHECKS: tuple[Check, ...] = (
    _priorities, _pools_differ, _flavors, _cohorts, _cluster_queues, _capacity, _local_queues,
)  # fmt: skip
