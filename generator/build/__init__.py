"""From a resolved fleet to manifests: one module a concern, one order for all."""

from __future__ import annotations

from generator.build import (
    checkpointing,
    jobsets,
    namespaces,
    priorities,
    queues,
    replicator,
    retention,
)
from generator.fleet import Fleet
from generator.manifest import Manifest

BUILDERS = (namespaces, priorities, queues, checkpointing, replicator, retention, jobsets)


def build(fleet: Fleet) -> list[Manifest]:
    """Every manifest of one cluster, run names not yet given (see ``generator.run_names``)."""
    return [manifest for builder in BUILDERS for manifest in builder.build(fleet)]
