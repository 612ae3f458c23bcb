"""A real Flux syncs the compiled fleet by the Kustomizations that stowplan generates for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from .checkpoint_addon import CONFIG_API, CheckpointAddon
from .controlplane import flux
from .controlplane.client import Manifest
from .controlplane.processes import free_port
from .documents import CLUSTER, HIGH_WORKLOAD, JOBSET, LOW_WORKLOAD, PODS
from .fleet_repository import Change, Effect, FleetRepository, foretold
from .fleets import LAYERS, cluster_versions
from .git_server import served
from .gitops_fleet import Fleet
from .planes import Planes

pytestmark = pytest.mark.e2e

#: Reconciliations through which nothing may change.
RECONCILIATIONS = 3
NODES = 2 * PODS
LOW_STEPS = ("steps=30000", "steps=40000")


@dataclass
class FluxFleet(Fleet):
    """A plane with Flux, and the repository that it syncs."""

    def kustomization(self, layer: str) -> Manifest:
        name = f"fleet-{layer}"
        found = self.cluster.client.find(flux.KUSTOMIZE, "Kustomization", name, flux.NAMESPACE)
        return found or {}

    def applied(self, layer: str) -> tuple[str, str]:
        """The commit that was applied last, and whether the layer is ready."""
        status = self.kustomization(layer).get("status", {})
        ready = {c["type"]: c["status"] for c in status.get("conditions", [])}.get("Ready", "")
        return status.get("lastAppliedRevision", "").rpartition(":")[2], ready

    def merge(self) -> None:
        """Merge the proposal and wait until Flux has applied it."""
        self.follow(self.repository.merge())

    def follow(self, revision: str) -> None:
        """Have Flux look, and wait until every layer is at the commit."""
        flux.reconcile_source(self.cluster.client, "fleet")
        self.wait(
            lambda: all(self.applied(layer) == (revision, "True") for layer in LAYERS),
            120,
            f"all layers at {revision}",
        )

    def reconcile(self, layer: str) -> None:
        """Have a layer be applied now, and wait until it was."""
        asked = flux.reconcile_layer(self.cluster.client, f"fleet-{layer}")
        self.wait(
            lambda: self.kustomization(layer)["status"].get("lastHandledReconcileAt") == asked,
            60,
            f"a reconciliation of {layer}",
        )

    def explain(self) -> str:
        """What the source and every layer say of themselves."""
        client = self.cluster.client
        source = client.find(flux.SOURCE, "GitRepository", "fleet", flux.NAMESPACE) or {}
        found = [source, *(self.kustomization(layer) for layer in LAYERS)]
        said = (
            f"{item.get('kind')} {c['type']} {c['status']} {c.get('message', '')}"
            for item in found
            for c in item.get("status", {}).get("conditions", [])
        )
        return "\n".join([super().explain(), *said])


@pytest.fixture(scope="module")
def fleet(planes: Planes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FluxFleet]:
    """The documents' fleet, synced by Flux from a Git server on loopback."""
    folder = tmp_path_factory.mktemp("flux")
    repository = FleetRepository(folder / "fleet", CLUSTER)
    port = free_port()
    repository.edit(
        "classes/common.yml",
        "    repoUrl: https://git.example.com/platform/fleet.git\n",
        f"    repoUrl: http://127.0.0.1:{port}/fleet\n    tool: flux\n",
    )
    repository.compile()
    revision = repository.commit("The fleet")
    synced = FluxFleet(planes.fresh(*cluster_versions(repository.compiled)), repository)
    synced.add_nodes()
    flux.install(synced.cluster)
    with served(folder, port), CheckpointAddon(synced.cluster):
        # As docs/argocd.md says.
        answer = synced.cluster.kubectl.run("apply", "-k", str(repository.compiled / "flux"))
        assert answer.returncode == 0, answer.stderr
        synced.follow(revision)
        synced.wait_for_jobs_and_drivers(NODES)
        yield synced


def test_each_layer_comes_after_the_one_before(fleet: FluxFleet) -> None:
    created = {
        layer: [
            datetime.fromisoformat(live["metadata"]["creationTimestamp"])
            for live in map(fleet.find, fleet.repository.manifests(layer))
            if live is not None
        ]
        for layer in LAYERS
    }
    assert all(len(created[x]) == len(fleet.repository.manifests(x)) for x in LAYERS)
    assert max(created["queueing"]) <= min(created["checkpointing"])
    assert max(created["checkpointing"]) <= min(created["workloads"])


