"""The checkpoint volume of one node: copies with their manifests, saves, quarantine.

Beside the reference's names (`<hash>.data`, `.meta`) every copy has a record (records.py), and only
what has a record exists for the agent. Data is named by `ShardManifest.storage_name`, so two
different trees never share a name. For received data the record comes last; for a save it comes
before the final rename of the data, and a record without data is dropped at start, when the save is
taken again.

All methods block; they are safe to call from several threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from replicator.agent.adoption import put_aside_other_jobs
from replicator.agent.files import (
    read_small,
    remove,
    sync_directory,
    sync_folders,
    used_bytes,
    write_whole,
)
from replicator.agent.leftovers import QUARANTINE
from replicator.agent.records import (
    content_of,
    meta_name,
    read_record,
    record_file,
    reference_name,
)
from replicator.agent.space import Space
from replicator.core.model import CheckpointId, Content, Copy, Key, ShardId
from replicator.digest import (
    build_manifest,
    read_content,
    reference_hash,
    verify,
)
from replicator.errors import ReplicatorError
from replicator.manifest import ShardManifest
from replicator.protocol import (
    MAX_SMALL_FILE_BYTES,
    CheckpointName,
    Framework,
    NameKind,
    ProtocolError,
    ReplicatorConfig,
    data_name,
    parse_data_name,
    parse_meta,
)

PRIVATE: Final = ".stowplan"
"""Directory for what is ours alone: state, incoming data, quarantine."""


class StoreError(ReplicatorError):
    """The volume cannot be used as asked."""


def _check_ours(path: Path) -> None:
    """Whoever may not write into a directory can neither move nor delete it."""
    if path.is_dir() and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise StoreError(
            f"{path.name} belongs to user {path.stat().st_uid}, and the agent as user "
            f"{os.geteuid()} may not move or delete it; run job and agent as one user"
        )


@dataclass(slots=True)
class LocalStore:
    """One node's volume. `capacity` bounds the bytes below it, on top of what the disk allows."""

    root: Path
    capacity: int | None = None
    threads: int = 1
    records: dict[Key, ShardManifest] = field(default_factory=dict)
    space: Space = field(init=False)
    _verified: set[str] = field(default_factory=set)  # storage names hashed by this process
    _lock_fd: int | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.space = Space(self.root, self.capacity)

    def prepare(self) -> None:
        """Check the volume and clear what a crash left half-way.

        Raises:
            StoreError: no directory, it cannot be written, or another agent uses it.
        """
        if not self.root.is_dir():
            raise StoreError(f"{self.root} is no directory; expected the checkpoint volume")
        try:
            for path in (self.private, self.incoming, self.quarantine):
                if path.is_symlink():
                    raise StoreError(f"{path} is a link; expected a directory of the agent's own")
                path.mkdir(exist_ok=True)
            self._lock_volume()
            for path in (*self.incoming.iterdir(), *self.private.glob("*.tmp")):
                remove(path)
        except OSError as error:
            where = error.filename or self.root
            raise StoreError(f"{self.root} cannot be used: {where}: {error.strerror}") from None

    def _lock_volume(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.private / "lock", flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise StoreError(f"another agent uses {self.root}") from None
        self._lock_fd = fd

    def close(self) -> None:
        """Let another agent use the volume."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    @property
    def private(self) -> Path:
        """Where state and scratch data live."""
        return self.root / PRIVATE

    @property
    def incoming(self) -> Path:
        """Where copies grow, under unique names."""
        return self.private / "incoming"

    @property
    def quarantine(self) -> Path:
        """What is kept aside rather than deleted."""
        return self.private / QUARANTINE

    # ---- inventory ------------------------------------------------------------------------------

    def load(self, config: ReplicatorConfig) -> list[Copy]:
        """Read all records of a job; drop leftovers, put aside what belongs to other jobs.

        Data of the public reference must have been adopted before (see adoption.py).
        """
        with self._lock:
            self.records.clear()
            self._verified.clear()
            for entry in sorted(self.root.iterdir()):
                self._load_record(entry, config)
            put_aside_other_jobs(self, config.job_name)
            self._drop_orphans()
            return [
                Copy(key.checkpoint, key.shard, content_of(manifest), manifest.nodes)
                for key, manifest in self.records.items()
            ]

    def _load_record(self, entry: Path, config: ReplicatorConfig) -> None:
        found = read_record(entry, config.job_name)
        if found is None:
            return
        key, manifest = found
        if manifest is None or not self.data_path(manifest).exists():
            remove(entry)  # damaged, or a save whose last rename did not happen: taken again
            return
        self.records[key] = manifest

    def adopt(self, key: Key, manifest: ShardManifest) -> None:
        """Record data that is in place under its storage name (see adoption.py)."""
        with self._lock:
            self._write_record(key, manifest)

    def _drop_orphans(self) -> None:
        """Data whose record was never written: a copy that arrived when the agent died.

        Data that a `.meta` names is not ours to delete: its record was damaged, or it is the public
        reference's (adoption.py decides about it).
        """
        used = {manifest.storage_name for manifest in self.records.values()}
        for entry in self.root.glob("*.meta"):
            with contextlib.suppress(OSError, ProtocolError):
                used.add(parse_meta(read_small(entry, MAX_SMALL_FILE_BYTES) or b""))
        for entry in list(self.root.iterdir()):
            stored = parse_data_name(entry.name)
            if stored is not None and stored not in used:
                self._discard(entry)

    def data_path(self, manifest: ShardManifest) -> Path:
        """Where a shard's data is."""
        return self.root / data_name(manifest.storage_name)

    def by_storage_name(self, stored: str) -> ShardManifest | None:
        """A record of data with this storage name."""
        with self._lock:
            for manifest in self.records.values():
                if manifest.storage_name == stored:
                    return manifest
        return None

    # ---- saves ----------------------------------------------------------------------------------

    def save_paths(self, config: ReplicatorConfig, step: int) -> list[Path]:
        """Where the `.save` of each worker of this node is (or will be)."""
        return [
            self.root
            / str(CheckpointName(config.job_name, step, config.node_rank, worker, NameKind.SAVE))
            for worker in range(config.workers_per_node)
        ]

    def seal(self, config: ReplicatorConfig, checkpoint: CheckpointId) -> tuple[Content, ...]:
        """Take a finished save: hash it, record it, give it its final name.

        Raises:
            ReplicatorError, OSError: it cannot be taken; what the application wrote stays.
        """
        self.claim(config, checkpoint.step)
        sealed: dict[Key, tuple[ShardManifest, Path | None]] = {}
        for worker, path in enumerate(self.save_paths(config, checkpoint.step)):
            key = Key(checkpoint, ShardId(config.node_rank, worker))
            before = self.records.get(key)
            if before is not None and not path.exists():
                sealed[key] = before, None  # in place since an attempt that ended half-way
            else:
                _check_ours(path)
                sealed[key] = self._hashed(config, key, path), path
        with self._lock:
            self._place(sealed)
        sync_directory(self.root)
        return tuple(content_of(manifest) for manifest, _ in sealed.values())

    def _hashed(self, config: ReplicatorConfig, key: Key, path: Path) -> ShardManifest:
        content = read_content(path, threads=self.threads)
        name = reference_hash(content)
        if config.assume_data_parallelism is not None:
            name = reference_name(path, config, content, self.threads)
        return build_manifest(
            content,
            config,
            step=key.checkpoint.step,
            worker=key.shard.worker,
            data_hash=name,
            epoch=key.checkpoint.epoch,
        )

    def placed_workers(self, config: ReplicatorConfig, checkpoint: CheckpointId) -> set[int]:
        """Whose part of an own save is in place, under its final name."""
        workers = range(config.workers_per_node)
        own = (ShardId(config.node_rank, worker) for worker in workers)
        with self._lock:
            return {shard.worker for shard in own if Key(checkpoint, shard) in self.records}

    def claim(self, config: ReplicatorConfig, step: int) -> None:
        """Rename a finished step directory to its `.save` name, as the reference does."""
        directory = self.root / str(step)
        target = self.save_paths(config, step)[0]
        if config.framework is not Framework.PYTORCH and directory.is_dir():
            if directory.is_symlink():
                raise StoreError(f"{directory.name} is a link, no saved step")
            directory.rename(target)

    def _place(self, sealed: dict[Key, tuple[ShardManifest, Path | None]]) -> None:
        """Write all records, which takes room, and only then rename, which takes none.

        A crash between two renames leaves a save of which some workers' parts are in place:
        `placed_workers` says which, and the others' are taken then.
        """
        fresh = {key: (manifest, path) for key, (manifest, path) in sealed.items() if path}
        try:
            for key, (manifest, _) in fresh.items():
                self._write_record(key, manifest)
        except OSError:
            self._forget(fresh)
            raise
        for manifest, path in fresh.values():
            assert path is not None
            data = self.data_path(manifest)
            if data.exists():
                remove(path)  # equal content is there already, recorded under another name
            else:
                path.rename(data)
            self._verified.add(manifest.storage_name)

    def reject(self, config: ReplicatorConfig, step: int) -> None:
        """Put a save aside that cannot be used, in place of an older such one."""
        paths = (self.root / str(step), *self.save_paths(config, step))
        found = [path for path in paths if path.exists() and not path.is_symlink()]
        for older in self.quarantine.glob("rejected-*") if found else ():
            self._discard(older)
        for path in found:
            path.rename(self.quarantine / f"rejected-{path.name}")

    # ---- copies ---------------------------------------------------------------------------------

    def scratch(self) -> Path:
        """A new unique path for a growing copy."""
        return self.incoming / secrets.token_hex(12)

    def keep(self, key: Key, manifest: ShardManifest, path: Path, world: int) -> Content:
        """A verified copy becomes visible: data first, its record last."""
        record = self._record_for(key, manifest, world)
        sync_folders(path)
        with self._lock:
            data = self.data_path(record)
            if data.exists() and self.by_storage_name(record.storage_name) is not None:
                remove(path)
            else:
                self._discard(data)
                path.rename(data)
            sync_directory(self.root)
            self._write_record(key, record)
            self._verified.add(record.storage_name)
        return content_of(record)

    def alias(self, key: Key, content: Content, world: int) -> bool:
        """Record data that is here already under another shard's name; False where it is not."""
        with self._lock:
            manifest = self.by_storage_name(content.manifest)
            if manifest is None or not self.data_path(manifest).exists():
                return False
            self._write_record(key, self._record_for(key, manifest, world))
            return True

    def was_verified(self, stored: str) -> bool:
        """Whether this process has hashed the data itself."""
        return stored in self._verified

    @staticmethod
    def _record_for(key: Key, manifest: ShardManifest, world: int) -> ShardManifest:
        return replace(
            manifest,
            step=key.checkpoint.step,
            epoch=key.checkpoint.epoch,
            node_rank=key.shard.rank,
            worker=key.shard.worker,
            nodes=world,
        )

    def verify(self, key: Key) -> str | None:
        """Hash a copy; returns what is wrong, empty when every byte is good, None when absent."""
        with self._lock:
            manifest = self.records.get(key)
        if manifest is None:
            return None
        found = verify(self.data_path(manifest), manifest, threads=self.threads)
        if not found:
            self._verified.add(manifest.storage_name)
        return "; ".join(str(mismatch) for mismatch in found[:3])

    def _write_record(self, key: Key, manifest: ShardManifest) -> None:
        write_whole(self.root / record_file(manifest), manifest.to_bytes(), self.incoming)
        self._write_meta(manifest)
        self.records[key] = manifest

    def _write_meta(self, manifest: ShardManifest) -> None:
        path = self.root / meta_name(manifest)
        write_whole(path, manifest.storage_name.encode(), self.incoming)

    def delete(self, keys: Iterable[Key]) -> list[Path]:
        """Delete copies: records first, then data that no record names any more.

        Returns scratch paths that hold the data now; the caller removes them when it has time.
        """
        with self._lock:
            return [self._to_trash(self.data_path(m)) for m in self._forget(keys)]

    def put_aside(self, keys: Iterable[Key]) -> None:
        """Take copies out of use but keep their data in quarantine."""
        with self._lock:
            for manifest in self._forget(keys):
                data = self.data_path(manifest)
                if data.exists():
                    aside = self.quarantine / f"{secrets.token_hex(4)}-{data.name}"
                    data.rename(aside)
                    record = aside.with_suffix(".manifest")
                    write_whole(record, manifest.to_bytes(), self.incoming)

    def _to_trash(self, path: Path) -> Path:
        trash = self.scratch()
        if path.exists() or path.is_symlink():
            path.rename(trash)
        return trash

    def _forget(self, keys: Iterable[Key]) -> list[ShardManifest]:
        """Remove records; returns one manifest for each data that is then unused."""
        gone = {}
        for key in keys:
            manifest = self.records.pop(key, None)
            if manifest is None:
                continue
            (self.root / record_file(manifest)).unlink(missing_ok=True)
            self._remove_meta(manifest)
            gone[manifest.storage_name] = manifest
        used = {manifest.storage_name for manifest in self.records.values()}
        unused = [manifest for stored, manifest in gone.items() if stored not in used]
        self._verified -= {manifest.storage_name for manifest in unused}
        return unused

    def _remove_meta(self, manifest: ShardManifest) -> None:
        name = (manifest.step, manifest.node_rank, manifest.worker)
        for key, other in self.records.items():
            if (key.checkpoint.step, key.shard.rank, key.shard.worker) == name:
                self._write_meta(other)  # the same step of another run goes by the same name
                return
        (self.root / meta_name(manifest)).unlink(missing_ok=True)

    def fits(self, size: int) -> bool:
        """Whether so many bytes fit beside what is recorded and kept aside."""
        with self._lock:
            found = {m.storage_name: m.total_size for m in self.records.values()}
        return self.space.usable() - sum(found.values()) - used_bytes(self.quarantine) >= size

    def release_quarantine(self) -> list[Path]:
        """Give up what was kept aside; returns scratch paths for the caller to remove."""
        with self._lock:
            return [self._to_trash(entry) for entry in self.quarantine.iterdir()]

    def _discard(self, path: Path) -> None:
        """Delete a tree so that it is never seen half deleted."""
        if not path.exists() and not path.is_symlink():
            return
        trash = self.scratch()
        path.rename(trash)
        remove(trash)
