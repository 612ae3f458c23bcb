"""Kueue objects and priority classes: quotas, cohorts, versions, selectors."""

from __future__ import annotations

import pytest

from tests.conftest import Fleet

DEV, DOCS = "targets/shared-dev.yml", "targets/tpu-v6e-docs.yml"
QUEUES = "classes/teams/shared-queues.yml"


def quotas(fleet: Fleet, cluster: str, queue: str) -> dict[str, dict[str, str]]:
    body = fleet.object(cluster, "ClusterQueue", queue)
    (group,) = body["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]
    return {r["name"]: {k: v for k, v in r.items() if k != "name"} for r in flavor["resources"]}


def test_a_queue_of_a_whole_pool_has_its_capacity_less_the_ram_disks(fleet: Fleet) -> None:
    fleet.compile("-t", "tpu-v6e-docs")
    assert quotas(fleet, "tpu-v6e-docs", "tpu-training-cq") == {
        "google.com/tpu": {"nominalQuota": "64"},
        "cpu": {"nominalQuota": str(16 * 179)},
        # 698.7Gi allocatable - 44Gi RAM disk, whole GiB a node, 16 nodes
        "memory": {"nominalQuota": f"{16 * 654}Gi"},
    }


def test_shares_are_whole_slices_and_limits_follow(fleet: Fleet) -> None:
    fleet.compile("-t", "shared-dev")
    assert quotas(fleet, "shared-dev", "foundation")["google.com/tpu"] == {
        "nominalQuota": "64", "lendingLimit": "32",
    }  # fmt: skip
    assert quotas(fleet, "shared-dev", "vision")["google.com/tpu"] == {
        "nominalQuota": "32", "borrowingLimit": "32",
    }  # fmt: skip
    fleet.edit(DEV, "share: 0.5\n", "share: 0.49\n")
    fleet.compile("-t", "shared-dev")
    assert quotas(fleet, "shared-dev", "foundation")["google.com/tpu"]["nominalQuota"] == "48"


def test_a_given_quota_wins_and_is_canonical(fleet: Fleet) -> None:
    fleet.edit(
        DOCS, "tpu-v6e-slice: {}", "tpu-v6e-slice: {resources: {cpu: 1600000m, memory: 4096Gi}}"
    )
    fleet.compile("-t", "tpu-v6e-docs")
    own = quotas(fleet, "tpu-v6e-docs", "tpu-training-cq")
    assert own["cpu"] == {"nominalQuota": "1600"}
    assert own["memory"] == {"nominalQuota": "4Ti"}
    assert own["google.com/tpu"] == {"nominalQuota": "64"}


def test_a_queue_admits_exactly_the_namespaces_of_its_local_queues(fleet: Fleet) -> None:
    fleet.compile("-t", "shared-dev")
    selector = fleet.object("shared-dev", "ClusterQueue", "preparation")["spec"][
        "namespaceSelector"
    ]
    assert selector == {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "In",
                "values": ["foundation", "research", "vision"],
            }
        ]
    }
    locals_ = fleet.objects("shared-dev", "LocalQueue")
    assert {q["metadata"]["namespace"] for q in locals_} == {"foundation", "research", "vision"}


