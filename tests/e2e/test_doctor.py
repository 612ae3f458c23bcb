"""``stowplan doctor`` on a real plane: each fault is planted, found, and gone once it is mended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from generator.cli.main import main

from .checkpoint_addon import CHECKPOINTING, CONFIG_API
from .controlplane.client import Manifest
from .controlplane.kwok import add_pool, tpu_v6e_pool
from .controlplane.plane import Cluster
from .documents import HIGH, JOBSET, KUEUE, LOW, SLICE_CHIPS, SLICE_PODS, TPU, fleet, jobset
from .patient import (
    FOLDER,
    Patient,
    faults,
    run_advice,
    running,
    told,
    write_kubeconfig,
)
from .timeline import JOBSET_LABEL

pytestmark = pytest.mark.e2e

QUEUE = "tpu-training-cq"
FAILED_MOUNT = "failed-mount"


def test_a_healthy_fleet_has_no_findings_beyond_notes(patient: Patient) -> None:
    found = patient.findings(code=0)
    assert faults(found) == [], told(found)


def test_a_queue_whose_flavor_is_missing_is_named_with_the_flavor(patient: Patient) -> None:
    client = patient.cluster.client
    queue = {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": "orphan"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": [TPU],
                    "flavors": [
                        {"name": "tpu-v9", "resources": [{"name": TPU, "nominalQuota": "16"}]}
                    ],
                }
            ],
        },
    }
    local = {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": "lost", "namespace": "default"},
        "spec": {"clusterQueue": "nowhere"},
    }
    for manifest in (queue, local):
        client.create(manifest)
    try:
        inactive = patient.wait_for("DOC020", resource="ClusterQueue orphan")
        assert "FlavorNotFound" in inactive["message"]
        assert "there is no ResourceFlavor tpu-v9" in inactive["message"]
        patient.wait_for("DOC021", resource="LocalQueue default/lost", message="nowhere")
    finally:
        client.delete(KUEUE, "ClusterQueue", "orphan")
        client.delete(KUEUE, "LocalQueue", "lost", "default")


def test_a_job_over_quota_is_told_how_much_is_missing_and_who_holds_it(patient: Patient) -> None:
    client = patient.cluster.client
    client.create(jobset("third", slices=2))
    client.create(jobset("giant", slices=5))
    try:
        waits = patient.wait_for("DOC023", resource="JobSet default/third")
        assert f"32 more {TPU} in flavor tpu-v6e-slice" in waits["message"]
        assert f"64 of 64 are reserved in ClusterQueue {QUEUE}" in waits["message"]
        assert f"JobSet default/{HIGH} (32, priority 2000000)" in waits["message"]
        never = patient.wait_for("DOC022", resource="JobSet default/giant")
        assert "it asks for 80 google.com/tpu" in never["message"]
        assert "64 at most: 16 too many" in never["message"]
    finally:
        for name in ("third", "giant"):
            client.delete(JOBSET, "JobSet", name, "default")


def test_missing_priority_classes_are_named_with_the_jobs_that_want_them(patient: Patient) -> None:
    client = patient.cluster.client
    client.delete("scheduling.k8s.io/v1", "PriorityClass", "low-priority-job")
    manifest = jobset("hasty")
    manifest["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
    try:
        found = patient.wait_for("DOC040", resource="PriorityClass low-priority-job")
        assert f"default/{LOW}" in found["message"]
        patient.wait_for("DOC050", resource="PriorityClass low-priority-job")
        client.create(manifest)
        patient.wait_for("DOC040", resource="WorkloadPriorityClass urgent")
        patient.wait_for("DOC024", resource="JobSet default/hasty", message="urgent")
    finally:
        client.delete(JOBSET, "JobSet", "hasty", "default")


def test_changes_by_hand_are_told_with_their_author_and_those_of_controllers_are_not(
    patient: Patient,
) -> None:
    client = patient.cluster.client
    kubectl = patient.cluster.kubectl
    where = f"clusterqueues.kueue.x-k8s.io/{QUEUE}"
    patch = [
        {
            "op": "replace",
            "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota",
            "value": "72",
        },
        {"op": "add", "path": "/spec/cohortName", "value": "friends"},
    ]
    assert not [f for f in patient.findings() if f["rule"] == "DOC051"], "controllers' own writes"
    done = kubectl.run("patch", where, "--type=json", f"--patch={json.dumps(patch)}")
    assert done.returncode == 0, done.stderr
    client.delete(KUEUE, "WorkloadPriorityClass", "low-priority-job")
    try:
        drift = patient.wait_for("DOC051", resource=f"ClusterQueue {QUEUE}")
        assert "[google.com/tpu].nominalQuota is '72', and Git has '64'" in drift["message"]
        assert "spec.cohortName is 'friends', and Git has none" in drift["message"]
        assert "written by kubectl-patch at 20" in drift["message"]
        assert drift["manifest"]["file"].endswith(f"clusterqueue-{QUEUE}.yaml")
        patient.wait_for("DOC050", resource="WorkloadPriorityClass low-priority-job")
        named = {f["resource"] for f in patient.findings() if f["rule"] == "DOC051"}
        assert named == {f"ClusterQueue {QUEUE}"}
    finally:
        undo = [{"op": "remove", "path": "/spec/cohortName"}]
        kubectl.run("patch", where, "--type=json", f"--patch={json.dumps(undo)}")


def test_a_denied_mount_is_traced_to_the_binding_that_is_missing(patient: Patient) -> None:
    client = patient.cluster.client
    pod = next(p for p in client.items("v1", "Pod", CHECKPOINTING))
    name = pod["metadata"]["name"]
    statuses = pod["status"]["containerStatuses"]
    waiting = [
        {**s, "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}} for s in statuses
    ]
    client.merge(
        "v1", "Pod", name, {"status": {"containerStatuses": waiting}}, CHECKPOINTING, "status"
    )
    client.create(
        failed_mount(
            pod,
            'MountVolume.SetUp failed for volume "gcs" : rpc error: code = PermissionDenied'
            ' desc = failed to get GCS bucket "acme-training-checkpoints": googleapi: Error 403:'
            " Caller does not have storage.objects.list access to the Google Cloud Storage bucket.",
        )
    )
    try:
        found = patient.wait_for("DOC012", resource=f"Pod {CHECKPOINTING}/{name}")
        assert found["fix"] == (
            "gcloud storage buckets add-iam-policy-binding gs://acme-training-checkpoints --member"
            ' "principal://iam.googleapis.com/projects/123456789012/locations/global/'
            "workloadIdentityPools/acme-training.svc.id.goog/subject/ns/gke-managed-checkpointing/"
            'sa/gke-checkpointing-multitier-node" --role "roles/storage.objectUser"'
        )
        unready = patient.wait_for("DOC011", resource=f"Pod {CHECKPOINTING}/{name}")
        assert "0/5" in unready["message"]
    finally:
        client.delete("v1", "Event", FAILED_MOUNT, CHECKPOINTING)
        client.delete("v1", "Pod", name, CHECKPOINTING)


def failed_mount(pod: Manifest, message: str) -> Manifest:
    """The event of a kubelet that cannot mount a pod's volume."""
    metadata = pod["metadata"]
    involved = {key: metadata[key] for key in ("namespace", "name", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": FAILED_MOUNT, "namespace": metadata["namespace"]},
        "involvedObject": {"kind": "Pod", **involved},
        "type": "Warning",
        "reason": "FailedMount",
        "message": message,
    }


def test_a_volume_that_no_driver_mounts_is_a_fault_until_the_pod_runs(patient: Patient) -> None:
    """What the kubelet tells of a node without the driver; its event outlives the fault."""
    client = patient.cluster.client
    pod = client.items("v1", "Pod", "default", f"{JOBSET_LABEL}={HIGH}")[0]
    name = pod["metadata"]["name"]
    waiting = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    client.merge("v1", "Pod", name, {"status": {"conditions": waiting}}, "default", "status")
    client.create(
        failed_mount(
            pod,
            'MountVolume.MountDevice failed for volume "checkpoint" : driver name'
            " multitier-checkpoint.csi.storage.gke.io not found in the list of registered CSI"
            " drivers",
        )
    )
    try:
        found = patient.wait_for("DOC013", resource=f"Pod default/{name}")
        assert f"a volume of default/{name} cannot be mounted" in found["message"]
        assert "not found in the list of registered CSI drivers" in found["message"]
        assert "let a CheckpointConfiguration select and tolerate it" in found["fix"]
        as_before = {"status": {"conditions": pod["status"]["conditions"]}}
        client.merge("v1", "Pod", name, as_before, "default", "status")
        patient.wait_without("DOC013")
        assert client.find("v1", "Event", FAILED_MOUNT, "default")
    finally:
        client.delete("v1", "Event", FAILED_MOUNT, "default")


def test_pods_of_an_admitted_job_without_nodes_are_told_until_the_nodes_come(
    patient: Patient,
) -> None:
    """The quota is raised to a slice for which there is no node pool."""
    client, kubectl = patient.cluster.client, patient.cluster.kubectl
    where = f"clusterqueues.kueue.x-k8s.io/{QUEUE}"
    quota = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
    patch = json.dumps([{"op": "replace", "path": quota, "value": str(5 * SLICE_CHIPS)}])
    done = kubectl.run("patch", where, "--type=json", f"--patch={patch}")
    assert done.returncode == 0, done.stderr
    extra = tpu_v6e_pool("pool-e")
    client.create(jobset("third"))
    try:
        found = patient.wait_for("DOC025", seconds=120, resource="JobSet default/third")
        assert "slice-0 without a node, while the job holds its quota: 0/16 " in found["message"]
        described = run_advice(patient.cluster, found["fix"].rpartition(": ")[2])
        assert "FailedScheduling" in described
        add_pool(client, extra)
        patient.wait_without("DOC025")
        patient.cluster.wait(
            lambda: running(patient.cluster, "third", SLICE_PODS), 60, "the third job to run"
        )
    finally:
        client.delete(JOBSET, "JobSet", "third", "default")
        for node in extra.node_names():
            client.delete("v1", "Node", node, grace_s=0)


def test_a_node_whose_taint_keeps_the_driver_away_is_named(patient: Patient) -> None:
    client = patient.cluster.client
    extra = tpu_v6e_pool("pool-tainted", nodes=1)
    (node,) = extra.node_names()
    manifest = extra.manifest(node)
    manifest["spec"]["taints"].append({"key": "maintenance", "effect": "NoSchedule"})
    client.create(manifest)
    try:
        found = patient.wait_for("DOC010", message=node)
        assert "their taint maintenance:NoSchedule is not tolerated" in found["message"]
    finally:
        client.delete("v1", "Node", node, grace_s=0)


def test_a_configuration_that_the_add_on_ignores_is_told_apart(patient: Patient) -> None:
    """Two configurations for the same nodes: the add-on answers with an event, and no driver."""
    client = patient.cluster.client
    first = next(m for m in fleet() if m["kind"] == "CheckpointConfiguration")
    second = {**first, "metadata": {"name": "by-hand"}}
    client.create(second)
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "conflict", "namespace": "default"},
            "involvedObject": {"kind": "CheckpointConfiguration", "name": "by-hand"},
            "type": "Warning",
            "reason": "Conflict",
            "message": "nodes already have a driver",
        }
    )
    try:
        patient.wait_for("DOC014", message="select the same 16 nodes")
        found = patient.wait_for("DOC015", resource="CheckpointConfiguration by-hand")
        assert "Conflict: nodes already have a driver" in found["message"]
    finally:
        client.delete("v1", "Event", "conflict", "default")
        client.delete(CONFIG_API, "CheckpointConfiguration", "by-hand")


