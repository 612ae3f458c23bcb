"""What looks like a fault and is none, and how much of one there is."""

from __future__ import annotations

import json

import pytest

from generator.doctor.diagnose import diagnose
from generator.doctor.snapshot import Snapshot
from generator.findings import Severity

from . import fleet
from .faults.cluster import renamed
from .faults.drivers import DENIED
from .faults.placement import homeless, mixing, spread, wounded
from .faults.plant import HIGH, find, first, mount_event
from .faults.queues import QUOTA, waits
from .fleet import condition, healthy, jobset, pod, wanted


@pytest.mark.parametrize("state", ["Completed", "Failed"])
def test_a_jobset_that_has_ended_needs_no_workload(state: str) -> None:
    def plant(snapshot: Snapshot) -> None:
        ended = jobset("ended", **{"kueue.x-k8s.io/priority-class": "gone"})
        ended["status"] = {"conditions": [condition(state)]}
        snapshot.objects["jobsets"].append(ended)

    assert find(plant, "DOC024") == []
    assert find(plant, "DOC040") == []


def test_kueue_that_waits_for_orphans_is_not_warned_about() -> None:
    def plant(snapshot: Snapshot) -> None:
        mixing(snapshot)
        text = (
            "waitForPodsReady: {recoveryTimeout: 60s}\n"
            "featureGates: {TASFailedNodeReplacement: false}\n"
        )
        snapshot.objects["kueueconfig"][0]["data"]["controller_manager_config.yaml"] = text

    assert find(plant, "DOC032") == []


def test_a_shortage_in_a_cohort_shows_the_whole_cohort_and_its_holders() -> None:
    def plant(snapshot: Snapshot) -> None:
        waits(QUOTA)(snapshot)
        own = first(snapshot, "clusterqueues")
        own["spec"]["cohortName"] = "training"
        peer = json.loads(json.dumps(own))
        peer["metadata"]["name"] = "peer"
        peer["status"]["flavorsReservation"][0]["resources"][0]["total"] = "16"
        snapshot.objects["clusterqueues"].append(peer)
        borrower = jobset("borrower")
        snapshot.objects["workloads"].append(fleet.workload(borrower, "16", "peer"))

    (found,) = find(plant, "DOC023")
    assert "64 of 64 are reserved in ClusterQueue tpu-training-cq" in found.message
    assert "(cohort training: 80 of 128)" in found.message
    assert "JobSet default/borrower (16, priority 1000000)" in found.message


def test_an_old_event_of_a_pod_that_runs_by_now_is_no_fault() -> None:
    def plant(snapshot: Snapshot) -> None:
        name = snapshot.objects["driverpods"][0]["metadata"]["name"]
        event = mount_event(name, "gke-managed-checkpointing", DENIED)
        snapshot.objects["mountevents"].append(event)

    assert find(plant, "DOC012") == []


def test_a_wounded_pool_is_not_reported_twice() -> None:
    assert find(wounded, "DOC025") == []


def test_a_pool_that_is_whole_is_not_called_wounded() -> None:
    """The pod waits for its predecessor to end, and the pool has a node for each pod."""

    def plant(snapshot: Snapshot) -> None:
        waiting = pod(HIGH, 0, 1, "")
        waiting["spec"]["nodeSelector"] = {"cloud.google.com/gke-nodepool": "pool-a"}
        waiting["metadata"]["creationTimestamp"] = fleet.LATELY
        snapshot.objects["jobpods"][1] = waiting

    assert find(plant, "DOC030") == []
    assert find(plant, "DOC025") == []


def test_a_pool_that_is_still_growing_is_not_called_wounded() -> None:
    """Its nodes are newer than the slice's pods: an autoscaler makes them, one after the other."""

    def plant(snapshot: Snapshot) -> None:
        wounded(snapshot)
        for item in snapshot.objects["nodes"]:
            item["metadata"]["creationTimestamp"] = fleet.LATELY

    assert find(plant, "DOC030") == []
    assert len(find(plant, "DOC025")) == 1


def test_pods_that_wait_for_an_autoscaler_are_a_warning_first() -> None:
    def plant(snapshot: Snapshot) -> None:
        homeless(snapshot)
        for item in snapshot.objects["jobpods"]:
            item["metadata"]["creationTimestamp"] = "2026-08-01T11:55:00Z"

    (found,) = find(plant, "DOC025")
    assert found.severity is Severity.WARNING


def test_single_host_slices_may_be_on_several_pools() -> None:
    """Each node of 2x2 is a slice of its own."""

    def plant(snapshot: Snapshot) -> None:
        for item in snapshot.objects["nodes"]:
            item["metadata"]["labels"]["cloud.google.com/gke-tpu-topology"] = "2x2"
        for item in snapshot.objects["jobpods"]:
            item["metadata"]["annotations"] = {}
        spread(snapshot)

    assert find(plant, "DOC031") == []


def test_gpu_pods_may_be_on_several_pools() -> None:
    def plant(snapshot: Snapshot) -> None:
        for item in snapshot.objects["nodes"]:
            del item["metadata"]["labels"]["cloud.google.com/gke-tpu-topology"]
        for item in snapshot.objects["jobpods"]:
            item["metadata"]["annotations"] = {}
        spread(snapshot)

    assert find(plant, "DOC031") == []


def test_a_controller_under_another_name_is_not_called_missing() -> None:
    """Queues with conditions show that somebody answers."""
    assert find(lambda s: s.objects["kueuedeployments"].clear(), "DOC004") == []


def test_jobsets_that_run_without_a_condition_show_that_their_controller_lives() -> None:
    """JobSet writes a condition only to one that it has seen suspended; a quick Kueue is first."""
    statuses = [{"name": "slice", "ready": 2, "active": 2}]

    def plant(snapshot: Snapshot, status: dict[str, object]) -> None:
        snapshot.objects["jobsetdeployments"].clear()
        for item in snapshot.objects["jobsets"]:
            item["status"] = status

    assert find(lambda s: plant(s, {"replicatedJobsStatus": statuses}), "DOC004") == []
    (dead,) = find(lambda s: plant(s, {}), "DOC004")
    assert "JobSet is half installed" in dead.message


def test_another_cluster_is_told_and_not_compared() -> None:
    """What to apply and what to delete would be advice for the wrong cluster."""
    snapshot = healthy()
    renamed(snapshot)
    snapshot.objects["priorityclasses"].clear()
    told = diagnose(snapshot, wanted()).findings
    assert {finding.cluster for finding in told} == {"tpu-v6e-docs"}
    assert not {"DOC050", "DOC051", "DOC052"} & {finding.rule for finding in told}
    (missing, *_) = [finding for finding in told if finding.rule == "DOC040"]
    assert f"default/{HIGH}-of-another name it" in missing.message


@pytest.mark.parametrize("kept", ["clusterqueues", "resourceflavors", "jobsets"])
def test_a_cluster_that_has_some_of_the_names_is_the_right_one(kept: str) -> None:
    keys = {"clusterqueues", "resourceflavors", "checkpointconfigurations", "jobsets"}
    assert find(lambda s: renamed(s, *(keys - {kept})), "DOC009") == []


def test_a_cluster_to_which_nothing_was_applied_is_the_right_one() -> None:
    def plant(snapshot: Snapshot) -> None:
        for key in ("clusterqueues", "resourceflavors", "checkpointconfigurations", "jobsets"):
            snapshot.objects[key].clear()

    assert find(plant, "DOC009") == []
