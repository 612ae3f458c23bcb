"""Selectors, taints and slices against the node pools that the cluster's facts state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

from generator.checks.references.queues import selectable
from generator.checks.references.world import Pair, PodSet, World
from generator.checks.structure import Path
from generator.checks.subject import Subject
from generator.findings import Finding, Severity

PROVIDER = "stowplan.dev/provider"
NODE_POOL = "cloud.google.com/gke-nodepool"
TPU_TOPOLOGY = "cloud.google.com/gke-tpu-topology"
EXTENDED_RESOURCES = ("google.com/tpu", "nvidia.com/gpu")
"""GKE adds a toleration for these taints to pods that request the resource; not to drivers, and not
before Kueue looks."""


def labels_of(pool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node labels that a pool's facts state."""
    labels = pool.get("labels")
    return labels if isinstance(labels, dict) else {}


def pool_matches(pool: Mapping[str, Any], selector: Mapping[str, Any], known: set[str]) -> bool:
    """Whether a pool's nodes carry a selector's labels; keys that no pool states are skipped."""
    for key, value in selector.items():
        if key == NODE_POOL:
            name = str(pool.get("name"))
            if value != name and not (
                str(value).startswith(f"{name}-") and str(value)[len(name) + 1 :].isdigit()
            ):
                return False
        elif key in known and str(labels_of(pool).get(key)) != str(value):
            return False
    return True


def known_keys(world: World) -> set[str]:
    """The label keys that the pools' facts state."""
    return {key for pool in world.pools for key in labels_of(pool)}