def test_webhooks_that_are_not_registered_mean_a_half_installed_kueue(patient: Patient) -> None:
    client = patient.cluster.client
    kind = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
    other = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    taken = []
    for api, what in (kind, other):
        for item in client.items(api, what):
            if "kueue" in item["metadata"]["name"]:
                metadata = {"name": item["metadata"]["name"]}
                taken.append(
                    {
                        "apiVersion": api,
                        "kind": what,
                        "metadata": metadata,
                        "webhooks": item["webhooks"],
                    }
                )
                client.delete(api, what, item["metadata"]["name"])
    assert len(taken) == 2
    try:
        found = patient.wait_for("DOC005", resource="Kueue")
        assert "half installed" in found["message"]
    finally:
        for configuration in taken:
            client.create(configuration)


def test_the_printed_roles_which_only_read_are_enough_and_a_smaller_one_is_said(
    patient: Patient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exactly those roles nothing is refused; without one rule the rest is still reported."""
    client = patient.cluster.client
    client.create(jobset("third", slices=2))
    capsys.readouterr()
    assert main(["doctor", "--rbac", "--subject=ServiceAccount:default/doctor", str(FOLDER)]) == 0
    roles = list(yaml.safe_load_all(capsys.readouterr().out))
    verbs = {verb for role in roles for rule in role.get("rules", []) for verb in rule["verbs"]}
    assert verbs == {"get", "list"}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "doctor", "namespace": "default"},
    }
    client.create(account)
    kubeconfig = limited_kubeconfig(patient.cluster, tmp_path)
    limited = replace(patient, kubeconfig=kubeconfig)
    assert limited.ask() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "refuses every read" in said.err
    assert 'User "system:serviceaccount:default:doctor" cannot list' in said.err
    for role in roles:
        patient.cluster.ensure_namespace(role["metadata"].get("namespace", "default"))
        client.create(role)
    try:
        patient.wait_for("DOC023", resource="JobSet default/third")
        seen, seen_by_admin = limited.findings(), patient.findings()
        assert [f["message"] for f in seen] == [f["message"] for f in seen_by_admin]
        cluster_role = next(r for r in roles if r["kind"] == "ClusterRole")
        for rule in cluster_role["rules"]:
            rule["resources"] = [r for r in rule["resources"] if r not in ("clusterqueues", "pods")]
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stowplan-doctor"
        client.request("PUT", path, json.dumps(cluster_role).encode())
        limited.wait_for("DOC001", resource="clusterqueues.kueue.x-k8s.io", message="Forbidden")
        limited.wait_for("DOC001", resource="pods")
        found = limited.findings()
        unread = {f["resource"]: f["message"] for f in found if f["rule"] == "DOC001"}
        assert set(unread) == {"pods", "clusterqueues.kueue.x-k8s.io", "the doctor"}
        assert "ClusterQueues" in unread["the doctor"]
        assert "stuck slices" in unread["the doctor"]
        assert any(f["rule"] == "DOC023" for f in found)
        assert not [f for f in found if f["severity"] == "error"], told(found)
    finally:
        client.delete(JOBSET, "JobSet", "third", "default")
        for manifest in (*roles, account):
            metadata = manifest["metadata"]
            client.delete(
                manifest["apiVersion"],
                manifest["kind"],
                metadata["name"],
                metadata.get("namespace", ""),
            )


def limited_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """The plane's kubeconfig with a token of the service account that has only those roles."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/doctor/token"
    token = cluster.client.request("POST", path, json.dumps(request).encode()).body["status"][
        "token"
    ]
    content = yaml.safe_load(cluster.kubectl.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    return write_kubeconfig(folder, content)
