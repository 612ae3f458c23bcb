"""What a training process imports to checkpoint through the replicator on its node.

The protocol is files in one directory, so nothing here talks to a network, and nothing but PyYAML
and blake3 is needed. `replicator.client.orbax`, `.dcp` (torch.distributed.checkpoint), `.lightning`
and `.arguments` (command line flags) are imported by those who use them.
"""

from replicator.client.aio import AsyncReplicatorClient
from replicator.client.errors import (
    ClientArgumentError,
    ClientConfigError,
    ClientError,
    HandshakeTimeoutError,
    LocalDirectoryError,
    MarkerError,
    ReplicatorFailedError,
    RestoreDataError,
    RestoreTimeoutError,
    SaveError,
    StepExistsError,
    UnknownWorkerError,
)
from replicator.client.session import ReplicatorClient
from replicator.client.volume import Restored
from replicator.config import Framework, ReplicatorConfig
from replicator.protocol import Prerestore

__all__ = [
    "AsyncReplicatorClient",
    "ClientArgumentError",
    "ClientConfigError",
    "ClientError",
    "Framework",
    "HandshakeTimeoutError",
    "LocalDirectoryError",
    "MarkerError",
    "Prerestore",
    "ReplicatorClient",
    "ReplicatorConfig",
    "ReplicatorFailedError",
    "RestoreDataError",
    "RestoreTimeoutError",
    "Restored",
    "SaveError",
    "StepExistsError",
    "UnknownWorkerError",
]
