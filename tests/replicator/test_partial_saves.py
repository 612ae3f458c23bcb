"""Several workers a node: a save of which only a part is there, or only a part was taken."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from agent_lab import Lab, go

from replicator.agent.store import LocalStore
from replicator.core.model import CheckpointId
from replicator.protocol import parse_config

WORKERS = 3


def save(lab: Lab, node: int, step: int, workers=range(WORKERS)) -> None:
    for worker in workers:
        path = lab.local(node) / f"job-s{step}-n{node}-w{worker}.save"
        path.write_bytes(f"{step}.{node}.{worker}".encode() * 1000)


def markers(lab: Lab, step: int) -> list[Path]:
    return [
        lab.local(node) / f"job-s{step}-n{node}-w{worker}.restore"
        for node in range(lab.size)
        for worker in range(WORKERS)
    ]


async def begin(lab: Lab, step: int = 0) -> None:
    lab.framework = "pytorch"
    lab.begin(workers_per_node=WORKERS)
    await lab.until(lambda: all(m.exists() for m in markers(lab, step)), "markers")


def end_at_rename(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have the renaming of a save's parts fail for good at one of them, as a crash would."""
    rename, done = Path.rename, []

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".save") and Path(target).name.endswith(".data"):
            if len(done) >= number:
                raise KeyboardInterrupt  # nothing in the agent handles that
            done.append(self)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)


@pytest.mark.parametrize("placed", [0, 1, 2])
def test_a_save_of_which_a_crash_left_some_parts_in_place_is_taken_by_the_next_life(
    tmp_path, monkeypatch, placed
):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await begin(lab)
            agent = lab.agents[1]
            assert agent is not None
            config, run = agent.config, agent.node.state.linked
            await lab.kill(1)
            save(lab, 1, 3)
            store = LocalStore(lab.local(1))
            store.prepare()
            store.load(config)
            with monkeypatch.context() as patch:
                end_at_rename(patch, placed)
                with pytest.raises(KeyboardInterrupt):
                    store.seal(config, CheckpointId(run.epoch, 3))
            store.close()
            assert len(list(lab.local(1).glob("*-s3-*.save"))) == WORKERS - placed
            await lab.start(1)
            save(lab, 0, 3)
            await lab.until(lambda: lab.replicated() == 3, "replication")
            await lab.wipe(0)
            await lab.start(0)
            await begin(lab, 3)
            found = [m.read_bytes()[:5].decode() for m in markers(lab, 3)]
            assert found == [f"3.{n}.{w}" for n in range(2) for w in range(WORKERS)]

    go(scenario())


def test_a_volume_that_is_full_between_two_records_of_a_save_loses_nothing(tmp_path, monkeypatch):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await begin(lab)
            write, full = LocalStore._write_record, [True]

            def failing(self, key, manifest):
                if full and key.shard == (1, 1):
                    raise OSError(errno.ENOSPC, "No space left on device")
                write(self, key, manifest)

            monkeypatch.setattr(LocalStore, "_write_record", failing)
            save(lab, 0, 3)
            save(lab, 1, 3)
            await lab.until(lambda: "No space left" in lab.errors(1), "the report")
            assert not list(lab.local(1).glob("*-s3-n1-*.manifest"))
            full.clear()
            await lab.until(lambda: lab.replicated() == 3, "replication")

    go(scenario())


def test_a_step_that_a_worker_never_saved_is_told_and_does_not_stay_in_memory(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await begin(lab)
            save(lab, 0, 1)
            save(lab, 1, 1, [0, 2])
            await asyncio.sleep(0.5)
            assert len(list(lab.local(1).glob("*-s1-n1-*.save"))) == 2  # it may yet come
            save(lab, 0, 2)
            save(lab, 1, 2)
            await lab.until(lambda: lab.replicated() == 2, "replication")
            await lab.until(
                lambda: "step 1 was not saved by worker(s) 1" in lab.errors(1), "report"
            )
            assert not list(lab.local(1).glob("*.save"))
            save(lab, 0, 3)
            save(lab, 1, 3)
            await lab.until(lambda: lab.replicated() == 3, "replication")
            assert lab.errors(1).count("step 1 was not saved") == 1

    go(scenario())


def test_all_parts_of_a_save_that_cannot_be_used_are_kept_aside(tmp_path):
    store = LocalStore(tmp_path)
    store.prepare()
    text = "job-name: job\nframework: pytorch\nnode-rank: 0\nnodes: 1\nworkers-per-node: 2\n"
    config = parse_config(f"{text}peers-per-node: 0\nbackup-interval-minutes: 1\n".encode())
    for step in (1, 2):
        for path in store.save_paths(config, step):
            path.write_bytes(b"x")
        store.reject(config, step)
    aside = sorted(path.name for path in store.quarantine.iterdir())
    assert aside == ["rejected-job-s2-n0-w0.save", "rejected-job-s2-n0-w1.save"]
