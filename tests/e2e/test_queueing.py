"""Kueue decides who runs: quota, preemption, cohorts, fair sharing, placement by topology."""

from __future__ import annotations

from functools import partial

import pytest

from .conftest import Stage
from .controlplane.kwok import NodePool, tpu_v6e_pool
from .documents import SLICE_PODS, fleet, jobset, queues, topology_aware, without_jobsets
from .scenario import Scenario

pytestmark = pytest.mark.e2e

RECLAIM = {
    "reclaimWithinCohort": "Any",
    "borrowWithinCohort": {"policy": "Never"},
    "withinClusterQueue": "LowerPriority",
}


#: Kueue 0.19 refuses a fairSharing block without them.
FAIR_SHARING = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


def pools(count: int) -> list[NodePool]:
    return [tpu_v6e_pool(f"pool-{letter}") for letter in "abcdefgh"[:count]]


def test_a_job_beyond_quota_waits_and_starts_when_quota_is_free(stage: Stage) -> None:
    scene = stage(
        "A job waits for quota",
        "Quota for two slices, and nodes for three. The third job stays suspended, however many"
        " nodes are free, until another one ends.",
    )
    scene.add_pools(pools(3))
    scene.apply(*without_jobsets(fleet()), *queues("small", 2))
    scene.apply(jobset("first", "small-queue"), jobset("second", "small-queue"))
    wait_running(scene, "first", "second")
    scene.apply(jobset("third", "small-queue"))
    scene.wait(lambda: pending_for_quota(scene, "third"), 60, "third waits for quota")
    assert scene.pods("third") == []
    assert scene.jobset("third")["spec"]["suspend"] is True
    scene.delete_jobset("first")
    wait_running(scene, "third")
    assert len(scene.running("second")) == SLICE_PODS


def test_the_higher_priority_job_preempts_the_lowest_within_its_queue(stage: Stage) -> None:
    scene = stage(
        "Preemption within the queue",
        "Quota for two slices, both used by low-priority jobs. Kueue suspends the newer one for a"
        " high-priority job, and starts it again when that has ended.",
    )
    scene.add_pools(pools(2))
    scene.apply(*without_jobsets(fleet()))
    scene.apply(*queues("small", 2, preemption={"withinClusterQueue": "LowerPriority"}))
    scene.apply(jobset("low-older", "small-queue"))
    wait_running(scene, "low-older")
    scene.apply(jobset("low-newer", "small-queue"))
    wait_running(scene, "low-newer")
    scene.apply(jobset("urgent", "small-queue", "high"))
    wait_running(scene, "urgent")
    assert preempted(scene, "low-newer") == "InClusterQueue"
    assert scene.pods("low-newer") == []
    assert len(scene.running("low-older")) == SLICE_PODS
    scene.delete_jobset("urgent")
    wait_running(scene, "low-newer")


def test_a_queue_borrows_in_its_cohort_and_the_owner_reclaims(stage: Stage) -> None:
    scene = stage(
        "Borrowing and reclaim",
        "Two teams with a slice each in one cohort. The first team borrows the second's slice"
        " while that is idle; the second takes it back, although its job has no higher priority.",
    )
    scene.add_pools(pools(2))
    scene.apply(*without_jobsets(fleet()))
    for team in ("team-a", "team-b"):
        scene.apply(*queues(team, 1, cohortName="training", preemption=RECLAIM))
    scene.apply(jobset("a-own", "team-a-queue"))
    wait_running(scene, "a-own")
    scene.apply(jobset("a-borrows", "team-a-queue"))
    wait_running(scene, "a-borrows")
    scene.apply(jobset("b-own", "team-b-queue"))
    wait_running(scene, "b-own")
    assert preempted(scene, "a-borrows") == "InCohortReclamation"
    assert len(scene.running("a-own")) == SLICE_PODS
    assert scene.pods("a-borrows") == []


def test_fair_sharing_gives_the_idle_cohort_to_those_who_have_less(stage: Stage) -> None:
    scene = stage(
        "Fair sharing",
        "Two teams without quota of their own share four idle slices of their cohort. The first"
        " takes all four; when the second arrives, Kueue preempts until each has two.",
        fairSharing={"preemptionStrategies": FAIR_SHARING},
    )
    scene.add_pools(pools(4))
    scene.apply(*without_jobsets(fleet()))
    scene.apply(*queues("reserve", 4, cohortName="training"))
    for team in ("team-a", "team-b"):
        scene.apply(*queues(team, 0, cohortName="training", preemption=RECLAIM))
    for index in range(4):
        scene.apply(jobset(f"a-{index}", "team-a-queue"))
    wait_running(scene, *(f"a-{index}" for index in range(4)))
    for index in range(3):
        scene.apply(jobset(f"b-{index}", "team-b-queue"))
    scene.wait(lambda: slices_of(scene, "b") == 2, 90, "team b has two slices")
    scene.wait(lambda: slices_of(scene, "a") == 2, 60, "team a keeps two slices")


def test_kueue_places_each_slice_in_one_pool(stage: Stage) -> None:
    scene = stage(
        "Topology-aware placement",
        "Pools with room for a slice and a half. Without a topology the six free nodes would be"
        " filled as they come; Kueue keeps the pods of a slice in one pool.",
    )
    scene.add_pools(tpu_v6e_pool(f"pool-{letter}", nodes=6) for letter in "ab")
    scene.apply(*without_jobsets(topology_aware(fleet())), *queues("small", 3))
    manifest = next(
        m
        for m in topology_aware([jobset("sliced", "small-queue", slices=2)])
        if m["kind"] == "JobSet"
    )
    scene.apply(manifest)
    wait_running(scene, "sliced", pods=2 * SLICE_PODS)
    placed = scene.slices("sliced")
    assert sorted(len(pools) for pools in placed.values()) == [1, 1]
    third = next(
        m for m in topology_aware([jobset("too-wide", "small-queue")]) if m["kind"] == "JobSet"
    )
    scene.apply(third)
    scene.wait(lambda: "topology" in why_pending(scene, "too-wide"), 60, "no pool has four free")
    assert scene.pods("too-wide") == []


def wait_running(scene: Scenario, *jobsets: str, pods: int = SLICE_PODS) -> None:
    for name in jobsets:
        scene.wait(partial(scene.all_running, name, pods), 90, f"{name} runs")


def pending_for_quota(scene: Scenario, jobset: str) -> bool:
    return "insufficient unused quota" in why_pending(scene, jobset)


def why_pending(scene: Scenario, jobset: str) -> str:
    """Kueue's message on a workload that holds no quota; empty while there is none."""
    try:
        conditions = scene.workload(jobset).get("status", {}).get("conditions", [])
    except LookupError:
        return ""
    return next(
        (
            c["message"]
            for c in conditions
            if c["type"] == "QuotaReserved" and c["status"] == "False"
        ),
        "",
    )


def preempted(scene: Scenario, jobset: str) -> str:
    """The reason of a workload's preemption."""
    conditions = scene.workload(jobset)["status"]["conditions"]
    return next(str(c["reason"]) for c in conditions if c["type"] == "Preempted")


def slices_of(scene: Scenario, team: str) -> int:
    """How many of a team's jobs run in full."""
    return sum(len(scene.running(f"{team}-{index}")) == SLICE_PODS for index in range(4))
