"""What a coordinator counts towards an agreement, and what it does not."""

from __future__ import annotations

from core_cases import (
    LOCAL,
    TIMING,
    at,
    content,
    coordinator,
    hello,
    in_a_run,
    restoring,
    save,
    sent,
    stored,
    texts,
)

from replicator.core import messages as msg
from replicator.core.coordinator import Coordinator, Phase
from replicator.core.model import CheckpointId, Copy, Failure, Origin, ShardId, Source


def holding(*checkpoints: CheckpointId, also: tuple[Copy, ...] = ()) -> Coordinator:
    """Two nodes with a shard each of all of these; `also` is on node 0."""
    made = coordinator()
    for rank in range(2):
        copies = tuple(
            Copy(one, ShardId(rank, 0), content(f"{one.step}.{rank}"), 2) for one in checkpoints
        )
        made.received(
            rank + 1, hello(rank, epoch=1, copies=copies + (also if rank == 0 else ())), 0.0
        )
    return made


def failed(checkpoint: CheckpointId, shard: ShardId, source: Source) -> msg.CopyFailed:
    return msg.CopyFailed(checkpoint, shard, source, Failure.CORRUPT, "bad")


# ---- the restore -------------------------------------------------------------------------------


def test_who_was_prepared_for_an_earlier_plan_is_not_prepared_for_the_next():
    made = holding(at(4), at(5))
    made.backups_read([], None, "", 0.0)
    assert made.run is not None
    made.received(2, msg.Have(at(5), ShardId(1, 0), content("5.1")), 0.0)
    made.received(2, msg.Prepared(made.run), 0.0)
    effects = made.received(1, failed(at(5), ShardId(0, 0), LOCAL), 0.0)
    assert {plan.checkpoint for plan in sent(effects, msg.Plan)} == {at(4)}
    made.received(1, msg.Have(at(4), ShardId(0, 0), content("4.0")), 0.0)
    assert sent(made.received(1, msg.Prepared(made.run), 0.0), msg.Commit) == []
    made.received(2, msg.Have(at(4), ShardId(1, 0), content("4.1")), 0.0)
    assert len(sent(made.received(2, msg.Prepared(made.run), 0.0), msg.Commit)) == 2


def test_a_consent_that_comes_late_is_none_to_the_next_plan():
    made = holding(at(4), at(5))
    made.backups_read([], None, "", 0.0)
    earlier = made.run
    assert earlier is not None
    made.received(1, failed(at(5), ShardId(0, 0), LOCAL), 0.0)
    for rank in range(2):
        made.received(rank + 1, msg.Have(at(4), ShardId(rank, 0), content(f"4.{rank}")), 0.0)
        made.received(rank + 1, msg.Prepared(earlier), 0.0)
    assert made.phase is Phase.RESTORE


def test_a_consent_to_a_tentative_plan_does_not_count():
    made, _ = restoring(at(5))
    assert made.run is not None
    for rank in range(2):
        made.received(rank + 1, msg.Have(at(5), ShardId(rank, 0), content(f"own{rank}")), 0.0)
        made.received(rank + 1, msg.Prepared(made.run), 0.0)
    assert made.phase is Phase.RESTORE
    made.backups_read([stored("b1", at(9))], None, "", 0.0)
    assert made.checkpoint == at(9)
    assert made.phase is Phase.RESTORE


def test_a_doubt_about_a_step_that_is_given_up_holds_up_no_other():
    """Its holder was told to forget what it was asked, and may never answer."""
    replica = Copy(at(5), ShardId(1, 0), content("5.1"), 2)
    made = holding(at(4), at(5), also=(replica,))
    made.backups_read([], None, "", 0.0)
    reader = failed(at(5), ShardId(1, 0), Source(Origin.PEER, 0, "h:1"))
    made.received(2, failed(at(5), ShardId(1, 0), LOCAL), 0.0)
    (order,) = sent(made.received(2, reader, 0.0), msg.Fetch)
    assert order.source == LOCAL
    made.received(1, failed(at(5), ShardId(0, 0), LOCAL), 0.0)
    assert made.checkpoint == at(4)
    assert made.run is not None
    for rank in range(2):
        made.received(rank + 1, msg.Prepared(made.run), 0.0)
    assert made.phase is Phase.RUN


def test_a_partial_step_that_is_newer_goes_with_the_commit():
    partial = Copy(at(9), ShardId(0, 0), content("9.0"), 2)
    made = holding(at(5), also=(partial,))
    made.backups_read([], None, "", 0.0)
    assert made.run is not None
    commits = []
    for rank in range(2):
        made.received(rank + 1, msg.Have(at(5), ShardId(rank, 0), content(f"5.{rank}")), 0.0)
        commits += sent(made.received(rank + 1, msg.Prepared(made.run), 0.0), msg.Commit)
    assert [commit.discard for commit in commits] == [(at(9),)] * 2


def test_a_backup_of_the_restored_step_becomes_a_source_once_it_is_known():
    made, _ = restoring(at(5))
    made.backups_read([stored("b1", at(5))], None, "", 0.0)
    effects = made.received(1, failed(at(5), ShardId(0, 0), LOCAL), 0.0)
    assert [fetch.source.origin for fetch in sent(effects, msg.Fetch)] == [Origin.BACKUP]


