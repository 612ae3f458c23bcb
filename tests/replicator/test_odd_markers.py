"""Small files that are damaged, or something else than files."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from agent_lab import Lab, go


@pytest.mark.parametrize("what", ["directory", "pipe"])
def test_a_restore_version_that_cannot_be_read_refuses_the_start(tmp_path, what):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            before = [lab.copies(index) for index in range(2)]
            version = lab.backup_dir / lab.job / "restore.version"
            version.parent.mkdir(exist_ok=True)
            version.mkdir() if what == "directory" else os.mkfifo(version)
            lab.begin()
            await lab.until(lambda: lab.failed(0) and lab.failed(1), "the refusal")
            assert "restore.version is unreadable" in lab.failed(0)
            assert lab.marker(0) is None
            assert [lab.copies(index) for index in range(2)] == before

    go(scenario())


DAMAGE = {
    "cut off": lambda text: text[: len(text) // 2],
    "no text": lambda _: b"\xff\xfe",
    "a list": lambda _: b"[]",
    "empty": lambda _: b"",
    "deep": lambda _: b"[" * 100_000,
    "config is a number": lambda text: json.dumps({**json.loads(text), "config": 5}),
    "config is none of ours": lambda text: json.dumps({**json.loads(text), "config": "x: ["}),
    "infinite epoch": lambda text: json.dumps({**json.loads(text), "epoch": float("inf")}),
    "odd run": lambda text: json.dumps({**json.loads(text), "linked": ["a", 1]}),
    "short pair": lambda text: json.dumps({**json.loads(text), "checkpoint": [1]}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_state_is_told_to_the_job_and_put_aside(tmp_path, damage):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.kill(0)
            state = lab.local(0) / ".stowplan" / "state.json"
            damaged = damage(state.read_bytes())
            damaged = damaged.encode() if isinstance(damaged, str) else damaged
            state.write_bytes(damaged)
            await lab.start(0)
            assert "the agent's state is damaged and was put aside" in lab.errors(0)
            assert "until replicator.yaml is written again" in lab.errors(0)
            assert state.with_name("state.json.damaged").read_bytes() == damaged
            await lab.kill(0)
            await lab.start(0)
            assert lab.errors(0).count("damaged") == 1  # told once
            assert await lab.restored() == 1  # nothing was lost with it
            await lab.replicate(2)

    go(scenario())


def test_directories_in_place_of_the_agents_files_are_replaced(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            local = lab.local(0)
            (local / ".stowplan" / "state.json" / "x").mkdir(parents=True)
            await lab.start()
            assert "the agent's state is damaged" in lab.errors(0)
            (local / "replicator.failed" / "x").mkdir(parents=True)
            (local / "replicator.yaml.tmp").write_text("x: [")
            (local / "replicator.yaml.tmp").rename(local / "replicator.yaml")
            await lab.until((local / "replicator.failed").is_file, "the refusal")
            assert "replicator.yaml:2:1:" in lab.failed(0)
            await lab.until(lambda: not (local / "replicator.yaml").exists(), "consumption")
            await lab.restored()
            state = local / ".stowplan" / "state.json"
            state.unlink()
            (state / "x").mkdir(parents=True)
            (local / "replicator.errors").unlink(missing_ok=True)
            (local / "replicator.errors" / "x").mkdir(parents=True)
            await lab.replicate(1)
            assert state.is_file()
            lab.agents[0].reports.error("heard")
            assert lab.errors(0) == "heard\n"

    go(scenario())


def test_backups_without_a_location_are_told_once_a_start(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.options = [{"storage": None}, {"storage": None}]
            await lab.start()
            for step in (1, 2, 3):
                if step in (1, 3):
                    await lab.restored(backup_interval_steps=1, backup_interval_minutes=None)
                await lab.replicate(step)
                await lab.until(
                    lambda: all("no backup location" in lab.errors(i) for i in range(2)), "it"
                )
                await asyncio.sleep(0.3)
                for index in range(2):
                    assert lab.errors(index).count("no backup location (--backup)") == 1

    go(scenario())


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_a_configuration_that_is_no_file_is_refused_and_consumed(tmp_path, kind):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            path = lab.local(0) / "replicator.yaml"
            prepared = lab.local(0) / "elsewhere"
            os.mkfifo(prepared) if kind == "pipe" else prepared.mkdir()
            if kind == "directory":
                (prepared / "notes").write_text("mine")
            prepared.rename(path)
            await lab.until(lambda: lab.failed(0), "the refusal")
            assert "replicator.yaml: no regular file" in lab.failed(0)
            await lab.until(lambda: not path.exists(), "consumption")
            kept = [found.read_text() for found in lab.local(0).rglob("notes")]
            assert kept == (["mine"] if kind == "directory" else [])

    go(scenario())