def test_nothing_is_written_again_while_kueue_and_jobset_write(fleet: FluxFleet) -> None:
    before = fleet.generations(), fleet.snapshot()
    for _ in range(RECONCILIATIONS):
        for layer in LAYERS:
            fleet.reconcile(layer)
    assert (fleet.generations(), fleet.snapshot()) == before


def test_what_argo_cd_asks_about_flux_leaves_to_a_person(fleet: FluxFleet) -> None:
    """New drivers and a new run are applied and wait; the old ones go when a person deletes them."""
    repository, client = fleet.repository, fleet.cluster.client
    (old_config,) = repository.configurations()
    old_run = repository.run_of(LOW_WORKLOAD)
    repository.edit(repository.target, *LOW_STEPS)
    repository.edit(
        repository.target, "    v6e:\n      model:", "    v6e:\n      driverEpoch: 2\n      model:"
    )
    proposed = repository.propose("Train longer, with new drivers")
    (new_config,) = repository.configurations()
    new_run = repository.run_of(LOW_WORKLOAD)
    names = [str(c["metadata"]["name"]) for c in (new_config, old_config)]
    assert set(proposed) == {
        Change("replace", "JobSet", new_run, "restart", old_run, PODS),
        Change("replace", "CheckpointConfiguration", names[0], "ramdisk-loss", names[1], NODES),
    }
    before = fleet.snapshot()
    fleet.merge()
    fleet.wait(lambda: fleet.find(new_config), 30, "the new configuration")
    time.sleep(2)
    assert before.effect(fleet.snapshot()) == Effect()
    assert fleet.jobset(new_run)["spec"]["suspend"] is True

    client.delete(CONFIG_API, "CheckpointConfiguration", names[1])
    client.delete(JOBSET, "JobSet", old_run, "default")
    fleet.wait(
        lambda: (
            fleet.both_jobs_run()
            and before.effect(fleet.snapshot()).emptied == NODES
            and len(fleet.snapshot().disks) == NODES
        ),
        90,
        "the new run and the new drivers",
    )
    assert before.effect(fleet.snapshot()) == foretold(proposed)
    assert fleet.find(old_config) is None


def test_a_running_job_is_not_written_even_if_git_changes_it_in_place(fleet: FluxFleet) -> None:
    run = fleet.repository.run_of(HIGH_WORKLOAD)
    path = fleet.repository.compiled / "workloads" / f"jobset-default.{run}.yaml"
    path.write_text(path.read_text().replace("maxRestarts: 10", "maxRestarts: 99"))
    proposed = fleet.repository.propose("By hand", by_hand=True)
    assert proposed == [Change("change", "JobSet", run, "blocked", nodes=PODS)]
    before = fleet.snapshot(), fleet.jobset(run)["metadata"]["generation"]
    fleet.merge()
    assert (fleet.snapshot(), fleet.jobset(run)["metadata"]["generation"]) == before
    assert fleet.jobset(run)["spec"]["failurePolicy"]["maxRestarts"] == 10


def test_a_queue_that_goes_from_git_is_pruned_but_for_what_a_person_confirms(
    fleet: FluxFleet,
) -> None:
    repository = fleet.repository
    whole, half = "tpu-v6e-slice: {}", "tpu-v6e-slice: {share: 0.5}"
    local = "    localQueues:\n"
    spare = (
        f"      spare:\n        flavors:\n          tpu-v6e-slice: {{share: 0.4}}\n{local}"
        "      spare:\n        clusterQueue: spare\n        namespaces: [default]\n"
    )
    repository.edit(repository.target, whole, half)
    repository.edit(repository.target, local, spare)
    repository.propose("A queue")
    fleet.merge()
    before = fleet.snapshot()
    queues = [m for m in repository.manifests("queueing") if m["metadata"]["name"] == "spare"]
    assert [fleet.find(queue) is None for queue in queues] == [False, False]
    repository.edit(repository.target, spare, local)
    proposed = repository.propose("And away")
    assert set(proposed) == {
        Change("delete", kind, "spare", "requeue") for kind in ("ClusterQueue", "LocalQueue")
    }
    fleet.merge()
    gone = {queue["kind"]: fleet.find(queue) is None for queue in queues}
    assert gone == {"ClusterQueue": False, "LocalQueue": True}
    assert before.effect(fleet.snapshot()) == foretold(proposed) == Effect()
