"""``stowplan doctor`` on a real plane: each fault is planted, found, and gone once it is mended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.main import main
from generator.doctor.drivers import driver_name

from .conftest import Stage
from .controlplane.client import Manifest
from .controlplane.kwok import add_pool, ready_nodes, tpu_v6e_pool
from .controlplane.plane import Cluster
from .controlplane.processes import free_port
from .documents import CLUSTER, HIGH, KUEUE, LOW, PODS, TPU, fleet, jobset, topology_aware
from .fleets import COMPILED, example_cluster
from .planes import Planes
from .scenario import JOBSET_API, Scenario
from .test_hotswap import GARBAGE_COLLECTION_S, both_running, mixed, swapped, wounded

pytestmark = pytest.mark.e2e

FOLDER = COMPILED / CLUSTER
CHECKPOINTING = "gke-managed-checkpointing"
CONFIG_API = "checkpointing.gke.io/v1"
POOLS = [tpu_v6e_pool(f"pool-{letter}") for letter in "abcd"]
QUEUE = "tpu-training-cq"


@dataclass
class Patient:
    """A cluster, and the doctor to ask about it."""

    cluster: Cluster
    folder: Path

    def findings(
        self, kubeconfig: Path | None = None, compiled: bool = True, code: int | None = None
    ) -> list[dict[str, Any]]:
        """What the doctor finds; through its command line, as a user would."""
        report = self.folder / "report.json"
        arguments = [
            "doctor",
            *([str(FOLDER)] if compiled else []),
            f"--kubeconfig={kubeconfig or self.cluster.kubectl.kubeconfig}",
            "--context=e2e",
            f"--kubectl={self.cluster.kubectl.binary}",
            "--format=json",
            f"--output={report}",
        ]
        answer = main(arguments)
        assert answer == code if code is not None else answer in (0, 1)
        return list(json.loads(report.read_text())["findings"])

    def wait_for(self, rule: str, seconds: float = 30, **wanted: str) -> dict[str, Any]:
        """Ask until there is a finding of a rule whose fields hold the texts given."""

        def found() -> dict[str, Any] | None:
            return next((f for f in self.findings() if matches(f, rule, wanted)), None)

        try:
            return dict(self.cluster.wait(found, seconds, f"{rule} {wanted}"))
        except TimeoutError as error:
            raise AssertionError(f"{error}: {told(self.findings())}") from None

    def wait_without(self, *rules: str, seconds: float = 60) -> None:
        """Ask until there is no finding of these rules."""
        try:
            self.cluster.wait(
                lambda: not [f for f in self.findings() if f["rule"] in rules], seconds, str(rules)
            )
        except TimeoutError as error:
            raise AssertionError(f"{error}: {told(self.findings())}") from None


def matches(finding: dict[str, Any], rule: str, wanted: dict[str, str]) -> bool:
    return finding["rule"] == rule and all(text in finding[key] for key, text in wanted.items())


def told(findings: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"{f['severity']} {f['rule']} {f['resource']}: {f['message']}" for f in findings
    )


def faults(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings that are more than notes; the plane's Kubernetes is newer than the fleet's."""
    return [f for f in findings if f["severity"] != "note" and f["rule"] != "DOC003"]


@pytest.fixture(scope="module")
def plane(planes: Planes, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """The documents' fleet in the versions that it asks for, healthy, with its drivers."""
    compiled = example_cluster(CLUSTER)
    cluster = planes.fresh(compiled.kueue, compiled.jobset)
    for pool in POOLS:
        add_pool(cluster.client, pool)
    names = {name for pool in POOLS for name in pool.node_names()}
    cluster.wait(lambda: ready_nodes(cluster.client) >= names, 60, "nodes to be ready")
    cluster.ensure_namespace(CHECKPOINTING)
    apply(cluster, fleet())
    config = next(m for m in fleet() if m["kind"] == "CheckpointConfiguration")
    install_driver(cluster, config["metadata"]["name"])
    patient = Patient(cluster, tmp_path_factory.mktemp("doctor"))
    cluster.wait(lambda: running(cluster, HIGH) and running(cluster, LOW), 120, "both jobs run")
    return patient


@pytest.fixture
def patient(plane: Patient) -> Iterator[Patient]:
    """The same, made healthy again after each test."""
    yield plane
    apply(plane.cluster, [m for m in fleet() if m["kind"] != "CheckpointConfiguration"])
    try:
        plane.cluster.wait(lambda: not faults(plane.findings()), 90, "a healthy plane")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {told(plane.findings())}") from None


def apply(cluster: Cluster, manifests: list[Manifest]) -> None:
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        if namespace and namespace != "default":
            cluster.ensure_namespace(namespace)
        cluster.client.apply(manifest, force=True)


def install_driver(cluster: Cluster, config: str) -> None:
    """Do what the add-on does: a DaemonSet named after the configuration's UID, five containers."""
    live = cluster.client.get(CONFIG_API, "CheckpointConfiguration", config)
    name = driver_name(live)
    labels = {"k8s-app": "high-scale-checkpointing", "config": config}
    cluster.client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": CHECKPOINTING},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "nodeSelector": live["spec"]["nodeSelector"],
                        "tolerations": live["spec"]["tolerations"],
                        "containers": [
                            {"name": f"part-{index}", "image": "driver"} for index in range(5)
                        ],
                    },
                },
            },
        }
    )
    cluster.wait(
        lambda: (
            cluster.client.get("apps/v1", "DaemonSet", name, CHECKPOINTING)
            .get("status", {})
            .get("numberReady")
            == sum(pool.nodes for pool in POOLS)
        ),
        60,
        "driver pods on all nodes",
    )


