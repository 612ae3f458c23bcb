"""A real Argo CD syncs the compiled fleet from Git, and later commits do what was predicted."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.data.argocd import health_settings, ignore_differences, known_type_settings

from .controlplane import argocd
from .controlplane.client import Manifest
from .controlplane.kwok import add_pool, ready_nodes
from .controlplane.plane import Cluster
from .documents import CLUSTER, HIGH, LOW
from .fleet_nodes import pools_for
from .fleets import COMPILED, LAYERS, example_cluster
from .planes import Planes

pytestmark = pytest.mark.e2e

#: Comparisons with Git through which nothing may change.
REFRESHES = 3
JOBSET = "jobset.x-k8s.io/v1alpha2"
APPROVAL = "argocd.argoproj.io/deletion-approved"
IN_ORDER = dict.fromkeys(LAYERS, ("Synced", "Healthy"))
NEXT_RUN = "low-jax-trillium-next"
#: Layers whose folder is no list of resources.
NOT_SYNCED = ("controllers", "bootstrap")


@dataclass
class Fleet:
    """A plane with Argo CD, and the repository that it syncs."""

    cluster: Cluster
    repository: argocd.Repository

    def application(self, layer: str) -> Manifest:
        name = f"{CLUSTER}-{layer}"
        found = self.cluster.client.find(argocd.APPLICATION, "Application", name, argocd.NAMESPACE)
        return found or {}

    def state(self, layer: str) -> tuple[str, str]:
        """Sync and health status."""
        status = self.application(layer).get("status", {})
        return (
            status.get("sync", {}).get("status", ""),
            status.get("health", {}).get("status", ""),
        )

    def syncs(self, layer: str) -> int:
        """How often the application has been synced."""
        return len(self.application(layer).get("status", {}).get("history", []))

    def folder(self, layer: str) -> Path:
        return self.repository.folder / "compiled" / CLUSTER / layer

    def commit(self, message: str) -> None:
        """Commit and have every application look at once."""
        revision = self.repository.commit(message)
        for layer in LAYERS:
            argocd.refresh(self.cluster.client, f"{CLUSTER}-{layer}")
        self.cluster.wait(
            lambda: all(self._has_seen(layer, revision) for layer in LAYERS), 60, "a comparison"
        )

    def _has_seen(self, layer: str, revision: str) -> bool:
        status = self.application(layer).get("status", {})
        return bool(status.get("sync", {}).get("revision") == revision)

    def operation(self, layer: str) -> tuple[str, str]:
        """Phase and message of the last sync."""
        operation = self.application(layer).get("status", {}).get("operationState", {})
        return operation.get("phase", ""), operation.get("message", "")

    def jobset(self, name: str) -> Manifest:
        return self.cluster.client.get(JOBSET, "JobSet", name, "default")


@pytest.fixture(scope="module")
def fleet(planes: Planes, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The compiled cluster, synced once."""
    compiled = example_cluster(CLUSTER)
    cluster = planes.fresh(compiled.kueue, compiled.jobset)
    pools = pools_for(compiled.manifests())
    for pool in pools:
        add_pool(cluster.client, pool)
    expected = {name for pool in pools for name in pool.node_names()}
    cluster.wait(lambda: ready_nodes(cluster.client) >= expected, 60, "nodes to be ready")
    repository = argocd.Repository(tmp_path_factory.mktemp("gitops") / "fleet")
    shutil.copytree(COMPILED / CLUSTER, repository.folder / "compiled" / CLUSTER)
    repository.commit("The compiled fleet")
    argocd.install(cluster, {**health_settings(), **known_type_settings()})
    for manifest in applications(repository.url):
        cluster.client.create(manifest)
    synced = Fleet(cluster, repository)
    wait_for(synced, lambda: states(synced) == IN_ORDER, 180, "all applications in order")
    return synced


def test_everything_ends_synced_and_healthy_and_stays_so(fleet: Fleet) -> None:
    for name in (HIGH, LOW):
        wait_for(
            fleet,
            lambda name=name: fleet.jobset(name)["spec"]["suspend"] is False,
            60,
            f"{name} admitted by Kueue",
        )
    before = generations(fleet), {layer: fleet.syncs(layer) for layer in LAYERS}
    for _ in range(REFRESHES):
        for layer in LAYERS:
            argocd.refresh(fleet.cluster.client, f"{CLUSTER}-{layer}")
        time.sleep(argocd.RESYNC_S)
        assert states(fleet) == IN_ORDER, explain(fleet)
    assert (generations(fleet), {layer: fleet.syncs(layer) for layer in LAYERS}) == before


