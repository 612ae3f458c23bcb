"""The record of a copy: its manifest beside the data.

It is named `<job>-s<step>-n<rank>-w<worker>.e<epoch>.manifest`. The `.meta` beside it is for the
public reference.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from replicator.agent.files import read_small
from replicator.core.model import CheckpointId, Content, Key, ShardId
from replicator.digest import OrbaxHashUnavailableError, ShardContent, data_hash, reference_hash
from replicator.errors import ManifestError
from replicator.manifest import MAX_MANIFEST_BYTES, ShardManifest
from replicator.protocol import (
    CheckpointName,
    NameKind,
    ProtocolError,
    ReplicatorConfig,
    parse_checkpoint_name,
)

_RECORD: Final = re.compile(r"(?P<name>.+-w[0-9]+)\.e(?P<epoch>0|[1-9][0-9]{0,15})\.manifest")


def meta_name(manifest: ShardManifest) -> str:
    """The reference's file that names the data of this shard and step."""
    return str(
        CheckpointName(
            manifest.job_name, manifest.step, manifest.node_rank, manifest.worker, NameKind.META
        )
    )


def record_file(manifest: ShardManifest) -> str:
    """The file that holds this record."""
    return f"{meta_name(manifest).removesuffix('.meta')}.e{manifest.epoch}.manifest"


def record_name(entry: Path, job: str | None = None) -> CheckpointName | None:
    """Which shard a record (of any job, or of one) is of, as its `.meta` name."""
    match = _RECORD.fullmatch(entry.name)
    return parse_checkpoint_name(f"{match['name']}.meta", job) if match else None


def read_record(entry: Path, job: str) -> tuple[Key, ShardManifest | None] | None:
    """The copy that a record is of and its manifest, which is None where it is damaged.

    None where the entry is no record of this job.
    """
    match, name = _RECORD.fullmatch(entry.name), record_name(entry, job)
    if match is None or name is None:
        return None
    checkpoint = CheckpointId(int(match["epoch"]), name.step)
    key = Key(checkpoint, ShardId(name.node_rank, name.worker))
    try:
        content = read_small(entry, MAX_MANIFEST_BYTES)
        manifest = ShardManifest.from_bytes(content or b"")
    except (OSError, ManifestError):
        return key, None
    return key, manifest if _belongs(manifest, job, key) else None


def _belongs(manifest: ShardManifest, job: str, key: Key) -> bool:
    checkpoint = CheckpointId(manifest.epoch, manifest.step)
    shard = ShardId(manifest.node_rank, manifest.worker)
    return manifest.job_name == job and key == (checkpoint, shard)


def content_of(manifest: ShardManifest) -> Content:
    """What the core calls a shard's content."""
    return Content(manifest.data_hash, manifest.storage_name, manifest.total_size)


def reference_name(
    path: Path, config: ReplicatorConfig, content: ShardContent, threads: int
) -> str:
    """The reference's name of data; without tensorstore the plain directory's.

    It decides whether replicas count as equal. Without it equal Orbax values in differently laid
    out files are taken for different and copied: more memory, never less safety.
    """
    try:
        return data_hash(path, config.framework, content, threads=threads)
    except (OrbaxHashUnavailableError, ProtocolError):
        return reference_hash(content)
