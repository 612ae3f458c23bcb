"""Volumes that are full, of bytes or of files: reported and survived."""

from __future__ import annotations

import asyncio
import contextlib
import secrets

import pytest
from agent_lab import Lab, go
from small_volumes import needs_root, small_tmpfs

from replicator.agent.files import Reserve
from replicator.core.effects import Persist, WriteError


@needs_root
def test_a_full_memory_disk_is_reported_and_survived(tmp_path):
    size = 16 * 1024 * 1024

    async def scenario(small):
        async with Lab(tmp_path) as lab:
            assert lab.local(1) == small
            await lab.start()
            await lab.restored()
            await lab.replicate(1, size // 5)
            (small / "filler").write_bytes(bytes(size // 3))
            lab.save_on(0, 2, size // 5)
            lab.save_on(1, 2, size // 5)
            await lab.until(lambda: "no-space" in lab.errors(1), "the report")
            assert lab.replicated() == 1
            with contextlib.suppress(OSError), (small / "more").open("wb", buffering=0) as more:
                while True:  # not one page is left
                    more.write(bytes(4096))
            lab.save_on(0, 3, size // 5)
            state = small / ".stowplan" / "state.json"
            agent = lab.agents[1]
            assert agent is not None
            before = state.stat().st_mtime_ns
            agent.apply([Persist(agent.node.state), WriteError("room for this")])
            assert state.stat().st_mtime_ns > before
            assert "room for this" in lab.errors(1)
            (small / "more").unlink()
            (small / "filler").unlink()
            lab.save_on(1, 3, size // 5)
            await lab.until(lambda: lab.replicated() == 3, "replication to go on")

    with small_tmpfs(tmp_path / "job-node1", f"size={size}") as small:
        go(scenario(small))


def fill_with_files(directory):
    """Make empty files until the volume takes no more; returns them."""
    made = []
    with contextlib.suppress(OSError):
        while True:
            path = directory / f"full-{secrets.token_hex(4)}"
            path.touch()
            made.append(path)
    return made


@needs_root
def test_a_volume_that_takes_no_more_files_is_reported_and_survived(tmp_path):
    async def scenario(small):
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            full = fill_with_files(small)
            lab.save_on(0, 2)  # its copy does not fit on node 1
            await lab.until(lambda: "No space left" in lab.errors(1), "the report")
            await asyncio.sleep(0.5)  # several ticks, which look after the reserve
            assert not lab.tasks[1].done()
            await lab.kill(1)
            full += fill_with_files(small)
            await lab.start(1)
            # With no file to spare: a restore's marker, the state and the errors still fit.
            full += fill_with_files(small)
            full.pop().rename(small / "replicator.yaml.tmp")
            (small / "replicator.yaml.tmp").write_text(lab.config(1))
            (small / "replicator.yaml.tmp").rename(small / "replicator.yaml")
            lab.write_config(0, lab.config(0))
            assert await lab.wait_restored() == 1
            for path in full:
                path.unlink()
            await lab.replicate(3)

    with small_tmpfs(tmp_path / "job-node1", "size=64m,nr_inodes=60") as small:
        go(scenario(small))


@needs_root
def test_the_reserve_of_a_full_volume_is_taken_when_there_is_room_again(tmp_path):
    with small_tmpfs(tmp_path / "small", "size=1m,nr_inodes=20") as small:
        reserve = Reserve(small / "reserve")
        full = fill_with_files(small)
        reserve.fill()
        assert not list(small.glob("reserve*"))
        with pytest.raises(OSError, match="No space left"):
            reserve.write_whole(small / "vital", b"x", small)
        for path in full:
            path.unlink()
        reserve.fill()
        assert len(list(small.glob("reserve*"))) == Reserve.FILES
        fill_with_files(small)
        for number in range(Reserve.FILES - 1):
            reserve.write_whole(small / f"vital-{number}", b"", small)
        assert (small / "reserve").exists()  # the room in it was not what lacked
        reserve.replace_link(small / "link", "vital-0", small)
        assert (small / "link").exists()