def test_a_bad_manifest_fails_its_sync_and_touches_nothing_else(fleet: Fleet) -> None:
    path = next(fleet.folder("queueing").glob("clusterqueue-*.yaml"))
    good = path.read_text()
    running = generations(fleet)
    manifest = yaml.safe_load(good)
    manifest["spec"]["preemption"]["reclaimOutOfCohort"] = {"enable": True}
    path.write_text(yaml.safe_dump(manifest))
    fleet.commit("A field that does not exist")
    wait_for(
        fleet,
        lambda: "reclaimOutOfCohort" in sync_errors(fleet, "queueing"),
        90,
        "the sync to fail on the unknown field",
    )
    assert fleet.state("workloads") == ("Synced", "Healthy")
    path.write_text(good)
    fleet.commit("Take it back")
    wait_for(fleet, lambda: fleet.state("queueing") == ("Synced", "Healthy"), 120, "recovery")
    assert generations(fleet) == running


def test_a_confirmed_prune_holds_the_whole_application_until_a_human_says_so(
    fleet: Fleet,
) -> None:
    """Argo CD asks before it begins, so that the new run is not even created meanwhile."""
    path = next(fleet.folder("workloads").glob(f"jobset-*{LOW}.yaml"))
    manifest = yaml.safe_load(path.read_text())
    manifest["metadata"]["name"] = NEXT_RUN
    manifest["spec"]["failurePolicy"]["maxRestarts"] = 20
    path.unlink()
    path.with_name(f"jobset-default.{NEXT_RUN}.yaml").write_text(yaml.safe_dump(manifest))
    before = generations(fleet)
    fleet.commit("A new run")
    wait_for(
        fleet,
        lambda: (
            fleet.operation("workloads")
            == (
                "Running",
                f"Waiting for pruning confirmation of jobset.x-k8s.io/v1alpha2/JobSet/{LOW}",
            )
        ),
        90,
        "the question whether to prune",
    )
    time.sleep(argocd.RESYNC_S)
    assert fleet.cluster.client.find(JOBSET, "JobSet", NEXT_RUN, "default") is None
    assert generations(fleet) == before
    confirm_prune(fleet, "workloads")
    wait_for(
        fleet,
        lambda: fleet.cluster.client.find(JOBSET, "JobSet", LOW, "default") is None,
        90,
        "the old run to be pruned",
    )
    wait_for(
        fleet,
        lambda: fleet.jobset(NEXT_RUN)["spec"]["suspend"] is False,
        90,
        "the new run to be admitted in its place",
    )
    wait_for(fleet, lambda: fleet.state("workloads") == ("Synced", "Healthy"), 60, "order")


def test_an_edit_of_a_running_jobset_is_refused(fleet: Fleet) -> None:
    path = next(fleet.folder("workloads").glob(f"jobset-*{HIGH}.yaml"))
    good = path.read_text()
    before = fleet.jobset(HIGH)["metadata"]["generation"]
    manifest = yaml.safe_load(good)
    manifest["spec"]["failurePolicy"]["maxRestarts"] = 99
    path.write_text(yaml.safe_dump(manifest))
    fleet.commit("An edit in place")
    wait_for(fleet, lambda: "immutable" in sync_errors(fleet, "workloads"), 90, "the API's refusal")
    assert fleet.jobset(HIGH)["metadata"]["generation"] == before
    path.write_text(good)
    fleet.commit("Take it back")
    wait_for(fleet, lambda: fleet.state("workloads")[0] == "Synced", 120, "recovery")


def test_a_job_that_waits_for_quota_is_healthy(fleet: Fleet) -> None:
    path = next(fleet.folder("workloads").glob(f"jobset-*{HIGH}.yaml"))
    manifest = yaml.safe_load(path.read_text())
    manifest["metadata"]["name"] = "third"
    path.with_name("jobset-default.third.yaml").write_text(yaml.safe_dump(manifest))
    assert fleet.jobset(HIGH)["spec"]["suspend"] is False
    fleet.commit("A job more than quota allows")
    wait_for(
        fleet,
        lambda: (
            fleet.state("workloads") == ("Synced", "Healthy")
            and fleet.cluster.client.find(JOBSET, "JobSet", "third", "default")
        ),
        120,
        "order with a queued job",
    )
    assert fleet.jobset("third")["spec"]["suspend"] is True


