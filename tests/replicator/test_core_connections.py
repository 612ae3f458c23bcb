"""Which connection speaks for which rank, and how long silence is waited out."""

from __future__ import annotations

from core_cases import RUN, TIMING, at, content, coordinator, hello, in_a_run, sent

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.model import Copy, ShardId


def test_a_node_that_comes_back_on_a_new_connection_takes_its_place_at_once():
    made = coordinator()
    made.received(1, hello(1), 0.0)
    effects = made.received(2, hello(1), 0.1)
    assert effects == [fx.Drop(1)]
    assert made.members.rank_of(2) == 1


def test_the_end_of_a_replaced_connection_takes_nobody_away():
    made = coordinator()
    made.received(1, hello(1), 0.0)
    made.received(2, hello(1), 0.1)
    made.lost(1, 0.2)
    assert list(made.members.by_rank) == [1]
    assert made.received(1, msg.Prepared(RUN), 0.3) == []


def test_a_connection_speaks_for_one_rank_at_a_time():
    """A node that was given another rank has left its old one."""
    made = coordinator()
    copies = (Copy(at(1), ShardId(1, 0), content("x"), 2),)
    made.received(1, hello(1, copies=copies), 0.0)
    assert made.received(1, hello(0), 0.1) == []
    assert list(made.members.by_rank) == [0]
    assert made.catalogue.checkpoints == {}


def test_a_node_that_falls_silent_is_dropped_and_its_receipts_with_it():
    """A machine that lost its power ends no connection."""
    made = in_a_run()
    made.members.heard(0, TIMING.silence + 1)
    effects = made.tick(TIMING.silence + 1)
    assert fx.Drop(2) in effects
    assert list(made.members.by_rank) == [0]
    assert made.replication is not None
    assert made.replication.present == {0}


def test_a_node_that_hears_nothing_else_gets_a_sign_of_life():
    made = in_a_run()
    assert sent(made.tick(TIMING.heartbeat + 1), msg.Ping) == [msg.Ping(), msg.Ping()]
