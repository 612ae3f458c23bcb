"""When an agent takes a new replicator.yaml, and what it does not carry over from the job before."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading

from agent_lab import Lab, go

from replicator.agent import intake, tier
from replicator.agent.store import LocalStore
from replicator.agent.tier import Tier
from replicator.backups import JobBackups
from replicator.digest import read_content, reference_hash
from replicator.storage import ObjectStorage, StorageError

OFTEN = {"backup_interval_steps": 1, "backup_interval_minutes": None}


def test_a_configuration_is_consumed_only_once_it_is_remembered(tmp_path):
    """What dies in between finds it again; a consumed one that nobody remembers is a silent end."""

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            shutil.rmtree(lab.local(0) / ".stowplan" / "incoming")  # nothing can be written
            lab.begin()
            task = lab.tasks[0]
            assert task is not None
            await asyncio.wait({task}, timeout=10)
            assert isinstance(task.exception(), OSError)
            assert (lab.local(0) / "replicator.yaml").exists()
            lab.tasks[0] = None
            await lab.start()
            assert await lab.wait_restored() is None

    go(scenario())


def test_a_configuration_waits_until_a_save_is_sealed(tmp_path, monkeypatch):
    go_on, seal = threading.Event(), LocalStore.seal

    def slow(self, config, checkpoint):
        assert go_on.wait(20)
        return seal(self, config, checkpoint)

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            monkeypatch.setattr(LocalStore, "seal", slow)
            lab.save(1)
            agent = lab.agents[0]
            assert agent is not None
            assert agent.node is not None
            await lab.until(lambda: agent.node.saves.sealing, "the save to be taken")
            lab.begin()
            looks = agent.watcher.config_ready
            seen = []
            monkeypatch.setattr(
                type(agent.watcher), "config_ready", lambda _: seen.append(1) or looks()
            )
            for _ in range(3):
                agent.intake.scan()
            assert (lab.local(0) / "replicator.yaml").exists()
            go_on.set()
            assert await lab.wait_restored() == 1

    go(scenario())


def test_the_reference_data_is_taken_over_once_however_often_the_agent_looks(tmp_path, monkeypatch):
    go_on, adopt, calls = threading.Event(), intake.adopt, []

    def slow(store, config):
        calls.append(config.job_name)
        assert go_on.wait(20)
        return adopt(store, config)

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            local = lab.local(0)
            (local / "step").mkdir()
            (local / "step" / "x").write_bytes(b"1" * 5000)
            name = reference_hash(read_content(local / "step"))
            (local / "step").rename(local / f"{name}.data")
            (local / "job-s12-n0-w0.meta").write_text(name)
            monkeypatch.setattr(intake, "adopt", slow)
            await lab.start()
            lab.begin()
            await lab.until(lambda: calls, "the data to be taken over")
            agent = lab.agents[0]
            assert agent is not None
            for _ in range(3):
                agent.intake.scan()
            await asyncio.sleep(0)
            go_on.set()
            assert await lab.wait_restored() == 12
            assert calls == ["job"]

    go(scenario())


def test_another_job_has_backups_of_its_own(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored(**OFTEN)
            await lab.restored(job_name="other", **OFTEN)
            await lab.replicate(1)
            await lab.until(lambda: list(lab.backup_dir.glob("other/*/backup.seal")), "the backup")
            assert not list(lab.backup_dir.glob("job/*"))

    go(scenario())


# ---- the backup tier of a job ------------------------------------------------------------------


async def two_backups_and_nothing_else(lab: Lab) -> dict[int, dict[str, bytes]]:
    await lab.start()
    await lab.restored(**OFTEN)
    saved = {}
    for step in (1, 2):
        saved = await lab.replicate(step)
        seals = lambda n=step: len(list(lab.backup_dir.glob("*/*/backup.seal"))) == n  # noqa: E731
        await lab.until(seals, f"backup {step}")
    for index in range(lab.size):
        await lab.wipe(index)
    await lab.start()
    return saved


def test_storage_that_fails_for_a_moment_does_not_cost_the_newest_backup(tmp_path, monkeypatch):
    read, failures = ObjectStorage.read_into, []

    async def shaky(self, path, fd, *, size, digest):
        if len(failures) < 3:
            failures.append(path)
            raise StorageError("HTTP 503")
        return await read(self, path, fd, size=size, digest=digest)

    async def scenario():
        async with Lab(tmp_path) as lab:
            saved = await two_backups_and_nothing_else(lab)
            monkeypatch.setattr(ObjectStorage, "read_into", shaky)
            assert await lab.restored() == 2
            assert [lab.data(index) for index in range(2)] == [saved[0], saved[1]]
            assert len(failures) == 3
            stores = [agent.store for agent in lab.agents if agent is not None]
            assert len(stores) == 2
            # A copy for the peer may still be on its way: the restore has not waited for it.
            await lab.until(
                lambda: (
                    not any(
                        list(store.incoming.iterdir()) or store.space._reserved for store in stores
                    )
                ),
                "room and names to be given back",
            )

    go(scenario())


def test_only_backups_down_to_the_first_complete_one_are_read(tmp_path, monkeypatch):
    read = []
    index = Tier._index

    async def noted(self, name):
        read.append(name)
        return await index(self, name)

    async def scenario():
        async with Lab(tmp_path) as lab:
            await two_backups_and_nothing_else(lab)
            monkeypatch.setattr(Tier, "_index", noted)
            assert await lab.restored() == 2
            newest = max(path.name for path in (lab.backup_dir / lab.job).iterdir())
            assert set(read) == {newest}

    go(scenario())


def test_a_backup_tier_that_never_answers_is_given_up(tmp_path, monkeypatch):
    async def never(self):
        await asyncio.Event().wait()

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            monkeypatch.setattr(tier, "LIST_SECONDS", 0.01)
            monkeypatch.setattr(JobBackups, "names", never)
            lab.begin()
            await lab.until(lambda: lab.failed(0), "the refusal")
            assert "backups cannot be read: TimeoutError" in lab.failed(0)

    go(scenario())


def test_an_agent_that_comes_back_knows_how_old_the_start_is_that_it_finds(tmp_path):
    """The coordinator tells by it a rank that was started anew from one that only reconnects."""

    async def scenario():
        async with Lab(tmp_path, 2) as lab:
            await lab.start(1)
            lab.write_config(1, lab.config(1))
            await lab.until(lambda: not (lab.local(1) / "replicator.yaml").exists(), "its start")
            await lab.kill(1)
            state = lab.local(1) / ".stowplan" / "state.json"
            document = json.loads(state.read_text())
            document["accepted_at"] -= 100
            state.write_text(json.dumps(document))
            await lab.start(1)
            agent = lab.agents[1]
            assert agent is not None
            assert agent.node is not None
            assert 100_000 <= agent.node._hello(agent.now()).age < 200_000

    go(scenario())