def applications(url: str) -> Iterator[Manifest]:
    """A project and an ApplicationSet over the layers of the compiled tree."""
    everything = [{"group": "*", "kind": "*"}]
    metadata = {"name": "fleet", "namespace": argocd.NAMESPACE}
    yield {
        "apiVersion": argocd.APPLICATION,
        "kind": "AppProject",
        "metadata": metadata,
        "spec": {
            "sourceRepos": [url],
            "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "*"}],
            "clusterResourceWhitelist": everything,
            "namespaceResourceWhitelist": everything,
        },
    }
    excluded = [{"path": f"compiled/*/{layer}", "exclude": True} for layer in NOT_SYNCED]
    generator = {
        "git": {
            "repoURL": url,
            "revision": "main",
            "requeueAfterSeconds": argocd.RESYNC_S,
            "directories": [{"path": "compiled/*/*"}, *excluded],
        }
    }
    sync_policy = {
        "automated": {"prune": True, "selfHeal": True},
        "syncOptions": [
            "ServerSideApply=true",
            "ApplyOutOfSyncOnly=true",
            "RespectIgnoreDifferences=true",
        ],
        "retry": {"limit": 10, "backoff": {"duration": "5s", "factor": 1}},
    }
    yield {
        "apiVersion": argocd.APPLICATION,
        "kind": "ApplicationSet",
        "metadata": metadata,
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [generator],
            # Without it the ApplicationSet controller takes a human's approval off again.
            "preservedFields": {"annotations": [APPROVAL]},
            "template": {
                "metadata": {"name": "{{ index .path.segments 1 }}-{{ .path.basename }}"},
                "spec": {
                    "project": "fleet",
                    "source": {
                        "repoURL": url,
                        "targetRevision": "main",
                        "path": "{{ .path.path }}",
                    },
                    "destination": {"server": "https://kubernetes.default.svc"},
                    "ignoreDifferences": ignore_differences(),
                    "syncPolicy": sync_policy,
                },
            },
        },
    }


def states(fleet: Fleet) -> dict[str, tuple[str, str]]:
    """Sync and health status of every layer's application."""
    return {layer: fleet.state(layer) for layer in LAYERS}


def generations(fleet: Fleet) -> dict[str, int]:
    """Generations of all objects of the fleet that still exist; a write to a spec raises one."""
    found = {}
    for manifest in example_cluster(CLUSTER).manifests():
        metadata = manifest["metadata"]
        item = fleet.cluster.client.find(
            manifest["apiVersion"],
            manifest["kind"],
            metadata["name"],
            metadata.get("namespace", ""),
        )
        if item is not None:
            key = f"{manifest['kind']}/{metadata['name']}"
            found[key] = int(item["metadata"].get("generation", 0))
    return found


def confirm_prune(fleet: Fleet, layer: str) -> None:
    """Say yes to the deletions that an application waits to be allowed."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    patch = {"metadata": {"annotations": {APPROVAL: stamp}}}
    fleet.cluster.client.merge(
        argocd.APPLICATION, "Application", f"{CLUSTER}-{layer}", patch, argocd.NAMESPACE
    )


def sync_errors(fleet: Fleet, layer: str) -> str:
    """Messages of the last sync and of its resources."""
    operation = fleet.application(layer).get("status", {}).get("operationState", {})
    resources = operation.get("syncResult", {}).get("resources", [])
    conditions = fleet.application(layer).get("status", {}).get("conditions", [])
    messages = [operation.get("message", ""), *(r.get("message", "") for r in resources)]
    return "\n".join([*messages, *(c.get("message", "") for c in conditions)])


def wait_for(fleet: Fleet, condition: Any, seconds: float, what: str) -> None:
    """Wait, and on failure tell what Argo CD says."""
    try:
        fleet.cluster.wait(condition, seconds, what)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{explain(fleet)}") from None


def explain(fleet: Fleet) -> str:
    """State, last operation and resources out of order of every application."""
    lines = []
    for layer in LAYERS:
        status = fleet.application(layer).get("status", {})
        lines.append(f"{layer}: {fleet.state(layer)} {fleet.operation(layer)}")
        for resource in status.get("resources", []):
            health = resource.get("health", {}).get("status", "-")
            if resource.get("status") != "Synced" or health not in ("Healthy", "-"):
                lines.append(
                    f"  {resource['kind']} {resource['name']}: {resource.get('status')} {health}"
                )
        lines += [f"  {text}" for text in sync_errors(fleet, layer).splitlines() if text][:12]
    return "\n".join(lines)
