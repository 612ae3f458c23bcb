"""Copies that proved bad, or that a reader found bad: who is asked, and what follows for a restore
and for a round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_cases import (
    JOB,
    LOCAL,
    TIMING,
    at,
    content,
    coordinator,
    hello,
    in_a_run,
    kinds,
    restoring,
    save,
    sent,
    stored,
    texts,
)

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.coordinator import Coordinator, Phase
from replicator.core.model import CheckpointId, Content, Copy, Failure, Origin, ShardId, Source

ONE = ShardId(1, 0)
FROM_ZERO = Source(Origin.PEER, 0, "h:1")


def failed(
    checkpoint: CheckpointId, shard: ShardId, source: Source, failure: Failure = Failure.CORRUPT
) -> msg.CopyFailed:
    return msg.CopyFailed(checkpoint, shard, source, failure, "bad")


# ---- in a restore ------------------------------------------------------------------------------


def copies(rank: int, *shards: int, step: int = 5) -> tuple[Copy, ...]:
    return tuple(Copy(at(step), ShardId(n, 0), content(f"{step}.{n}"), 2) for n in shards)


def node_one_lost_its_shard(*older: int) -> tuple[Coordinator, list]:
    """Node 0 has its own shard of step 5 and the replica of node 1's; both have the older steps."""
    made = coordinator()
    for rank, held in ((0, copies(0, 0, 1)), (1, ())):
        held += tuple(copy for step in older for copy in copies(rank, rank, step=step))
        made.received(rank + 1, hello(rank, epoch=1, copies=held), 0.0)
    shards = {ShardId(n, 0): content(f"5.{n}") for n in range(2)}
    stored_too = replace(stored("b1", at(5)), shards=shards)
    effects = made.backups_read([] if older else [stored_too], None, "", 0.0)
    return made, effects


def all_prepared(made: Coordinator) -> list:
    assert made.run is not None
    effects = made.received(1, msg.Have(at(5), ShardId(0, 0), content("5.0")), 0.0)
    effects += made.received(2, msg.Have(at(5), ONE, content("5.1")), 0.0)
    for rank in range(2):
        effects += made.received(rank + 1, msg.Prepared(made.run), 0.0)
    return sent(effects, msg.Commit)


@pytest.mark.parametrize("found", [None, *Failure])
def test_the_holders_word_ends_a_doubt_and_with_it_the_restore(found):
    """The reader has got its data elsewhere meanwhile: nothing else is waited for."""
    made, _ = node_one_lost_its_shard()
    (order,) = sent(made.received(2, failed(at(5), ONE, FROM_ZERO), 0.0), msg.Fetch)
    assert order.source == LOCAL
    assert all_prepared(made) == []
    assert made.phase is Phase.RESTORE
    good = msg.Have(at(5), ONE, content("5.1"))
    answer = good if found is None else failed(at(5), ONE, LOCAL, found)
    effects = made.received(1, answer, 1.0)
    assert made.phase is Phase.RUN
    assert len(sent(effects, msg.Commit)) == 2


def test_an_equal_copy_on_its_way_from_a_counterpart_counts_when_the_backups_are_known():
    """Data parallel: nobody has the shard under its name any more, but what it is made of is there."""
    job = replace(JOB, data_parallelism=2)
    made = Coordinator(job, "t", TIMING, lambda newest: newest + "0", 0.0)
    for rank in range(2):
        held = tuple(
            Copy(at(step), ShardId(rank, 0), Content(f"{step}", f"{step}@{rank}", 1), 2)
            for step in (4, 5)
        )
        known = hello(rank, epoch=1, copies=held, data_parallelism=2)
        effects = made.received(rank + 1, known, 0.0)
    assert {plan.checkpoint for plan in sent(effects, msg.Plan)} == {at(5)}
    lost = failed(at(5), ONE, Source(Origin.LOCAL, 1), Failure.MISSING)
    (order,) = sent(made.received(2, lost, 0.0), msg.Fetch)
    assert order.source == FROM_ZERO
    plans = sent(made.backups_read([], None, "", 0.0), msg.Plan)
    assert {(plan.checkpoint, plan.tentative) for plan in plans} == {(at(5), False)}


def test_a_copy_that_proves_bad_after_it_counted_makes_all_begin_again():
    made, _ = node_one_lost_its_shard(4)
    made.received(1, msg.Have(at(5), ShardId(0, 0), content("5.0")), 0.0)
    first = made.run
    effects = made.received(1, failed(at(5), ShardId(0, 0), LOCAL), 1.0)
    assert {plan.checkpoint for plan in sent(effects, msg.Plan)} == {at(4)}
    assert made.run != first


def test_what_a_holder_has_is_not_yet_where_it_belongs():
    made, _ = node_one_lost_its_shard()
    made.received(2, failed(at(5), ONE, FROM_ZERO), 0.0)
    made.received(1, msg.Have(at(5), ONE, content("5.1")), 0.0)  # its check of the replica
    effects = made.tick(2.0)
    assert [f.source.origin for f in sent(effects, msg.Fetch)] == [Origin.PEER]  # tried again


def test_a_copy_that_is_not_where_it_was_said_to_be_is_not_planned_with_again():
    made, _ = node_one_lost_its_shard(4)
    assert made.checkpoint == at(5)
    made.received(2, failed(at(5), ONE, FROM_ZERO, Failure.MISSING), 0.0)
    assert made.checkpoint == at(4)


def test_a_forced_backup_whose_data_is_damaged_is_refused_by_name():
    made, _ = restoring(at(5))
    made.backups_read([stored("b1", at(4))], "b1", "", 0.0)
    source = Source(Origin.BACKUP, backup="b1")
    effects = made.received(1, failed(at(4), ShardId(0, 0), source), 0.0)
    assert "restore.version names backup 'b1', whose data does not match" in texts(effects)[0]
    assert made.phase is Phase.FAILED


