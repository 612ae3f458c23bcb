"""Multi-tier checkpointing: RAM disks, peers, backups and their retention."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from schemas.inventory.base import (
    Bucket,
    InventoryModel,
    Memory,
    Name,
    Number,
    RamDiskSize,
    Text,
    Toleration,
    fault,
)
from schemas.inventory.self_hosted import Agent

RECOMMENDED_MOUNT_OPTIONS = (
    "implicit-dirs",
    "metadata-cache:negative-ttl-secs:0",
    "metadata-cache:ttl-secs:-1",
    "metadata-cache:stat-cache-max-size-mb:-1",
    "metadata-cache:type-cache-max-size-mb:-1",
    "file-system:kernel-list-cache-ttl-secs:0",
    "read_ahead_kb=1024",
    "write:enable-streaming-writes:true",
)
"""The Cloud Storage FUSE options that GKE's multi-tier checkpointing page recommends, in its
order."""

_DIRECTORY = re.compile(r"[A-Za-z0-9_.=-]+(/[A-Za-z0-9_.=-]+)*")


def _directory(value: str) -> str:
    if not _DIRECTORY.fullmatch(value) or any(part in {".", ".."} for part in value.split("/")):
        raise fault(
            f"{value!r} is no directory inside a bucket", "write it without leading or trailing '/'"
        )
    return value


def _keep(value: int | str) -> int | str:
    if (isinstance(value, int) and value < 0) or (isinstance(value, str) and value != "always"):
        raise fault(f"{value!r} is no count to keep", "write a whole number or always")
    return value


Keep = Annotated[int | str, AfterValidator(_keep)]


class ModelSize(InventoryModel):
    """A model from which the local checkpoint's size follows."""

    parameters: Number
    """Number of parameters, such as 70e9."""
    bytes_per_parameter: Number
    """Bytes saved per parameter; 12 for weights and Adam state is the usual rule of thumb."""
    nodes_per_replica: int = Field(gt=0)
    """Nodes that one replica of the model is spread over (for a TPU slice, its nodes)."""


class Backup(InventoryModel):
    """When the replicator copies a checkpoint to Cloud Storage: by time or by steps, not both."""

    interval_minutes: int | None = Field(default=None, gt=0)
    """Minutes between backups; 30 or more is advised."""
    interval_steps: int | None = Field(default=None, gt=0)
    """Training steps between backups."""

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        if self.interval_minutes is not None and self.interval_steps is not None:
            raise fault(
                "intervalMinutes and intervalSteps are both given",
                "keep one; the replicator takes either, not both",
            )
        if self.interval_minutes is None and self.interval_steps is None:
            raise fault("no interval is given", "write intervalMinutes: 30")
        return self


class Retention(InventoryModel):
    """Which backups are kept. Backups are only ever written by the replicator; nothing else deletes
    them."""

    tool: Literal["backup-warden", "replicator", "none"] = "backup-warden"
    """``backup-warden``, the ``replicator``'s own pruner, or ``none`` where something else does
    it."""
    image: Text | None = None
    """The container image of the tool, pinned by tag or digest; required unless the tool is
    none."""
    schedule: str = "17 * * * *"
    """When it runs, as a cron expression in UTC."""
    delete: bool = False
    """Delete what is not kept; false only lists it (a dry run)."""
    hourly: Keep = 24
    """Hourly backups to keep."""
    daily: Keep = 7
    """Daily backups to keep."""
    weekly: Keep = 5
    """Weekly backups to keep."""
    monthly: Keep = "always"
    """Monthly backups to keep."""
    yearly: Keep = "always"
    """Yearly backups to keep."""
    prefer_recent: bool = True
    """Keep the newest backup of each period rather than the oldest."""
    namespace: Name = "checkpoint-retention"
    """The namespace that the job runs in."""

    @model_validator(mode="after")
    def _has_an_image(self) -> Self:
        if self.tool != "none" and self.image is None:
            raise fault(
                f"tool is {self.tool} but no image is given",
                "write image: with a pinned tag or digest",
            )
        return self


class Checkpointing(InventoryModel):
    """The RAM disks of one pool's nodes, their peers and backups.

    With ``provider: gke`` this becomes a CheckpointConfiguration, with ``self-hosted`` the agents
    of this project's replicator. Keys that mean something for one provider only are refused for the
    other.
    """

    provider: Literal["gke", "self-hosted"] = "gke"
    """Who replicates: ``gke`` (the managed add-on and its CSI driver) or ``self-hosted`` (this
    project's replicator, on any cluster)."""
    agent: Agent | None = None
    """The replicator's agents; for ``self-hosted`` only, and needed there."""
    bucket: Bucket
    """The Cloud Storage bucket of the backups, without gs://."""
    directory: Annotated[str, AfterValidator(_directory)] | None = None
    """A directory inside the bucket."""
    hierarchical_namespace: bool | None = None
    """Whether the bucket has a hierarchical namespace; without one every backup of ``gke`` fails,
    so it must be said there. ``self-hosted`` needs none."""
    node_pool: Name
    """The node pool that the RAM disks are on. Every pool of the same machine type gets them too;
    with ``self-hosted`` only where ``selectBy`` does not tell it apart, or where jobs of the
    configuration run."""
    tolerations: tuple[Toleration, ...] = Field(default=(), strict=False)
    """Further tolerations of driver or agent; those of the pool's taints follow from the pool."""
    mount_options: tuple[str, ...] = Field(default=RECOMMENDED_MOUNT_OPTIONS, strict=False)
    """Cloud Storage FUSE mount options; the recommended ones unless given. ``gke`` only."""
    csi_ephemeral_limit: Memory | None = None
    """Limit of the driver's ephemeral storage. ``gke`` only."""
    enable_external_jax_process_ids: bool = False
    """Let the driver hand out JAX process ids. ``gke`` only."""
    driver_epoch: int = Field(default=1, ge=0)
    """A counter; raising it re-creates the driver (after a cluster upgrade) and empties the RAM
    disks. ``gke`` only."""
    in_memory_volume_size: RamDiskSize | None = None
    """The RAM disk's size, where it is not derived."""
    local_checkpoint_size: Memory | None = None
    """What one node saves, from which the RAM disk's size follows."""
    model: ModelSize | None = None
    """A model from which the local checkpoint's size follows."""
    peers: int = Field(default=1, ge=0, le=8)
    """Copies on other nodes."""
    backup: Backup
    """When checkpoints are copied to the bucket."""
    retention: Retention
    """Which backups are kept."""

    @property
    def backup_place(self) -> str:
        """Where in the bucket backups go, as a URL."""
        return f"gs://{self.bucket}" + (f"/{self.directory}" if self.directory else "")

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        checkpoint = [
            key
            for key, value in (
                ("localCheckpointSize", self.local_checkpoint_size),
                ("model", self.model),
            )
            if value is not None
        ]
        if len(checkpoint) == 2:
            raise fault(
                "localCheckpointSize and model are both given",
                "keep one; the other would be ignored",
            )
        if not checkpoint and self.in_memory_volume_size is None:
            raise fault(
                "no size is given",
                "write localCheckpointSize (what one node saves), model, or inMemoryVolumeSize",
            )
        return self