def pools_for(world: World, selector: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pools whose nodes a selector matches."""
    known = known_keys(world)
    return [pool for pool in world.pools if pool_matches(pool, selector, known)]


@dataclass(frozen=True, slots=True)
class Driver:
    """Who makes RAM disks on nodes: GKE's driver by a CheckpointConfiguration, or the self-hosted
    replicator's DaemonSet.

    Attributes:
        subject: the object.
        path: where its node selector and tolerations stand.
        spec: what holds the two.
    """

    subject: Subject
    path: Path
    spec: Mapping[str, Any]

    @property
    def selector(self) -> Mapping[str, Any]:
        """The nodes that it serves."""
        selector = self.spec.get("nodeSelector")
        return selector if isinstance(selector, dict) else {}


def drivers(world: World) -> list[Driver]:
    """Everything of the cluster that makes RAM disks."""
    found = [
        Driver(config, ("spec",), config.spec) for config in world.all("CheckpointConfiguration")
    ]
    for agents in world.all("DaemonSet"):
        annotations = agents.metadata.get("annotations") or {}
        if annotations.get(PROVIDER) == "self-hosted":
            template = agents.spec.get("template") or {}
            pod = template.get("spec") or {}
            found.append(Driver(agents, ("spec", "template", "spec"), pod))
    return found


def _selectors(world: World) -> Iterator[tuple[Subject, Path, Mapping[str, Any]]]:
    for flavor in world.all("ResourceFlavor"):
        yield flavor, ("spec", "nodeLabels"), flavor.spec.get("nodeLabels") or {}
    for driver in drivers(world):
        yield driver.subject, (*driver.path, "nodeSelector"), driver.selector
    for workload, sets in world.workloads:
        for pods in sets:
            yield workload, (*pods.path, "spec", "nodeSelector"), pods.node_selector


def selectors_match_a_pool(world: World) -> Iterator[Pair]:
    """Every node selector matches a node pool of the cluster."""
    if not world.pools:
        return
    for subject, path, selector in _selectors(world):
        if selector and not pools_for(world, selector):
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
            yield (
                subject,
                Finding(
                    "REF023",
                    Severity.ERROR,
                    f"no node pool of the cluster has {wanted}",
                    f"select a pool: {', '.join(str(pool.get('name')) for pool in world.pools)}",
                    path=path,
                ),
            )


def tolerated(taint: Mapping[str, Any], tolerations: list[Any]) -> bool:
    """Whether a list of tolerations covers a taint, as the scheduler decides it."""
    for item in tolerations:
        if not isinstance(item, dict):
            continue
        operator = item.get("operator") or "Equal"
        effect, key = item.get("effect"), item.get("key")
        if effect and effect != taint.get("effect"):
            continue
        if not key and operator == "Exists":
            return True
        if key == taint.get("key") and (
            operator == "Exists" or (item.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False


def tolerations_cover_taints(world: World) -> Iterator[Pair]:
    """Pods, drivers and admissions get past the taints of the nodes that they are meant for."""
    for driver in drivers(world):
        for pool in pools_for(world, driver.selector) if driver.selector else []:
            for taint in _hard(pool.get("taints")):
                if not tolerated(taint, driver.spec.get("tolerations") or []):
                    yield _untolerated(
                        driver.subject, (*driver.path, "tolerations"), taint,
                        f"node pool {pool.get('name')}",
                        "no driver lands there and pods wait in ContainerCreating",
                    )  # fmt: skip
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        for pods in sets:
            yield from _pod_taints(world, workload, pods)
            if queue is not None:
                yield from _flavor_taints(world, workload, queue, pods)


def _hard(taints: Any) -> list[Mapping[str, Any]]:
    return [
        taint
        for taint in taints or []
        if isinstance(taint, dict) and taint.get("effect") in ("NoSchedule", "NoExecute")
    ]


def _untolerated(
    subject: Subject, path: Path, taint: Mapping[str, Any], owner: str, effect: str
) -> Pair:
    key = taint.get("key")
    return subject, Finding(
        "REF024",
        Severity.ERROR,
        f"{owner} has the taint {key}={taint.get('value', '')}:{taint.get('effect')}, which is not "
        f"tolerated: {effect}",
        f"add a toleration: {{key: {key}, operator: Exists, effect: {taint.get('effect')}}}",
        path=path,
    )


def _pod_taints(world: World, workload: Subject, pods: PodSet) -> Iterator[Pair]:
    if not pods.node_selector:
        return
    matching = pools_for(world, pods.node_selector)
    blocked = []
    for pool in matching:
        taints = [
            taint
            for taint in _hard(pool.get("taints"))
            if not (taint.get("key") in EXTENDED_RESOURCES and taint["key"] in pods.requests)
            and not tolerated(taint, pods.spec.get("tolerations") or [])
        ]
        if not taints:
            return
        blocked.append((pool, taints[0]))
    for pool, taint in blocked[:1]:
        yield _untolerated(
            workload,
            (*pods.path, "spec", "tolerations"),
            taint,
            f"node pool {pool.get('name')}",
            f"no pod of {pods.name!r} is ever scheduled",
        )


def _flavor_taints(world: World, workload: Subject, queue: Subject, pods: PodSet) -> Iterator[Pair]:
    """Kueue admits to a flavor only if its ``nodeTaints`` are tolerated by template or flavor."""
    reasons = []
    for flavor in selectable(world, queue, pods):
        tolerations = [
            *(pods.spec.get("tolerations") or []),
            *(flavor.spec.get("tolerations") or []),
        ]
        taints = [t for t in _hard(flavor.spec.get("nodeTaints")) if not tolerated(t, tolerations)]
        if not taints:
            return
        reasons.append((flavor, taints[0]))
    for flavor, taint in reasons[:1]:
        yield _untolerated(
            workload,
            (*pods.path, "spec", "tolerations"),
            taint,
            f"ResourceFlavor {flavor.name}",
            "Kueue never admits the job (GKE adds its own toleration only to pods, later)",
        )


def checkpointing_covers_jobs(world: World) -> Iterator[Pair]:
    """A job that mounts the checkpoint volume runs only on nodes that have the driver."""
    configs = drivers(world)
    for workload, sets in world.workloads:
        for pods in sets:
            if not pods.mounts_checkpoints:
                continue
            path = (*pods.path, "spec", "volumes")
            if not configs:
                yield (
                    workload,
                    Finding(
                        "REF025",
                        Severity.ERROR if world.complete else Severity.NOTE,
                        f"{pods.name!r} mounts the checkpoint volume, but there is no "
                        "CheckpointConfiguration: pods wait in ContainerCreating",
                        "add a CheckpointConfiguration whose nodeSelector covers its nodes",
                        path=path,
                    ),
                )
            elif world.pools and pods.node_selector:
                yield from _uncovered(world, workload, pods, configs, path)


def _uncovered(
    world: World, workload: Subject, pods: PodSet, configs: list[Driver], path: Path
) -> Iterator[Pair]:
    covered = {id(pool) for config in configs for pool in pools_for(world, config.selector)}
    bare = [
        str(pool.get("name"))
        for pool in pools_for(world, pods.node_selector)
        if id(pool) not in covered
    ]
    if bare:
        yield (
            workload,
            Finding(
                "REF025",
                Severity.ERROR,
                f"{pods.name!r} mounts the checkpoint volume and may land on node pool "
                f"{', '.join(bare)}, which no CheckpointConfiguration covers: pods wait in "
                "ContainerCreating",
                "widen a CheckpointConfiguration's nodeSelector, or narrow the job's",
                path=path,
            ),
        )


def checkpointing_is_disjoint(world: World) -> Iterator[Pair]:
    """No node is selected by two CheckpointConfigurations.

    Two selectors are apart only if they differ in the value of a key that both have; the controller
    itself sees an overlap only once a node exists.
    """
    for first, second in _overlap_candidates(drivers(world)):
        a, b = first.selector, second.selector
        if any(a[key] != b[key] for key in set(a) & set(b)):
            continue
        if world.pools:
            both = {id(pool) for pool in pools_for(world, a)} & {
                id(pool) for pool in pools_for(world, b)
            }
            if not both and a and b:
                continue
        yield (
            second.subject,
            Finding(
                "REF026",
                Severity.ERROR,
                f"its nodeSelector and that of {first.subject.resource} can match one node: the "
                "controller reports a Conflict and installs no driver",
                "let the selectors differ in the value of one key, such as "
                "node.kubernetes.io/instance-type",
                path=(*second.path, "nodeSelector"),
            ),
        )


def _overlap_candidates(configs: list[Driver]) -> Iterator[tuple[Driver, Driver]]:
    """Pairs that agree in every key that all configurations have; the others cannot overlap."""
    selectors = [config.selector for config in configs]
    common = set(selectors[0]).intersection(*selectors[1:]) if selectors else set()
    parts: dict[tuple[str, ...], list[Driver]] = {}
    for config, selector in zip(configs, selectors, strict=True):
        parts.setdefault(tuple(str(selector[key]) for key in sorted(common)), []).append(config)
    for part in parts.values():
        yield from combinations(part, 2)


def topology_chips(topology: str) -> int | None:
    """The chips of a TPU topology: 16 for ``4x4``; None for what is none."""
    parts = topology.split("x")
    return prod(int(part) for part in parts) if all(part.isdigit() for part in parts) else None


def slices_match_topology(world: World) -> Iterator[Pair]:
    """A TPU job's pods are as many as a slice of the matching pool has nodes."""
    for workload, sets in world.workloads:
        for pods in sets:
            topology = pods.node_selector.get(TPU_TOPOLOGY)
            if "google.com/tpu" not in pods.requests or not topology:
                continue
            for pool in pools_for(world, pods.node_selector)[:1]:
                nodes = pool.get("nodesPerSlice")
                if isinstance(nodes, int) and nodes != pods.parallelism:
                    yield (
                        workload,
                        Finding(
                            "REF027",
                            Severity.ERROR,
                            f"{pods.name!r} runs {pods.parallelism} pods, but a {topology} slice "
                            f"of node pool {pool.get('name')} has {nodes} nodes",
                            f"write parallelism: {nodes} and completions: {nodes}",
                            path=(*pods.path[:-1], "parallelism"),
                        ),
                    )