# ---- in a round --------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [Failure.CORRUPT, Failure.MISSING])
def test_a_copy_that_is_lost_again_in_its_round_is_made_again(failure):
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    one = at(1, made.run.epoch)
    made.received(1, msg.Have(one, ONE, content("1.1")), 0.0)
    made.received(1, failed(one, ONE, LOCAL, failure), 0.0)
    effects = made.received(2, msg.Have(one, ShardId(0, 0), content("1.0")), 0.0)
    assert fx.Replicated not in kinds(effects)
    (order,) = sent(effects + made.tick(0.5), msg.Fetch)
    assert (order.shard, order.source.origin) == (ONE, Origin.PEER)
    assert fx.Replicated in kinds(made.received(1, msg.Have(one, ONE, content("1.1")), 1.0))


def test_a_late_receipt_for_an_older_step_is_none_for_the_open_one():
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    one, two = at(1, made.run.epoch), at(2, made.run.epoch)
    save(made, 2, 1.0)
    made.received(1, msg.Have(one, ONE, content("1.1")), 1.0)
    made.received(2, msg.Have(one, ShardId(0, 0), content("1.0")), 1.0)
    assert made.replication is not None
    assert (made.replication.replicated, made.replication.active) == (one, two)
    effects = made.received(1, msg.Have(one, ONE, content("1.1")), 2.0)
    effects += made.received(2, msg.Have(one, ShardId(0, 0), content("1.0")), 2.0)
    effects += made.tick(2.5)
    assert fx.Replicated not in kinds(effects)
    assert made.replication.replicated == one


@pytest.mark.parametrize("failure", [Failure.CORRUPT, Failure.MISSING])
def test_a_holder_is_asked_where_a_reader_finds_its_copy_wanting(failure):
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    one = at(1, made.run.epoch)
    effects = made.received(1, failed(one, ONE, Source(Origin.PEER, 1, "h:2"), failure), 0.0)
    assert [(e.rank, e.message.source.origin) for e in effects] == [(1, Origin.LOCAL)]


def test_damage_takes_back_what_was_called_complete_and_replicated():
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    assert made.replication is not None
    one = at(1, made.run.epoch)
    made.received(1, msg.Have(one, ONE, content("1.1")), 0.0)
    made.received(2, msg.Have(one, ShardId(0, 0), content("1.0")), 0.0)
    assert (made.replication.complete, made.replication.replicated) == (one, one)
    made.received(1, failed(one, ONE, LOCAL), 0.0)
    assert (made.replication.complete, made.replication.replicated) == (one, one)  # one is left
    made.received(2, failed(one, ONE, LOCAL), 0.0)
    assert (made.replication.complete, made.replication.replicated) == (None, None)


def test_damage_takes_the_data_out_under_every_name_that_it_was_recorded_by():
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    one = at(1, made.run.epoch)
    made.received(1, msg.Have(one, ONE, content("1.0")), 0.0)  # equal: recorded, not moved
    assert 0 in made.catalogue.holders(one, ONE)
    made.received(1, failed(one, ShardId(0, 0), LOCAL), 0.0)
    assert 0 not in made.catalogue.holders(one, ShardId(0, 0))
    assert 0 not in made.catalogue.holders(one, ONE)


def test_a_copy_that_fails_is_tried_again_after_pauses_that_double_up_to_a_limit():
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    failure = failed(at(1, made.run.epoch), ONE, Source(Origin.PEER, 1), Failure.TRANSIENT)
    now, pauses = 0.0, []
    for _ in range(8):
        made.received(1, failure, now)
        failed_at = now
        while not any(e.rank == 0 for e in made.tick(now) if isinstance(e.message, msg.Fetch)):
            now += 0.5
            for rank in range(2):
                made.members.heard(rank, now)
        pauses.append(now - failed_at)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_node_that_is_back_gets_the_orders_again_that_it_may_never_have_got():
    """Also where its old connection was not known to be dead."""
    made = in_a_run()
    save(made, 1, 0.0)
    run = made.run
    assert run is not None
    own = (Copy(at(1, run.epoch), ShardId(0, 0), content("1.0"), 2),)
    effects = made.received(9, hello(0, linked=run, copies=own), 1.0)
    assert fx.Drop(1) in effects
    assert [order.shard for order in sent(effects, msg.Fetch)] == [ONE]


def test_what_was_saved_while_a_node_was_cut_off_is_complete_once_it_is_back():
    made = in_a_run()
    run = made.run
    assert run is not None
    assert made.replication is not None
    made.lost(2, 0.0)
    save(made, 1, 1.0, ranks=(0,))
    own = (Copy(at(1, run.epoch), ONE, content("1.1"), 2),)
    made.received(3, hello(1, linked=run, copies=own), 2.0)
    assert made.replication.complete == at(1, run.epoch)


def test_a_doubt_ends_with_the_connection_of_its_holder():
    """It was not asked again; what it says that it holds counts until proven otherwise."""
    made = in_a_run()
    save(made, 1, 0.0)
    run = made.run
    assert run is not None
    assert made.replication is not None
    two = at(2, run.epoch)
    save(made, 2, 1.0, ranks=(1,))
    made.received(1, failed(two, ONE, Source(Origin.PEER, 1, "h:2")), 1.0)
    made.lost(2, 2.0)
    own = tuple(Copy(at(step, run.epoch), ONE, content(f"{step}.1"), 2) for step in (1, 2))
    made.received(3, hello(1, linked=run, copies=own), 3.0)
    save(made, 2, 4.0, ranks=(0,))
    assert made.replication.complete == two
