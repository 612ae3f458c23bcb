"""PriorityClass and WorkloadPriorityClass from one list."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from generator.build.metadata import metadata
from generator.fleet import Fleet
from generator.manifest import Manifest
from schemas.inventory.priorities import PriorityClass as Rung
from schemas.manifests.scheduling import PriorityClass, WorkloadPriorityClass


def build(fleet: Fleet) -> Iterator[Manifest]:
    """For each rung, the pods' class (Hotswap) and the queue's class (Kueue) of one name."""
    for name, rung in fleet.spec.priorities.items():
        yield from _classes(name, rung, fleet.kueue_api)


@lru_cache(maxsize=1024)
def _classes(name: str, rung: Rung, kueue_api: str) -> tuple[Manifest, Manifest]:
    """Both classes of a rung; most clusters of a fleet climb the same ladder."""
    pods = PriorityClass(
        metadata=metadata("PriorityClass", name),
        value=rung.value,
        global_default=rung.global_default or None,
        preemption_policy=rung.preemption_policy,
        description=rung.description or None,
    )
    queue = WorkloadPriorityClass(
        api_version=kueue_api,
        metadata=metadata("WorkloadPriorityClass", name),
        value=rung.value if rung.workload_value is None else rung.workload_value,
        description=rung.description or None,
    )
    section = ("priorities", name)
    return (
        Manifest("queueing", pods.to_dict(), section),
        Manifest("queueing", queue.to_dict(), section),
    )
