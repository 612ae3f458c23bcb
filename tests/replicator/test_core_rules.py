"""Single rules of the core's state machines, event by event."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from core_cases import (
    JOB,
    LOCAL,
    OWN,
    RUN,
    TIMING,
    VERIFY_OWN,
    at,
    content,
    coordinator,
    hello,
    in_a_run,
    kinds,
    last_progress,
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
from replicator.core.deletion import may_delete
from replicator.core.model import (
    Copy,
    Failure,
    Job,
    Key,
    Origin,
    Run,
    ShardId,
    Source,
)
from replicator.core.node import LOST_BEFORE_LINK, Node
from replicator.core.state import NodeState

# ---- deletion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "complete", "replicated", "held", "may"),
    [
        (5, None, None, (), False),  # nothing is known to be complete
        (5, 5, None, (), False),  # the newest complete
        (6, 5, None, (), False),  # newer than it
        (4, 5, 4, (), False),  # the newest replicated
        (3, 5, 4, (3,), False),  # being replicated or stored
        (3, 5, 4, (), True),
        (4, 5, None, (), True),
    ],
)
def test_what_may_be_deleted(step, complete, replicated, held, may):
    wrap = lambda number: None if number is None else at(number)  # noqa: E731
    held_ids = tuple(at(number) for number in held)
    assert may_delete(at(step), wrap(complete), wrap(replicated), held_ids) is may


def test_progress_of_another_run_deletes_nothing():
    node = running_node()
    node.sealed(at(1), (content("x"),), 0.0)
    other = msg.Progress(Run(2, "other"), at(9, 2), at(9, 2), ())
    assert node.received(other, 0.0) == []
    assert node.received(msg.Progress(RUN, at(9), at(9), ()), 0.0) != []


def test_quarantined_data_stays_until_something_newer_is_replicated():
    node = running_node()
    node.sealed(at(1), (content("x"),), 0.0)
    first = node.received(msg.Progress(RUN, at(1), at(1), ()), 0.0)
    assert fx.ReleaseQuarantine in kinds(first)  # what an earlier run had left
    local = Source(Origin.LOCAL, 0)
    node.received(msg.Fetch(at(1), ShardId(0, 0), content("x"), 2, local), 0.0)
    key = Key(at(1), ShardId(0, 0))
    assert fx.Quarantine in kinds(node.copy_failed(key, local, Failure.CORRUPT, "bad", 0.0))
    again = node.received(msg.Progress(RUN, at(1), at(1), ()), 0.0)
    assert fx.ReleaseQuarantine not in kinds(again)
    newer = node.received(msg.Progress(RUN, at(2), at(2), ()), 0.0)
    assert fx.ReleaseQuarantine in kinds(newer)


def test_a_copy_that_fails_again_and_again_is_reported_once():
    node = running_node()
    peer, key = Source(Origin.PEER, 1, "h:2"), Key(at(1), ShardId(1, 0))
    written = []
    for _ in range(5):
        node.received(msg.Fetch(at(1), ShardId(1, 0), content("x"), 2, peer), 0.0)
        effects = node.copy_failed(key, peer, Failure.NO_SPACE, "9 bytes are free", 0.0)
        assert fx.Send in kinds(effects)  # the coordinator hears of each
        written += [e for e in effects if isinstance(e, fx.WriteError)]
    assert [e.text for e in written] == ["step 1 of node 1: no-space (peer): 9 bytes are free"]


# ---- saves -------------------------------------------------------------------------------------


def test_saves_are_taken_one_at_a_time_in_order():
    node = running_node()
    assert kinds(node.saved(3, 0.0)) == [fx.Seal]
    assert node.saved(5, 0.0) == []
    assert node.saved(4, 0.0) == []
    assert node.saved(3, 0.0) == []
    following = node.sealed(at(3), (content("x"),), 0.0)
    assert [e.checkpoint.step for e in following if isinstance(e, fx.Seal)] == [4]


def test_a_save_before_the_link_is_left_for_later():
    node = Node(NodeState(job=JOB, attempt="a", epoch=1), (), "h:1", TIMING)
    assert node.saved(3, 0.0) == []


def test_a_save_is_persisted_before_it_is_reported():
    node = running_node()
    node.saved(3, 0.0)
    effects = node.sealed(at(3), (content("x"),), 0.0)
    assert kinds(effects) == [fx.Persist, fx.Send]
    assert effects[0].state.last_step == 3


# ---- checks that nobody asked for ----------------------------------------------------------------


def test_a_node_verifies_its_own_newest_shards_as_soon_as_the_job_starts():
    _, effects = started_node(plan=False)
    assert kinds(effects) == [fx.CancelCopies, fx.Persist, fx.GetCopy, fx.Reconnect]
    assert effects[2] == fx.GetCopy(OWN, content("own"), 2, LOCAL)


def test_connecting_and_planning_the_same_step_leave_that_check_alone():
    node, _ = started_node(plan=False)
    assert fx.CancelCopies not in kinds(node.link_up(0.0))
    same = msg.Plan(Run(2, "t"), at(5), "", "", (ShardId(0, 0),))
    assert fx.CancelCopies not in kinds(node.received(same, 0.0))
    other = msg.Plan(Run(4, "t"), at(4), "", "", (ShardId(0, 0),))
    assert fx.CancelCopies in kinds(node.received(other, 0.0))


def test_what_it_found_answers_the_order_to_verify_but_only_once():
    node, _ = started_node()
    assert node.copied(OWN, content("own"), 2, 0.0) == []  # nobody has asked yet
    assert kinds(node.received(VERIFY_OWN, 0.0)) == [fx.Send, fx.Persist, fx.Send]
    doubted = node.received(VERIFY_OWN, 0.0)
    assert kinds(doubted) == [fx.GetCopy]


def test_an_order_to_verify_joins_a_check_under_way():
    node, _ = started_node()
    assert node.received(VERIFY_OWN, 0.0) == []
    assert kinds(node.copied(OWN, content("own"), 2, 0.0)) == [fx.Send, fx.Persist, fx.Send]
    assert kinds(node.received(VERIFY_OWN, 0.0)) == [fx.GetCopy]


def test_a_check_under_way_gives_way_to_data_from_elsewhere():
    node, _ = started_node()
    stored = replace(VERIFY_OWN, source=Source(Origin.BACKUP, backup="b"))
    assert kinds(node.received(stored, 0.0)) == [fx.CancelCopies, fx.GetCopy]


def test_damage_that_such_a_check_finds_is_put_aside_and_told_when_asked():
    node, _ = started_node()
    found = node.copy_failed(OWN, LOCAL, Failure.CORRUPT, "bad", 0.0)
    assert kinds(found) == [fx.Quarantine, fx.WriteError]
    (answer,) = node.received(VERIFY_OWN, 0.0)
    assert answer.message.failure is Failure.MISSING


def test_no_check_outlives_the_restore():
    node, _ = started_node(plan=False)
    run = Run(2, "t")
    node.received(msg.Plan(run, at(5), "b", "b", ()), 0.0)
    commit = node.received(msg.Commit(run, at(5), ()), 0.0)
    assert kinds(commit) == [fx.CancelCopies, fx.Link, fx.Persist]
    assert kinds(node.received(VERIFY_OWN, 0.0)) == [fx.GetCopy]


# ---- agreement ---------------------------------------------------------------------------------


def test_a_plan_does_not_reach_a_running_application():
    node = running_node()
    plan = msg.Plan(Run(2, "t"), at(1), "", "", (ShardId(0, 0),))
    assert node.received(plan, 0.0) == []


def test_a_commit_of_a_run_that_was_not_prepared_links_nothing():
    state = NodeState(job=JOB, attempt="a", epoch=1)
    node = Node(state, (), "h:1", TIMING)
    node.link_up(0.0)
    effects = node.received(msg.Commit(RUN, at(1), ()), 0.0)
    assert kinds(effects) == [fx.CancelCopies, fx.Persist, fx.WriteFailed, fx.Reconnect]


def test_a_copy_found_bad_between_consent_and_commit_ends_the_start_at_once():
    """The others are released, and only a restart of the job brings all together again."""
    held = (Copy(at(1, 0), ShardId(0, 0), content("x"), 2),)
    node = Node(NodeState(job=JOB, attempt="a", epoch=1), held, "h:1", TIMING)
    node.link_up(0.0)
    local = Source(Origin.LOCAL, 0)
    node.received(msg.Plan(RUN, at(1, 0), "", "", (ShardId(0, 0),)), 0.0)
    order = msg.Fetch(at(1, 0), ShardId(0, 0), content("x"), 2, local)
    node.received(order, 0.0)
    node.copied(Key(at(1, 0), ShardId(0, 0)), content("x"), 2, 0.0)
    assert node.state.prepared == RUN
    node.received(order, 0.0)  # a reader has found damage
    bad = node.copy_failed(Key(at(1, 0), ShardId(0, 0)), local, Failure.CORRUPT, "bad", 0.0)
    assert fx.Quarantine in kinds(bad)
    effects = node.received(msg.Commit(RUN, at(1, 0), ()), 0.0)
    assert [e.text for e in effects if isinstance(e, fx.WriteFailed)] == [LOST_BEFORE_LINK]
    assert {fx.Link, fx.Delete}.isdisjoint(kinds(effects))


def test_the_link_comes_before_the_record_of_it_and_before_any_deletion():
    node = Node(NodeState(job=JOB, attempt="a", epoch=1), (), "h:1", TIMING)
    node.holdings.copies[Key(at(9), ShardId(0, 0))] = (content("y"), 2)
    node.link_up(0.0)
    node.received(msg.Plan(RUN, at(1, 0), "", "", (ShardId(0, 0),)), 0.0)
    peer = Source(Origin.PEER, 1, "h:2")
    node.received(msg.Fetch(at(1, 0), ShardId(0, 0), content("x"), 2, peer), 0.0)
    prepared = node.copied(Key(at(1, 0), ShardId(0, 0)), content("x"), 2, 0.0)
    assert kinds(prepared) == [fx.Send, fx.Persist, fx.Send]
    commit = node.received(msg.Commit(RUN, at(1, 0), (at(9),)), 0.0)
    assert kinds(commit) == [fx.Link, fx.Persist, fx.Delete]


def test_a_tentative_plan_is_verified_but_neither_announced_nor_prepared_for():
    node = Node(NodeState(job=JOB, attempt="a", epoch=1), (), "h:1", TIMING)
    node.link_up(0.0)
    plan = msg.Plan(RUN, at(1, 0), "", "", (ShardId(0, 0),), tentative=True)
    assert kinds(node.received(plan, 0.0)) == [fx.CancelCopies, fx.Persist]
    peer = Source(Origin.PEER, 1, "h:2")
    fetch = msg.Fetch(at(1, 0), ShardId(0, 0), content("x"), 2, peer)
    assert kinds(node.received(fetch, 0.0)) == [fx.GetCopy]
    have = node.copied(Key(at(1, 0), ShardId(0, 0)), content("x"), 2, 0.0)
    assert kinds(have) == [fx.Send]
    assert node.state.prepared is None  # a new coordinator must not go on from here
    certain = node.received(replace(plan, tentative=False), 0.0)
    assert kinds(certain) == [fx.Announce, fx.Persist, fx.Send]
    assert node.state.prepared == RUN


def test_no_node_waits_for_ever_for_a_coordinator_that_has_lost_sight_of_it():
    node = Node(NodeState(), (), "h:1", TIMING)
    node.accept(JOB, "a", 0.0)
    node.link_up(0.0)
    last = TIMING.join + TIMING.restore + TIMING.silence
    now = 0.0
    while now < last:
        node.received(msg.Ping(), now)
        assert fx.WriteFailed not in kinds(node.tick(now))
        now += 10.0
    node.received(msg.Ping(), last + 1.0)
    assert fx.WriteFailed in kinds(node.tick(last + 1.0))


def test_a_node_whose_prepared_data_is_gone_is_not_prepared_any_more():
    state = NodeState(job=JOB, attempt="a", epoch=1, prepared=RUN, checkpoint=at(1, 0))
    assert kinds(Node(state, (), "h:1", TIMING).start(0.0)) == [fx.Persist, fx.Reconnect]
    held = (Copy(at(1, 0), ShardId(0, 0), content("x"), 2),)
    assert kinds(Node(state, held, "h:1", TIMING).start(0.0)) == [fx.Reconnect]


def test_what_an_earlier_coordinator_still_sends_is_ignored_after_a_new_configuration():
    node = running_node()
    node.accept(JOB, "b", 0.0)
    assert node.received(msg.Plan(RUN, at(1), "", "", (ShardId(0, 0),)), 0.0) == []
    assert node.link_up(0.0) != []


# ---- the coordinator ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"job": "other"}, "serves job 'job'"),
        ({"world": 3}, "expects 3 nodes"),
        ({"workers": 8}, "x 8 workers"),
        ({"rank": 2, "peers": ()}, "outside 0..1"),
        ({"peers": (1,)}, "outside the job or itself"),
        ({"peers": (2,)}, "outside the job or itself"),
        (
            {"data_parallelism": 2},
            "assume-data-parallelism of node 1 is 2, the coordinator's is not",
        ),
    ],
)
def test_a_hello_that_does_not_fit_is_told_why(changes, words):
    effects = coordinator().received(1, replace(hello(1), **changes), 0.0)
    assert kinds(effects) == [fx.Answer]
    assert words in texts(effects)[0]


def test_a_rank_is_not_given_to_a_second_live_node():
    made = coordinator()
    made.received(1, hello(1), 0.0)
    refused = made.received(2, hello(1, address="h:9"), 1.0)
    assert "taken by the node at h:2" in texts(refused)[0]
    later = made.received(2, hello(1, address="h:9"), TIMING.silence + 1)
    assert fx.Drop(1) in later


def test_storage_that_does_not_answer_is_no_reason_to_start_from_nothing():
    made = coordinator()
    made.received(1, hello(0), 0.0)
    assert made.received(2, hello(1), 0.0) == [fx.ReadBackups()]
    now = 0.0
    effects: list = []
    for _ in range(5):
        effects = made.backups_read([], None, "HTTP 503", now)
        now += 60.0
        made.members.heard(0, now)
        made.members.heard(1, now)
        made.tick(now)
    assert "backups cannot be read: HTTP 503" in texts(effects)[0]
    assert made.phase is Phase.FAILED


def test_what_the_cluster_holds_is_verified_while_the_backups_are_read():
    made, effects = restoring(at(5))
    assert kinds(effects)[0] is fx.ReadBackups
    assert [plan.tentative for plan in sent(effects, msg.Plan)] == [True, True]
    assert [fetch.source.origin for fetch in sent(effects, msg.Fetch)] == [Origin.LOCAL] * 2
    effects = made.backups_read([stored("b1", at(4))], None, "", 0.0)
    assert sent(effects, msg.Fetch) == []  # what was begun goes on
    confirmed = sent(effects, msg.Plan)
    assert [(plan.checkpoint, plan.tentative) for plan in confirmed] == [(at(5), False)] * 2


@pytest.mark.parametrize(
    ("backup", "forced"),
    [
        (stored("b1", at(9)), None),  # newer than what the cluster holds
        (stored("b1", at(4)), "b1"),  # asked for
        (stored("b1", at(5)), "b1"),  # asked for: the stored data of that very step
    ],
)
def test_a_tentative_plan_gives_way_to_what_the_backups_say(backup, forced):
    made, effects = restoring(at(5))
    tentative = sent(effects, msg.Plan)[0].run
    effects = made.backups_read([backup], forced, "", 0.0)
    plans = sent(effects, msg.Plan)
    assert {(p.checkpoint, p.forced, p.tentative) for p in plans} == {
        (backup.checkpoint, forced or "", False)
    }
    assert tentative not in {plan.run for plan in plans}
    assert {f.source.origin for f in sent(effects, msg.Fetch)} == {Origin.BACKUP}


def test_a_run_is_numbered_after_those_of_unfinished_backups_too():
    """Two runs of one number would mix their shards."""
    made, _ = restoring(at(5))
    unfinished = replace(stored("b2", at(7, run=2)), problem="not sealed")
    made.backups_read([unfinished, stored("b1", at(4))], None, "", 0.0)
    assert made.run is not None
    assert made.run.epoch == 3


def test_damage_found_before_the_backups_are_known_waits_for_them():
    made, _ = restoring(at(5))
    local = Source(Origin.LOCAL, 0)
    failed = msg.CopyFailed(at(5), ShardId(0, 0), local, Failure.CORRUPT, "bad")
    assert sent(made.received(1, failed, 0.0), msg.Plan) == []  # nothing else to restore as yet
    assert made.phase is Phase.RESTORE
    effects = made.backups_read([stored("b1", at(5))], None, "", 0.0)
    origins = {f.shard.rank: f.source.origin for f in sent(effects, msg.Fetch)}
    assert origins == {0: Origin.BACKUP, 1: Origin.LOCAL}


def test_a_backup_that_proved_damaged_does_not_count_as_stored():
    made, _ = restoring(at(5))
    unfinished = replace(stored("b2", at(4)), problem="not sealed")
    made.backups_read([stored("b1", at(5)), unfinished], None, "", 0.0)
    assert made.restore.stored == {at(5)}
    for source in (Source(Origin.LOCAL, 0), Source(Origin.BACKUP, backup="b1")):
        failed = msg.CopyFailed(at(5), ShardId(0, 0), source, Failure.CORRUPT, "bad")
        made.received(1, failed, 0.0)
    assert made.restore.stored == set()


def test_ranks_that_never_come_end_the_wait_and_are_named():
    made = coordinator()
    made.received(1, hello(0), 0.0)
    made.members.heard(0, TIMING.join + 1)
    effects = made.tick(TIMING.join + 1)
    assert "missing [1]" in texts(effects)[-1]
    assert any(isinstance(e.message, msg.Refuse) for e in effects if isinstance(e, fx.SendTo))


def test_a_round_that_is_given_up_lets_its_checkpoint_go():
    """On a tight volume the next round could not begin while the given-up one took its room."""
    made = in_a_run()
    save(made, 1, 0.0)
    during = last_progress(save(made, 2, 1.0))
    assert [c.step for c in during.held] == [1]  # still being replicated
    late = TIMING.round + 2
    made.members.heard(0, late)
    made.members.heard(1, late)
    after = last_progress(made.tick(late))
    assert [c.step for c in after.held] == [2]
    assert after.complete is not None
    assert after.complete.step == 2


def test_a_copy_that_a_reader_found_bad_completes_nothing_until_its_holder_has_hashed_it():
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    two, shard = at(2, made.run.epoch), ShardId(1, 0)
    save(made, 2, 1.0, ranks=(1,))
    made.received(1, msg.Have(at(1, made.run.epoch), shard, content("1.1")), 1.0)
    made.received(2, msg.Have(at(1, made.run.epoch), ShardId(0, 0), content("1.0")), 1.0)
    peer = Source(Origin.PEER, 1, "h:2")
    failed = msg.CopyFailed(two, shard, peer, Failure.CORRUPT, "bad")
    (order,) = sent(made.received(1, failed, 1.0), msg.Fetch)
    assert order.source.origin is Origin.LOCAL
    assert made.replication is not None
    save(made, 2, 1.0, ranks=(0,))
    assert made.replication.complete == at(1, made.run.epoch)
    made.received(2, msg.Have(two, shard, content("2.1")), 1.0)
    assert made.replication.complete == two


def test_nothing_may_go_while_a_node_is_away():
    made = in_a_run()
    save(made, 1, 0.0)
    save(made, 2, 1.0)
    made.lost(2, 2.0)
    assert made.replication is not None
    assert made.replication.progress().complete is None


def test_receipts_of_a_node_that_left_do_not_count():
    made = in_a_run()
    save(made, 1, 0.0)
    made.received(2, msg.Have(at(1), ShardId(0, 0), content("1.0")), 0.0)
    made.lost(2, 1.0)
    effects = made.received(1, msg.Have(at(1), ShardId(1, 0), content("1.1")), 1.0)
    assert fx.Replicated not in kinds(effects)
    copies = tuple(Copy(at(1), ShardId(r, 0), content(f"1.{r}"), 2) for r in range(2))
    run = made.run
    back = made.received(3, hello(1, linked=run, copies=copies), 2.0)
    assert fx.Replicated in kinds(back)


# ---- many nodes --------------------------------------------------------------------------------


def calls_while_all_come_back(world: int) -> int:
    """Python calls in a coordinator whose nodes are all cut off and return one by one."""
    peers = {rank: (rank ^ 1,) for rank in range(world)}
    coordinator = Coordinator(Job("job", 0, world, peers=(1,)), "t", TIMING, str, 0.0)
    shards = [ShardId(rank, 0) for rank in range(world)]
    hellos = []
    for rank in range(world):
        copies = tuple(
            Copy(at(1), shards[held], content(f"c{held}"), world) for held in (rank, *peers[rank])
        )
        hello = msg.Hello(
            rank, world, 1, peers[rank], None, "job", "", "a", 0, 0, 0, f"h:{rank + 1}", 1, RUN,
            None, at(1), "", copies,
        )  # fmt: skip
        coordinator.received(rank + 1, hello, 0.0)
        hellos.append(hello)
    assert coordinator.phase is Phase.RUN
    for rank in range(world):
        coordinator.lost(rank + 1, 1.0)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for rank, hello in enumerate(hellos):
            coordinator.received(world + rank + 1, hello, 2.0)
    finally:
        sys.setprofile(None)
    assert coordinator.replication is not None
    assert coordinator.replication.replicated == at(1)
    return calls


def test_nodes_that_come_back_one_by_one_cost_in_proportion_to_their_number():
    """Not with its square: ten thousand of them would keep a coordinator busy for a minute."""
    assert calls_while_all_come_back(400) < 6 * calls_while_all_come_back(100)
