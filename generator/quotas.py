"""Quotas of cluster queues: given, or derived from the node pools."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from generator.fleet import Fleet, Pool
from schemas.inventory.queueing import ClusterQueue, FlavorQuotas
from schemas.quantity import GIB, canonical, format_quantity, parse_quantity

CPU_RESOURCES = ("cpu", "memory")


@dataclass(frozen=True)
class Quota:
    """A queue's quota of one resource of one flavor, as the manifest states it."""

    resource: str
    nominal: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None


def flavor_pool(fleet: Fleet, flavor: str) -> Pool | None:
    """The node pool behind a flavor, None where its labels are given by hand."""
    spec = fleet.spec.queueing.flavors.get(flavor)
    return fleet.pools.get(spec.node_pool) if spec and spec.node_pool else None


def covered_resources(fleet: Fleet, queue: ClusterQueue) -> list[str]:
    """The resources that a queue covers: given, or accelerators, cpu and memory.

    Accelerator, cpu and memory stand in one resource group: in two, the flavors' node labels would
    merge into a selector that no node has (cluster-toolkit#5841).
    """
    if queue.resources is not None:
        return list(queue.resources)
    accelerators: list[str] = []
    for name in queue.flavors:
        pool = flavor_pool(fleet, name)
        if pool and pool.accelerator and pool.accelerator.resource not in accelerators:
            accelerators.append(pool.accelerator.resource)
    given = [
        resource
        for quotas in queue.flavors.values()
        for resource in quotas.resources
        if resource not in accelerators and resource not in CPU_RESOURCES
    ]
    return [*accelerators, *dict.fromkeys(given), *CPU_RESOURCES]


def quota(fleet: Fleet, flavor: str, quotas: FlavorQuotas, resource: str) -> Quota | None:
    """One quota, None where it is neither given nor derivable."""
    given = quotas.resources.get(resource)
    if given is not None:
        return Quota(
            resource,
            given.nominal,
            given.borrowing_limit and canonical(given.borrowing_limit),
            given.lending_limit and canonical(given.lending_limit),
        )
    pool = flavor_pool(fleet, flavor)
    if pool is None:
        return None
    units = fleet.units(pool)
    if quotas.share is not None:
        units = int((units * quotas.share).to_integral_value(rounding=ROUND_FLOOR))
    nominal = fleet.capacity(pool, resource, units)
    return Quota(
        resource,
        _shown(nominal, resource),
        _part(nominal, quotas.borrowing_limit, resource),
        _part(nominal, quotas.lending_limit, resource),
    )


def _part(nominal: Decimal, share: Decimal | None, resource: str) -> str | None:
    if share is None:
        return None
    unit = GIB if resource == "memory" else Decimal(1)
    units = (nominal * share / unit).to_integral_value(rounding=ROUND_FLOOR)
    return _shown(units * unit, resource)


def _shown(value: Decimal, resource: str) -> str:
    return format_quantity(value, binary=resource == "memory")


def pool_totals(fleet: Fleet) -> dict[tuple[str, str], list[tuple[str, str, Decimal]]]:
    """(pool, resource) → every (queue, flavor, nominal quota) that draws on it."""
    totals: dict[tuple[str, str], list[tuple[str, str, Decimal]]] = {}
    for queue_name, queue in fleet.spec.queueing.cluster_queues.items():
        for flavor, quotas in queue.flavors.items():
            pool = flavor_pool(fleet, flavor)
            if pool is None:
                continue
            for resource in covered_resources(fleet, queue):
                own = quota(fleet, flavor, quotas, resource)
                if own is not None:
                    entry = (queue_name, flavor, parse_quantity(own.nominal))
                    totals.setdefault((pool.name, resource), []).append(entry)
    return totals
