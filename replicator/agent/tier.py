"""The backup tier as the core sees it: list, store a part, seal, fetch."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from replicator.agent.files import remove
from replicator.agent.metrics import Metrics
from replicator.agent.space import NoSpaceError
from replicator.agent.store import LocalStore
from replicator.agent.transfer import TransferError
from replicator.backup_index import BackupIndex, BackupStep
from replicator.backup_seal import BackupSeal
from replicator.backups import BackupNotFoundError, JobBackups
from replicator.core import effects as fx
from replicator.core.model import Backup, CheckpointId, Content, Failure, Key, ShardId
from replicator.digest import build_manifest, data_hash
from replicator.errors import ReplicatorError
from replicator.manifest import ShardManifest
from replicator.platform.base import Platform, PlatformError
from replicator.protocol import ReplicatorConfig, format_backup_name, parse_backup_name
from replicator.storage import BackupTierError, ObjectStorage, StorageError, StoredDataError

NO_LOCATION = "this agent has no backup location (--backup)"
LIST_SECONDS = 120.0
MIN_BYTES_PER_SECOND = 1024 * 1024
GRACE_SECONDS = 300.0


class Tier:
    """Backups of one job, or none where the agent has no backup location."""

    def __init__(
        self,
        storage: ObjectStorage | None,
        config: ReplicatorConfig,
        platform: Platform,
        metrics: Metrics,
        *,
        own_folder: bool = False,
    ) -> None:
        self._config = config
        self._platform = platform
        self._metrics = metrics
        self._begun = False
        self._beginning = asyncio.Lock()
        self._backups = None
        if storage is not None:
            self._backups = JobBackups(storage, config.job_name, own_folder=own_folder)
        self._steps: dict[str, BackupStep] = {}
        self._newest = ""  # of all names that were listed

    async def begin(self) -> None:
        """Have the platform make the backups reachable, once for each job.

        Raises:
            StorageError: it cannot now; the next use tries again.
        """
        async with self._beginning:
            if self._begun:
                return
            try:
                with self._metrics.timed("MountGcsBucket", ""):
                    await self._platform.begin(self._config.job_name)
            except PlatformError as error:
                raise StorageError(str(error)) from error
            self._begun = True

    async def read(self, skip: tuple[str, ...]) -> tuple[list[Backup], str | None]:
        """Backups as the core needs them, newest first down to the first complete one, and the
        forced version.

        Raises:
            BackupTierError, TimeoutError, OSError: it cannot be read.
            ProtocolError: `restore.version` names no backup.
        """
        if self._backups is None:
            return [], None
        async with asyncio.timeout(LIST_SECONDS):
            await self.begin()
            forced, names = await asyncio.gather(
                self._backups.read_restore_version(), self._names(self._backups)
            )
            wanted = names if forced is None else [n for n in names if n == forced]
            return await self._down_to_complete(n for n in wanted if n not in skip), forced

    async def newest(self) -> list[Backup]:
        """The backups alone, newest first down to the first complete one.

        Raises:
            BackupTierError, TimeoutError, OSError: they cannot be read.
        """
        if self._backups is None:
            return []
        async with asyncio.timeout(LIST_SECONDS):
            await self.begin()
            return await self._down_to_complete(await self._names(self._backups))

    async def _names(self, backups: JobBackups) -> tuple[str, ...]:
        names = await backups.names()
        self._newest = max([self._newest, *names])
        return names

    async def _down_to_complete(self, names: Iterable[str]) -> list[Backup]:
        found: list[Backup] = []
        for name in names:
            try:
                found.append(self._judged(await self._index(name)))
            except BackupNotFoundError:
                continue  # pruned since the listing, or an empty directory
            if not found[-1].problem:
                break
        return found

    def name_backup(self, newest: str) -> str:
        """A name for a backup that starts now, later than this one and all that were listed."""
        return name_backup(max(newest, self._newest))

    async def _index(self, name: str) -> BackupIndex:
        assert self._backups is not None
        return await self._backups.index(
            name,
            nodes=self._config.nodes,
            workers_per_node=self._config.workers_per_node,
        )

    def _judged(self, index: BackupIndex) -> Backup:
        step = index.newest_complete
        if step is None:
            problem = "; ".join(index.problems[:3])
            return Backup(index.name, CheckpointId(0, 0), self._config.nodes, {}, problem)
        self._steps[index.name] = step
        shards = {}
        for (rank, worker), stored in step.shards.items():
            manifest = step.manifests.get(stored)
            digest = stored if manifest is None else manifest.data_hash
            size = sum(step.data.get(stored, {}).values())
            shards[ShardId(rank, worker)] = Content(digest, stored, size)
        age = (datetime.datetime.now(datetime.UTC) - index.time).total_seconds()
        checkpoint = CheckpointId(step.epoch, step.step)
        return Backup(index.name, checkpoint, step.nodes, shards, age=age)

    async def upload(self, store: LocalStore, effect: fx.Upload) -> str:
        """Store this node's part; returns a problem, or nothing."""
        if self._backups is None:
            return NO_LOCATION
        manifests = [store.records.get(Key(effect.checkpoint, shard)) for shard in effect.upload]
        total = sum(m.total_size for m in manifests if m is not None)
        try:
            async with asyncio.timeout(GRACE_SECONDS + total / MIN_BYTES_PER_SECOND):
                await self.begin()
                for manifest in manifests:
                    if manifest is None:
                        return "a copy is gone"
                    path = store.data_path(manifest)
                    # In a backup the UID is of the run that makes it, as in the seal: a restored
                    # checkpoint was saved by another run.
                    stamped = replace(manifest, job_uid=self._config.job_uid)
                    await self._backups.put_shard(effect.name, stamped, path)
        except (ReplicatorError, OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def complete(self, effect: fx.CompleteBackup) -> str:
        """Seal a backup; returns a problem, or nothing."""
        if self._backups is None:
            return NO_LOCATION
        seal = BackupSeal(
            job_name=self._config.job_name,
            job_uid=self._config.job_uid,
            epoch=effect.checkpoint.epoch,
            step=effect.checkpoint.step,
            nodes=effect.world,
            workers_per_node=self._config.workers_per_node,
            shards={(s.rank, s.worker): content.manifest for s, content in effect.shards},
        )
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self.begin()
                await self._backups.seal(effect.name, seal)
        except (ReplicatorError, OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def clear_forced(self, name: str) -> None:
        """Remove `restore.version` if it still names this backup."""
        if self._backups is not None:
            async with asyncio.timeout(LIST_SECONDS):
                await self.begin()
                await self._backups.clear_restore_version(name)

    async def download(
        self, store: LocalStore, key: Key, content: Content, backup: str
    ) -> tuple[ShardManifest, Path]:
        """Fetch a shard into scratch space, verified.

        Raises:
            TransferError: with the reason; nothing is left behind.
        """
        place = store.scratch()
        try:
            reservation = await asyncio.to_thread(store.space.reserve, content.size)
        except NoSpaceError as error:
            raise TransferError(Failure.NO_SPACE, str(error)) from error
        try:
            return await self._download(key, content, backup, place), place
        except StoredDataError as error:
            await asyncio.to_thread(remove, place)
            failure = Failure.MISSING if error.missing else Failure.CORRUPT
            raise TransferError(failure, str(error)) from error
        except BackupTierError as error:
            await asyncio.to_thread(remove, place)
            failure = Failure.TRANSIENT if error.transient else Failure.CORRUPT
            raise TransferError(failure, str(error)) from error
        except (ReplicatorError, OSError, TimeoutError) as error:
            await asyncio.to_thread(remove, place)
            raise TransferError(Failure.TRANSIENT, f"{type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            await asyncio.to_thread(remove, place)
            raise
        finally:
            store.space.release(reservation)

    async def _download(
        self, key: Key, content: Content, backup: str, place: Path
    ) -> ShardManifest:
        if self._backups is None:
            raise StoredDataError(NO_LOCATION, missing=True)
        async with asyncio.timeout(GRACE_SECONDS + content.size / MIN_BYTES_PER_SECOND):
            await self.begin()
            step = self._steps.get(backup)
            if step is None:
                self._judged(await self._index(backup))
                step = self._steps.get(backup)
            if step is None:
                raise StoredDataError(f"backup {backup} is not complete", missing=True)
            shard = await self._backups.download_shard(
                backup, step, key.shard.rank, key.shard.worker, place
            )
        if shard.manifest is not None:
            return shard.manifest
        framework = self._config.framework
        name = await asyncio.to_thread(data_hash, place, framework, shard.content)
        manifest = build_manifest(
            shard.content,
            self._config,
            step=key.checkpoint.step,
            worker=key.shard.worker,
            data_hash=name,
        )
        return replace(manifest, node_rank=key.shard.rank)


def name_backup(newest: str) -> str:
    """A name for a backup that starts now, always later than the newest known one.

    A clock that jumped back must not make the newest backup look old, so the minute after the
    newest is used then.
    """
    name = format_backup_name(datetime.datetime.now(datetime.UTC))
    if name > newest:
        return name
    last = parse_backup_name(newest)
    if last is None:
        return name
    return format_backup_name(last + datetime.timedelta(minutes=1))
