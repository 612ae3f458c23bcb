"""Namespaces: those that something of the cluster lives in."""

from __future__ import annotations

from collections.abc import Iterator

from generator.build.metadata import metadata
from generator.fleet import Fleet
from generator.manifest import Manifest
from schemas.manifests.core import Namespace

BUILT_IN = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def used(fleet: Fleet) -> list[str]:
    """Every namespace that the cluster's objects live in, sorted."""
    spec = fleet.spec
    names = set(spec.queueing.namespaces)
    names.update(w.namespace for w in spec.workloads.values())
    for queue in spec.queueing.local_queues.values():
        names.update(queue.namespaces)
    for disk in fleet.ram_disks.values():
        if disk.spec.retention.tool != "none":
            names.add(disk.spec.retention.namespace)
        if disk.spec.agent is not None:
            names.add(disk.spec.agent.namespace)
    return sorted(names)


def build(fleet: Fleet) -> Iterator[Manifest]:
    """One Namespace for each, except those that every cluster has."""
    given = fleet.spec.queueing.namespaces
    for name in used(fleet):
        if name in BUILT_IN:
            continue
        own = given.get(name)
        body = Namespace(
            metadata=metadata(
                "Namespace",
                name,
                labels=own.labels if own else None,
                annotations=own.annotations if own else None,
            )
        )
        yield Manifest("queueing", body.to_dict(), ("queueing", "namespaces"))