def test_an_empty_selector_admits_all_and_is_written(fleet: Fleet) -> None:
    fleet.edit(
        DOCS,
        "        flavors:\n          tpu-v6e-slice: {}",
        "        namespaceSelector: {}\n        flavors:\n          tpu-v6e-slice: {}",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    assert fleet.object("tpu-v6e-docs", "ClusterQueue")["spec"]["namespaceSelector"] == {}


@pytest.mark.parametrize(
    ("cluster", "api", "cohort"),
    [("shared-dev", "v1beta2", "cohortName"), ("gpu-h100-prod", "v1beta1", "cohort")],
)
def test_the_cluster_decides_the_api_version(
    fleet: Fleet, cluster: str, api: str, cohort: str
) -> None:
    if cluster == "gpu-h100-prod":
        fleet.edit(
            f"targets/{cluster}.yml",
            "      research:\n        flavors",
            "      research:\n        cohort: shared\n        flavors",
        )
    fleet.compile("-t", cluster)
    queue = fleet.object(cluster, "ClusterQueue", "research")
    assert queue["apiVersion"] == f"kueue.x-k8s.io/{api}"
    assert queue["spec"][cohort] == "shared"
    for kind in ("ResourceFlavor", "LocalQueue", "WorkloadPriorityClass"):
        assert {o["apiVersion"] for o in fleet.objects(cluster, kind)} == {queue["apiVersion"]}


def test_defaults_of_the_api_are_written_out(fleet: Fleet) -> None:
    fleet.compile("-t", "tpu-v6e-docs")
    spec = fleet.object("tpu-v6e-docs", "ClusterQueue")["spec"]
    assert spec["queueingStrategy"] == "BestEffortFIFO"
    assert spec["stopPolicy"] == "None"
    assert spec["flavorFungibility"] == {
        "whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor",
    }  # fmt: skip
    assert spec["preemption"] == {
        "reclaimWithinCohort": "Never",
        "borrowWithinCohort": {"policy": "Never"},
        "withinClusterQueue": "LowerPriority",
    }
    assert fleet.object("tpu-v6e-docs", "LocalQueue")["spec"]["stopPolicy"] == "None"


def test_a_flavor_has_the_labels_that_its_jobs_select_so_that_kueue_adds_none(fleet: Fleet) -> None:
    fleet.compile()
    for cluster in ("tpu-v6e-docs", "tpu-v5p-prod", "gpu-h100-prod", "shared-dev"):
        flavors = fleet.objects(cluster, "ResourceFlavor")
        for jobset in fleet.objects(cluster, "JobSet"):
            for job in jobset["spec"]["replicatedJobs"]:
                selector = job["template"]["spec"]["template"]["spec"]["nodeSelector"]
                assert any(f["spec"]["nodeLabels"].items() <= selector.items() for f in flavors)


def test_a_topology_that_two_machines_have_is_told_apart_by_machine(fleet: Fleet) -> None:
    fleet.edit("classes/pools/v6e-4x4.yml", "topology: 4x4", "topology: 2x4")
    fleet.edit(DOCS, "nodesPerReplica: 4", "nodesPerReplica: 2")
    assert fleet.compile("-t", "tpu-v6e-docs").err == ""
    labels = fleet.object("tpu-v6e-docs", "ResourceFlavor")["spec"]["nodeLabels"]
    assert labels["node.kubernetes.io/instance-type"] == "ct6e-standard-4t"


def test_both_classes_come_from_one_list(fleet: Fleet) -> None:
    fleet.edit(
        "classes/priorities.yml",
        "      value: 2000000",
        "      value: 2000000\n      workloadValue: 5\n      preemptionPolicy: Never",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    pods = fleet.object("tpu-v6e-docs", "PriorityClass", "high")
    queue = fleet.object("tpu-v6e-docs", "WorkloadPriorityClass", "high")
    assert (pods["value"], pods["preemptionPolicy"]) == (2000000, "Never")
    # The API server drops false, so that writing it is a change on every client-side apply.
    assert "globalDefault" not in pods
    assert queue["value"] == 5
    assert "spec" not in queue
    assert pods["description"] == queue["description"]


def test_namespaces_are_those_in_use_with_the_labels_given(fleet: Fleet) -> None:
    fleet.compile("-t", "shared-dev")
    found = {
        n["metadata"]["name"]: n["metadata"]["labels"]
        for n in fleet.objects("shared-dev", "Namespace")
    }
    assert set(found) == {"foundation", "vision", "research", "checkpoint-retention"}
    assert found["vision"]["team"] == "vision"
    fleet.compile("-t", "tpu-v6e-docs")
    assert "default" not in {
        n["metadata"]["name"] for n in fleet.objects("tpu-v6e-docs", "Namespace")
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (DEV, "share: 0.25\n      preparation", "share: 0.5\n      preparation", "64 (foundation) + 32 (vision) + 64 (research) = 160, but node pool 'v5e' has 128"),
        (DEV, "share: 0.5\n", "share: 1.5\n", "found 1.5, expected at most 1"),
        (DEV, "          cpu: {}", "          cpu: {lendingLimit: 0.5}", "lendingLimit without a cohort"),
        (DEV, "          cpu: {}", "          cpu: {resources: {cpu: {nominal: 1, borrowingLimit: 1}}}", "borrowingLimit without a cohort"),
        (DEV, "share: 0.5\n", "resources: {google.com/tpu: {nominal: 64, lendingLimit: 65}}\n", "65 is more than the queue's own 64"),
        (DEV, "share: 0.5\n", "resources: {google.com/tpu: 500m}\n", "no whole number"),
        (DEV, "share: 0.5\n", "resources: {google.com/tpus: 4}\n", "did you mean google.com/tpu?"),
        (DEV, "          cpu: {}", "          cpux: {}", "no flavor is called 'cpux'"),
        (DEV, "        nodePool: v5e\n      cpu", "        nodePool: v6e\n      cpu", "no node pool is called 'v6e'"),
        (DEV, "        topology: pools", "        topology: pool", "no topology is called 'pool'"),
        (DEV, "        clusterQueue: preparation", "        clusterQueue: prep", "no cluster queue is called 'prep'"),
        (QUEUES, "      shared: {}", "      shared: {parent: a}\n      a: {parent: shared}", "each other's parents: shared → a → shared"),
        (QUEUES, "      reclaimWithinCohort: Any", "      reclaimWithinCohort: Never", "Kueue refuses this"),
        (QUEUES, "reclaimWithinCohort: Any", "reclaimWithinCohort: Always", "expected 'Never', 'LowerPriority' or 'Any'"),
        (QUEUES, "reclaimWithinCohort: Any", "reclaimOutOfCohort: {enable: true}", "write reclaimWithinCohort"),
        (DEV, "  nodePools:", "  priorities:\n    low-priority-job: {globalDefault: true}\n    other: {value: 1, globalDefault: true}\n  nodePools:", "is the global default already"),
        (DEV, "levels: [cloud.google.com/gke-nodepool, kubernetes.io/hostname]", "levels: [kubernetes.io/hostname, cloud.google.com/gke-nodepool]", "kubernetes.io/hostname is not the last level"),
        (DEV, "    cpu:\n      machineType", "    spare: {machineType: ct5lp-hightpu-4t, topology: 4x4, slices: 1, spot: true}\n    cpu:\n      machineType", "could not tell 'spare' from 'v5e'"),
    ],
)  # fmt: skip
def test_what_kueue_would_refuse_or_never_admit_is_refused(
    fleet: Fleet, file: str, old: str, new: str, says: str
) -> None:
    fleet.edit(file, old, new)
    answer = fleet.compile("-t", "shared-dev")
    assert answer.code == 1
    assert says in answer.err
