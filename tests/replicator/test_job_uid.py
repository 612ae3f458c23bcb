"""The identity of one run of a job: the platform's or the file's, and one value everywhere."""

from __future__ import annotations

import pytest
from agent_lab import Lab, go

from replicator.backups import JobBackups
from replicator.platform.static import StaticPlatform
from replicator.storage import ObjectStorage


def give_uid(lab, uid):
    for index in range(lab.size):
        lab.options[index] = {"platform": StaticPlatform(lab.peers_file, uid)}


def uids(lab):
    found = set()
    for agent in lab.agents:
        found |= {manifest.job_uid for manifest in agent.store.records.values()}
        found |= {agent.config.job_uid, agent.node.state.job.uid}
    return found


async def complete_backups(lab, count):
    """The steps of the lab's backups once there are so many; every one must be complete."""
    folder = lab.backup_dir / lab.job
    await lab.until(lambda: len(list(folder.glob("*/backup.seal"))) == count, "backups")
    backups = JobBackups(ObjectStorage.open(f"file://{lab.backup_dir}"), lab.job)
    found = []
    for path in sorted(folder.glob("*/backup.seal")):
        index = await backups.index(path.parent.name)
        assert index.problems == ()
        found += [step.step for step in index.steps]
    return found


@pytest.mark.parametrize("in_file", [None, "of-the-file"])
def test_the_platforms_uid_stands_in_manifests_and_seals(tmp_path, in_file):
    async def scenario():
        async with Lab(tmp_path) as lab:
            give_uid(lab, "run-x")
            await lab.start()
            keys = {"backup_interval_steps": 1, "backup_interval_minutes": None}
            await lab.restored(job_uid=in_file, **keys)
            await lab.replicate(1)
            assert uids(lab) == {"run-x"}
            assert await complete_backups(lab, 1) == [1]
            # The agent's own restart keeps it.
            await lab.kill(0)
            await lab.start(0)
            await lab.replicate(2)
            assert uids(lab) == {"run-x"}

    go(scenario())


def test_the_files_uid_counts_where_the_platform_knows_none(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored(job_uid="of-the-file")
            await lab.replicate(1)
            assert uids(lab) == {"of-the-file"}

    go(scenario())


def test_another_run_restores_and_backs_up_what_the_last_one_saved(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            give_uid(lab, "run-a")
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            for index in range(2):
                await lab.kill(index)
            give_uid(lab, "run-b")
            await lab.start()
            keys = {"backup_interval_steps": 1, "backup_interval_minutes": None}
            assert await lab.restored(**keys) == 1
            assert await complete_backups(lab, 1) == [1]
            # The volumes are lost: the backup is all there is.
            for index in range(2):
                await lab.wipe(index)
            await lab.start()
            assert await lab.restored(**keys) == 1

    go(scenario())


def test_a_uid_that_no_manifest_may_hold_is_refused(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            give_uid(lab, "a b/c")
            await lab.start()
            lab.begin()
            await lab.until(lambda: lab.failed(0), "the refusal")
            assert "the job UID 'a b/c' that this agent was given cannot be used" in lab.failed(0)
            assert not (lab.local(0) / "replicator.yaml").exists()

    go(scenario())


def test_a_running_job_survives_a_restart_of_its_agent_with_such_a_uid(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            give_uid(lab, "run-x")
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.kill(0)
            give_uid(lab, "a b/c")
            await lab.start()
            assert lab.agents[0].config.job_uid == "run-x"
            assert lab.copies(0) == {(1, 0)}

    go(scenario())
