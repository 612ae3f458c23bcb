"""The seal of a backup: written last, by one node, once every shard is stored.

It pins which shards there must be and which data each one is, so that a missing highest rank, a
vanished manifest or shards of two runs in one folder cannot pass for a complete backup.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from blake3 import blake3

from replicator.config import is_safe_job_name
from replicator.errors import ManifestError
from replicator.protocol import MAX_STEP, ProtocolError, checked_hash

SEAL_FORMAT: Final = 1
MAX_SEAL_BYTES: Final = 64 * 1024 * 1024

ShardKey = tuple[int, int]
"""Node rank and worker."""


@dataclass(frozen=True, slots=True)
class BackupSeal:
    """What a complete backup consists of."""

    job_name: str
    job_uid: str | None
    epoch: int
    step: int
    nodes: int
    workers_per_node: int
    shards: Mapping[ShardKey, str]
    """For every node and worker the `ShardManifest.storage_name` of its data; with data parallelism
    several shards may share one."""

    def __post_init__(self) -> None:
        _check(self)

    def to_bytes(self) -> bytes:
        """Canonical JSON with a checksum."""
        body = _json(
            {
                "format": SEAL_FORMAT,
                "job-name": self.job_name,
                "job-uid": self.job_uid,
                "epoch": self.epoch,
                "step": self.step,
                "nodes": self.nodes,
                "workers-per-node": self.workers_per_node,
                "shards": [[*key, stored] for key, stored in sorted(self.shards.items())],
            }
        )
        return b'{"blake3":"%s","seal":%s}\n' % (blake3(body).hexdigest().encode(), body)

    @classmethod
    def from_bytes(cls, content: bytes) -> BackupSeal:
        """Read a seal.

        Raises:
            ManifestError: damaged, of another format, or not what a seal can hold.
        """
        try:
            document = json.loads(content)["seal"]
            if document["format"] != SEAL_FORMAT:
                raise ManifestError(f"seal format {document['format']!r}; expected {SEAL_FORMAT}")
            seal = cls._from_document(document)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, ManifestError):
                raise
            raise ManifestError("backup seal: not readable") from None
        if seal.to_bytes() != content:
            raise ManifestError("backup seal: damaged, its checksum does not fit its content")
        return seal

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> BackupSeal:
        return cls(
            job_name=document["job-name"],
            job_uid=document["job-uid"],
            epoch=document["epoch"],
            step=document["step"],
            nodes=document["nodes"],
            workers_per_node=document["workers-per-node"],
            shards={(node, worker): stored for node, worker, stored in document["shards"]},
        )


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _check(seal: BackupSeal) -> None:
    ranges = (
        ("epoch", seal.epoch, 0, MAX_STEP),
        ("step", seal.step, 0, MAX_STEP),
        ("nodes", seal.nodes, 1, 2**31),
        ("workers-per-node", seal.workers_per_node, 1, 2**31),
    )
    for key, value, low, high in ranges:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ManifestError(f"backup seal: {key} is {value!r}; expected {low} to {high}")
    for name in (seal.job_name, seal.job_uid):
        if name is not None and (not isinstance(name, str) or not is_safe_job_name(name)):
            raise ManifestError(f"backup seal: {name!r} cannot be used in file names")
    if len(seal.shards) != seal.nodes * seal.workers_per_node:
        raise ManifestError(
            f"backup seal: {len(seal.shards)} shards; expected {seal.nodes} nodes of "
            f"{seal.workers_per_node} workers"
        )
    for (node, worker), stored in seal.shards.items():
        if not (0 <= node < seal.nodes and 0 <= worker < seal.workers_per_node):
            raise ManifestError(f"backup seal: node {node} worker {worker} is out of range")
        try:
            checked_hash(stored)
        except (ProtocolError, TypeError) as error:
            raise ManifestError(f"backup seal: {error}") from None
