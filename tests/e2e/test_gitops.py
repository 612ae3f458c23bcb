"""A real Argo CD syncs the compiled fleet by the objects that stowplan generates for it, and each
later commit does to running jobs and RAM disks what ``stowplan diff`` said in its review.

The tests are one story on one plane, in the order of this file.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from .checkpoint_addon import CONFIG_API, CheckpointAddon
from .controlplane import argocd
from .controlplane.client import Manifest
from .documents import CLUSTER, HIGH_WORKLOAD, KUEUE, LOW_WORKLOAD, PODS, SLICE_PODS
from .fleet_repository import Change, Effect, FleetRepository, Snapshot, foretold
from .fleets import LAYERS, cluster_versions
from .gitops_fleet import ArgoFleet
from .planes import Planes

pytestmark = pytest.mark.e2e

#: Comparisons with Git through which nothing may change.
REFRESHES = 4
IN_ORDER = dict.fromkeys(LAYERS, ("Synced", "Healthy"))
WAVE = "argocd.argoproj.io/sync-wave"
THIRD_WORKLOAD = "third-jax-trillium"
#: A job of one slice below the two others, for which the documents' fleet has no quota left.
LOWEST = """\
  priorities:
    lowest-priority-job:
      value: 500000
"""
THIRD = f"""\
    {THIRD_WORKLOAD}:
      framework: jax
      nodePool: v6e
      slices: 1
      queue: default-queue
      priority: lowest-priority-job
      image: ${{vars:registry}}/maxtext:2026-11-12
      command: [python3, MaxText/train.py, MaxText/configs/base.yml]
      args: [model_name=llama2-7b]
      resources:
        cpu: 100
        memory: 400Gi
      checkpoint:
        configuration: v6e
        periodSteps: 100
"""
MAIN = "tpu-training-cq"
DEFAULT_QUEUE = f"      default-queue:\n        clusterQueue: {MAIN}\n"
SPARE_QUEUE = (
    ("          tpu-v6e-slice: {}\n", "          tpu-v6e-slice: {share: 0.6}\n"),
    (
        "    localQueues:\n",
        "      spare:\n        flavors:\n          tpu-v6e-slice: {share: 0.4}\n"
        "    localQueues:\n      spare:\n        clusterQueue: spare\n        namespaces: [default]\n",
    ),
)
TO_SPARE_QUEUE = (
    f"    {LOW_WORKLOAD}:\n",
    f"    {LOW_WORKLOAD}:\n      queue: spare\n",
)
#: Keeps a pod on its node until it is taken away.
SLOW = "e2e/slow-to-end"
NODES = 2 * PODS + SLICE_PODS
NOTHING = Effect()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> FleetRepository:
    """The documents' fleet and a third job, compiled for a repository on disk and committed."""
    copied = FleetRepository(tmp_path_factory.mktemp("gitops") / "fleet", CLUSTER)
    copied.edit("classes/common.yml", "https://git.example.com/platform/fleet.git", copied.url)
    copied.edit(copied.target, "  workloads:\n", f"{LOWEST}  workloads:\n{THIRD}")
    copied.compile()
    copied.commit("The fleet")
    return copied


@pytest.fixture(scope="module")
def fleet(planes: Planes, repository: FleetRepository) -> Iterator[ArgoFleet]:
    """A plane with nodes for all three jobs, and the generated objects in its Argo CD."""
    cluster = planes.fresh(*cluster_versions(repository.compiled))
    synced = ArgoFleet(cluster, repository)
    assert len(synced.add_nodes()) == NODES
    argocd.install(cluster)
    argocd.register(cluster, CLUSTER)
    with CheckpointAddon(cluster):
        # As docs/argocd.md says.
        objects = repository.folder / "compiled/argocd"
        answer = cluster.kubectl.run("apply", "--server-side", "-k", str(objects))
        assert answer.returncode == 0, answer.stderr
        synced.wait(lambda: synced.states() == IN_ORDER, 120, "all applications in order")
        synced.wait_for_jobs_and_drivers(NODES)
        yield synced


def test_the_waves_order_each_application(fleet: ArgoFleet) -> None:
    for layer in LAYERS:
        created: dict[int, list[datetime]] = {}
        for manifest in fleet.repository.manifests(layer):
            live = fleet.find(manifest)
            assert live is not None
            wave = int(manifest["metadata"]["annotations"][WAVE])
            created.setdefault(wave, []).append(moment(live["metadata"]["creationTimestamp"]))
        waves = sorted(created)
        for earlier, later in itertools.pairwise(waves):
            # Argo CD pauses for two seconds between waves; stamps are whole seconds.
            assert max(created[earlier]) < min(created[later]), (layer, earlier, later)


