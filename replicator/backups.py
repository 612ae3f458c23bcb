"""The backups of one job: write, list, judge, verify, read back, and force one with
restore.version.

Order of writing is what makes a backup trustworthy: `backup.format` first, then each node's data
and `.manifest`, then one node writes every `.meta` and, last, `backup.seal`. Order of deleting is
the reverse. Stopping anywhere leaves something incomplete, never something that only looks
complete.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replicator.backup_index import (
    BackupFiles,
    BackupIndex,
    BackupStep,
    build_index,
    small_files,
)
from replicator.backup_seal import BackupSeal
from replicator.concurrency import gather
from replicator.config import is_safe_job_name
from replicator.content import make_folders, new_file
from replicator.digest import ShardContent, orbax_hash, read_content, reference_hash
from replicator.errors import ProtocolError
from replicator.manifest import MAX_MANIFEST_BYTES, ManifestFile, ShardManifest
from replicator.protocol import (
    BACKUP_FORMAT_FILE,
    BACKUP_SEAL_FILE,
    MAX_SMALL_FILE_BYTES,
    RESTORE_VERSION_FILE,
    CheckpointName,
    NameKind,
    data_name,
    parse_backup_name,
    parse_restore_version,
)
from replicator.storage import BackupTierError, ObjectStorage, StoredDataError

PARALLEL_OBJECTS: Final = 64
"""Small objects read or written at the same time."""
PARALLEL_FILES: Final = 4
"""Data files transferred at the same time; the reference throttles backups likewise, so that they
do not slow down training."""
BACKUP_FORMAT: Final = json.dumps({"format": 1, "manifests": True}).encode() + b"\n"


class BackupNotFoundError(BackupTierError):
    """There is no backup of that name."""


class BackupIncompleteError(BackupTierError):
    """A backup cannot be restored; says what is missing."""

    def __init__(self, job_name: str, backup: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        shown = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"backup {backup} of job {job_name} is not complete:{shown}")


@dataclass(frozen=True, slots=True)
class VerifiedShard:
    """A shard as it was downloaded; `manifest` is None for a backup of the public reference."""

    content: ShardContent
    manifest: ShardManifest | None


class JobBackups:
    """All backups of one job in one place.

    They are in the folder of the job's name, or directly in `storage` where that is the job's own
    folder already (`own_folder`).
    """

    def __init__(self, storage: ObjectStorage, job_name: str, *, own_folder: bool = False) -> None:
        if not is_safe_job_name(job_name):
            raise ProtocolError(f"job name {job_name!r} cannot be used in paths")
        self.job_name = job_name
        self._storage = storage
        self._folder = "" if own_folder else f"{job_name}/"

    # --- reading ----------------------------------------------------------------------------------

    async def names(self) -> tuple[str, ...]:
        """Every backup's name, newest first; other entries are not backups.

        Raises:
            StorageError: the listing failed.
        """
        found = await self._storage.list_directories(self._folder.rstrip("/"))
        return tuple(sorted((n for n in found if parse_backup_name(n) is not None), reverse=True))

    async def index(
        self, backup: str, *, nodes: int | None = None, workers_per_node: int | None = None
    ) -> BackupIndex:
        """Judge a backup by its listing and small files; no data is read.

        Args:
            backup: its name.
            nodes: see `build_index`.
            workers_per_node: see `build_index`.

        Raises:
            BackupNotFoundError: nothing is there under this name.
            StorageError: something could not be read.
        """
        try:
            files = await self._files(backup)
        except StoredDataError as error:  # this backup's problem, as in `_small`
            return BackupIndex(backup, _time_of(backup), (), ours=True, unreadable=str(error))
        return build_index(
            self.job_name,
            backup,
            _time_of(backup),
            files,
            nodes=nodes,
            workers_per_node=workers_per_node,
        )

    async def _files(self, backup: str) -> BackupFiles:
        _time_of(backup)
        prefix = f"{self._folder}{backup}/"
        listing = {
            path.removeprefix(prefix): size
            for path, size in (await self._storage.list(prefix.rstrip("/"))).items()
        }
        if not listing:
            raise BackupNotFoundError(f"job {self.job_name} has no backup {backup}")
        names = small_files(self.job_name, listing)
        contents = await gather(PARALLEL_OBJECTS, (self._small(prefix, name) for name in names))
        return BackupFiles(listing, dict(zip(names, contents, strict=True)))

    async def _small(self, prefix: str, name: str) -> bytes | None:
        limit = MAX_SMALL_FILE_BYTES if name.endswith(".meta") else MAX_MANIFEST_BYTES
        try:
            return await self._storage.read_bytes(prefix + name, limit=limit)
        except StoredDataError:
            # Far too large to be one: this backup's problem, not a reason to look at no other.
            return b""

    async def newest_complete(
        self, *, nodes: int | None = None, workers_per_node: int | None = None
    ) -> tuple[BackupIndex, BackupStep] | None:
        """The newest backup that can be restored, or None where there is none.

        Raises:
            StorageError: something could not be read; that is not the same as "no backup".
        """
        for name in await self.names():
            try:
                index = await self.index(name, nodes=nodes, workers_per_node=workers_per_node)
            except BackupNotFoundError:
                continue  # pruned since the listing
            if (step := index.newest_complete) is not None:
                return index, step
        return None

    async def download_shard(
        self, backup: str, step: BackupStep, node_rank: int, worker: int, destination: Path
    ) -> VerifiedShard:
        """Fetch one shard's data to a new path, verified byte by byte.

        Against its manifest where there is one; else against the hash that it is named by, which
        for a directory of the public reference does not cover file names.

        Args:
            backup: its name.
            step: from `index`.
            node_rank: whose shard.
            worker: whose shard.
            destination: does not exist yet; after an error the caller clears it away.

        Raises:
            StoredDataError: missing or not as saved.
            OrbaxHashUnavailableError: an Orbax shard of the reference, and no tensorstore to
                check it.
            StorageError: it could not be read.
            DataError: a link on the way to the destination.
            OSError: it could not be written.
        """
        stored = step.shards.get((node_rank, worker))
        if stored is None:
            raise StoredDataError(
                f"backup {backup}: no shard of node {node_rank} worker {worker}", missing=True
            )
        manifest = step.manifests.get(stored)
        source = f"{self._folder}{backup}/{data_name(stored)}"
        if manifest is not None:
            await self._download(source, manifest.files, manifest.empty_directories, destination)
            content = ShardContent(
                manifest.is_directory, manifest.files, manifest.empty_directories
            )
            return VerifiedShard(content, manifest)
        objects = step.data.get(stored, {})
        unchecked = [ManifestFile(path, size, "") for path, size in sorted(objects.items())]
        await self._download(source, unchecked, (), destination)
        content = await asyncio.to_thread(_check_reference_data, destination, stored)
        return VerifiedShard(content, None)

    async def _download(
        self,
        source: str,
        files: Iterable[ManifestFile],
        directories: Iterable[str],
        destination: Path,
    ) -> None:
        files = list(files)
        if [file.path for file in files] != [""]:
            folders = {*directories, *(file.path.rpartition("/")[0] for file in files)} - {""}
            make_folders(destination, folders)
        await gather(PARALLEL_FILES, (self._fetch(source, file, destination) for file in files))

    async def _fetch(self, source: str, file: ManifestFile, destination: Path) -> None:
        path = f"{source}/{file.path}" if file.path else source
        with new_file(destination, file.path) as fd:
            await self._storage.read_into(path, fd, size=file.size, digest=file.blake3 or None)

    async def verify(self, backup: str, step: BackupStep) -> tuple[str, ...]:
        """Read all data of one step and compare it with what was saved; nothing is kept.

        Returns:
            What is wrong, the step's known problems first; empty = every byte is as it was saved.

        Raises:
            StorageError: something could not be read, so nothing can be said.
        """
        problems = list(step.problems)
        for stored in sorted(set(step.shards.values())):
            try:
                await self._verify_data(backup, step, stored)
            except StoredDataError as error:
                problems.append(str(error))
        return tuple(problems)

    async def _verify_data(self, backup: str, step: BackupStep, stored: str) -> None:
        source = f"{self._folder}{backup}/{data_name(stored)}"
        manifest = step.manifests.get(stored)
        if manifest is None:
            key = next(key for key, value in step.shards.items() if value == stored)
            with tempfile.TemporaryDirectory(prefix="verify-") as scratch:
                await self.download_shard(backup, step, *key, Path(scratch) / "data")
            return
        await gather(
            PARALLEL_FILES,
            (
                self._storage.hash_file(
                    f"{source}/{file.path}" if file.path else source,
                    size=file.size,
                    digest=file.blake3,
                )
                for file in manifest.files
            ),
        )

    # --- writing ----------------------------------------------------------------------------------

    async def put_shard(self, backup: str, manifest: ShardManifest, source: Path) -> None:
        """Store one shard's data and manifest; safe to repeat after a crash or error at any point.

        Raises:
            StoredDataError: the local data is not what the manifest says; no manifest is written.
            StorageError: the upload failed.
            OSError: the data cannot be read.
        """
        self._check_own(backup, manifest.job_name)
        prefix = f"{self._folder}{backup}"
        name = CheckpointName(
            self.job_name, manifest.step, manifest.node_rank, manifest.worker, NameKind.MANIFEST
        )
        target = f"{prefix}/{data_name(manifest.storage_name)}"
        await self._storage.write_bytes(f"{prefix}/{BACKUP_FORMAT_FILE}", BACKUP_FORMAT)
        await gather(
            PARALLEL_FILES,
            (
                self._storage.write_file(
                    f"{target}/{file.path}" if file.path else target,
                    source / file.path if file.path else source,
                    size=file.size,
                    digest=file.blake3,
                )
                for file in manifest.files
            ),
        )
        await self._storage.write_bytes(f"{prefix}/{name}", manifest.to_bytes())

    async def seal(self, backup: str, seal: BackupSeal) -> None:
        """Make a backup complete, once everything in it is stored; safe to repeat.

        Raises:
            BackupIncompleteError: something is missing or differs; the backup stays incomplete.
            BackupNotFoundError: nothing is there under this name.
            StorageError: something could not be read or written.
        """
        self._check_own(backup, seal.job_name)
        prefix = f"{self._folder}{backup}"
        metas = {
            str(CheckpointName(self.job_name, seal.step, node, worker, NameKind.META)): stored
            for (node, worker), stored in seal.shards.items()
        }
        files = await self._files(backup)
        content = seal.to_bytes()
        # Judged as it will be once it is sealed, before any of that is written.
        planned = {name: stored.encode() for name, stored in metas.items()}
        after = BackupFiles(
            {**files.listing, BACKUP_SEAL_FILE: len(content)},
            {**files.small, **planned, BACKUP_SEAL_FILE: content},
        )
        index = build_index(self.job_name, backup, _time_of(backup), after)
        if not index.complete:
            raise BackupIncompleteError(self.job_name, backup, index.problems)
        await gather(
            PARALLEL_OBJECTS,
            (self._storage.write_bytes(f"{prefix}/{n}", text) for n, text in planned.items()),
        )
        await self._storage.write_bytes(f"{prefix}/{BACKUP_SEAL_FILE}", content)

    def _check_own(self, backup: str, job_name: str) -> None:
        if parse_backup_name(backup) is None:
            raise ProtocolError(f"{backup!r} is no backup's name (YYYY-MM-DD_HH-MM)")
        if job_name != self.job_name:
            raise ProtocolError(f"a shard of job {job_name} in the backups of {self.job_name}")

    async def delete(self, backup: str) -> None:
        """Delete a backup: what makes it complete first, so that it never looks whole again."""
        if parse_backup_name(backup) is None:
            raise ProtocolError(f"{backup!r} is no backup's name (YYYY-MM-DD_HH-MM)")
        prefix = f"{self._folder}{backup}"
        listing = await self._storage.list(prefix)
        turns: Mapping[str, int] = {"seal": 0, "meta": 1, "manifest": 2, "format": 4}
        for turn in range(5):
            paths = (path for path in listing if turns.get(path.rpartition(".")[2], 3) == turn)
            await self._storage.delete(paths)

    # --- restore.version --------------------------------------------------------------------------

    async def read_restore_version(self) -> str | None:
        """The backup that must be restored, or None where the choice is free.

        Raises:
            ProtocolError: it is there but unreadable or names no backup. Keep all data and refuse.
            StorageError: it could not be read.
        """
        path = f"{self._folder}{RESTORE_VERSION_FILE}"
        try:
            content = await self._storage.read_bytes(path, limit=MAX_SMALL_FILE_BYTES)
        except StoredDataError as error:
            raise ProtocolError(f"{RESTORE_VERSION_FILE} is unreadable: {error}") from None
        return None if content is None else parse_restore_version(content)

    async def force_restore(
        self, backup: str, *, nodes: int | None = None, workers_per_node: int | None = None
    ) -> BackupStep:
        """Write restore.version, so that the job's next start restores this backup and no other.

        Raises:
            BackupNotFoundError: there is no such backup; nothing is written.
            BackupIncompleteError: it cannot be restored; nothing is written.
            StorageError: something could not be read or written.
        """
        index = await self.index(backup, nodes=nodes, workers_per_node=workers_per_node)
        step = index.newest_complete
        if step is None:
            raise BackupIncompleteError(self.job_name, backup, index.problems)
        path = f"{self._folder}{RESTORE_VERSION_FILE}"
        await self._storage.write_bytes(path, backup.encode())
        return step

    async def clear_restore_version(self, backup: str) -> bool:
        """Remove restore.version after the forced backup was restored and a newer step saved.

        Returns:
            False, with nothing changed, where it meanwhile names another backup or is gone.
        """
        if await self.read_restore_version() != backup:
            return False
        await self._storage.delete([f"{self._folder}{RESTORE_VERSION_FILE}"])
        return True


def _time_of(backup: str) -> datetime.datetime:
    time = parse_backup_name(backup)
    if time is None:
        raise BackupNotFoundError(f"{backup!r} is no backup's name (YYYY-MM-DD_HH-MM)")
    return time


def _check_reference_data(path: Path, stored: str) -> ShardContent:
    """Compare data with the hash the public reference named it by."""
    content = read_content(path)
    found = reference_hash(content)
    if found != stored and content.is_directory:
        found = orbax_hash(path) or found
    if found != stored:
        raise StoredDataError(f"{stored}.data: its content hashes to {found}")
    return content
