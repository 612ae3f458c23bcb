"""A step that is kept only while it is stored in a backup never costs the room of the next save."""

from __future__ import annotations

import asyncio
import os

import pytest
from agent_lab import Lab, go
from core_cases import JOB, TIMING, at, backing_up, replicate, sent, texts

from replicator.agent.store import LocalStore
from replicator.agent.tier import Tier
from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.coordinator import Coordinator
from replicator.core.model import Content, Copy, Run, ShardId
from replicator.core.node import NO_ROOM, Node
from replicator.core.state import NodeState
from replicator.demo.cluster import finish_save

SIZE = 4 * 1024 * 1024
RUN = Run(1, "t")


def save_alike(lab: Lab, step: int) -> None:
    """Both nodes save equal data, as replicas of a model do."""
    data = os.urandom(SIZE)
    for node in range(2):
        directory = lab.local(node) / f"{step}.tmp"
        directory.mkdir()
        (directory / "shard").write_bytes(data)
    for node in range(2):
        finish_save(lab.local(node), step)


@pytest.mark.parametrize(("times", "kept"), [(2.2, 1), (3.3, 2)])
def test_a_backup_gives_way_where_the_next_save_would_not_fit(tmp_path, monkeypatch, times, kept):
    """On TPU the RAM disk holds 2.2 checkpoints, and storing one takes longer than to the next."""
    stored: list[int] = []

    async def never_done(self: Tier, store: LocalStore, effect: fx.Upload) -> str:
        stored.append(effect.checkpoint.step)
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(Tier, "upload", never_done)

    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.options = [{"capacity": int(times * SIZE)}] * 2
            await lab.start()
            await lab.restored(
                assume_data_parallelism=2, backup_interval_minutes=None, backup_interval_steps=2
            )
            save_alike(lab, 1)
            await lab.until(lambda: stored == [1, 1], "the backup to begin")
            save_alike(lab, 2)
            await lab.until(lambda: lab.replicated() == 2, "the next step")
            if kept == 1:
                await lab.until(lambda: NO_ROOM in lab.errors(0), "the report")
                assert "it is tried again after its interval" in lab.errors(1)
            await asyncio.sleep(0.3)
            data = [len(list(lab.local(node).glob("*.data"))) for node in range(2)]
            assert data == [kept, kept]
            assert (NO_ROOM in lab.errors(0)) is (kept == 1)
            save_alike(lab, 3)
            await lab.until(lambda: lab.replicated() == 3, "one more step")
            if kept == 1:
                await lab.until(lambda: stored == [1, 1, 3, 3], "the next backup")

    go(scenario())


# ---- the node -----------------------------------------------------------------------------------


def node_with(*steps: int) -> Node:
    copies = [
        Copy(at(step), ShardId(rank, 0), Content(f"{step}.{rank}", f"{step}.{rank}", 10), 2)
        for step in steps
        for rank in range(2)
    ]
    state = NodeState(JOB, "a", epoch=1, linked=RUN, prepared=RUN)
    node = Node(state, copies, "h:1", TIMING)
    node.link_up(0.0)
    return node


def progress(replicated: int, *held: int) -> msg.Progress:
    return msg.Progress(RUN, at(replicated), at(replicated), tuple(at(step) for step in held))


def order(step: int) -> msg.StartBackup:
    return msg.StartBackup("b1", at(step), (ShardId(0, 0),))


def test_it_looks_for_room_once_the_step_is_kept_for_its_backup_alone():
    node = node_with(5, 6)
    node.received(order(5), 1.0)
    assert fx.CheckRoom not in map(type, node.received(progress(5, 5), 1.0)), "it is the newest"
    effects = node.received(progress(6, 5), 2.0)
    assert fx.CheckRoom(20) in effects, "its own and the peer's part of one more save"


def test_without_a_backup_nothing_needs_to_give_way():
    node = node_with(5, 6)
    assert fx.CheckRoom not in map(type, node.received(progress(6, 5), 2.0))
    assert node.no_room(3.0) == []


def test_what_gives_way_is_stopped_and_told_once():
    node = node_with(5, 6)
    node.received(order(5), 1.0)
    assert node.no_room(2.0) == [
        fx.StopUploads(),
        fx.Send(msg.BackupDone("b1", NO_ROOM, no_room=True)),
    ]
    assert node.no_room(3.0) == []


def test_a_new_start_has_no_backup_to_give_up():
    node = node_with(5, 6)
    node.received(order(5), 1.0)
    node.accept(JOB, "b", 2.0)
    assert node.no_room(3.0) == []


# ---- the coordinator ----------------------------------------------------------------------------


def every_ten_steps() -> tuple[Coordinator, msg.StartBackup]:
    """A coordinator that has just begun to store step 5, and its order."""
    made = backing_up(every=10)
    (first, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    return made, first


@pytest.mark.parametrize("stored_its_part", [False, True])
def test_any_node_may_give_the_backup_up(stored_its_part):
    made, first = every_ten_steps()
    if stored_its_part:
        made.received(2, msg.BackupDone(first.name, ""), 2.0)
    effects = made.received(2, msg.BackupDone(first.name, NO_ROOM, no_room=True), 3.0)
    assert [text for text in texts(effects) if NO_ROOM in text]
    assert made.backups.holds() == ()


def test_after_giving_way_the_next_is_due_an_interval_later():
    made, first = every_ten_steps()
    made.received(2, msg.BackupDone(first.name, NO_ROOM, no_room=True), 3.0)
    assert sent(replicate(made, 14, 4.0), msg.StartBackup) == []
    assert len(sent(replicate(made, 15, 5.0), msg.StartBackup)) == 2


def test_another_failure_is_tried_again_with_the_next_step():
    made, first = every_ten_steps()
    made.received(2, msg.BackupDone(first.name, "HTTP 503"), 3.0)
    assert len(sent(replicate(made, 6, 4.0), msg.StartBackup)) == 2


def test_what_an_earlier_backup_lacked_room_for_is_not_this_ones_matter():
    made, _ = every_ten_steps()
    made.received(2, msg.BackupDone("b0", NO_ROOM, no_room=True), 3.0)
    assert made.backups.holds() != ()