def test_a_wave_waits_for_the_health_of_the_one_before(fleet: ArgoFleet) -> None:
    """The health check of the ClusterQueue: its LocalQueue comes when it is active, not before."""
    queue = fleet.cluster.client.get(KUEUE, "ClusterQueue", MAIN)
    (active,) = (c for c in queue["status"]["conditions"] if c["type"] == "Active")
    local = fleet.cluster.client.get(KUEUE, "LocalQueue", "default-queue", "default")
    assert moment(active["lastTransitionTime"]) <= moment(local["metadata"]["creationTimestamp"])


def moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def test_everything_stays_synced_and_healthy_with_a_job_that_queues(fleet: ArgoFleet) -> None:
    third = fleet.repository.run_of(THIRD_WORKLOAD)
    assert fleet.jobset(third)["spec"]["suspend"] is True
    assert fleet.health("workloads", third) == (
        "Healthy",
        "queued: waits for Kueue to admit it",
    )
    before = fleet.generations(), fleet.syncs(), fleet.snapshot()
    for _ in range(REFRESHES):
        fleet.refresh()
        time.sleep(argocd.RESYNC_S)
        assert fleet.states() == IN_ORDER, fleet.explain()
    assert (fleet.generations(), fleet.syncs(), fleet.snapshot()) == before


def test_more_quota_is_live_and_admits_what_waits(fleet: ArgoFleet) -> None:
    fleet.repository.edit(fleet.repository.target, "      slices: 4\n", "      slices: 5\n")
    proposed = fleet.repository.propose("A fifth slice")
    assert proposed == [Change("change", "ClusterQueue", MAIN, "live")]
    before = fleet.snapshot()
    fleet.merge()
    fleet.wait(lambda: fleet.running(THIRD_WORKLOAD, pods=SLICE_PODS), 60, "the third job to run")
    assert before.effect(fleet.snapshot()) == foretold(proposed) == NOTHING


def test_a_larger_ram_disk_empties_all_of_them_and_stops_no_job(fleet: ArgoFleet) -> None:
    (old,) = fleet.repository.configurations()
    fleet.repository.edit(fleet.repository.target, "parameters: 7e9", "parameters: 9e9")
    proposed = fleet.repository.propose("A larger model")
    (new,) = fleet.repository.configurations()
    replaced = replacement(old, new, "ramdisk-loss", NODES)
    quota = Change("change", "ClusterQueue", MAIN, "live")
    assert set(proposed) == {replaced, quota}
    before = fleet.snapshot()
    fleet.merge()
    asks_before_pruning(fleet, "checkpointing", old, before)
    fleet.approve("checkpointing")
    settled(fleet)
    assert before.effect(fleet.snapshot()) == foretold(proposed)
    assert foretold(proposed) == Effect(emptied=NODES)


def test_a_bump_of_the_driver_epoch_can_be_taken_back_and_then_empties_the_ram_disks(
    fleet: ArgoFleet,
) -> None:
    repository = fleet.repository
    (old,) = repository.configurations()
    plain, bumped = "    v6e:\n      model:", "    v6e:\n      driverEpoch: 2\n      model:"
    repository.edit(repository.target, plain, bumped)
    proposed = repository.propose("New drivers")
    (new,) = repository.configurations()
    assert proposed == [replacement(old, new, "ramdisk-loss", NODES)]
    before = fleet.snapshot()
    fleet.merge()
    asks_before_pruning(fleet, "checkpointing", old, before)

    # A revert alone is not looked at: the sync of the bump still waits for its answer.
    repository.edit(repository.target, bumped, plain)
    assert repository.propose("Not today") == [replacement(new, old, "ramdisk-loss", NODES)]
    fleet.merge()
    time.sleep(argocd.RESYNC_S)
    assert fleet.question("checkpointing") == old["metadata"]["name"]
    fleet.terminate("checkpointing")
    fleet.wait(
        lambda: fleet.operation("checkpointing")[0] == "Failed" and fleet.states() == IN_ORDER,
        60,
        "order without a sync",
    )
    assert before.effect(fleet.snapshot()) == NOTHING
    assert [c["metadata"]["name"] for c in live_configurations(fleet)] == [old["metadata"]["name"]]

    repository.edit(repository.target, plain, bumped)
    proposed = repository.propose("New drivers after all")
    fleet.merge()
    asks_before_pruning(fleet, "checkpointing", old, before)
    fleet.approve("checkpointing")
    settled(fleet)
    assert before.effect(fleet.snapshot()) == foretold(proposed) == Effect(emptied=NODES)


