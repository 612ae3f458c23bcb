"""The project's own replicator on a cluster's nodes, for ``provider: self-hosted``."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from schemas.inventory.base import (
    AbsolutePath,
    Image,
    InventoryModel,
    KeyRef,
    Name,
    ObjectName,
    Quantity,
    RamDiskSize,
    fault,
)

LARGEST_USER = 2**31 - 1
"""Largest user id that Kubernetes accepts (``pkg/apis/core/validation``)."""

_BANDWIDTH = re.compile(r"[1-9][0-9]{0,12}(?:Ki|Mi|Gi|Ti)")


def _bandwidth(value: str) -> str:
    if not _BANDWIDTH.fullmatch(value):
        raise fault(
            f"{value!r} is no whole number of Ki, Mi, Gi or Ti bytes a second",
            "write one such as 2Gi",
        )
    return value


def _node_path(value: str) -> str:
    if value == "/":
        raise fault("'/' is all of the node, no tmpfs", "write a tmpfs's own path, or /dev/shm")
    return value


Port = Annotated[int, Field(ge=1024, le=65535)]


class AgentTls(InventoryModel):
    """Mutual TLS between the agents, on top of their key."""

    secret: ObjectName
    """A Secret in the agents' namespace with ``tls.crt``, ``tls.key`` and ``ca.crt``, as written by
    cert-manager. All agents of the configuration mount it."""
    dns_name: ObjectName
    """The DNS name that the certificate carries; agents want it in their peers' certificates, since
    nobody knows pods' addresses beforehand."""


Seconds = Annotated[int, Field(ge=1, le=365 * 24 * 3600)]


class AgentTimeouts(InventoryModel):
    """Deadlines of the agents in seconds, where theirs do not fit: large shards over a slow
    network. The defaults are those of ``stowplan-replicator agent``."""

    join: Seconds | None = None
    """For all ranks to come (900)."""
    restore: Seconds | None = None
    """To agree on a restore (3600)."""
    round: Seconds | None = None
    """For all receipts of a step (600)."""
    transfer: Seconds | None = None
    """For one copy in a restore or a round (1800)."""
    backup: Seconds | None = None
    """For all nodes to store a backup (7200)."""


class Agent(InventoryModel):
    """The replicator's agent: a DaemonSet that shares each node's RAM disk with the training
    pods."""

    image: Image
    """The replicator's container image (replicator/Containerfile), pinned by tag or digest."""
    ranks_image: Image | None = None
    """The image of the init container that gives JAX jobs their ranks; ``image`` unless given. It
    stands in the jobs' templates: another one means a new run of each, while the agents' own image
    changes under running jobs."""
    key_secret: KeyRef
    """The Secret's key, in the agents' namespace, that holds what agents prove to each other: 32
    random bytes or more. Only named here, never written."""
    credentials_secret: KeyRef | None = None
    """A Secret's key that holds the bucket's credentials as JSON; without it the agents' service
    account is used (workload identity)."""
    tls: AgentTls | None = None
    """Mutual TLS between the agents; without it what moves between them is not encrypted."""
    namespace: Name = "checkpoint-replicator"
    """The namespace that the agents run in."""
    user: int = Field(default=65532, ge=0, le=LARGEST_USER)
    """The user id of the agents and of the training pods that share the RAM disk: each must be able
    to move and delete what the other wrote. 0 for images that train as root."""
    node_path: Annotated[AbsolutePath, AfterValidator(_node_path)] = "/dev/shm"
    """A directory in memory on every node: a tmpfs that everybody may write to (mode 1777)."""
    port: Port = 4242
    """The port for peers."""
    metrics_port: Port = 8000
    """The port of /metrics, /healthz and /status."""
    bandwidth: Annotated[str, AfterValidator(_bandwidth)] | None = None
    """Cap on bytes a second that one agent sends to its peers, such as 2Gi."""
    timeouts: AgentTimeouts | None = None
    """Deadlines in seconds; those of the agent unless given."""
    cpu: Quantity = "1"
    """Cores that the scheduler keeps for the agent."""
    memory: RamDiskSize = "1Gi"
    """Memory of the agent itself, beside the RAM disk."""

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.port == self.metrics_port:
            raise fault(
                f"port and metricsPort are both {self.port}", "write two different port numbers"
            )
        return self