def test_a_round_for_what_was_restored_blames_nobody_for_not_saving_it():
    made, _ = restoring(at(5))
    made.backups_read([], None, "", 0.0)
    assert made.run is not None
    for rank in range(2):
        made.received(rank + 1, msg.Have(at(5), ShardId(rank, 0), content(f"own{rank}")), 0.0)
        made.received(rank + 1, msg.Prepared(made.run), 0.0)
    late = TIMING.round + 1
    made.members.heard(0, late)
    made.members.heard(1, late)
    report = texts(made.tick(late))[0]
    assert "step 5 is not replicated" in report
    assert "no receipt from node(s) 0, 1" in report


# ---- the run -----------------------------------------------------------------------------------


def test_a_step_that_the_operator_went_back_behind_does_not_come_up_again():
    """After restore.version the newer step of the earlier run is still in the volumes."""
    made = holding(at(5), at(9))
    made.backups_read([stored("b1", at(5))], "b1", "", 0.0)
    run = made.run
    assert run is not None
    for rank in range(2):
        have = msg.Have(at(5), ShardId(rank, 0), content(f"own{rank}"))
        made.received(rank + 1, have, 0.0)
        made.received(rank + 1, msg.Prepared(run), 0.0)
    assert made.phase is Phase.RUN
    assert made.replication is not None
    made.lost(2, 1.0)
    copies = tuple(Copy(at(s), ShardId(1, 0), content(f"{s}.1"), 2) for s in (5, 9))
    made.received(3, hello(1, linked=run, prepared=run, checkpoint=at(5), copies=copies), 2.0)
    assert made.replication.complete == at(5)
    assert made.replication.active == at(5)


def test_a_save_of_another_run_counts_for_nothing():
    made = in_a_run()
    assert made.run is not None
    for rank in range(2):
        other = msg.Sealed(at(7, made.run.epoch + 1), (content(f"7.{rank}"),))
        made.received(rank + 1, other, 0.0)
    assert made.catalogue.checkpoints == {}
    save(made, 1, 0.0)
    assert made.replication is not None
    assert made.replication.complete == at(1, made.run.epoch)


def test_a_damaged_shard_completes_nothing_although_all_have_saved():
    made = in_a_run()
    save(made, 1, 0.0)
    assert made.run is not None
    assert made.replication is not None
    two = at(2, made.run.epoch)
    save(made, 2, 1.0, ranks=(1,))
    made.received(2, failed(two, ShardId(1, 0), LOCAL), 1.0)
    save(made, 2, 1.0, ranks=(0,))
    assert made.replication.complete == at(1, made.run.epoch)


def test_a_save_of_more_workers_than_the_job_has_counts_for_nothing():
    made = in_a_run()
    assert made.run is not None
    made.received(1, msg.Sealed(at(1, made.run.epoch), (content("a"), content("b"))), 0.0)
    assert made.catalogue.checkpoints == {}


def test_a_run_is_numbered_after_all_that_any_node_or_volume_has_seen():
    """Two runs of one number would mix their shards."""
    made = coordinator()
    made.received(1, hello(0, epoch=7), 0.0)
    made.received(2, hello(1), 0.0)
    made.backups_read([], None, "", 0.0)
    assert made.run is not None
    assert made.run.epoch == 8
    made = holding(at(5, 6))  # the nodes' state was lost, their copies were not
    made.backups_read([], None, "", 0.0)
    assert made.run is not None
    assert made.run.epoch == 7
    made = coordinator()
    for rank in range(2):
        made.received(rank + 1, hello(rank), 0.0)
    made.backups_read([stored("b1", at(5, 4))], None, "", 0.0)
    assert made.run is not None
    assert made.run.epoch == 5


def test_every_plan_of_a_restore_has_a_number_of_its_own():
    made = holding(at(4), at(5))
    made.backups_read([], None, "", 0.0)
    first = made.run
    made.received(1, failed(at(5), ShardId(0, 0), LOCAL), 0.0)
    assert first is not None
    assert made.run is not None
    assert made.run.epoch > first.epoch


# ---- rounds ------------------------------------------------------------------------------------


def test_a_step_that_a_node_has_passed_over_holds_up_no_newer_one():
    """Its save failed there, say: waiting for it would leave all newer steps unprotected."""
    made = in_a_run()
    assert made.run is not None
    assert made.replication is not None
    save(made, 1, 0.0, ranks=(0,))
    assert made.replication.active == at(1, made.run.epoch)
    save(made, 2, 1.0, ranks=(1,))
    assert made.replication.active == at(2, made.run.epoch)
    (report, _) = texts(made.tick(2.0))
    assert "step 1 is not replicated: node(s) 1 did not save it" in report
    assert texts(made.tick(3.0)) == []


def test_a_node_that_was_cut_off_while_it_saved_two_steps_has_passed_over_neither():
    made = in_a_run()
    run = made.run
    assert run is not None
    assert made.replication is not None
    made.lost(2, 0.0)
    save(made, 1, 1.0, ranks=(0,))
    newest_first = tuple(
        Copy(at(step, run.epoch), ShardId(1, 0), content(f"{step}.1"), 2) for step in (2, 1)
    )
    made.received(3, hello(1, linked=run, copies=newest_first), 2.0)
    assert made.replication.active == at(1, run.epoch)
    assert texts(made.tick(3.0)) == []