def test_a_change_of_a_job_is_a_new_run_that_begins_when_the_old_one_may_go(
    fleet: ArgoFleet,
) -> None:
    """Kueue and Argo CD do not wait for the old run's pods to end, so those of a lower job may go."""
    old, third = map(fleet.repository.run_of, (LOW_WORKLOAD, THIRD_WORKLOAD))
    fleet.repository.edit(fleet.repository.target, "steps=30000", "steps=40000")
    proposed = fleet.repository.propose("Train longer")
    new = fleet.repository.run_of(LOW_WORKLOAD)
    assert proposed == [Change("replace", "JobSet", new, "restart", old, PODS, (third,))]
    before = fleet.snapshot()
    fleet.merge()
    asks_before_pruning(fleet, "workloads", fleet.jobset(old), before)
    fleet.hold_pods(old, [SLOW])
    fleet.approve("workloads")
    evicted = Effect(stopped=frozenset({old, third}))
    fleet.wait(lambda: before.effect(fleet.snapshot()) == evicted, 60, "a slice to be taken over")
    fleet.hold_pods(old, [])
    settled(fleet)
    fleet.wait(lambda: all_run(fleet), 60, "all three to run")
    assert before.effect(fleet.snapshot()) == evicted
    assert foretold(proposed) == Effect(stopped=frozenset({old}))


def all_run(fleet: ArgoFleet) -> bool:
    """Whether all three jobs run whole."""
    return fleet.both_jobs_run() and fleet.running(THIRD_WORKLOAD, pods=SLICE_PODS)


def test_what_the_api_refuses_is_named_and_the_next_commit_mends_it(fleet: ArgoFleet) -> None:
    """One refusal in each layer: a queue behind a LocalQueue, a made-up field, a job's queue."""
    repository = fleet.repository
    low, third = map(repository.run_of, (LOW_WORKLOAD, THIRD_WORKLOAD))
    (config,) = repository.configurations()
    with_spare_queue(repository)
    repository.edit(repository.target, *TO_SPARE_QUEUE)
    repository.edit(repository.target, DEFAULT_QUEUE, DEFAULT_QUEUE.replace(MAIN, "spare"))
    repository.compile()
    cron = repository.compiled / "checkpointing/cronjob-checkpoint-retention.retention-v6e.yaml"
    by_hand = cron.read_text().replace(
        "  jobTemplate:\n", "  onlyOnMondays: true\n  jobTemplate:\n"
    )
    cron.write_text(by_hand)
    checked = repository.stowplan("check", "compiled")
    assert checked.returncode == 1
    assert "unknown field spec.onlyOnMondays" in checked.stdout
    proposed = repository.propose("Three faults", by_hand=True)
    assert set(proposed) == {
        Change("change", "CronJob", "retention-v6e", "blocked"),
        Change("change", "JobSet", low, "blocked", nodes=PODS),
        Change("change", "LocalQueue", "default-queue", "blocked"),
        Change("change", "ClusterQueue", MAIN, "requeue"),
        Change("add", "ClusterQueue", "spare", "live"),
        Change("add", "LocalQueue", "spare", "live"),
    }
    before, generations = fleet.snapshot(), fleet.generations()
    fleet.merge()
    refused: set[str] = set()

    def all_refused() -> bool:
        refused.update(fleet.refused())
        return refused >= foretold(proposed).refused

    fleet.wait(all_refused, 60, "the refusal of all three")
    assert refused == foretold(proposed).refused
    assert before.effect(fleet.snapshot()) == NOTHING
    kept = fleet.generations()
    for key in foretold(proposed).refused:
        assert kept[key] == generations[key]
    queue = fleet.cluster.client.get(KUEUE, "LocalQueue", "default-queue", "default")
    assert queue["spec"]["clusterQueue"] == MAIN

    repository.edit(repository.target, DEFAULT_QUEUE.replace(MAIN, "spare"), DEFAULT_QUEUE)
    repository.edit(repository.target, TO_SPARE_QUEUE[1], f"{TO_SPARE_QUEUE[1]}      run: 2\n")
    proposed = repository.propose("As it should be")
    assert (
        Change("replace", "JobSet", "low-jax-trillium-r2", "restart", low, PODS, (third,))
        in proposed
    )
    before = fleet.snapshot()
    fleet.merge()
    asks_before_pruning(fleet, "workloads", fleet.jobset(low), before)
    fleet.approve("workloads")
    settled(fleet)
    fleet.wait(lambda: all_run(fleet), 60, "the new run to run")
    assert {low} <= before.effect(fleet.snapshot()).stopped <= {low, third}
    assert [c["metadata"]["name"] for c in live_configurations(fleet)] == [
        config["metadata"]["name"]
    ]


