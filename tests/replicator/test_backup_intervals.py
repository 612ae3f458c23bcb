"""Backups over restarts: the interval counts on, and no backup is written over another."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from types import SimpleNamespace

import pytest
from agent_lab import Lab, go

from replicator.agent import tier
from replicator.agent.tier import Tier
from replicator.backups import BackupNotFoundError, JobBackups
from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.backups import BackupRound
from replicator.core.catalogue import Catalogue
from replicator.core.coordinator import Coordinator
from replicator.core.model import Backup, CheckpointId, Content, Copy, Job, Run, ShardId, Timing
from replicator.core.node import Node
from replicator.core.state import NodeState
from replicator.storage import ObjectStorage, StorageError

JOB = Job("job", 0, 1, backup_minutes=30)
STEPS = Job("job", 0, 1, backup_steps=100)
SHARD = ShardId(0, 0)
CONTENT = Content("d", "m", 1)
RUN = Run(2, "t")


async def backups(lab: Lab) -> dict[str, int | None]:
    """The names of the job's backups and the steps that they restore."""
    job = JobBackups(ObjectStorage.open(f"file://{lab.backup_dir}"), lab.job)
    indexes = [await job.index(name) for name in await job.names()]
    return {i.name: i.newest_complete.step if i.newest_complete else None for i in indexes}


async def all_backed_up(lab: Lab, *steps: int) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for _ in range(500):
        with contextlib.suppress(BackupNotFoundError):  # its first object is yet to come
            found = await backups(lab)
        if list(found.values()) == list(steps):
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"{found}, expected the steps {steps}")


def clock_behind(difference: datetime.timedelta) -> SimpleNamespace:
    """The module `datetime` as one sees it whose clock was set back."""
    now = lambda tz: datetime.datetime.now(tz) - difference  # noqa: E731
    names = {"UTC": datetime.UTC, "timedelta": datetime.timedelta}
    return SimpleNamespace(datetime=SimpleNamespace(now=now), **names)


@pytest.mark.parametrize("back", [0, 1], ids=["same minute", "jump"])
@pytest.mark.parametrize("forced", [False, True])
def test_a_coordinators_next_life_writes_over_no_backup_and_names_none_older(
    tmp_path, monkeypatch, back, forced
):
    async def scenario():
        async with Lab(tmp_path) as lab:
            keys = {"backup_interval_steps": 1, "backup_interval_minutes": None}
            await lab.start()
            await lab.restored(**keys)
            await lab.replicate(1)
            await all_backed_up(lab, 1)
            await lab.replicate(2)
            found = await all_backed_up(lab, 2, 1)
            monkeypatch.setattr(tier, "datetime", clock_behind(datetime.timedelta(hours=back)))
            await lab.kill(0)
            await lab.start(0)
            if forced:
                (lab.backup_dir / "job" / "restore.version").write_text(min(found))
                assert await lab.restored(**keys) == 1
            await lab.replicate(3)
            assert found.items() < (await all_backed_up(lab, 3, 2, 1)).items()

    go(scenario())


def test_while_it_is_not_known_which_backups_there_are_none_begins(tmp_path, monkeypatch):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored(backup_interval_minutes=0)
            await lab.replicate(1)
            found = await all_backed_up(lab, 1)
            await lab.kill(0)
            newest, down = Tier.newest, [True]

            async def failing(self):
                if down:
                    raise StorageError("HTTP 503")
                return await newest(self)

            monkeypatch.setattr(Tier, "newest", failing)
            await lab.start(0)
            await lab.replicate(2)
            await asyncio.sleep(0.3)
            assert await backups(lab) == found
            down.clear()
            assert found.items() < (await all_backed_up(lab, 2, 1)).items()

    go(scenario())


# ---- when one is due ----------------------------------------------------------------------------


def catalogue(*checkpoints: CheckpointId) -> Catalogue:
    made = Catalogue()
    for checkpoint in checkpoints:
        made.add(0, checkpoint, SHARD, CONTENT, 1)
    return made


