"""A job that is restarted as a whole before it was restored: old and new starts do not mix."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from core_cases import JOB, RUN, hello

from replicator.agent.markers import Markers, SavedState
from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.coordinator import UNSETTLED, Coordinator, Phase
from replicator.core.model import CheckpointId, Run, Timing
from replicator.core.node import Node
from replicator.core.state import NodeState

WORLD = 3
TIMING = Timing(settle=30.0)


Starts = dict[int, tuple[float, float | None]]
"""Rank -> when it was started, and how long the one before had waited in vain."""


def gathering(starts: Starts, now: float) -> tuple[Coordinator, list]:
    job = replace(JOB, world=WORLD)
    made = Coordinator(job, "t", TIMING, str, 0.0)
    return made, hear(made, starts, now)


def hear(made: Coordinator, starts: Starts, now: float, times: int = 1) -> list:
    """It hears of starts; `times` is how many in a row were in vain, where one was."""
    effects = []
    for rank, (start, in_vain) in starts.items():
        said = hello(
            rank,
            world=WORLD,
            peers=((rank + 1) % WORLD,),
            attempt=f"{rank} at {start}",
            age=int((now - start) * 1000),
            in_vain=0 if in_vain is None else times,
            waited=0 if in_vain is None else int(in_vain * 1000),
        )
        effects += made.received(rank + 1, said, now)
    return effects


def begins_at(made: Coordinator, moment: float) -> bool:
    """Whether the restore begins then, and no earlier."""
    for rank in range(WORLD):
        made.members.heard(rank, moment)
    made.tick(moment - 0.01)
    early = made.phase is not Phase.GATHER
    made.tick(moment)
    return made.phase is Phase.RESTORE and not early


@pytest.mark.parametrize(
    "starts",
    [
        {0: (10, None), 1: (200, None), 2: (290, None)},
        {0: (100, 90), 1: (104, 92), 2: (108, 95)},
        {0: (100, 90), 1: (104, 92), 2: (99, None)},
    ],
    ids=["a first start", "all were started anew", "one of them on a new machine"],
)
def test_nobody_is_waited_for_who_is_there_already(starts):
    made, _ = gathering(starts, max(start for start, _ in starts.values()) + 1)
    assert made.phase is Phase.RESTORE


def test_a_rank_that_was_started_anew_makes_the_others_wait_for_theirs():
    starts = {0: (10, None), 1: (12, None), 2: (100, 85)}
    made, effects = gathering(starts, 101.0)
    assert [e.text for e in effects if isinstance(e, fx.Log)] == [UNSETTLED]
    assert hear(made, {1: (115, 103)}, 115.0) == [], "said once"
    hear(made, {0: (129, 119)}, 129.0)
    assert made.phase is Phase.RESTORE, "all are of the new start"


def test_where_nobody_follows_the_restore_begins_once_it_is_quiet():
    """One container was started anew by its kubelet: the others go on waiting as they are."""
    made, _ = gathering({0: (10, None), 1: (12, None), 2: (100, 85)}, 101.0)
    assert begins_at(made, 130.0)


def test_quiet_counts_from_the_latest_start():
    made, _ = gathering({0: (10, None), 1: (12, None), 2: (100, 85)}, 101.0)
    hear(made, {1: (125, 113)}, 125.0)
    assert begins_at(made, 155.0)


def test_a_restart_while_shards_are_fetched_takes_the_restore_back():
    made, _ = gathering({0: (10, None), 1: (12, None), 2: (14, None)}, 15.0)
    assert made.phase is Phase.RESTORE
    hear(made, {1: (60, 48)}, 60.0)
    assert made.phase is Phase.GATHER
    assert begins_at(made, 90.0)


def test_a_wait_that_comes_after_a_restore_is_said_anew():
    made, first = gathering({0: (10, None), 1: (12, None), 2: (100, 85)}, 101.0)
    assert begins_at(made, 130.0)
    second = hear(made, {1: (140, 128)}, 140.0)
    assert [effects.count(fx.Log(UNSETTLED)) for effects in (first, second)] == [1, 1]


def test_a_second_wave_is_told_from_the_first():
    made, _ = gathering({0: (100, 90), 1: (104, 92)}, 110.0)
    effects = hear(made, {2: (150, 45)}, 151.0, times=2)
    assert made.phase is Phase.GATHER, "ranks 0 and 1 are still of the first restart"
    assert fx.Log(UNSETTLED) in effects
    hear(made, {0: (152, 52), 1: (153, 49)}, 153.0, times=2)
    assert made.phase is Phase.RESTORE


def test_starts_that_follow_one_another_more_slowly_than_the_restarts_do():
    """The job failed at once: the second start of rank 1 is nearer to its first than rank 0's."""
    made, _ = gathering({0: (11, 1), 1: (10, None), 2: (12, None)}, 12.0)
    assert made.phase is Phase.GATHER
    hear(made, {1: (18, 8)}, 18.0)
    assert made.phase is Phase.RESTORE


def test_the_wait_is_short_where_all_have_little_time_to_come():
    made, _ = gathering({0: (10, None), 1: (12, None), 2: (100, 85)}, 101.0)
    made.members._timing = replace(TIMING, join=40.0)
    made._since = 100.0
    assert begins_at(made, 110.0)


