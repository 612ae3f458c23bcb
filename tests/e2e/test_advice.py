"""What ``stowplan doctor`` advises for a job that node loss has hurt is done, and it helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Stage
from .documents import HIGH, fleet, topology_aware
from .patient import Patient, run_advice
from .scenario import Scenario
from .test_hotswap import both_running, mixed, stuck_in_the_wounded_pool, swapped
from .timeline import JOB_INDEX_LABEL

pytestmark = pytest.mark.e2e

#: Where Kueue's release keeps its Configuration, with every feature gate at its default.
DEFAULT_SETTINGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
    "data": {"controller_manager_config.yaml": "kind: Configuration\n"},
}


def test_a_pod_in_a_wounded_pool_is_found_and_the_advice_frees_it(
    stage: Stage, tmp_path: Path
) -> None:
    scene = stage(
        "Hotswap works late: cordon, then delete the leader",
        "What to do about a job that is stuck already. The doctor names the slice and two commands:"
        " cordon the wounded pool, and delete one of the job's pods there; it restarts elsewhere.",
    )
    patient = Patient(scene.cluster, tmp_path)
    lost = stuck_in_the_wounded_pool(scene)
    found = patient.wait_for("DOC030", resource=f"JobSet default/{HIGH}")
    assert f"stuck in the wounded pool {lost}: 3 of its 4 pods run there" in found["message"]
    assert "that has 3 usable nodes" in found["message"]
    scene.recorder.mark("the doctor names it")
    for command in found["fix"].partition(": the slice")[0].split(" and then "):
        advised(scene, command)
    swapped(scene)
    patient.wait_without("DOC030")


def test_a_slice_over_two_pools_is_found_and_the_advice_makes_it_whole(
    stage: Stage, tmp_path: Path
) -> None:
    """How Kueue comes to mix slices, which it does by chance, is played in test_hotswap.py."""
    scene = stage(
        "Mixed slices are made whole: deactivate, then activate",
        "Two pods have exchanged their slices, so that each slice is spread over two pools, as after"
        " a node that Kueue replaced at once; everything is Running. The doctor names the slices,"
        " and what it advises makes them whole.",
    )
    patient = Patient(scene.cluster, tmp_path)
    both_running(scene, topology_aware(fleet()))
    scene.apply(DEFAULT_SETTINGS)
    warned = patient.wait_for("DOC032", resource="ConfigMap kueue-system/kueue-manager-config")
    assert "TASFailedNodeReplacement is on" in warned["message"]
    assert not [f for f in patient.findings() if f["rule"] in ("DOC030", "DOC031")]
    exchange_a_pod_between_the_slices(scene)
    assert mixed(scene)
    found = patient.wait_for("DOC031", resource=f"JobSet default/{HIGH}")
    assert "is spread over 2 node pools" in found["message"]
    scene.recorder.mark("the doctor names it")
    off, on = (
        part.removeprefix("then ")
        for part in found["fix"]
        .partition(";")[0]
        .split(", wait until the JobSet's pods are gone, ")
    )
    advised(scene, off)
    scene.wait(lambda: scene.pods(HIGH) == [], 60, "its pods are gone")
    advised(scene, on)
    swapped(scene)
    patient.wait_without("DOC031")


def exchange_a_pod_between_the_slices(scene: Scenario) -> None:
    """Give one running pod of either slice the index of the other."""
    one_of = {pod.job_index: pod.name for pod in scene.running(HIGH)}
    for index, other in (("0", "1"), ("1", "0")):
        labels = {JOB_INDEX_LABEL: other}
        scene.client.merge("v1", "Pod", one_of[index], {"metadata": {"labels": labels}}, "default")
    scene.recorder.mark("two pods exchange their slices")


def advised(scene: Scenario, command: str) -> None:
    """Run a command as the doctor words it."""
    run_advice(scene.cluster, command)
    scene.recorder.mark(command)
