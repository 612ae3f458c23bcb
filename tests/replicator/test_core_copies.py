"""A node's copies as its core keeps account of them: under way, held, doubted, put aside."""

from __future__ import annotations

from core_cases import (
    JOB,
    LOCAL,
    OWN,
    RUN,
    TIMING,
    VERIFY_OWN,
    at,
    content,
    kinds,
    running_node,
    started_node,
)

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.model import Copy, Failure, Key, Origin, Run, ShardId, Source
from replicator.core.node import Node
from replicator.core.state import NodeState

PEER = Source(Origin.PEER, 1, "h:2")
OTHER = Key(at(5), ShardId(1, 0))
FETCH_OTHER = msg.Fetch(at(5), ShardId(1, 0), content("other"), 2, PEER)
FROM_BACKUP = msg.Fetch(at(5), ShardId(0, 0), content("own"), 2, Source(Origin.BACKUP, backup="b"))


# ---- under way ---------------------------------------------------------------------------------


def test_what_was_asked_for_begins_again_where_a_check_gives_way():
    """Copies are cancelled all together: one that is forgotten then would never be answered."""
    node, _ = started_node()
    (asked,) = node.received(FETCH_OTHER, 0.0)
    effects = node.received(FROM_BACKUP, 0.0)
    assert kinds(effects) == [fx.CancelCopies, fx.GetCopy, fx.GetCopy]
    assert effects[1] == asked
    assert effects[2].source.origin is Origin.BACKUP


def test_what_was_asked_for_goes_on_after_the_commit():
    node, _ = started_node(plan=False)
    run = Run(2, "t")
    node.received(msg.Plan(run, at(5), "b", "b", ()), 0.0)
    (asked,) = node.received(FETCH_OTHER, 0.0)
    commit = node.received(msg.Commit(run, at(5), ()), 0.0)
    assert kinds(commit) == [fx.CancelCopies, fx.GetCopy, fx.Link, fx.Persist]
    assert commit[1] == asked


def test_a_new_connection_stops_what_an_earlier_coordinator_asked_for():
    node, _ = started_node()
    node.received(FETCH_OTHER, 0.0)
    node.link_down(1.0)
    assert kinds(node.link_up(2.0)) == [fx.StopUploads, fx.CancelCopies, fx.Send]
    assert node.copy_failed(OTHER, PEER, Failure.TRANSIENT, "cancelled", 3.0) == []


def test_a_check_that_ended_before_the_commit_answers_no_doubt_that_comes_after_it():
    node, _ = started_node(plan=False)
    assert node.copied(OWN, content("own"), 2, 0.0) == []
    run = Run(2, "t")
    node.received(msg.Plan(run, at(5), "b", "b", ()), 0.0)
    node.received(msg.Commit(run, at(5), ()), 0.0)
    assert kinds(node.received(VERIFY_OWN, 0.0)) == [fx.GetCopy]


def test_a_check_answers_for_no_data_that_came_after_it():
    node, _ = started_node()
    assert node.copied(OWN, content("own"), 2, 0.0) == []
    assert kinds(node.received(FROM_BACKUP, 0.0)) == [fx.GetCopy]
    node.copied(OWN, content("own"), 2, 0.0)
    assert kinds(node.received(VERIFY_OWN, 0.0)) == [fx.GetCopy]


# ---- held --------------------------------------------------------------------------------------


def test_bad_data_is_out_of_use_under_every_name_that_it_has():
    other_name = Key(at(5), ShardId(1, 0))
    held = [Copy(*key, content("same"), 2) for key in (OWN, other_name)]
    node = Node(NodeState(job=JOB, attempt="a", linked=RUN, prepared=RUN), held, "h:1", TIMING)
    node.link_up(0.0)
    node.received(msg.Fetch(*OWN, content("same"), 2, LOCAL), 0.0)
    effects = node.copy_failed(OWN, LOCAL, Failure.CORRUPT, "bad", 0.0)
    assert [set(e.keys) for e in effects if isinstance(e, fx.Quarantine)] == [{OWN, other_name}]
    assert node.holdings.inventory() == ()


def test_a_node_does_not_claim_what_a_start_from_nothing_has_put_aside():
    node, _ = started_node(plan=False)
    run = Run(2, "t")
    node.received(msg.Plan(run, None, "", "", ()), 0.0)
    commit = node.received(msg.Commit(run, None, ()), 0.0)
    assert [len(e.keys) for e in commit if isinstance(e, fx.Quarantine)] == [2]
    node.link_down(1.0)
    hello = node.link_up(2.0)[-1].message
    assert hello.copies == ()


def test_room_is_given_back_once():
    node = running_node()
    node.sealed(at(1), (content("x"),), 0.0)
    assert fx.ReleaseQuarantine in kinds(node.received(msg.Progress(RUN, at(1), at(1), ()), 0.0))
    assert node.received(msg.Progress(RUN, at(2), at(2), (at(1),)), 0.0) == []


# ---- saves -------------------------------------------------------------------------------------


def test_a_save_that_is_told_of_twice_while_it_is_sealed_is_no_second_save():
    node = running_node()
    node.saved(3, 0.0)
    assert node.saved(3, 0.0) == []
    assert kinds(node.sealed(at(3), (content("x"),), 0.0)) == [fx.Persist, fx.Send]


def test_saves_that_waited_are_forgotten_with_the_start_that_they_belong_to():
    node = running_node()
    node.saved(3, 0.0)
    node.saved(4, 0.0)
    node.accept(JOB, "b", 1.0)
    node.link_up(1.0)
    run = Run(2, "t")
    node.received(msg.Plan(run, None, "", "", ()), 1.0)
    node.received(msg.Commit(run, None, ()), 1.0)
    assert node.sealed(at(3), (content("x"),), 2.0) == []  # it had begun before
    assert [e.checkpoint for e in node.saved(9, 3.0) if isinstance(e, fx.Seal)] == [at(9, 2)]
