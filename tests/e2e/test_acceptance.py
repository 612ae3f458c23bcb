"""A real API server, with the cluster's own CRDs and webhooks, accepts what is compiled."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generator.cli.main import main

from .controlplane.client import ApiError, Manifest, read_manifest
from .controlplane.kwok import add_pool, ready_nodes
from .controlplane.plane import Cluster
from .fleet_nodes import pools_for
from .fleets import CompiledCluster, cluster_versions, example_clusters
from .planes import Planes

pytestmark = pytest.mark.e2e

#: The only warning that is expected, and only where a cluster asks for v1beta1.
V1BETA1_DEPRECATION = "This version is deprecated. Use v1beta2 instead."

INIT = "stowplan-init"
SETTLED_S = 3.0
#: How often a manifest is applied again before a controller has not written in between.
UNDISTURBED_TRIES = 20
#: What the API server says when it has a newer version than the one named.
MODIFIED = "the object has been modified"


@pytest.fixture(
    scope="module",
    params=[*example_clusters(), INIT],
    ids=lambda fleet: getattr(fleet, "name", fleet),
)
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> CompiledCluster:
    """The example clusters, and the tree that ``stowplan init`` writes."""
    if request.param == INIT:
        return compiled_init(tmp_path_factory.mktemp("init"))
    compiled: CompiledCluster = request.param
    return compiled


def compiled_init(folder: Path) -> CompiledCluster:
    """The one cluster of a new tree, compiled as its README says."""
    assert main(["init", str(folder)]) == 0
    assert main(["compile", "-j", "1", "-C", str(folder)]) == 0
    (cluster,) = (folder / "compiled").iterdir()
    return CompiledCluster(cluster.name, cluster, *cluster_versions(cluster))


@pytest.fixture(scope="module")
def judge(fleet: CompiledCluster, planes: Planes) -> Cluster:
    cluster = planes.for_validation(fleet.kueue, fleet.jobset)
    for namespace in namespaces(fleet):
        cluster.ensure_namespace(namespace)
    return cluster


def test_every_file_passes_a_strict_server_side_dry_run(
    fleet: CompiledCluster, judge: Cluster
) -> None:
    rejected, warned = [], []
    files = fleet.files()
    for path in files:
        manifest = read_manifest(path)
        verdict = judge.client.verdict(manifest, path.read_bytes())
        name = path.relative_to(fleet.folder)
        if not verdict.accepted:
            rejected.append(f"{name}: {verdict.code} {verdict.message}")
        expected = {V1BETA1_DEPRECATION} if manifest["apiVersion"].endswith("/v1beta1") else set()
        warned += [f"{name}: {text}" for text in verdict.warnings if text not in expected]
    assert files
    assert not rejected, "\n".join(rejected)
    assert not warned, "\n".join(warned)


def test_a_second_server_side_apply_changes_nothing(
    fleet: CompiledCluster, judge: Cluster, tmp_path: Path
) -> None:
    if not judge.simulated:
        pytest.skip("applies and runs the fleet, which an existing cluster is spared")
    cluster = running_fleet(fleet, judge, client_side=False)
    drifted = []
    for path in fleet.files():
        manifest = read_manifest(path)
        for force in (False, True):
            changes = changes_of_reapplying(cluster, manifest, path.read_bytes(), force)
            drifted += [f"{path.name} (force={force}): {change}" for change in changes]
    drifted += told_by_the_doctor(cluster, fleet, tmp_path)
    assert not drifted, "\n".join(drifted)


def test_a_second_client_side_apply_changes_nothing(
    fleet: CompiledCluster, planes: Planes, tmp_path: Path
) -> None:
    cluster = planes.empty(fleet.kueue, fleet.jobset)
    for namespace in namespaces(fleet):
        cluster.ensure_namespace(namespace)
    running_fleet(fleet, cluster, client_side=True)
    drifted = told_by_the_doctor(cluster, fleet, tmp_path)
    others = [path for path in fleet.files() if read_manifest(path)["kind"] != "JobSet"]
    completed = apply_client_side(cluster, others)
    told = completed.stdout.splitlines()
    drifted += [line for line in told if not line.endswith(" unchanged")]
    if completed.returncode != 0 or len(told) != len(others):
        drifted.append(f"{len(told)} answers to {len(others)} files: {completed.stderr}")
    for path in fleet.files():
        manifest = read_manifest(path)
        if manifest["kind"] == "JobSet":
            drifted += refusal_of_client_side_apply(cluster, manifest, path)
    assert not drifted, "\n".join(drifted)


def told_by_the_doctor(cluster: Cluster, fleet: CompiledCluster, folder: Path) -> list[str]:
    """What ``stowplan doctor`` calls missing or different, with controllers at work."""
    report = folder / "report.json"
    main(
        [
            "doctor",
            str(fleet.folder),
            f"--kubeconfig={cluster.kubectl.kubeconfig}",
            "--context=e2e",
            f"--kubectl={cluster.kubectl.binary}",
            "--format=json",
            f"--output={report}",
        ]
    )
    findings = json.loads(report.read_text())["findings"]
    return [
        f"doctor: {finding['resource']}: {finding['message']}"
        for finding in findings
        if finding["rule"] in ("DOC050", "DOC051", "DOC052")
    ]


def refusal_of_client_side_apply(cluster: Cluster, manifest: Manifest, path: Path) -> Iterator[str]:
    """What is not as it should be when a running JobSet is applied client-side once more.

    kubectl's merge patch replaces the list of replicated jobs as a whole and so drops the labels
    and the annotation that Kueue wrote into the pod template; JobSet's webhook refuses that. The
    running job is not hurt, but a running JobSet can only be applied server-side.
    """
    metadata = manifest["metadata"]
    where = (manifest["apiVersion"], "JobSet", metadata["name"], metadata["namespace"])
    before = cluster.client.get(*where)
    completed = apply_client_side(cluster, [path])
    if completed.returncode == 0 or "field is immutable" not in completed.stderr:
        yield f"{where[2]}: {(completed.stdout + completed.stderr).strip()}"
    yield from differences(before["spec"], cluster.client.get(*where)["spec"], ".spec")


def namespaces(fleet: CompiledCluster) -> list[str]:
    """Namespaces that the fleet's objects live in."""
    named = {manifest["metadata"].get("namespace") for manifest in fleet.manifests()}
    return sorted(name for name in named if name)


