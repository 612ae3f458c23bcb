"""What a power cut leaves in a volume: no name whose bytes are not on the disk yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_lab import Lab, go

PRIVATE = ".stowplan"
AFTER = {".manifest": (".data",), ".meta": (".manifest",), ".json": (".data", ".manifest", ".meta")}
"""What must be sure to stay before a name of this kind is made."""


class Disk:
    """Sees every fsync and rename, and notes each rename that came before its time."""

    def __init__(self) -> None:
        self.renamed: list[str] = []
        self.too_early: list[str] = []
        self._synced: set[tuple[int, int]] = set()
        self._open: set[tuple[tuple[int, int], str]] = set()  # names in directories that may go

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fsync, rename, replace = os.fsync, Path.rename, Path.replace

        def synced(fd: int) -> None:
            fsync(fd)
            found = _identity(os.fstat(fd))
            self._synced.add(found)
            self._open = {one for one in self._open if one[0] != found}

        def renamed(source: Path, target: Path) -> Path:
            self._before(source, Path(target))
            return rename(source, target)

        def replaced(source: Path, target: Path) -> Path:
            self._before(source, Path(target))
            return replace(source, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "rename", renamed)
        monkeypatch.setattr(Path, "replace", replaced)

    def _before(self, source: Path, target: Path) -> None:
        if "incoming" in target.parts or source.is_symlink():
            return
        volume = next((p for p in target.parents if (p / PRIVATE).is_dir()), None)
        if volume is None:
            return
        self.renamed.append(target.name)
        if "incoming" in source.parts:
            self._bytes_are_there(source, target)
        root = _identity(volume.stat())
        for end in AFTER.get(target.suffix, ()):
            if (root, end) in self._open:
                self.too_early.append(f"{target.name}: a {end} before it may get lost")
        self._open.add((_identity(target.parent.stat()), target.suffix))

    def _bytes_are_there(self, source: Path, target: Path) -> None:
        for path in (source, *source.rglob("*")):
            identity = _identity(path.stat())
            if identity not in self._synced:
                self.too_early.append(f"{target.name}: {path.name} is not on the disk")
            self._synced.discard(identity)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def test_a_save_is_on_the_disk_before_anybody_is_told(tmp_path, monkeypatch):
    disk = Disk()

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            disk.watch(monkeypatch)
            await lab.replicate(1)

    go(scenario())
    assert disk.too_early == []
    assert {"job-s1-n0-w0.e1.manifest", "job-s1-n0-w0.meta", "state.json"} <= set(disk.renamed)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_copy_is_on_the_disk_before_its_record(tmp_path, monkeypatch, lost):
    """From a peer where one node was lost, from the backup where both were."""
    disk = Disk()

    async def scenario():
        async with Lab(tmp_path) as lab:
            often = {"backup_interval_steps": 1, "backup_interval_minutes": None}
            await lab.start()
            await lab.restored(**often)
            await lab.replicate(1)
            seals = lambda: list(lab.backup_dir.glob("*/*/backup.seal"))  # noqa: E731
            await lab.until(seals, "the backup")
            for index in range(lost):
                await lab.wipe(index)
            await lab.start(*range(lost))
            disk.watch(monkeypatch)
            assert await lab.restored(**often) == 1

    go(scenario())
    assert disk.too_early == []
    assert sum(name.endswith(".data") for name in disk.renamed) >= lost
    assert sum(name.endswith(".manifest") for name in disk.renamed) >= lost