def test_an_edit_of_a_running_job_is_refused_and_the_other_layers_stay_in_order(
    fleet: ArgoFleet,
) -> None:
    repository = fleet.repository
    run = repository.run_of(HIGH_WORKLOAD)
    path = repository.compiled / f"workloads/jobset-default.{run}.yaml"
    good = path.read_text()
    path.write_text(good.replace("maxRestarts: 10", "maxRestarts: 99"))
    proposed = repository.propose("By hand", by_hand=True)
    assert proposed == [Change("change", "JobSet", run, "blocked", nodes=PODS)]
    before = fleet.snapshot(), fleet.generations()
    fleet.merge()
    fleet.wait(lambda: fleet.refused() == foretold(proposed).refused, 60, "the refusal")
    assert "immutable" in fleet.said("workloads")
    for layer in ("queueing", "checkpointing"):
        assert fleet.state(layer) == ("Synced", "Healthy")
    assert (fleet.snapshot(), fleet.generations()) == before
    path.write_text(good)
    repository.propose("Take it back", by_hand=True)
    fleet.merge()
    fleet.wait(
        lambda: fleet.states() == IN_ORDER and fleet.operation("workloads")[0] != "Running",
        60,
        "order again",
    )
    assert (fleet.snapshot(), fleet.generations()) == before


def test_a_queue_in_use_goes_when_its_last_job_does(fleet: ArgoFleet) -> None:
    repository, client = fleet.repository, fleet.cluster.client
    old, third = map(repository.run_of, (LOW_WORKLOAD, THIRD_WORKLOAD))
    without_spare_queue(repository)
    repository.edit(
        repository.target,
        f"{TO_SPARE_QUEUE[1]}      run: 2\n",
        TO_SPARE_QUEUE[0] + "      run: 3\n",
    )
    proposed = repository.propose("Retire the spare queue")
    assert set(proposed) == {
        Change("replace", "JobSet", "low-jax-trillium-r3", "restart", old, PODS, (third,)),
        Change("delete", "ClusterQueue", "spare", "requeue"),
        Change("delete", "LocalQueue", "spare", "requeue"),
        Change("change", "ClusterQueue", MAIN, "live"),
    }
    queue = client.get(KUEUE, "ClusterQueue", "spare")
    before = fleet.snapshot()
    fleet.merge()
    asks_before_pruning(fleet, "queueing", queue, before)
    fleet.approve("queueing")
    fleet.wait(
        lambda: "deletionTimestamp" in client.get(KUEUE, "ClusterQueue", "spare")["metadata"],
        30,
        "the queue's deletion to be asked for",
    )
    # Kueue's finalizer holds it: what it admitted runs.
    asks_before_pruning(fleet, "workloads", fleet.jobset(old), before)
    fleet.approve("workloads")
    settled(fleet)
    fleet.wait(lambda: all_run(fleet), 60, "the new run to run")
    assert client.find(KUEUE, "ClusterQueue", "spare") is None
    assert client.find(KUEUE, "LocalQueue", "spare", "default") is None
    assert {old} <= before.effect(fleet.snapshot()).stopped <= {old, third}
    assert foretold(proposed) == Effect(stopped=frozenset({old}))


def with_spare_queue(repository: FleetRepository) -> None:
    """Give two fifths of the quota to a queue of their own."""
    for old, new in SPARE_QUEUE:
        repository.edit(repository.target, old, new)


def without_spare_queue(repository: FleetRepository) -> None:
    for old, new in reversed(SPARE_QUEUE):
        repository.edit(repository.target, new, old)


def replacement(old: Manifest, new: Manifest, impact: str, nodes: int) -> Change:
    names = new["metadata"]["name"], old["metadata"]["name"]
    return Change("replace", old["kind"], names[0], impact, names[1], nodes)


def live_configurations(fleet: ArgoFleet) -> list[Manifest]:
    return fleet.cluster.client.items(CONFIG_API, "CheckpointConfiguration")


def asks_before_pruning(fleet: ArgoFleet, layer: str, old: Manifest, before: Snapshot) -> None:
    """Wait for the question whether an object may go; until the answer nothing has happened."""
    name = old["metadata"]["name"]
    fleet.wait(lambda: fleet.question(layer) == name, 60, f"the question whether to prune {name}")
    time.sleep(1)
    assert before.effect(fleet.snapshot()) == NOTHING


def settled(fleet: ArgoFleet) -> None:
    """Wait until Git is in the cluster, no sync runs, and every node has its driver."""
    fleet.wait(
        lambda: (
            fleet.states() == IN_ORDER
            and all(fleet.operation(layer)[0] == "Succeeded" for layer in LAYERS)
            and len(fleet.snapshot().disks) == NODES
        ),
        90,
        "all applications in order again",
    )