def running_fleet(fleet: CompiledCluster, cluster: Cluster, client_side: bool) -> Cluster:
    """The cluster with the fleet applied once, on nodes that suit it, and settled."""
    pools = pools_for(fleet.manifests())
    for pool in pools:
        add_pool(cluster.client, pool)
    expected = {name for pool in pools for name in pool.node_names()}
    cluster.wait(lambda: ready_nodes(cluster.client) >= expected, 90, "nodes to be ready")
    if client_side:
        completed = apply_client_side(cluster, fleet.files())
        assert completed.returncode == 0, completed.stderr
    else:
        for path in fleet.files():
            cluster.client.apply(read_manifest(path), path.read_bytes())
    cluster.wait(lambda: admitted(cluster, fleet), 120, "a workload of each JobSet")
    settle(cluster)
    return cluster


def apply_client_side(cluster: Cluster, files: list[Path]) -> subprocess.CompletedProcess[str]:
    """``kubectl apply`` of several files, one after the other; it answers a line for each."""
    arguments = [argument for path in files for argument in ("-f", str(path))]
    return cluster.kubectl.run("apply", "--validate=strict", *arguments)


def admitted(cluster: Cluster, fleet: CompiledCluster) -> bool:
    """Whether Kueue has admitted every JobSet of the fleet, so that it has written to it."""
    names = [m["metadata"] for m in fleet.manifests() if m["kind"] == "JobSet"]
    return all(
        cluster.client.get(
            "jobset.x-k8s.io/v1alpha2", "JobSet", metadata["name"], metadata["namespace"]
        )["spec"].get("suspend")
        is False
        for metadata in names
    )


def settle(cluster: Cluster) -> None:
    """Wait until no JobSet, queue or workload has been written to for a while."""

    def versions() -> list[str]:
        kinds = [
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            ("kueue.x-k8s.io/v1beta1", "ClusterQueue"),
            ("kueue.x-k8s.io/v1beta1", "LocalQueue"),
        ]
        return [
            item["metadata"]["resourceVersion"]
            for kind in kinds
            for item in cluster.client.items(*kind)
        ]

    deadline = time.monotonic() + 60
    seen, since = versions(), time.monotonic()
    while time.monotonic() - since < SETTLED_S and time.monotonic() < deadline:
        time.sleep(0.3)
        cluster.check()
        now = versions()
        if now != seen:
            seen, since = now, time.monotonic()


def changes_of_reapplying(
    cluster: Cluster, manifest: Manifest, text: bytes, force: bool
) -> list[str]:
    """Paths that differ after the same manifest is applied again; also a bare new version.

    The server is told which version of the object was read, so that it refuses when a controller
    writes between the reading and the applying, and what changes is this apply's doing.
    """
    metadata = manifest["metadata"]
    where = (
        manifest["apiVersion"],
        manifest["kind"],
        metadata["name"],
        metadata.get("namespace", ""),
    )
    for _ in range(UNDISTURBED_TRIES):
        before = cluster.client.get(*where)
        read = before["metadata"]["resourceVersion"]
        try:
            after = cluster.client.apply(manifest, at_version(text, read), force=force).body
        except ApiError as error:
            if MODIFIED not in error.message:
                raise
            time.sleep(0.2)
            continue
        return list(differences(before, after, ""))
    return [f"written to by others at each of {UNDISTURBED_TRIES} tries"]


def at_version(text: bytes, version: str) -> bytes:
    """The same file, to be applied to one version of the object only; every other byte is kept."""
    (found,) = re.findall(rb"^metadata:\n", text, flags=re.MULTILINE)
    precondition = f'{found.decode()}  resourceVersion: "{version}"\n'.encode()
    return text.replace(found, precondition, 1)


def differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """Paths at which two values differ, the volatile ones left out."""
    if path in (".metadata.managedFields", ".status"):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}[{index}]")
    elif before != after:
        yield f"{path}: {before!r} -> {after!r}"
