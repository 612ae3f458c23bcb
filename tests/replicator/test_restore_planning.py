"""Which checkpoint is restored, and who takes what from whom."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.core.catalogue import Catalogue, all_shards
from replicator.core.distribution import Distribution
from replicator.core.model import (
    Backup,
    CheckpointId,
    Content,
    Copy,
    Failure,
    Origin,
    ShardId,
    Source,
)
from replicator.core.plan import Choice, Refusal, choose

ONE, TWO, THREE = CheckpointId(1, 1), CheckpointId(1, 2), CheckpointId(1, 3)


def content(checkpoint: CheckpointId, rank: int) -> Content:
    return Content(f"d{checkpoint}{rank}", f"m{checkpoint}{rank}", 1)


def catalogue(held: dict[int, list[tuple[CheckpointId, int]]], world: int = 2) -> Catalogue:
    """`held`: node -> (checkpoint, rank of the shard) that it holds."""
    made = Catalogue()
    for node, copies in held.items():
        made.replace(
            node, [Copy(c, ShardId(rank, 0), content(c, rank), world) for c, rank in copies]
        )
    return made


def backup(name: str, checkpoint: CheckpointId, world: int = 2, problem: str = "") -> Backup:
    shards = {shard: content(checkpoint, shard.rank) for shard in all_shards(world, 1)}
    return Backup(name, checkpoint, world, {} if problem else shards, problem)


def chosen(held, backups=(), forced=None, world=2) -> Choice | Refusal:
    return choose(catalogue(held), backups, forced, world, all_shards(world, 1))


def test_the_newest_complete_step_wins_over_a_newer_incomplete_one():
    choice = chosen({0: [(ONE, 0), (TWO, 0)], 1: [(ONE, 1)]})
    assert choice.checkpoint == ONE
    assert choice.discard == (TWO,)
    assert "1 of 2 shards are nowhere, first node 1" in choice.incomplete[0]


def test_a_replica_completes_a_step():
    assert chosen({0: [(TWO, 0), (TWO, 1)]}).checkpoint == TWO


def test_shards_of_two_runs_are_never_mixed():
    first, second = CheckpointId(1, 7), CheckpointId(2, 7)
    choice = chosen({0: [(first, 0), (ONE, 0), (ONE, 1)], 1: [(second, 1)]})
    assert choice.checkpoint == ONE


def test_a_later_run_is_newer_even_at_an_earlier_step():
    later = CheckpointId(2, 1)
    held = [(THREE, 0), (THREE, 1), (later, 0), (later, 1)]
    assert chosen({0: held}).checkpoint == later


def test_the_cluster_wins_over_an_equally_new_backup():
    choice = chosen({0: [(TWO, 0), (TWO, 1)]}, [backup("b", TWO)])
    assert choice.checkpoint == TWO
    assert not choice.primary_backup


def test_a_newer_backup_wins_over_the_cluster():
    choice = chosen({0: [(ONE, 0), (ONE, 1)]}, [backup("b", TWO)])
    assert choice.checkpoint == TWO
    assert choice.primary_backup


def test_a_backup_of_the_same_step_fills_a_gap():
    choice = chosen({0: [(TWO, 0)]}, [backup("b", TWO)])
    assert choice.checkpoint == TWO
    assert choice.backup is not None


def test_an_unfinished_backup_is_passed_over():
    backups = [backup("2", TWO, problem="not sealed"), backup("1", ONE)]
    assert chosen({}, backups).checkpoint == ONE


def test_nothing_anywhere_is_a_start_from_nothing_that_discards_nothing():
    choice = chosen({0: [(ONE, 0)]}, [backup("2", TWO, problem="not sealed")])
    assert choice.checkpoint is None
    assert choice.discard == ()
    assert len(choice.incomplete) == 2


@pytest.mark.parametrize(
    ("backups", "words"),
    [
        ([backup("1", ONE)], "does not exist"),
        ([backup("2", TWO, problem="not sealed")], "not complete: not sealed"),
        ([backup("2", TWO, world=4)], "saved by 4 nodes, but this job runs 2"),
    ],
)
def test_a_forced_version_that_cannot_be_had_is_refused(backups, words):
    refusal = chosen({0: [(ONE, 0), (ONE, 1)]}, backups, forced="2")
    assert isinstance(refusal, Refusal)
    assert words in refusal.text


def test_another_world_size_is_refused():
    refusal = choose(catalogue({0: [(ONE, 0)]}, 4), (), None, 2, all_shards(2, 1))
    assert isinstance(refusal, Refusal)
    assert "saved by 4 nodes, but this job runs 2" in refusal.text


# ---- transfers ---------------------------------------------------------------------------------


def distribution(held, shards, *, backup=None, data_parallel=False) -> Distribution:
    holders = catalogue(held).checkpoints.get(ONE, {})
    return Distribution(ONE, holders, backup, shards, data_parallel)


def test_a_backup_of_the_same_content_becomes_one_more_source():
    plan = distribution({0: [(ONE, 0)], 1: [(ONE, 1)]}, all_shards(2, 1))
    plan.start()
    assert plan.fill_from(backup("b", ONE))
    damaged = Source(Origin.LOCAL, 1)
    more, _ = plan.failed(ShardId(1, 0), damaged, Failure.CORRUPT)
    assert [(a.shard.rank, a.source.backup) for a in more] == [(1, "b")]


def test_a_backup_of_other_content_does_not():
    plan = distribution({0: [(ONE, 0)], 1: [(ONE, 1)]}, all_shards(2, 1))
    assert not plan.fill_from(backup("b", TWO))
    assert plan.backup is None


def test_where_copies_of_a_shard_differ_the_backups_content_is_what_all_must_have():
    """Else nodes would restore a mixture."""
    made = catalogue({0: [(ONE, 0)], 1: [(ONE, 1)]})
    other = Content("else", "else", 1)
    made.add(0, ONE, ShardId(0, 0), other, 2)
    made.add(1, ONE, ShardId(0, 0), other, 2)
    plan = Distribution(ONE, made.checkpoints[ONE], backup("b", ONE), all_shards(2, 1), False)
    first = {a.shard.rank: (a.source.origin, a.content) for a in plan.start()}
    assert first == {
        0: (Origin.BACKUP, content(ONE, 0)),
        1: (Origin.LOCAL, content(ONE, 1)),
    }


def test_where_copies_of_a_shard_differ_its_owners_is_what_counts():
    made = catalogue({1: [(ONE, 0), (ONE, 1)], 0: [(ONE, 1)]})
    made.add(1, ONE, ShardId(1, 0), Content("own", "own", 1), 2)
    plan = Distribution(ONE, made.checkpoints[ONE], None, all_shards(2, 1), False)
    first = {a.shard.rank: (a.source, a.content) for a in plan.start()}
    assert first[1] == (Source(Origin.LOCAL, 1), Content("own", "own", 1))
    more, _ = plan.failed(ShardId(1, 0), first[1][0], Failure.CORRUPT)
    assert more == []
    assert plan.exhausted == [ShardId(1, 0)]  # node 0 holds something else


def run_to_end(plan: Distribution, lose=()) -> list[list[tuple[int, Source]]]:
    """Carry out the assignments in rounds; returns who took from whom in each."""
    pending, rounds = plan.start(), []
    while pending:
        rounds.append([(a.shard.rank, a.source) for a in pending])
        following = []
        for assignment in pending:
            if assignment.source.rank in lose and assignment.source.origin is Origin.PEER:
                more, _ = plan.failed(assignment.shard, assignment.source, Failure.MISSING)
            else:
                more = plan.done(assignment.shard, assignment.content)
            following.extend(more)
        pending = following
    return rounds


def equal_everywhere(world: int, holders: list[int]) -> tuple[Distribution, int]:
    """Data parallelism over all nodes: every rank needs the same content."""
    same = Content("d", "m", 1)
    made = Catalogue()
    shards = all_shards(world, 1)
    for shard in shards:
        for node in holders:
            made.add(node, ONE, shard, same, world)
    backup_of = Backup("b", ONE, world, dict.fromkeys(shards, same))
    return Distribution(ONE, made.checkpoints.get(ONE, {}), backup_of, shards, True), world


def test_local_copies_are_verified_where_they_are():
    plan = distribution({0: [(ONE, 0)], 1: [(ONE, 1)]}, all_shards(2, 1))
    assert [a.source.origin for a in plan.start()] == [Origin.LOCAL, Origin.LOCAL]


def test_the_broadcast_doubles_each_round():
    plan, world = equal_everywhere(64, [0])
    rounds = run_to_end(plan)
    assert not plan.open
    peers = [sum(s.origin is Origin.PEER for _, s in one) for one in rounds]
    assert peers[:6] == [1, 2, 4, 8, 16, 32]
    assert sum(peers) == world - 1


def test_one_node_reads_the_backup_for_all_that_need_the_same():
    plan, _ = equal_everywhere(32, [])
    rounds = run_to_end(plan)
    origins = [source.origin for one in rounds for _, source in one]
    assert origins.count(Origin.BACKUP) == 1
    assert not plan.open


def test_a_source_without_the_data_is_dropped_and_another_used():
    plan = distribution({0: [(ONE, 1)], 2: [(ONE, 1)], 3: [(ONE, 0), (ONE, 1)]}, all_shards(2, 1))
    run_to_end(plan, lose=(0, 2))
    assert not plan.open
    assert plan.exhausted == []
    assert {rank for rank, _ in plan.dropped} <= {0, 2}


def test_when_the_cluster_has_nothing_good_left_the_backup_serves():
    plan = distribution({0: [(ONE, 0), (ONE, 1)]}, all_shards(2, 1), backup=backup("b", ONE))
    first = {a.shard.rank: a for a in plan.start()}
    more, _ = plan.failed(ShardId(1, 0), first[1].source, Failure.MISSING)
    assert [a.source.origin for a in more] == [Origin.BACKUP]


def test_without_any_source_the_shard_is_reported_exhausted():
    plan = distribution({0: [(ONE, 0), (ONE, 1)]}, all_shards(2, 1))
    first = {a.shard.rank: a for a in plan.start()}
    plan.failed(ShardId(1, 0), first[1].source, Failure.MISSING)
    assert plan.exhausted == [ShardId(1, 0)]


def test_a_transient_failure_rests_until_retried():
    plan = distribution({0: [(ONE, 0), (ONE, 1)]}, all_shards(2, 1))
    first = {a.shard.rank: a for a in plan.start()}
    more, suspect = plan.failed(ShardId(1, 0), first[1].source, Failure.TRANSIENT)
    assert more == []
    assert suspect is None
    assert plan.exhausted == []
    assert [a.shard for a in plan.retry(ShardId(1, 0))] == [ShardId(1, 0)]


def test_damage_found_by_a_reader_puts_the_source_under_suspicion():
    plan = distribution({0: [(ONE, 0), (ONE, 1)]}, all_shards(2, 1))
    first = {a.shard.rank: a for a in plan.start()}
    _, suspect = plan.failed(ShardId(1, 0), first[1].source, Failure.CORRUPT)
    assert suspect == ShardId(1, 0)
    plan.source_damaged(0, ShardId(1, 0))
    plan.retry(ShardId(1, 0))
    assert plan.exhausted == [ShardId(1, 0)]


# ---- how the work grows ------------------------------------------------------------------------


BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "replicator" / "planning.py"
spec = importlib.util.spec_from_file_location("planning", BENCHMARK)
planning = importlib.util.module_from_spec(spec)
spec.loader.exec_module(planning)


def executed_lines(work: Callable[..., int], *arguments: object) -> int:
    """Lines of Python that run: unlike seconds the same each time."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work(*arguments)
    finally:
        sys.settrace(before)
    return lines


def test_the_work_of_planning_grows_no_faster_than_n_log_n():
    few, many = 200, 3200
    growth = many * math.log(many) / (few * math.log(few))
    least, most = (executed_lines(planning.plan, n, planning.reports(n)) for n in (few, many))
    assert most < least * growth


def test_the_work_of_a_broadcast_grows_no_faster_than_n_log_n():
    few, many = 200, 3200
    growth = many * math.log(many) / (few * math.log(few))
    least, most = (executed_lines(planning.distribute, nodes) for nodes in (few, many))
    assert most < least * growth
