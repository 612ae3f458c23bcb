"""Names and figures around the self-hosted replicator, shared by builders and checks."""

from __future__ import annotations

from decimal import Decimal

from schemas.names import DNS_LABEL_MAX

NAME = "stowplan-replicator"
"""The app label of the agents, and their PriorityClass."""

ACCOUNT = "checkpoint-replicator"
"""The agents' service account, Role and RoleBinding in their namespace."""

CLAIM_PREFIX = "stowplan-checkpoint-"
"""What the name of a checkpoint volume's claim begins with: policies know the volume by it."""

SHARED_MEMORY = "/dev/shm"
SHARED_MEMORY_SHARE = Decimal("0.5")
"""A tmpfs that is mounted without a size, as systemd mounts /dev/shm, may take half of the
machine's memory (Linux Documentation/filesystems/tmpfs.rst)."""

ROUND_SECONDS, TRANSFER_SECONDS = 600, 1800
"""How long agents wait for all copies of a step, and for one copy (``stowplan-replicator agent
--help``)."""

SERVICE_NAME_MAX = DNS_LABEL_MAX
"""A Service's name is a DNS label (kubernetes pkg/apis/core/validation)."""


def service_name(config: str) -> str:
    """The headless Service of one configuration's agents, and their DaemonSet."""
    return f"replicator-{config}"


def claim_name(config: str) -> str:
    """The PersistentVolumeClaim by which pods of a namespace reach their node's RAM disk."""
    return f"{CLAIM_PREFIX}{config}"


def volume_name(config: str, namespace: str) -> str:
    """The PersistentVolume behind a namespace's claim; the dot keeps names of two parts apart."""
    return f"{CLAIM_PREFIX}{config}.{namespace}"


def directory(config: str) -> str:
    """The directory of one configuration inside the node's tmpfs."""
    return f"stowplan-{config}"
