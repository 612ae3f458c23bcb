"""What a node and a coordinator carry through restarts, silence and a change of plans."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_cases import (
    JOB,
    LOCAL,
    OWN,
    RUN,
    TIMING,
    at,
    backing_up,
    content,
    coordinator,
    hello,
    in_a_run,
    kinds,
    replicate,
    restoring,
    running_node,
    save,
    sent,
    started_node,
    stored,
    texts,
)

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.coordinator import Coordinator, Phase
from replicator.core.model import Copy, Failure, Job, Origin, Run, ShardId, Source
from replicator.core.node import Node
from replicator.core.state import NodeState

PEER = Source(Origin.PEER, 1, "h:2")


# ---- a node's memory ---------------------------------------------------------------------------


def test_a_node_never_forgets_the_highest_run_that_it_has_seen():
    node, _ = started_node(plan=False)
    node.received(msg.Plan(Run(7, "t"), at(5), "", "", (ShardId(0, 0),)), 0.0)
    assert node.state.epoch == 7
    node.received(msg.Refuse("no"), 0.0)
    assert node.state.epoch == 7
    node.accept(JOB, "b", 1.0)
    assert node.state.epoch == 7
    assert node.link_up(1.0)[-1].message.epoch == 7


def test_a_new_plan_takes_back_the_consent_to_the_one_before():
    node, _ = started_node()
    node.received(msg.Plan(Run(3, "t"), None, "", "", ()), 0.0)
    assert node.state.prepared == Run(3, "t")
    effects = node.received(msg.Plan(Run(4, "t"), at(5), "", "", (ShardId(0, 0),)), 0.0)
    persisted = [e.state for e in effects if isinstance(e, fx.Persist)]
    assert [state.prepared for state in persisted] == [None]


def test_the_loss_of_consent_is_remembered_before_the_copy_is_put_aside():
    node, _ = started_node()
    order = msg.Fetch(*OWN, content("own"), 2, LOCAL)
    node.received(order, 0.0)
    node.copied(OWN, content("own"), 2, 0.0)
    node.received(order, 0.0)
    effects = node.copy_failed(OWN, LOCAL, Failure.CORRUPT, "bad", 0.0)
    assert kinds(effects)[:2] == [fx.Persist, fx.Quarantine]


@pytest.mark.parametrize(
    ("source", "failure", "aside"),
    [
        (LOCAL, Failure.CORRUPT, True),
        (LOCAL, Failure.MISSING, True),
        (LOCAL, Failure.TRANSIENT, False),  # it could not be read now
        (PEER, Failure.CORRUPT, False),  # the peer's copy is bad, not this node's
        (PEER, Failure.MISSING, False),
    ],
)
def test_only_its_own_proven_damage_takes_a_copy_out_of_use(source, failure, aside):
    node, _ = started_node()
    node.received(msg.Fetch(*OWN, content("own"), 2, source), 0.0)
    effects = node.copy_failed(OWN, source, failure, "bad", 0.0)
    assert (fx.Quarantine in kinds(effects)) is aside
    assert (OWN in node.holdings.copies) is not aside


def test_a_node_says_that_it_has_a_copy_only_where_it_is_the_one_asked_for():
    node, _ = started_node(plan=False)
    assert kinds(node.received(msg.Fetch(*OWN, content("own"), 2, PEER), 0.0)) == [fx.Send]
    assert fx.GetCopy in kinds(node.received(msg.Fetch(*OWN, content("other"), 2, PEER), 0.0))


def test_a_backup_of_what_a_node_no_longer_holds_is_refused():
    node = running_node()
    effects = node.received(msg.StartBackup("b1", at(3), (ShardId(0, 0),)), 0.0)
    assert fx.Upload not in kinds(effects)
    assert "no longer holds it" in effects[0].message.problem


def test_a_refusal_does_not_end_a_running_application():
    node = running_node()
    assert kinds(node.received(msg.Refuse("no"), 0.0)) == [fx.WriteError]


# ---- a node's clock ----------------------------------------------------------------------------


def test_a_connection_on_which_nothing_comes_is_replaced():
    node = running_node()
    assert fx.Reconnect not in kinds(node.tick(TIMING.silence))
    assert kinds(node.tick(TIMING.silence + 1)) == [fx.Reconnect]


def test_a_node_that_has_said_nothing_for_a_while_gives_a_sign_of_life():
    assert node_messages(running_node().tick(TIMING.heartbeat)) == [msg.Ping()]


def node_messages(effects) -> list:
    return [e.message for e in effects if isinstance(e, fx.Send)]


def test_a_hello_that_came_too_early_is_said_again():
    node, _ = started_node(plan=False)
    node.received(msg.NotYet("wait"), 1.0)
    assert node_messages(node.tick(1.5)) == []
    (again,) = node_messages(node.tick(2.5))
    assert isinstance(again, msg.Hello)
    assert node_messages(node.tick(2.6)) == []


def test_an_agent_that_restarts_in_a_restore_does_not_wait_for_ever_either():
    node = Node(NodeState(job=JOB, attempt="a", epoch=1), (), "h:1", TIMING)
    node.start(0.0)
    assert fx.WriteFailed not in kinds(node.tick(TIMING.join))
    assert fx.WriteFailed in kinds(node.tick(TIMING.join + 1))
    assert fx.WriteFailed not in kinds(restarted_in_a_run().tick(TIMING.join + 1))


def restarted_in_a_run() -> Node:
    node = Node(NodeState(job=JOB, attempt="a", epoch=1, linked=RUN, prepared=RUN), (), "h", TIMING)
    node.start(0.0)
    return node


# ---- a coordinator's clock ---------------------------------------------------------------------


def everybody_is_heard(made: Coordinator, now: float) -> None:
    for rank in range(2):
        made.received(rank + 1, msg.Ping(), now)


def test_who_says_anything_is_not_silent():
    made = in_a_run()
    for now in (15.0, 30.0, 45.0):
        everybody_is_heard(made, now)
        assert fx.Drop not in kinds(made.tick(now))


def test_a_restore_that_takes_too_long_is_ended_and_says_who_was_not_ready():
    made, _ = restoring(at(5))
    made.backups_read([], None, "", 0.0)
    late = TIMING.restore + 1
    everybody_is_heard(made, late)
    assert "no restore within 3600 s; not ready: node(s) [0, 1]" in texts(made.tick(late))[0]


def test_a_listing_that_failed_is_asked_for_again():
    made, _ = restoring(at(5))
    assert made.backups_read([], None, "HTTP 503", 0.0) == []
    assert fx.ReadBackups not in kinds(made.tick(1.0))
    assert fx.ReadBackups in kinds(made.tick(3.0))


def test_a_transfer_that_nobody_answers_for_is_begun_again():
    made, _ = restoring(at(5))
    made.backups_read([], None, "", 0.0)
    late = TIMING.transfer + 1
    everybody_is_heard(made, late)
    made.tick(late)
    everybody_is_heard(made, late + 5)
    assert len(sent(made.tick(late + 5), msg.Fetch)) == 2


def test_a_node_that_goes_in_a_restore_makes_all_begin_again():
    made, _ = restoring(at(5))
    made.lost(2, 1.0)
    assert made.phase is Phase.GATHER
    copies = (Copy(at(5), ShardId(1, 0), content("own1"), 2),)
    effects = made.received(3, hello(1, epoch=1, copies=copies), 2.0)
    assert kinds(effects)[0] is fx.ReadBackups


def test_a_new_step_takes_the_place_of_one_that_is_overdue():
    made = in_a_run()
    save(made, 1, 0.0)
    late = TIMING.round + 1
    everybody_is_heard(made, late)
    made.tick(late)
    save(made, 2, late + 1)
    assert made.replication is not None
    assert made.run is not None
    assert made.replication.active == at(2, made.run.epoch)


# ---- backups -----------------------------------------------------------------------------------


def test_a_new_backup_is_named_after_all_that_are_there():
    made = backing_up([replace(stored("b7", at(9)), problem="not sealed")])
    (order, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    assert order.name == "b70"


def test_what_is_being_stored_may_not_go_meanwhile():
    made = backing_up()
    replicate(made, 5, 1.0)
    assert made.run is not None
    five = at(5, made.run.epoch)
    held = [p.held for p in sent(replicate(made, 6, 2.0), msg.Progress)]
    assert held
    assert all(five in stays for stays in held)


def test_a_backup_that_takes_too_long_is_given_up_and_the_next_step_stored():
    made = backing_up()
    replicate(made, 5, 1.0)
    late = TIMING.backup + 2
    everybody_is_heard(made, late)
    assert "not stored within 7200 s by node(s) [0, 1]" in texts(made.tick(late))[0]
    assert len(sent(replicate(made, 6, late + 1), msg.StartBackup)) == 2


def test_a_part_of_an_earlier_backup_is_none_of_the_next():
    made = backing_up()
    (order, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    for rank in range(2):
        assert fx.CompleteBackup not in kinds(
            made.received(rank + 1, msg.BackupDone("b0", ""), 2.0)
        )
    made.received(1, msg.BackupDone(order.name, ""), 3.0)
    done = made.received(2, msg.BackupDone(order.name, ""), 3.0)
    assert [e.name for e in done if isinstance(e, fx.CompleteBackup)] == [order.name]


def test_a_coordinator_that_takes_over_still_clears_the_forced_version():
    made = coordinator()
    linked = Run(3, "t")
    for rank in range(2):
        copies = tuple(Copy(at(4), ShardId(n, 0), content(f"own{n}"), 2) for n in range(2))
        made.received(
            rank + 1,
            hello(rank, linked=linked, prepared=linked, checkpoint=at(4), forced="b1",
                  epoch=3, copies=copies),
            0.0,
        )  # fmt: skip
    assert made.phase is Phase.RUN
    assert fx.ClearForcedVersion("b1") in replicate(made, 5, 1.0)


@pytest.mark.parametrize(("problem", "complete"), [("", True), ("disk gone", False)])
def test_a_backup_is_complete_once_every_part_is_stored_and_only_then(problem, complete):
    made = backing_up()
    (order, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    made.received(1, msg.BackupDone(order.name, problem), 2.0)
    effects = made.received(2, msg.BackupDone(order.name, ""), 2.0)
    assert (fx.CompleteBackup in kinds(effects)) is complete


@pytest.mark.parametrize("problem", ["", "HTTP 503"])
def test_a_step_that_is_stored_is_held_no_longer_and_a_failed_backup_is_told(problem):
    made = backing_up()
    (order, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    for rank in range(2):
        made.received(rank + 1, msg.BackupDone(order.name, ""), 2.0)
    assert made.backup_completed("b0", "", 3.0) == []  # another one
    effects = made.backup_completed(order.name, problem, 3.0)
    told = [text for text in texts(effects) if "failed and stays incomplete" in text]
    assert len(told) == (2 if problem else 0)
    assert made.backups.holds() == ()
    (following, _) = sent(replicate(made, 6, 4.0), msg.StartBackup)
    assert following.name > order.name


def test_a_node_that_is_back_is_told_again_to_store_its_part_unless_it_has():
    made = backing_up()
    run = made.run
    assert run is not None
    (order, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    five = at(5, run.epoch)
    copies = tuple(Copy(five, ShardId(n, 0), content(f"5.{n}"), 2) for n in range(2))
    back = hello(1, linked=run, prepared=run, copies=copies)
    made.lost(2, 2.0)
    assert sent(made.received(3, back, 3.0), msg.StartBackup)[0].name == order.name
    made.received(3, msg.BackupDone(order.name, ""), 4.0)
    made.lost(3, 5.0)
    assert sent(made.received(4, back, 6.0), msg.StartBackup) == []


def test_a_backup_ends_with_its_run():
    made = backing_up()
    (order, _) = sent(replicate(made, 5, 1.0), msg.StartBackup)
    made.received(1, hello(0, epoch=1), 2.0)  # a new start
    assert made.phase is Phase.GATHER
    assert made.backups.holds() == ()
    assert made.received(2, msg.BackupDone(order.name, ""), 3.0) == []


def test_minutes_between_backups_are_minutes():
    job = Job("job", rank=0, world=2, peers=(1,), backup_minutes=2)
    made = Coordinator(job, "t", TIMING, lambda newest: newest + "0", 0.0)
    for rank in range(2):
        made.received(rank + 1, hello(rank), 0.0)
    made.backups_read([], None, "", 0.0)
    for rank in range(2):
        made.received(rank + 1, msg.Prepared(made.run), 0.0)
    for now in (10.0, 20.0, 30.0, 40.0, 119.0):
        everybody_is_heard(made, now)
        assert sent(replicate(made, int(now), now), msg.StartBackup) == []
    assert len(sent(replicate(made, 120, 120.0), msg.StartBackup)) == 2


# ---- a run -------------------------------------------------------------------------------------


def test_a_receipt_for_a_shard_that_the_job_does_not_have_counts_for_nothing():
    made = in_a_run()
    assert made.run is not None
    for shard in (ShardId(2, 0), ShardId(0, 1)):
        made.received(1, msg.Have(at(1, made.run.epoch), shard, content("x")), 0.0)
    assert made.catalogue.checkpoints == {}


def test_a_node_that_missed_the_commit_gets_it_when_it_is_back():
    made = in_a_run()
    run = made.run
    assert run is not None
    made.lost(2, 1.0)
    effects = made.received(3, hello(1, prepared=run), 2.0)
    assert [commit.run for commit in sent(effects, msg.Commit)] == [run]
    made.lost(3, 3.0)
    effects = made.received(4, hello(1, linked=run, prepared=run), 4.0)
    assert sent(effects, msg.Commit) == []
    assert sent(effects, msg.Progress)[0].run == run


def test_who_still_runs_is_not_refused_because_others_do_not_come():
    made = coordinator()
    linked = Run(3, "t")
    made.received(1, hello(0), 0.0)
    made.received(2, hello(1, linked=linked, prepared=linked), 0.0)
    late = TIMING.join + 1
    everybody_is_heard(made, late)
    effects = made.tick(late)
    refused = {
        e.rank for e in effects if isinstance(e, fx.SendTo) and isinstance(e.message, msg.Refuse)
    }
    assert refused == {0}
    everybody_is_heard(made, late + 1)
    assert texts(made.tick(late + 1)) == []  # once in each such time


def test_nodes_without_a_peer_are_named():
    made = coordinator()
    made.received(1, hello(0, peers=()), 0.0)
    made.received(2, hello(1, peers=()), 0.0)
    made.backups_read([], None, "", 0.0)
    effects = made.received(1, msg.Prepared(made.run), 0.0)
    effects += made.received(2, msg.Prepared(made.run), 0.0)
    assert "unprotected: node(s) [0, 1]" in texts(effects)[0]


def test_nodes_of_two_runs_are_not_taken_for_one():
    made = coordinator()
    for rank in range(2):
        run = Run(3 + rank, "t")
        made.received(rank + 1, hello(rank, linked=run, prepared=run), 0.0)
    assert made.phase is Phase.GATHER
    for rank in range(2):
        run = Run(3 + rank, "t")
        made.received(rank + 1, hello(rank, prepared=run, epoch=4), 1.0)
    assert made.phase is Phase.RESTORE  # nobody is linked: all begin anew


def test_a_node_that_reports_what_it_holds_anew_holds_nothing_else():
    made, _ = restoring(at(5))
    made.received(1, hello(0, epoch=1), 1.0)
    assert 0 not in made.catalogue.holders(at(5), ShardId(0, 0))