def test_a_restart_just_before_the_last_moment_to_come_refuses_nobody():
    """All are here, so there is nobody to call late: the wait for more starts goes beyond it."""
    made, _ = gathering({0: (10, None), 1: (12, None)}, 20.0)
    hear(made, {2: (TIMING.join - 10, 870)}, TIMING.join - 9)
    for rank in range(WORLD):
        made.members.heard(rank, TIMING.join + 1)
    assert not [e for e in made.tick(TIMING.join + 1) if isinstance(e.message, msg.Refuse)]
    assert begins_at(made, TIMING.join + 20)


def test_a_rank_that_is_started_again_and_again_keeps_nobody_for_ever():
    made, _ = gathering({0: (10, None), 1: (12, None)}, 20.0)
    last = TIMING.join + TIMING.settle
    for times, start in enumerate(range(30, int(last), 20), 1):
        for rank in made.members.by_rank:
            made.members.heard(rank, start)
        hear(made, {2: (start, 20)}, start, times)
    assert begins_at(made, last)


def said(effects) -> msg.Hello:
    (found,) = [e.message for e in effects if isinstance(e, fx.Send)]
    assert isinstance(found, msg.Hello)
    return found


def test_a_node_says_how_long_its_start_before_had_waited_in_vain():
    node = Node(NodeState(), (), "h:1", TIMING)
    node.accept(JOB, "a", 100.0)
    found = said(node.link_up(101.5))
    assert (found.age, found.in_vain, found.waited) == (1500, 0, 0)
    node.accept(JOB, "b", 130.0)
    found = said(node.link_up(131.0))
    assert (found.age, found.in_vain, found.waited) == (1000, 1, 30_000)
    node.accept(JOB, "c", 140.0)
    found = said(node.link_up(140.0))
    assert (found.age, found.in_vain, found.waited) == (0, 2, 10_000)


def test_a_start_that_was_restored_was_not_in_vain():
    node = Node(NodeState(), (), "h:1", TIMING)
    node.accept(JOB, "a", 100.0)
    node.link_up(101.0)
    run = Run(1, "t")
    node.received(msg.Plan(run, None, "", "", ()), 102.0)
    node.received(msg.Commit(run, None, ()), 103.0)
    assert node.state.linked == run
    node.accept(JOB, "b", 130.0)
    assert (node.state.in_vain, node.state.waited) == (0, 0)


@pytest.mark.parametrize("other", [replace(JOB, name="next"), replace(JOB, uid="2")])
def test_another_jobs_start_was_not_in_vain_for_this_one(other):
    node = Node(NodeState(), (), "h:1", TIMING)
    node.accept(JOB, "a", 100.0)
    node.accept(other, "b", 130.0)
    assert (node.state.in_vain, node.state.waited) == (0, 0)
    node.accept(other, "c", 140.0)
    assert (node.state.in_vain, node.state.waited) == (1, 10_000)


def test_a_start_that_was_given_up_was_in_vain():
    node = Node(NodeState(), (), "h:1", TIMING)
    node.accept(JOB, "a", 100.0)
    node.link_up(101.0)
    node.received(msg.Refuse("no"), 110.0)
    assert node.state.job is None
    node.accept(JOB, "b", 130.0)
    assert (node.state.in_vain, node.state.waited) == (1, 30_000)


@pytest.mark.parametrize(("linked", "expected"), [(None, (3, 50_000)), (RUN, (0, 0))])
def test_an_agent_that_was_away_knows_when_the_job_was_accepted(linked, expected):
    state = NodeState(JOB, "a", 2, 7, 1, linked=linked, checkpoint=CheckpointId(1, 5))
    node = Node(state, (), "h:1", TIMING)
    node.start(1000.0, age=40.0)
    assert said(node.link_up(1001.0)).age == 41_000
    node.accept(JOB, "b", 1010.0)
    assert (node.state.in_vain, node.state.waited) == expected


def test_an_age_that_a_clock_made_negative_is_none():
    node = Node(NodeState(JOB, "a"), (), "h:1", TIMING)
    node.start(1000.0, age=-40.0)
    assert said(node.link_up(1001.0)).age == 0


def test_that_a_start_was_in_vain_outlives_the_agent(tmp_path):
    (tmp_path / ".stowplan" / "tmp").mkdir(parents=True)
    markers = Markers(tmp_path, tmp_path / ".stowplan" / "tmp")
    state = NodeState(attempt="b", in_vain=3, waited=30_000, epoch=2)
    markers.save_state(None, state, 12.5)
    assert markers.load_state("") == SavedState(None, state, 12.5)


def test_the_state_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / ".stowplan" / "tmp").mkdir(parents=True)
    markers = Markers(tmp_path, tmp_path / ".stowplan" / "tmp")
    markers.save_state(None, NodeState(attempt="b", in_vain=3, waited=30_000, epoch=2), 12.5)
    path = tmp_path / ".stowplan" / "state.json"
    document = json.loads(path.read_text())
    del document["in_vain"], document["waited"]
    path.write_text(json.dumps(document))
    assert markers.load_state("").state == NodeState(attempt="b", epoch=2)