def running(cluster: Cluster, name: str) -> bool:
    pods = cluster.client.items("v1", "Pod", "default", f"jobset.sigs.k8s.io/jobset-name={name}")
    return len(pods) == PODS and all(pod["status"].get("phase") == "Running" for pod in pods)


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
            client.delete(JOBSET_API, "JobSet", name, "default")


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
        client.delete(JOBSET_API, "JobSet", "hasty", "default")


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
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "denied", "namespace": CHECKPOINTING},
            "involvedObject": {"kind": "Pod", "namespace": CHECKPOINTING, "name": name},
            "type": "Warning",
            "reason": "FailedMount",
            "message": 'MountVolume.SetUp failed for volume "gcs" : rpc error: code = PermissionDenied'
            ' desc = failed to get GCS bucket "acme-training-checkpoints": googleapi: Error 403:'
            " Caller does not have storage.objects.list access to the Google Cloud Storage bucket.",
        }
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
        client.delete("v1", "Event", "denied", CHECKPOINTING)
        client.delete("v1", "Pod", name, CHECKPOINTING)


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
    for role in roles:
        patient.cluster.ensure_namespace(role["metadata"].get("namespace", "default"))
        client.create(role)
    kubeconfig = limited_kubeconfig(patient.cluster, tmp_path)
    try:
        patient.wait_for("DOC023", resource="JobSet default/third")
        admin, limited = patient.findings(), patient.findings(kubeconfig)
        assert [f["message"] for f in limited] == [f["message"] for f in admin]
        cluster_role = next(r for r in roles if r["kind"] == "ClusterRole")
        for rule in cluster_role["rules"]:
            rule["resources"] = [r for r in rule["resources"] if r not in ("clusterqueues", "pods")]
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stowplan-doctor"
        client.request("PUT", path, json.dumps(cluster_role).encode())
        patient.cluster.wait(
            lambda: [f for f in patient.findings(kubeconfig) if f["rule"] == "DOC001"],
            20,
            "the smaller role to hold",
        )
        found = patient.findings(kubeconfig)
        unread = {f["resource"]: f["message"] for f in found if f["rule"] == "DOC001"}
        assert set(unread) == {"pods", "clusterqueues.kueue.x-k8s.io", "the doctor"}
        assert "Forbidden" in unread["clusterqueues.kueue.x-k8s.io"]
        assert "ClusterQueues" in unread["the doctor"]
        assert "stuck slices" in unread["the doctor"]
        assert any(f["rule"] == "DOC023" for f in found)
        assert not [f for f in found if f["severity"] == "error"], told(found)
    finally:
        client.delete(JOBSET_API, "JobSet", "third", "default")
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


def write_kubeconfig(folder: Path, content: dict[str, Any]) -> Path:
    target = folder / "kubeconfig"
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(content))
    return target


def test_an_api_server_that_is_gone_is_one_clear_line(
    plane: Patient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plane's own kubectl, and a port where nobody listens."""
    content = yaml.safe_load(plane.cluster.kubectl.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    code = ask(plane.cluster, write_kubeconfig(tmp_path, content), "e2e")
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert said.err.splitlines()[-1].endswith("nothing was judged")
    assert "refused" in said.err


def test_a_context_that_does_not_exist_is_one_clear_line(
    plane: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(plane.cluster, plane.cluster.kubectl.kubeconfig, "prod") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "prod" in line
    assert "kubectl config get-contexts" in line


def ask(cluster: Cluster, kubeconfig: Path, context: str) -> int:
    return main(
        [
            "doctor",
            f"--kubeconfig={kubeconfig}",
            f"--context={context}",
            f"--kubectl={cluster.kubectl.binary}",
        ]
    )


def test_a_pod_in_a_wounded_pool_is_found_and_the_advice_frees_it(
    stage: Stage, tmp_path: Path
) -> None:
    scene = stage(
        "Hotswap works late: cordon, then delete the leader",
        "What to do about a job that is stuck already. The doctor names the slice and two commands:"
        " cordon the wounded pool, and delete one of the job's pods there; it restarts elsewhere.",
    )
    patient = Patient(scene.cluster, tmp_path)
    lost = both_running(scene, fleet())
    scene.lose_nodes(f"{lost}-1")
    scene.wait(lambda: wounded(scene, lost), GARBAGE_COLLECTION_S, "a pod is pending for ever")
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
    scene = stage(
        "Mixed slices are made whole: deactivate, then activate",
        "Kueue has replaced a lost node at once and mixed the slices; everything is Running. The"
        " doctor names the slices, and what it advises makes them whole.",
    )
    patient = Patient(scene.cluster, tmp_path)
    lost = both_running(scene, topology_aware(fleet()))
    assert not [f for f in patient.findings() if f["rule"] in ("DOC030", "DOC031")]
    scene.lose_nodes(f"{lost}-1")
    scene.wait(lambda: len(scene.running(HIGH)) == PODS and mixed(scene), 60, "slices are mixed")
    scene.wait(lambda: len(scene.pods(HIGH)) == PODS, GARBAGE_COLLECTION_S, "the orphans are gone")
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


def advised(scene: Scenario, command: str) -> None:
    """Run a command as the doctor words it, with the plane's kubectl."""
    program, *arguments = shlex.split(command)
    assert program == "kubectl"
    done = scene.cluster.kubectl.run(*arguments)
    assert done.returncode == 0, done.stderr
    scene.recorder.mark(command)
