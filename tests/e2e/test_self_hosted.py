"""A cluster whose RAM disks are the replicator's own: accepted, bound, scheduled, and stable."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from generator.cli.main import main

from .controlplane.client import read_manifest
from .controlplane.kwok import add_pool, ready_nodes, tpu_v6e_pool
from .controlplane.plane import Cluster
from .fleets import ROOT, CompiledCluster, cluster_versions
from .planes import Planes
from .test_acceptance import changes_of_reapplying, namespaces
from .timeline import pod_state

pytestmark = pytest.mark.e2e

CLUSTER = "tpu-v6e-docs"
POOL = "inventory/classes/pools/v6e-4x4.yml"
GIVEN = "      retention: ${vars:retention}\n"
SELF_HOSTED = """      provider: self-hosted
      agent:
        image: registry.example/stowplan-replicator:0.1.0
        keySecret: {name: replicator-key, key: key}
        credentialsSecret: {name: bucket, key: account.json}
      retention:
        tool: replicator
        image: registry.example/stowplan-replicator:0.1.0
"""
SLICES, NODES_PER_SLICE = 4, 4


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> CompiledCluster:
    root = tmp_path_factory.mktemp("self-hosted")
    shutil.copytree(ROOT / "inventory", root / "inventory")
    text = (root / POOL).read_text()
    assert GIVEN in text
    (root / POOL).write_text(text.replace(GIVEN, SELF_HOSTED))
    assert main(["compile", "-j", "1", "-t", CLUSTER, "-C", str(root)]) == 0
    folder = root / "compiled" / CLUSTER
    return CompiledCluster(CLUSTER, folder, *cluster_versions(folder))


@pytest.fixture(scope="module")
def cluster(fleet: CompiledCluster, planes: Planes) -> Cluster:
    """The fleet's nodes, and its namespaces."""
    found = planes.fresh(fleet.kueue, fleet.jobset)
    for namespace in namespaces(fleet):
        found.ensure_namespace(namespace)
    pools = [tpu_v6e_pool(f"v6e-{index}", NODES_PER_SLICE) for index in range(SLICES)]
    for pool in pools:
        add_pool(found.client, pool)
    expected = {name for pool in pools for name in pool.node_names()}
    found.wait(lambda: ready_nodes(found.client) >= expected, 90, "nodes to be ready")
    return found


@pytest.fixture(scope="module")
def running(fleet: CompiledCluster, cluster: Cluster) -> Cluster:
    """Everything applied in the order of the layers, both jobs and an agent on every node running.

    A job may start over once while it is placed, so its pods count when they are all there.
    """
    for path in fleet.files():
        cluster.client.apply(read_manifest(path), path.read_bytes())
    nodes = SLICES * NODES_PER_SLICE
    cluster.wait(lambda: len(pods(cluster, "agent")) == nodes, 120, "an agent on every node")
    # Both JobSets of the fleet: two slices of four pods each.
    cluster.wait(lambda: len(pods(cluster, "jax-tpu")) == nodes, 120, "the jobs' pods")
    return cluster


def test_every_file_passes_a_strict_server_side_dry_run(
    fleet: CompiledCluster, cluster: Cluster
) -> None:
    refused = []
    for path in fleet.files():
        verdict = cluster.client.verdict(read_manifest(path), path.read_bytes())
        if not verdict.accepted or verdict.warnings:
            refused.append(f"{path.name}: {verdict.code} {verdict.message} {verdict.warnings}")
    assert {read_manifest(path)["kind"] for path in fleet.files()} >= {
        "DaemonSet", "NetworkPolicy", "PersistentVolume", "PersistentVolumeClaim", "Role",
        "RoleBinding", "Service", "ServiceAccount",
    }  # fmt: skip
    assert not refused, "\n".join(refused)


def pods(cluster: Cluster, container: str) -> list[dict[str, Any]]:
    """Running pods with a container of this name, without those that are being deleted."""
    return [
        pod
        for pod in cluster.client.items("v1", "Pod")
        if pod["spec"]["containers"][0]["name"] == container and pod_state(pod) == "Running"
    ]


def test_claims_are_bound_and_agents_run_beside_the_jobs(running: Cluster) -> None:
    client = running.client

    def bound() -> bool:
        claims = client.items("v1", "PersistentVolumeClaim")
        return bool(claims) and all(c.get("status", {}).get("phase") == "Bound" for c in claims)

    running.wait(bound, 60, "claims to be bound")
    assert {pod["spec"]["nodeName"] for pod in pods(running, "agent")} == {
        pod["spec"]["nodeName"] for pod in pods(running, "jax-tpu")
    }


