"""What a user may say: the parameters of one target of the inventory."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from schemas.inventory.base import Bucket, InventoryModel, Name, fault
from schemas.inventory.buckets import BucketSettings
from schemas.inventory.checkpointing import Checkpointing
from schemas.inventory.cluster import Cluster, NodePool
from schemas.inventory.gitops import GitOps, Waiver
from schemas.inventory.priorities import PriorityClass
from schemas.inventory.queueing import Queueing
from schemas.inventory.workloads import Workload


def _overlay(value: str) -> str:
    parts = value.split("/")
    if not value.endswith((".jsonnet", ".libsonnet")) or value.startswith("/") or ".." in parts:
        raise fault(
            f"{value!r} is no jsonnet file of the inventory",
            "write its path below inventory/overlays, such as no-spot.jsonnet",
        )
    return value


class Parameters(InventoryModel):
    """All of one cluster. A target file and its classes together say this."""

    cluster: Cluster
    """The cluster itself."""
    node_pools: dict[Name, NodePool] = Field(default_factory=dict)
    """Node pools by name."""
    checkpointing: dict[Name, Checkpointing] = Field(default_factory=dict)
    """Multi-tier checkpointing by configuration name."""
    buckets: dict[Bucket, BucketSettings] = Field(default_factory=dict)
    """How the bootstrap makes the backups' buckets, by name; defaults where one is not named."""
    priorities: dict[Name, PriorityClass] = Field(default_factory=dict)
    """Priority classes by name."""
    queueing: Queueing = Queueing()
    """Kueue."""
    workloads: dict[Name, Workload] = Field(default_factory=dict)
    """Training jobs by name."""
    overlays: tuple[Annotated[str, AfterValidator(_overlay)], ...] = Field(default=(), strict=False)
    """Jsonnet files below inventory/overlays, applied in order to the cluster's manifests."""
    waivers: tuple[Waiver, ...] = Field(default=(), strict=False)
    """Findings that are accepted for a while."""
    gitops: GitOps | None = None
    """What Argo CD and Flux need to know."""
    vars: dict[str, Any] = Field(default_factory=dict)
    """Free values of your own, for ``${vars:name}``."""


FOREIGN_KEYS = frozenset({"kapitan", "_kapitan_", "_reclass_"})
"""Parameters that belong to Kapitan and reclass and are not read here."""

__all__ = ["FOREIGN_KEYS", "Parameters"]
