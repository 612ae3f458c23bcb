"""Nothing that can happen to a backup makes a bad one look good: every crash, every lost object."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from backup_cases import NAME, make_shard, manifest_of, seal_of, store_backup

from replicator.backups import JobBackups
from replicator.storage import ObjectStorage


class CrashError(Exception):
    pass


class CrashingStorage(ObjectStorage):
    """Dies at the start or at the end of its n-th write."""

    def arm(self, writes: int, *, after: bool) -> None:
        self.left, self.after = writes, after

    async def write_bytes(self, path: str, content: bytes) -> None:
        self._count(before=True)
        await super().write_bytes(path, content)
        self._count(before=False)

    def _count(self, *, before: bool) -> None:
        if before:
            self.left -= 1
        if self.left < 0 or (self.left == 0 and before != self.after):
            raise CrashError


def open_at(path: Path, kind: type[ObjectStorage] = ObjectStorage) -> JobBackups:
    return JobBackups(kind.open(f"file://{path}"), "job")


async def judged(backups: JobBackups) -> bool:
    """Whether a backup passes for complete; if it does, every byte of it must be right."""
    found = await backups.newest_complete()
    if found is None:
        return False
    index, step = found
    assert await backups.verify(index.name, step) == ()
    return True


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_leaves_nothing_that_looks_complete(
    tmp_path: Path, after: bool
) -> None:
    shards = [make_shard(tmp_path, rank) for rank in range(2)]
    manifests = [manifest_of(shard, rank) for rank, shard in enumerate(shards)]

    async def back_up(backups: JobBackups) -> None:
        for shard, manifest in zip(shards, manifests, strict=True):
            await backups.put_shard(NAME, manifest, shard)
        await backups.seal(NAME, seal_of(manifests))

    async def crash_at(write: int) -> bool:
        store = tmp_path / f"bucket-{write}"
        backups = open_at(store, CrashingStorage)
        storage = backups._storage
        assert isinstance(storage, CrashingStorage)
        storage.arm(write, after=after)
        try:
            await back_up(backups)
        except CrashError:
            survivor = open_at(store)
            sealed = (store / "job" / NAME / "backup.seal").exists()
            assert await judged(survivor) == sealed
            await back_up(survivor)
            assert await judged(survivor), "the same calls again complete it"
            return True
        assert await judged(backups)
        return False

    writes = 1
    while asyncio.run(crash_at(writes)):
        writes += 1
    assert writes > 12, "two shards of three files, manifests, metas and the seal"


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[len(content) // 2] ^= 0x20
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [remove, empty, truncate, extend, flip])
def test_damage_to_any_object_is_noticed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    async def scenario() -> None:
        backups = open_at(tmp_path / "bucket")
        await store_backup(backups, tmp_path)
        paths = sorted(p for p in (tmp_path / "bucket").rglob("*") if p.is_file())
        assert len(paths) == 2 * 3 + 2 + 2 + 2
        for path in paths:
            good = path.read_bytes()
            damage(path)
            changed = not path.exists() or path.read_bytes() != good
            index = await backups.index(NAME)
            step = index.newest_complete
            problems = index.problems if step is None else await backups.verify(NAME, step)
            # The format's name holds nothing that could be wrong once the seal is there.
            assert bool(problems) == (changed and path.name != "backup.format"), (path, problems)
            path.write_bytes(good)
            assert (await backups.index(NAME)).complete

    asyncio.run(scenario())


WRITER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from backup_cases import manifest_of, seal_of
from replicator.backups import JobBackups
from replicator.protocol import format_backup_name
from replicator.retention import RetentionPolicy, prune
from replicator.storage import ObjectStorage
import datetime

async def main():
    backups = JobBackups(ObjectStorage.open(f"file://{sys.argv[3]}"), "job")
    shards = [Path(sys.argv[2]) / f"shard-3-{rank}" for rank in range(2)]
    manifests = [manifest_of(shard, rank) for rank, shard in enumerate(shards)]
    minute = int(sys.argv[4])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    now = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    while True:
        name = format_backup_name(start + datetime.timedelta(minutes=minute))
        for shard, manifest in zip(shards, manifests):
            await backups.put_shard(name, manifest, shard)
        await backups.seal(name, seal_of(manifests))
        await prune(backups, RetentionPolicy(daily=1, prefer_recent=True), now=now, dry_run=False)
        print("sealed", flush=True)
        minute += 1

asyncio.run(main())
"""


def test_killed_at_random_while_writing_and_pruning_a_complete_backup_always_remains(
    tmp_path: Path,
) -> None:
    seed = random.randrange(2**32)
    pick = random.Random(seed)
    for rank in range(2):
        make_shard(tmp_path, rank, size=400_000)
    store = tmp_path / "bucket"
    minute, sealed = 0, 0
    for _ in range(8):
        command = [sys.executable, "-c", WRITER, str(Path(__file__).parent)]
        process = subprocess.Popen(
            [*command, str(tmp_path), str(store), str(minute)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert process.stdout is not None
        if sealed == 0:
            assert process.stdout.readline() == b"sealed\n"
        else:
            process.stdout.readline()
        time.sleep(pick.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        sealed += 1 + len(process.communicate(timeout=20)[0].split())
        minute += 1000
        assert asyncio.run(judged(open_at(store))), f"seed {seed}, after {sealed} backups"