def test_every_process_of_a_job_has_a_rank_of_its_own(running: Cluster) -> None:
    """JobSet and Job write where the init container reads."""
    ranks: dict[str, list[int]] = {}
    for pod in pods(running, "jax-tpu"):
        labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        (init,) = pod["spec"]["initContainers"]
        paths = {v["name"]: v["valueFrom"]["fieldRef"]["fieldPath"] for v in init["env"]}
        assert paths["SLICE"] == "metadata.labels['jobset.sigs.k8s.io/job-index']"
        assert paths["WORKER"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        rank = int(labels["jobset.sigs.k8s.io/job-index"]) * NODES_PER_SLICE
        rank += int(notes["batch.kubernetes.io/job-completion-index"])
        ranks.setdefault(labels["jobset.sigs.k8s.io/jobset-name"], []).append(rank)
    assert [sorted(found) for found in ranks.values()] == [list(range(8)), list(range(8))]


def test_the_scheduler_keeps_the_ram_disk_free(running: Cluster) -> None:
    # A node has 720Gi, its job asks for 400Gi and its agent for 45Gi: 300Gi would fit without it.
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": "default"},
        "spec": {
            "nodeSelector": {"node.kubernetes.io/instance-type": "ct6e-standard-4t"},
            "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/stranger:1",
                    "resources": {"requests": {"memory": "300Gi"}},
                }
            ],
        },
    }
    running.client.create(stranger)

    def verdict() -> str:
        pod = running.client.get("v1", "Pod", "stranger", "default")
        conditions = pod.get("status", {}).get("conditions", [])
        found = [c for c in conditions if c["type"] == "PodScheduled"]
        return str(found[0].get("message", found[0]["status"])) if found else ""

    running.wait(lambda: verdict() != "", 60, "the scheduler's verdict")
    assert "16 Insufficient memory" in verdict()


def test_the_account_may_touch_leases_of_its_namespace_and_nothing_else(running: Cluster) -> None:
    own = "checkpoint-replicator"
    allowed = {
        (verb, resource, namespace)
        for verb in ("get", "create", "update", "delete", "list", "watch", "patch")
        for resource in ("leases.coordination.k8s.io", "secrets", "pods", "configmaps")
        for namespace in (own, "default")
        if may(running, f"system:serviceaccount:{own}:{own}", verb, resource, namespace)
    }
    leases = "leases.coordination.k8s.io"
    assert allowed == {("get", leases, own), ("create", leases, own), ("update", leases, own)}


def may(cluster: Cluster, user: str, verb: str, resource: str, namespace: str) -> bool:
    name, _, group = resource.partition(".")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": user,
            "resourceAttributes": {
                "namespace": namespace, "verb": verb, "resource": name, "group": group,
            },
        },
    }  # fmt: skip
    return bool(cluster.client.create(review).body["status"]["allowed"])


def test_a_second_apply_changes_nothing(fleet: CompiledCluster, running: Cluster) -> None:
    drifted = []
    for path in fleet.files():
        manifest = read_manifest(path)
        changes = changes_of_reapplying(running, manifest, path.read_bytes(), force=True)
        drifted += [f"{Path(path).name}: {change}" for change in changes]
    assert not drifted, "\n".join(drifted)


FORGET = '[{"op": "remove", "path": "/spec/claimRef/uid"}]'
"""What docs/replicator-self-hosted.md has people write; held together by the test below."""


def test_a_claim_deleted_alone_waits_until_its_volume_forgets_the_old_one(
    fleet: CompiledCluster, cluster: Cluster
) -> None:
    """The volume remembers its claim by uid, so the same claim made anew is another one to it."""
    cluster.ensure_namespace("tenant")
    made: dict[str, dict[str, Any]] = {}
    for path in (fleet.folder / "checkpointing").glob("persistentvolume*default*.yaml"):
        text = path.read_text().replace("namespace: default", "namespace: tenant")
        (fleet.folder.parent / path.name).write_text(text.replace("v6e.default", "v6e.tenant"))
        manifest = read_manifest(fleet.folder.parent / path.name)
        made[manifest["kind"]] = manifest
        cluster.client.apply(manifest)
    volume, claim = made["PersistentVolume"], made["PersistentVolumeClaim"]
    name = volume["metadata"]["name"]
    assert claim["spec"]["volumeName"] == name
    client = cluster.client

    def phases() -> tuple[str, str]:
        found = client.find("v1", "PersistentVolumeClaim", claim["metadata"]["name"], "tenant")
        phase = (found or {}).get("status", {}).get("phase", "")
        return client.get("v1", "PersistentVolume", name)["status"].get("phase", ""), phase

    cluster.wait(lambda: phases() == ("Bound", "Bound"), 60, "the claim to be bound")
    client.delete("v1", "PersistentVolumeClaim", claim["metadata"]["name"], "tenant")
    cluster.wait(lambda: phases() == ("Released", ""), 60, "the volume to be released")
    for manifest in (volume, claim):  # as the next sync does
        client.apply(manifest)
    cluster.wait(lambda: phases() == ("Released", "Pending"), 60, "the new claim to be seen")
    arguments = ["persistentvolume", name, "--type", "json", "--patch", FORGET]
    assert cluster.kubectl.run("patch", *arguments).returncode == 0
    cluster.wait(lambda: phases() == ("Bound", "Bound"), 60, "the new claim to be bound")
    page = (ROOT / "docs" / "replicator-self-hosted.md").read_text()
    assert FORGET in page
