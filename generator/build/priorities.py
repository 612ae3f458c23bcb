"""PriorityClass and WorkloadPriorityClass from one list."""

from __future__ import annotations

from collections.abc import Iterator

from generator.build.metadata import metadata
from generator.fleet import Fleet
from generator.manifest import Manifest
from schemas.manifests.scheduling import PriorityClass, WorkloadPriorityClass


def build(fleet: Fleet) -> Iterator[Manifest]:
    """For each rung, the pods' class (Hotswap) and the queue's class (Kueue) of one name."""
    for name, rung in fleet.spec.priorities.items():
        pods = PriorityClass(
            metadata=metadata("PriorityClass", name),
            value=rung.value,
            global_default=rung.global_default or None,
            preemption_policy=rung.preemption_policy,
            description=rung.description or None,
        )
        yield Manifest("queueing", pods.to_dict(), ("priorities", name))
        queue = WorkloadPriorityClass(
            api_version=fleet.kueue_api,
            metadata=metadata("WorkloadPriorityClass", name),
            value=rung.value if rung.workload_value is None else rung.workload_value,
            description=rung.description or None,
        )
        yield Manifest("queueing", queue.to_dict(), ("priorities", name))
