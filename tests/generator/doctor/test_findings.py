"""Every rule of the doctor, planted in a healthy cluster; the healthy one has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from generator.checks.live_rules import LIVE
from generator.doctor.diagnose import diagnose
from generator.doctor.reads import READS
from generator.doctor.snapshot import Snapshot, Unread
from generator.findings import Finding, Severity

from . import fleet
from .fleet import condition, healthy, jobset, pending, pod, unserve, wanted

Plant = Callable[[Snapshot], Any]
HIGH, LOW = "high-jax-trillium-7ca82b14", "low-jax-trillium-807d7dbe"


def find(plant: Plant, rule: str) -> list[Finding]:
    snapshot = healthy()
    plant(snapshot)
    return [f for f in diagnose(snapshot, wanted()).findings if f.rule == rule]


def test_a_healthy_cluster_has_no_finding() -> None:
    report = diagnose(healthy(), wanted())
    assert report.findings == []


def test_without_a_folder_the_same_cluster_has_none_either() -> None:
    assert diagnose(healthy()).findings == []


@dataclass(frozen=True)
class Case:
    """A fault, the rule that sees it and what its sentence must hold."""

    rule: str
    plant: Plant
    says: tuple[str, ...]
    resource: str = ""
    severity: Severity = Severity.ERROR
    fix: str = ""


def first(snapshot: Snapshot, key: str) -> dict[str, Any]:
    return snapshot.objects[key][0]


def named(snapshot: Snapshot, key: str, name: str) -> dict[str, Any]:
    return next(item for item in snapshot.objects[key] if item["metadata"]["name"] == name)


def drop(key: str, name: str) -> Plant:
    def plant(snapshot: Snapshot) -> None:
        items = snapshot.objects[key]
        snapshot.objects[key] = [i for i in items if i["metadata"]["name"] != name]
        assert len(snapshot.objects[key]) < len(items)

    return plant


def refuse(key: str) -> Plant:
    def plant(snapshot: Snapshot) -> None:
        del snapshot.objects[key]
        snapshot.unread.append(Unread(key, key, "Forbidden", f"{key} is forbidden"))

    return plant


def waits(message: str) -> Plant:
    def plant(snapshot: Snapshot) -> None:
        third = jobset("third")
        snapshot.objects["jobsets"].append(third)
        snapshot.objects["workloads"].append(pending(third, message))

    return plant


def inactive(snapshot: Snapshot) -> None:
    queue = first(snapshot, "clusterqueues")
    message = "Can't admit new workloads: references missing ResourceFlavor(s): tpu-v6e-slice."
    queue["status"]["conditions"] = [condition("Active", "False", "FlavorNotFound", message)]
    queue["status"]["pendingWorkloads"] = 3
    snapshot.objects["resourceflavors"].clear()


def unready(snapshot: Snapshot) -> None:
    snapshot.objects["driverpods"][0] = fleet.driver("pool-a-0", ready=0)


def mount_event(name: str, namespace: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name},
        "reason": "FailedMount",
        "message": message,
    }


DENIED = (
    'MountVolume.SetUp failed for volume "gcs" : rpc error: code = PermissionDenied desc = failed '
    'to get GCS bucket "checkpointing-test-bucket": googleapi: Error 403: Caller does not have '
    "storage.objects.list access to the Google Cloud Storage bucket."
)
GRANT = (
    "gcloud storage buckets add-iam-policy-binding gs://checkpointing-test-bucket --member "
    '"principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/'
    "acme-training.svc.id.goog/subject/ns/gke-managed-checkpointing/sa/"
    'gke-checkpointing-multitier-node" --role "roles/storage.objectUser"'
)


def denied(snapshot: Snapshot) -> None:
    unready(snapshot)
    pod_name = snapshot.objects["driverpods"][0]["metadata"]["name"]
    event = mount_event(pod_name, "gke-managed-checkpointing", DENIED)
    snapshot.objects["mountevents"].append(event)


def no_driver(snapshot: Snapshot) -> None:
    waiting = snapshot.objects["jobpods"][0]
    text = "driver name multitier-checkpoint.csi.storage.gke.io not found in the list of registered CSI drivers"
    snapshot.objects["mountevents"].append(
        mount_event(waiting["metadata"]["name"], "default", text)
    )


def wounded(snapshot: Snapshot) -> None:
    """Pool a has lost a node; three pods of a slice run there and one waits."""
    drop("nodes", "pool-a-1")(snapshot)
    drop("driverpods", f"multitier-driver-{fleet.UID}-l-a-1")(snapshot)
    pods = snapshot.objects["jobpods"]
    place = next(i for i, p in enumerate(pods) if p["spec"].get("nodeName") == "pool-a-1")
    waiting = pod(HIGH, 0, 1, "")
    waiting["spec"]["nodeSelector"] = {"cloud.google.com/gke-nodepool": "pool-a"}
    pods[place] = waiting


def spread(snapshot: Snapshot) -> None:
    pods = snapshot.objects["jobpods"]
    pods[0]["spec"]["nodeName"], pods[4]["spec"]["nodeName"] = "pool-b-0", "pool-a-0"


def homeless(snapshot: Snapshot) -> None:
    """A whole slice waits for nodes: no wounded pool, but quota without nodes."""
    for number in range(4):
        waiting = pod(LOW, 1, number, "")
        message = "0/16 nodes are available: 16 Insufficient google.com/tpu."
        waiting["status"]["conditions"] = [
            condition("PodScheduled", "False", "Unschedulable", message)
        ]
        snapshot.objects["jobpods"][12 + number] = waiting


def mixing(snapshot: Snapshot) -> None:
    flavor = first(snapshot, "resourceflavors")
    flavor["spec"]["topologyName"] = "gke"
    job = first(snapshot, "jobsets")["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-slice-size": "4"}
    }
    data = {"controller_manager_config.yaml": "kind: Configuration\nwaitForPodsReady: {}\n"}
    snapshot.objects["kueueconfig"] = [{"metadata": {"name": "c"}, "data": data}]


def patch(key: str, path: str, value: Any, name: str = "") -> Plant:
    def plant(snapshot: Snapshot) -> None:
        target: Any = named(snapshot, key, name) if name else first(snapshot, key)
        *parents, last = path.split("/")
        for part in parents:
            target = target[int(part)] if part.isdigit() else target[part]
        target[int(last) if last.isdigit() else last] = value

    return plant


def second_config(snapshot: Snapshot) -> None:
    other = json.loads(json.dumps(first(snapshot, "checkpointconfigurations")))
    other["metadata"] |= {"name": "by-hand", "uid": "other"}
    snapshot.objects["checkpointconfigurations"].append(other)


def refused_config(snapshot: Snapshot) -> None:
    snapshot.objects["daemonsets"].clear()
    snapshot.objects["driverpods"].clear()


def no_webhooks(snapshot: Snapshot) -> None:
    del snapshot.objects["mutatingwebhooks"][0]


def leftover(snapshot: Snapshot) -> None:
    old = jobset("high-jax-trillium-00000000", **{"app.kubernetes.io/managed-by": "stowplan"})
    snapshot.objects["jobsets"].append(old)
    snapshot.objects["workloads"].append(fleet.workload(old, "0"))


def urgent(snapshot: Snapshot) -> None:
    snapshot.objects["jobsets"].append(
        jobset("hasty", **{"kueue.x-k8s.io/priority-class": "urgent"})
    )


def checkpointing_off(snapshot: Snapshot) -> None:
    unserve(snapshot, "checkpointing.gke.io", "CheckpointConfiguration")


QUOTA = (
    "couldn't assign flavors to pod set slice: insufficient unused quota for google.com/tpu in "
    "flavor tpu-v6e-slice, 32 more needed"
)
NEVER = (
    "couldn't assign flavors to pod set slice: insufficient quota for memory in flavor "
    "tpu-v6e-slice, previously considered podsets requests (1Gi) + current podset request (20Gi) "
    "> maximum capacity (16Gi)"
)
CLUSTER_UPDATE = (
    "gcloud container clusters update train-1 --update-addons=HighScaleCheckpointing=ENABLED,"
    "GcsFuseCsiDriver=ENABLED --location=us-east5 --project=acme-training"
)
WARNING, NOTE = Severity.WARNING, Severity.NOTE

CASES = (
    Case("DOC001", refuse("clusterqueues"), ("clusterqueues is forbidden",), severity=WARNING),
    Case(
        "DOC002",
        checkpointing_off,
        ('no matches for kind "CheckpointConfiguration" in version "checkpointing.gke.io/v1"',),
        fix=CLUSTER_UPDATE,
    ),
    Case(
        "DOC002",
        lambda s: unserve(s, "kueue.x-k8s.io", "WorkloadPriorityClass", "Workload"),
        ("Kueue is half installed", "Workload, WorkloadPriorityClass"),
        resource="Kueue",
    ),
    Case(
        "DOC002",
        lambda s: unserve(s, "jobset.x-k8s.io", "JobSet"),
        ("JobSet is not installed",),
    ),
    Case(
        "DOC002",
        lambda s: s.served.update({"kueue.x-k8s.io": ["v1beta1"]}),
        ("written in kueue.x-k8s.io/v1beta2, and the server has v1beta1 only",),
        resource="ClusterQueue",
    ),
    Case(
        "DOC003",
        lambda s: setattr(s, "version", "v1.32.3-gke.1170000"),
        ("older than 1.32.4-gke.1415000",),
    ),
    Case(
        "DOC003",
        lambda s: setattr(s, "version", "v1.34.1-gke.1"),
        ("the API server is 1.34.1-gke.1, and the inventory says 1.33.4-gke.1245000",),
        severity=WARNING,
    ),
    Case(
        "DOC003",
        patch("kueuedeployments", "spec/template/spec/containers/0/image", "r/kueue:v0.19.2"),
        ("Kueue 0.19.2 runs, and the inventory says 0.17.0",),
        severity=WARNING,
    ),
    Case(
        "DOC003",
        patch("kueuedeployments", "spec/template/spec/containers/0/image", "r:5/kueue:v0.17.3"),
        ("Kueue 0.17.3 runs",),
        severity=NOTE,
    ),
    Case(
        "DOC004",
        patch(
            "kueuedeployments",
            "status",
            {"conditions": [condition("Available", "False", "", "no quota")]},
        ),
        ("no available replica: no quota",),
        resource="Deployment kueue-system/kueue-controller-manager",
    ),
    Case(
        "DOC004",
        lambda s: (s.objects["kueuedeployments"].clear(), first(s, "clusterqueues").pop("status")),
        ("Kueue is half installed", "nobody has answered"),
    ),
    Case("DOC005", no_webhooks, ("no admission webhook takes part in workloads",), "Kueue"),
    Case(
        "DOC005",
        patch("jobsetendpoints", "endpoints/0/conditions/ready", False),
        ("nobody answers JobSet's webhooks",),
        "Service jobset-system/jobset-webhook-service",
    ),
    Case("DOC006", lambda s: s.objects["csidrivers"].clear(), ("is not registered",)),
    Case(
        "DOC007",
        patch(
            "jobsetdeployments", "spec/template/spec/containers/0/resources/limits/memory", "128Mi"
        ),
        ("memory limit is 128Mi",),
        severity=WARNING,
    ),
    Case(
        "DOC009",
        lambda s: setattr(s, "context", "gke_acme-training_us-central1_train-1"),
        ("location us-central1", "us-east5"),
    ),
    Case(
        "DOC010",
        lambda s: s.objects["driverpods"].pop(),
        ("no driver pod on 1 of its 16 accelerator nodes (pool-d-3)",),
    ),
    Case(
        "DOC010",
        lambda s: s.objects["nodes"].append(
            {
                **fleet.node("pool-e", 0),
                "spec": {"taints": [{"key": "odd", "effect": "NoSchedule"}]},
            }
        ),
        ("pool-e-0", "odd:NoSchedule is not tolerated"),
    ),
    Case("DOC011", unready, ("1 driver 0/5 (5 × PodInitializing) on pool-a-0",)),
    Case(
        "DOC012",
        denied,
        ("checkpointing-test-bucket", "storage.objects.list denied", "roles/storage.objectUser"),
        fix=GRANT,
    ),
    Case("DOC013", no_driver, ("cannot be mounted", "not found in the list")),
    Case("DOC014", second_config, ("select the same 16 nodes",)),
    Case("DOC015", refused_config, ("has no driver DaemonSet",)),
    Case(
        "DOC020",
        inactive,
        ("FlavorNotFound", "there is no ResourceFlavor tpu-v6e-slice", "waiting: 3 workloads"),
        "ClusterQueue tpu-training-cq",
    ),
    Case(
        "DOC021",
        patch("localqueues", "spec/clusterQueue", "nowhere"),
        ("ClusterQueue nowhere does not exist",),
        "LocalQueue default/default-queue",
    ),
    Case(
        "DOC022",
        waits(NEVER),
        ("can never be admitted", "20Gi memory", "besides 1Gi", "16Gi at most: 5Gi too many"),
        "JobSet default/third",
    ),
    Case(
        "DOC022",
        waits("couldn't assign flavors: resource cpu unavailable in ClusterQueue"),
        ("resource cpu unavailable",),
        fix="cover the resource",
    ),
    Case("DOC022", waits(""), ("Kueue has said nothing",)),
    Case(
        "DOC023",
        waits(QUOTA),
        (
            "32 more google.com/tpu in flavor tpu-v6e-slice",
            "64 of 64 are reserved in ClusterQueue tpu-training-cq",
            f"JobSet default/{HIGH} (32, priority 1000000)",
        ),
        "JobSet default/third",
        NOTE,
    ),
    Case(
        "DOC023",
        waits('topology "gke" doesn\'t allow to fit any of 4 pod(s)'),
        ("doesn't allow to fit",),
        severity=NOTE,
        fix="a whole domain",
    ),
    Case("DOC024", urgent, ("WorkloadPriorityClass urgent does not exist",)),
    Case(
        "DOC024",
        lambda s: s.objects["jobsets"].append(jobset("alone")),
        ("Kueue has made no Workload of it: it stays suspended",),
    ),
    Case(
        "DOC025",
        homeless,
        ("4 pods of slice slice-1 without a node", "16 Insufficient google.com/tpu"),
        f"JobSet default/{LOW}",
    ),
    Case(
        "DOC026",
        patch("nodes", "status/conditions", [condition("Ready", "Unknown")]),
        ("holds 1 pod of jobs",),
        "Node pool-a-0",
        WARNING,
    ),
    Case(
        "DOC030",
        wounded,
        ("stuck in the wounded pool pool-a: 3 of its 4 pods run there", "that has 3 usable nodes"),
        f"JobSet default/{HIGH}",
        fix="cordon -l cloud.google.com/gke-nodepool=pool-a",
    ),
    Case(
        "DOC031",
        spread,
        ("slice slice-0 is spread over 2 node pools (3 in pool-a, 1 in pool-b)",),
        f"JobSet default/{HIGH}",
        fix="""patch workloads.kueue.x-k8s.io jobset-high-jax-trillium-7ca82b14 --type=merge """
        """'--patch={"spec":{"active":false}}'""",
    ),
    Case(
        "DOC032",
        mixing,
        ("TASFailedNodeReplacement is on", "no recoveryTimeout"),
        severity=WARNING,
    ),
    Case(
        "DOC040",
        drop("priorityclasses", "high-priority-job"),
        (f"the pods of default/{HIGH} name it",),
        "PriorityClass high-priority-job",
    ),
    Case(
        "DOC040",
        drop("workloadpriorityclasses", "low-priority-job"),
        (f"default/{LOW} name it",),
        "WorkloadPriorityClass low-priority-job",
    ),
    Case(
        "DOC050",
        drop("localqueues", "default-queue"),
        ("in compiled/ and not in the cluster",),
        "LocalQueue default/default-queue",
    ),
    Case(
        "DOC051",
        patch("checkpointconfigurations", "spec/inMemoryVolumeSize", "20Gi"),
        ("spec.inMemoryVolumeSize is '20Gi', and Git has '44Gi'",),
        severity=WARNING,
    ),
    Case("DOC052", leftover, ("high-jax-trillium-00000000",), severity=NOTE),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.says[0][:40]}")
def test_a_planted_fault_is_found_and_told(case: Case) -> None:
    found = find(case.plant, case.rule)
    fitting = [f for f in found if all(text in f.message for text in case.says)]
    assert fitting, [f.message for f in found]
    finding = fitting[0]
    assert finding.severity is case.severity
    assert case.resource in finding.resource
    assert case.fix in finding.fix


def test_every_rule_of_a_live_cluster_is_planted() -> None:
    assert {case.rule for case in CASES} == {row[0] for row in LIVE}


def test_what_cannot_be_read_is_not_called_missing() -> None:
    """Refused pods must not look like missing drivers, nor refused queues like missing ones."""
    for read in READS:
        snapshot = healthy()
        refuse(read.key)(snapshot)
        found = diagnose(snapshot, wanted()).findings
        assert {f.rule for f in found} == {"DOC001"}, read.key


def test_what_is_not_examined_for_want_of_rights_is_named() -> None:
    found = find(refuse("jobpods"), "DOC001")
    told = next(f for f in found if f.resource == "the doctor")
    assert "stuck slices" in told.message
    assert "spread slices" in told.message
    assert "ClusterQueues" not in told.message


def checks_wait(snapshot: Snapshot) -> None:
    third = jobset("third")
    item = fleet.workload(third, "16")
    item["status"] |= {
        "conditions": [condition("QuotaReserved")],
        "admissionChecks": [{"name": "dws", "state": "Pending", "message": "no capacity yet"}],
    }
    snapshot.objects["jobsets"].append(third)
    snapshot.objects["workloads"].append(item)


def deactivated(snapshot: Snapshot) -> None:
    waits("x")(snapshot)
    snapshot.objects["workloads"][-1]["spec"]["active"] = False


def stopped_queue(snapshot: Snapshot) -> None:
    found = condition("Active", "False", "Stopped", "LocalQueue is stopped")
    first(snapshot, "localqueues")["status"] = {"conditions": [found]}


def leaving_config(snapshot: Snapshot) -> None:
    first(snapshot, "checkpointconfigurations")["metadata"]["deletionTimestamp"] = fleet.LATELY


def conflict(snapshot: Snapshot) -> None:
    refused_config(snapshot)
    name = first(snapshot, "checkpointconfigurations")["metadata"]["name"]
    event = mount_event(name, "default", "nodes have a driver") | {"reason": "Conflict"}
    snapshot.objects["configevents"].append(event)


def untold_bucket(snapshot: Snapshot) -> None:
    denied(snapshot)
    snapshot.objects["mountevents"][0]["message"] = "rpc error: code = PermissionDenied desc = no"


def bare_crds(snapshot: Snapshot) -> None:
    snapshot.objects["jobsetdeployments"].clear()
    snapshot.objects["jobsets"].clear()


def gated(snapshot: Snapshot) -> None:
    homeless(snapshot)
    for item in snapshot.objects["jobpods"][12:]:
        item["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]


MORE = (
    Case("DOC023", checks_wait, ("dws: Pending no capacity yet",), severity=NOTE),
    Case("DOC023", deactivated, ("is deactivated",), severity=NOTE),
    Case("DOC021", stopped_queue, ("inactive (Stopped)",)),
    Case("DOC015", leaving_config, ("waits for its driver pods",), severity=WARNING),
    Case("DOC015", conflict, ("Conflict: nodes have a driver",)),
    Case(
        "DOC012", untold_bucket, ("access denied",), fix="gs://acme-training-checkpoints --member"
    ),
    Case("DOC004", bare_crds, ("nothing shows whether the controller runs",), severity=WARNING),
    Case("DOC025", gated, ("scheduling gate kueue.x-k8s.io/topology",)),
    Case("DOC050", drop("jobsets", HIGH), ("not in the cluster",), f"JobSet default/{HIGH}"),
)


@pytest.mark.parametrize("case", MORE, ids=lambda case: f"{case.rule}: {case.says[0][:40]}")
def test_variants_of_a_fault_are_told_apart(case: Case) -> None:
    test_a_planted_fault_is_found_and_told(case)


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
