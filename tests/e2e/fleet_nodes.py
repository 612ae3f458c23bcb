"""Node pools that suit a set of manifests: one pool for each slice of each JobSet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .controlplane.client import Manifest
from .controlplane.kwok import NodePool

_ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")


def pools_for(manifests: Iterable[Manifest], slices_per_pool: int = 1) -> list[NodePool]:
    """A pool of as many nodes as a slice has pods, for every slice.

    Args:
        manifests: a compiled cluster; everything but JobSets is ignored.
        slices_per_pool: how many slices' worth of nodes to put in each pool.
    """
    pools = []
    for jobset in manifests:
        if jobset["kind"] != "JobSet":
            continue
        for job in jobset["spec"]["replicatedJobs"]:
            for index in range(job.get("replicas", 1)):
                name = f"{jobset['metadata']['name']}-{job['name']}-{index}"
                pools.append(_pool(name, job["template"]["spec"], slices_per_pool))
    return pools


def _pool(name: str, job: Manifest, slices: int) -> NodePool:
    spec = job["template"]["spec"]
    accelerator, devices = next(_requested(spec["containers"]), ("", 0))
    return NodePool(
        name,
        job.get("parallelism", 1) * slices,
        accelerator,
        devices,
        spec.get("nodeSelector", {}),
        cpu="500",
        memory="4Ti",
    )


def _requested(containers: Iterable[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    for container in containers:
        resources = container.get("resources", {})
        wanted = {**resources.get("limits", {}), **resources.get("requests", {})}
        for name in _ACCELERATORS:
            if name in wanted:
                yield name, int(wanted[name])
