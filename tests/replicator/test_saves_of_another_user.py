"""Saves that the agent may read but neither move nor delete, or not even read."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from agent_lab import Lab, go

from replicator.agent import store


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves of step 2 on node 1 as those of root for an agent that is somebody else."""
    rename, access = Path.rename, os.access

    def refusing(self: Path, target: Path) -> Path:
        if self.name == "job-s2-n1-w0.save":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return rename(self, target)

    def asked(path: Path, mode: int) -> bool:
        return Path(path).name != "job-s2-n1-w0.save" and access(path, mode)

    monkeypatch.setattr(Path, "rename", refusing)
    monkeypatch.setattr(store.os, "access", asked)


@pytest.mark.usefixtures("foreign")
def test_a_save_that_cannot_be_moved_is_told_and_the_agent_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("replicator.agent.saves.SEAL_PAUSE", 0.1)

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.save(2)
            await lab.until(lambda: "stays where it is" in lab.errors(1), "the report")
            assert f"as user {os.geteuid()} may not move or delete it" in lab.errors(1)
            await lab.replicate(3)  # after which step 2 would be put aside again and again
            await asyncio.sleep(0.5)
            assert (lab.local(1) / "job-s2-n1-w0.save").is_dir()
            assert lab.errors(1).count("step 2 was saved after") <= 1
            await lab.replicate(4)

    go(scenario())


def test_a_save_that_cannot_be_read_is_told_once_and_taken_when_it_can(tmp_path, monkeypatch):
    monkeypatch.setattr("replicator.agent.saves.SEAL_PAUSE", 0.1)

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            read, tried = store.read_content, []

            def read_content(path, **keys):
                if "-n1-" in path.name and len(tried) < 5:
                    tried.append(path)
                    raise PermissionError(errno.EACCES, "Permission denied", str(path))
                return read(path, **keys)

            monkeypatch.setattr(store, "read_content", read_content)
            lab.save(1)
            await lab.until(lambda: lab.replicated() == 1, "replication in the end")
            assert len(tried) == 5
            assert lab.errors(1).count("Permission denied") == 1

    go(scenario())
