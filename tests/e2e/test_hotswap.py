"""The documents' scenario: who runs when nodes fail and nothing is spare.

What each case means for a fleet, and which arrangement to choose, is in docs/hotswap.md. How a job
that is stuck already gets free is in test_advice.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Stage
from .controlplane.client import Manifest
from .controlplane.kwok import NodePool, tpu_v6e_pool
from .documents import HIGH, LOW, PODS, SLICE_PODS, fleet, topology_aware
from .patient import Patient
from .scenario import Scenario

pytestmark = pytest.mark.e2e

POOLS = [tpu_v6e_pool(f"pool-{letter}") for letter in "abcd"]

#: Pod garbage collection looks every 20 s and waits 40 s: a lost node's pods go after 40 to 80 s.
GARBAGE_COLLECTION_S = 120
#: How long a state must last to be called stuck.
STUCK_S = 20

#: A Kueue that leaves node failures to pod garbage collection and JobSet, and starts over when
#: a workload has not been whole for a minute.
PATIENT_KUEUE = {
    "waitForPodsReady": {
        "timeout": "10m",
        "recoveryTimeout": "60s",
        "requeuingStrategy": {"backoffBaseSeconds": 5},
    },
    "featureGates": {
        "TASFailedNodeReplacement": False,
        "TASFailedNodeReplacementFailFast": False,
        "TASReplaceNodeOnPodTermination": False,
        "TASReplaceNodeOnNodeTaints": False,
    },
}


def test_a_lost_pool_evicts_the_low_priority_job_until_it_is_repaired(stage: Stage) -> None:
    scene = stage(
        "Hotswap: a whole node pool is lost",
        "What happens on GKE to a multi-host TPU slice, whose nodes are repaired together. The"
        " high-priority job takes the place of the low-priority one before the repair.",
    )
    lost = both_running(scene, fleet())
    scene.lose_nodes(*lost_pool(lost).node_names())
    swapped(scene)
    assert len(scene.running(LOW)) < PODS
    scene.repair(lost_pool(lost))
    scene.wait(lambda: scene.all_running(LOW, PODS), 120, "the low-priority job runs again")
    assert scene.all_running(HIGH, PODS)
    assert scene.restarts(HIGH) == 1


def test_a_wounded_pool_holds_the_high_priority_job_for_ever(stage: Stage) -> None:
    """The case that goes wrong; the next tests prevent it."""
    scene = stage(
        "Hotswap fails: one node lost, its pool stays open",
        "The leader of the restarted slice finds a free node in the wounded pool, so nothing is"
        " preempted; the followers are bound to that pool, and one has no node.",
    )
    lost = stuck_in_the_wounded_pool(scene)
    restarts = scene.restarts(LOW)
    stays(scene, lambda: wounded(scene, lost) and scene.all_running(LOW, PODS))
    assert scene.restarts(LOW) == restarts


def test_waiting_for_pods_ready_does_not_leave_the_wounded_pool(stage: Stage) -> None:
    scene = stage(
        "Hotswap fails: recovery timeout alone",
        "Kueue starts the job over when it has not been whole for a minute, but the scheduler"
        " chooses the wounded pool again, since its nodes are free.",
        waitForPodsReady=PATIENT_KUEUE["waitForPodsReady"],
    )
    lost = stuck_in_the_wounded_pool(scene)
    before = {pod.name for pod in scene.pods(HIGH)}
    scene.wait(
        lambda: not before & {pod.name for pod in scene.pods(HIGH)}, 120, "Kueue starts it over"
    )
    scene.wait(lambda: wounded(scene, lost), 90, "it is pending in the wounded pool again")


def test_a_cordon_of_the_wounded_pool_lets_hotswap_happen(stage: Stage) -> None:
    scene = stage(
        "Hotswap works: the rest of the wounded pool is cordoned",
        "With what is left of the pool closed to new pods, the leader has to preempt a"
        " low-priority slice, and the followers go where it went.",
    )
    lost = both_running(scene, fleet())
    scene.lose_nodes(f"{lost}-1")
    scene.cordon_pool(lost)
    swapped(scene)


@pytest.mark.parametrize("nodes_lost", [1, SLICE_PODS], ids=["one node", "the pool"])
def test_kueue_gives_up_the_order_of_ranks_when_it_replaces_nodes_at_once(
    stage: Stage, tmp_path: Path, nodes_lost: int
) -> None:
    """The silent failure: everything runs, and which pods share a slice is left to chance.

    Eight pods on the eight nodes of two pools in any order make whole slices once in 35 times, and
    more often on a slow machine, where Kueue sees the pods of one slice before those of the other.
    The doctor names the slices that are mixed, and says nothing of whole ones.
    """
    scene = stage(
        f"Topology-aware placement mixes slices ({nodes_lost} of 4 nodes lost)",
        "Kueue evicts and readmits within seconds, while the pod of the lost node still exists."
        " It then gives up the order of ranks, and but for chance both slices are spread over two"
        " pools. All pods run, and training would hang.",
    )
    lost = both_running(scene, topology_aware(fleet()))
    given_up = ranks_given_up(scene)
    scene.lose_nodes(*lost_pool(lost).node_names()[:nodes_lost])
    scene.wait(lambda: ranks_given_up(scene) > given_up, 90, "Kueue gives up the order of ranks")
    scene.wait(lambda: len(scene.running(HIGH)) == PODS, 90, "all pods run")
    scene.wait(lambda: len(scene.pods(HIGH)) == PODS, GARBAGE_COLLECTION_S, "the orphans are gone")
    as_placed = scene.slices(HIGH)
    scene.recorder.mark("the slices are mixed" if mixed(scene) else "whole slices, by chance")
    named = {f["rule"] for f in Patient(scene.cluster, tmp_path).findings()}
    assert ("DOC031" in named) == mixed(scene)
    stays(scene, lambda: scene.slices(HIGH) == as_placed and scene.all_running(HIGH, PODS))


@pytest.mark.parametrize("nodes_lost", [1, SLICE_PODS], ids=["one node", "the pool"])
def test_topology_aware_hotswap_is_whole_when_kueue_waits_for_the_orphans(
    stage: Stage, nodes_lost: int
) -> None:
    scene = stage(
        f"Topology-aware hotswap, patient Kueue ({nodes_lost} of 4 nodes lost)",
        "Node replacement is off, so that garbage collection and JobSet's restart come first;"
        " the recovery timeout then starts the job over, when no old pod confuses the ranks.",
        **PATIENT_KUEUE,
    )
    lost = both_running(scene, topology_aware(fleet()))
    scene.lose_nodes(*lost_pool(lost).node_names()[:nodes_lost])
    swapped(scene, seconds=260)
    assert scene.workload_state(LOW) != "Admitted"
    scene.repair(lost_pool(lost))
    scene.wait(lambda: scene.all_running(LOW, PODS), 120, "the low-priority job runs again")
    assert not mixed(scene)


def both_running(scene: Scenario, manifests: list[Manifest]) -> str:
    """Play case 1: both JobSets queue, quota admits, each slice has a pool of its own.

    Returns the pool of the high-priority job's first slice.
    """
    scene.add_pools(POOLS)
    scene.apply(*manifests)
    scene.wait(
        lambda: scene.all_running(HIGH, PODS) and scene.all_running(LOW, PODS), 90, "both run"
    )
    homes = [pools for job in (HIGH, LOW) for pools in scene.slices(job).values()]
    assert all(len(pools) == 1 for pools in homes), "a slice is spread over pools"
    assert len(set.union(*homes)) == len(POOLS), "two slices share a pool"
    return next(iter(scene.slices(HIGH)["0"]))


def stuck_in_the_wounded_pool(scene: Scenario) -> str:
    """Play the case that goes wrong: one node lost, the rest of its pool open; returns the pool."""
    lost = both_running(scene, fleet())
    scene.lose_nodes(f"{lost}-1")
    scene.wait(
        lambda: wounded(scene, lost), GARBAGE_COLLECTION_S, "a pod is pending in the wounded pool"
    )
    return lost


def swapped(scene: Scenario, seconds: float = 180) -> None:
    """Wait until the high-priority job runs in full on nodes that exist, each slice in one pool."""
    scene.wait(lambda: scene.all_running(HIGH, PODS), seconds, "the high-priority job runs again")
    assert not mixed(scene), scene.picture()


def ranks_given_up(scene: Scenario) -> int:
    """How often Kueue said so; see its ``pkg/controller/tas/topology_ungater.go``."""
    assert scene.cluster.processes is not None, "a plane of our own has Kueue's log"
    return scene.cluster.processes.log("kueue").count("failed to read rank information from pods")


def mixed(scene: Scenario) -> bool:
    """Whether the running pods of one slice are on more than one pool."""
    return any(len(pools) > 1 for pools in scene.slices(HIGH).values())


def wounded(scene: Scenario, pool: str) -> bool:
    """Whether the restarted job runs in full but for one pod, whose slice has the rest of a pool.

    While the job is still being placed, a pod of the other slice can be without a node as well.
    """
    pods = scene.pods(HIGH)
    homeless = [pod for pod in pods if pod.state == "Pending" and not pod.node]
    running = [pod for pod in pods if pod.state == "Running"]
    return (
        scene.restarts(HIGH) > 0
        and (len(homeless), len(running), len(pods)) == (1, PODS - 1, PODS)
        and sum(pod.pool == pool for pod in running) == SLICE_PODS - 1
    )


def stays(scene: Scenario, condition: Callable[[], bool]) -> None:
    """Hold that ``condition`` is true from now on, for as long as a person would wait."""
    until = scene.recorder.now() + STUCK_S
    while scene.recorder.now() < until:
        assert condition(), scene.picture()
        time.sleep(0.5)
    scene.recorder.mark(f"still so after {STUCK_S} s")


def lost_pool(name: str) -> NodePool:
    return next(pool for pool in POOLS if pool.name == name)
