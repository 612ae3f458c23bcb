"""Entries of a mounted backup path that no object store would have."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from backup_cases import NAME, store_backup

from replicator.backups import BackupIncompleteError, JobBackups
from replicator.errors import ProtocolError
from replicator.storage import ObjectStorage, StorageError


def open_at(path: Path) -> JobBackups:
    return JobBackups(ObjectStorage.open(f"file://{path}"), "job")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


def foul(folder: Path, what: str) -> None:
    """Put something into a folder that cannot be an object."""
    if what == "name that is no text":
        (folder / os.fsdecode(b"\xff")).write_text("x")
    elif what == "name with a line break":
        (folder / "a\nb").write_text("x")
    elif what == "link to a folder above":
        (folder / "up").symlink_to("..")
    else:
        (folder / "self").symlink_to("self")


FOUL = [
    "name that is no text",
    "name with a line break",
    "link to a folder above",
    "link to itself",
]


@pytest.mark.parametrize("what", FOUL)
def test_a_backup_that_cannot_be_listed_is_passed_over_for_the_one_before(
    store: Path, tmp_path: Path, what: str
) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path, name="2026-11-30_08-00", step=1)
        await store_backup(backups, tmp_path, name="2026-11-30_09-00", step=2)
        newest = store / "job" / "2026-11-30_09-00"
        foul(newest, what)
        found = await backups.newest_complete()
        assert found is not None
        assert (found[0].name, found[1].step) == ("2026-11-30_08-00", 1)
        index = await backups.index(newest.name)
        assert not index.complete
        (problem,) = index.problems
        assert "cannot list" in problem
        assert "\n" not in problem
        with pytest.raises(BackupIncompleteError, match="cannot list"):
            await backups.force_restore(newest.name)

    asyncio.run(scenario())


@pytest.mark.parametrize("what", FOUL)
def test_something_odd_beside_the_backups_does_not_hide_them(
    store: Path, tmp_path: Path, what: str
) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        foul(store / "job", what)
        (store / "job" / "2026-11-30_10-00").symlink_to("2026-11-30_10-00")
        assert await backups.names() == (NAME,)

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_read_is_not_the_same_as_no_backups(store: Path) -> None:
    (store / "job").parent.mkdir(parents=True)
    (store / "job").write_text("a file")
    with pytest.raises(StorageError, match="cannot list"):
        asyncio.run(open_at(store).names())


@pytest.mark.parametrize("what", ["directory", "dangling link", "pipe", "huge"])
def test_a_restore_version_that_cannot_be_read_is_not_the_same_as_none(
    store: Path, what: str
) -> None:
    version = store / "job" / "restore.version"
    version.parent.mkdir(parents=True)
    if what == "directory":
        version.mkdir()
    elif what == "dangling link":
        version.symlink_to("nowhere")
    elif what == "pipe":
        os.mkfifo(version)
    else:
        version.write_bytes(NAME.encode() + b" " * 9000)
    with pytest.raises(ProtocolError, match=r"restore\.version is unreadable"):
        asyncio.run(asyncio.wait_for(open_at(store).read_restore_version(), 10))


def test_a_restore_version_may_be_a_link_to_a_file(store: Path) -> None:
    (store / "job").mkdir(parents=True)
    (store / "job" / "chosen").write_text(f"{NAME}\n")
    (store / "job" / "restore.version").symlink_to("chosen")
    assert asyncio.run(open_at(store).read_restore_version()) == NAME
