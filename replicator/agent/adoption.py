"""Data in a volume that this agent did not record: of the public reference, and of other jobs."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replicator.agent.files import read_small, remove
from replicator.agent.records import record_name
from replicator.content import DataError
from replicator.core.model import CheckpointId, Key, ShardId
from replicator.digest import (
    ShardContent,
    build_manifest,
    data_hash,
    read_content,
    reference_hash,
)
from replicator.errors import ManifestError, ReplicatorError
from replicator.manifest import MAX_MANIFEST_BYTES, ShardManifest
from replicator.protocol import (
    MAX_SMALL_FILE_BYTES,
    CheckpointName,
    Framework,
    NameKind,
    ProtocolError,
    ReplicatorConfig,
    data_name,
    parse_checkpoint_name,
    parse_meta,
)

if TYPE_CHECKING:
    from replicator.agent.store import LocalStore


def unrecorded(store: LocalStore, config: ReplicatorConfig) -> list[CheckpointName]:
    """The `.meta` files of a job whose data has no record of ours: the public reference's."""
    recorded = {
        (name.step, name.node_rank, name.worker)
        for entry in store.root.iterdir()
        if (name := record_name(entry, config.job_name)) is not None
    }
    names = [parse_checkpoint_name(entry.name, config.job_name) for entry in store.root.iterdir()]
    return sorted(
        name
        for name in names
        if name is not None
        and name.kind is NameKind.META
        and (name.step, name.node_rank, name.worker) not in recorded
    )


def adopt(store: LocalStore, config: ReplicatorConfig) -> list[str]:
    """Record the public reference's data, provided that it hashes to its name.

    What does not is put into quarantine, so that afterwards nothing is left to adopt. Hashes all of
    it: not for the event loop.

    Returns:
        What was put into quarantine and why, for the job.
    """
    problems: list[str] = []
    adopted: dict[str, ShardManifest] = {}
    for name in unrecorded(store, config):
        meta = store.root / str(name)
        try:
            stored = parse_meta(read_small(meta, MAX_SMALL_FILE_BYTES) or b"")
            manifest = adopted.get(stored) or _checked(store, config, name, stored)
        except (OSError, ReplicatorError) as error:
            problems.append(
                f"step {name.step} of node {name.node_rank} worker {name.worker}, which another "
                f"replicator left here, is not used and put aside: {error}"
            )
            _put_aside(store, meta)
            continue
        adopted[stored] = manifest
        key = Key(CheckpointId(0, name.step), ShardId(name.node_rank, name.worker))
        record = replace(manifest, step=name.step, node_rank=name.node_rank, worker=name.worker)
        store.adopt(key, record)
    return problems


def _checked(
    store: LocalStore, config: ReplicatorConfig, name: CheckpointName, stored: str
) -> ShardManifest:
    """A manifest of data that is what its name says, under its new name.

    Raises:
        DataError: it is something else.
        OrbaxHashUnavailableError: that cannot be told here.
        OSError, ReplicatorError: it cannot be read.
    """
    path = store.root / data_name(stored)
    content = read_content(path, threads=store.threads)
    plain = reference_hash(content)
    if stored != plain and not _is_orbax_name(path, config, content, stored, store.threads):
        raise DataError(f"{stored}.data: its content hashes to {plain}")
    manifest = build_manifest(content, config, step=name.step, worker=name.worker, data_hash=stored)
    if not store.data_path(manifest).exists():
        path.rename(store.data_path(manifest))
    return manifest


def _is_orbax_name(
    path: Path, config: ReplicatorConfig, content: ShardContent, stored: str, threads: int
) -> bool:
    if config.framework is not Framework.ORBAX or not content.is_directory:
        return False
    return data_hash(path, config.framework, content, threads=threads) == stored


def _put_aside(store: LocalStore, meta: Path, needed: Collection[str] = ()) -> None:
    """Keep what cannot be verified or is another job's, out of use; not data that is `needed`."""
    try:
        stored = parse_meta(read_small(meta, MAX_SMALL_FILE_BYTES) or b"")
        data = store.root / data_name(stored)
        used = stored in needed or store.by_storage_name(stored) is not None
        if data.exists() and not used:
            data.rename(store.quarantine / f"{secrets.token_hex(4)}-{data.name}")
    except (OSError, ProtocolError):
        pass  # no data that it could name
    meta.replace(store.quarantine / meta.name)


def put_aside_other_jobs(store: LocalStore, job: str) -> None:
    """A volume serves one job at a time; what another one left is kept in quarantine."""
    for entry in sorted(store.root.iterdir()):
        name = record_name(entry)
        if name is None or name.job_name == job:
            continue
        try:
            manifest = ShardManifest.from_bytes(read_small(entry, MAX_MANIFEST_BYTES) or b"")
        except (OSError, ManifestError):
            remove(entry)
            continue
        data = store.data_path(manifest)
        if data.exists() and store.by_storage_name(manifest.storage_name) is None:
            data.rename(store.quarantine / f"{secrets.token_hex(4)}-{data.name}")
        entry.replace(store.quarantine / entry.name)
        remove(store.root / str(name))
    _put_aside_reference_data(store, job)


def _put_aside_reference_data(store: LocalStore, job: str) -> None:
    """The same for the public reference's data of another job, which has no records of ours."""
    metas = [
        (name, entry)
        for entry in sorted(store.root.iterdir())
        if (name := parse_checkpoint_name(entry.name)) is not None and name.kind is NameKind.META
    ]
    needed = set()
    for name, entry in metas:
        with contextlib.suppress(OSError, ProtocolError):
            if name.job_name == job:
                needed.add(parse_meta(read_small(entry, MAX_SMALL_FILE_BYTES) or b""))
    for name, entry in metas:
        if name.job_name != job:
            _put_aside(store, entry, needed)