def backup(step: int, age: float | None, epoch: int = 1, problem: str = "") -> Backup:
    return Backup(f"b{step}", CheckpointId(epoch, step), 1, {SHARD: CONTENT}, problem, age)


def due(round_: BackupRound, step: int, now: float, epoch: int = 2) -> bool:
    checkpoint = CheckpointId(epoch, step)
    return bool(round_.maybe_start(checkpoint, catalogue(checkpoint), now))


def begun(job: Job, stored: list[Backup], now: float = 10_000.0) -> BackupRound:
    """After a restore, as a coordinator begins its run."""
    made = BackupRound(job, Timing(), lambda newest: newest + "+")
    made.list_is(stored, now)
    made.start(now, "")
    return made


@pytest.mark.parametrize(
    ("stored", "first"),
    [
        ([], 1800.0),
        ([backup(5, 600.0)], 1200.0),  # a job that restarts every 20 minutes gets its backups
        ([backup(5, 4000.0)], 0.0),
        ([backup(6, 60.0, problem="not sealed"), backup(5, 4000.0)], 0.0),
        ([backup(5, -7200.0)], 1800.0),  # the clock has jumped back
        ([backup(5, None)], 1800.0),
    ],
)
def test_the_minutes_count_from_the_newest_complete_backup_also_over_restarts(stored, first):
    if first:
        assert not due(begun(JOB, stored), 9, 10_000.0 + first - 1)
    assert due(begun(JOB, stored), 9, 10_000.0 + first)


def test_the_steps_of_a_run_count_on_when_its_coordinator_is_lost():
    made = BackupRound(STEPS, Timing(), lambda newest: newest + "+")
    made.start(0.0, "")
    assert not due(made, 320, 1.0)  # not before it is known what there is
    made.resume([backup(300, 60.0, epoch=2)], 2, 2.0)
    assert not due(made, 399, 3.0)
    assert due(made, 400, 3.0)


def test_a_checkpoint_that_is_stored_is_not_stored_again_by_the_next_coordinator():
    made = BackupRound(JOB, Timing(), lambda newest: newest + "+")
    made.start(0.0, "")
    made.resume([backup(300, 4000.0, epoch=2)], 2, 2.0)
    assert not due(made, 300, 3.0)
    assert due(made, 301, 3.0)


def test_a_coordinator_that_goes_on_asks_which_backups_there_are_until_it_knows():
    made = Coordinator(JOB, "t", Timing(), lambda newest: newest + "+", 0.0)
    held = (Copy(CheckpointId(2, 7), SHARD, CONTENT, 1),)
    hello = msg.Hello(
        rank=0,
        world=1,
        workers=1,
        peers=(),
        data_parallelism=None,
        job="job",
        uid="",
        attempt="a",
        age=0,
        in_vain=0,
        waited=0,
        address="h:1",
        epoch=2,
        linked=RUN,
        prepared=RUN,
        checkpoint=None,
        forced="",
        copies=held,
    )
    effects = made.received(1, hello, 0.0)
    assert fx.ListBackups() in effects
    assert made.backups_listed([], "HTTP 503", 0.0) == []
    assert fx.ListBackups() not in made.tick(1.0)
    made.members.heard(0, 60.0)
    assert fx.ListBackups() in made.tick(60.0)
    effects = made.backups_listed([backup(6, 4000.0, epoch=2)], "", 60.0)
    orders = [e.message for e in effects if isinstance(e, fx.SendTo)]
    assert [o.checkpoint.step for o in orders if isinstance(o, msg.StartBackup)] == [7]


def test_a_node_stores_nothing_of_an_earlier_order_once_it_says_hello():
    node = Node(NodeState(job=JOB, attempt="a", epoch=2, linked=RUN), (), "h:1", Timing())
    node.start(0.0)
    kinds = [type(effect) for effect in node.link_up(0.0)]
    assert kinds.index(fx.StopUploads) < kinds.index(fx.Send)
