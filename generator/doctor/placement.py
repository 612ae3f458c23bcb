"""Pods that are where they must not be, or nowhere: wounded pools, spread slices.

docs/hotswap.md shows both on a real control plane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import (
    EXCLUSIVE_TOPOLOGY,
    JOB_INDEX_LABEL,
    JOBSET_LABEL,
    POOL_LABEL,
    REPLICATED_JOB_LABEL,
    Object,
    annotations_of,
    condition,
    count,
    is_going,
    is_multi_host,
    is_true,
    is_usable,
    labels_of,
    name_of,
    namespace_of,
    some,
)
from generator.findings import Finding, Severity

_E, _W = Severity.ERROR, Severity.WARNING
_STARTING_S = 60
"""Pods that are younger than this may still find a node."""
_SCALING_S = 900
"""Until then an autoscaler may still be making the nodes."""


@dataclass(slots=True)
class Slice:
    """The pods of one job index of a JobSet: on TPU, one slice.

    Attributes:
        running: pods that run, by their node pool (empty where the node is gone).
        waiting: pods without a node.
    """

    namespace: str
    jobset: str
    job: str
    running: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def resource(self) -> str:
        """How findings name it."""
        return f"JobSet {self.namespace}/{self.jobset}"

    @property
    def title(self) -> str:
        """The slice within the JobSet."""
        return f"slice {self.job}"

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return sum(len(pods) for pods in self.running.values()) + len(self.waiting)


def _domain_key(pod: Object) -> str:
    return annotations_of(pod).get(EXCLUSIVE_TOPOLOGY, POOL_LABEL)


def slices(look: Look) -> list[Slice]:
    """The slices of all JobSets, without pods that are going or gone."""
    nodes = {name_of(node): node for node in look.snapshot.items("nodes")}
    found: dict[tuple[str, ...], Slice] = {}
    for pod in look.snapshot.items("jobpods"):
        if is_going(pod) or dig(pod, "status", "phase") in ("Succeeded", "Failed"):
            continue
        labels = labels_of(pod)
        job = f"{labels.get(REPLICATED_JOB_LABEL, '')}-{labels.get(JOB_INDEX_LABEL, '')}"
        key = (namespace_of(pod), str(labels.get(JOBSET_LABEL)), job)
        entry = found.setdefault(key, Slice(*key))
        node = dig(pod, "spec", "nodeName")
        if not node:
            entry.waiting.append(pod)
        else:
            domain = labels_of(nodes.get(node, {})).get(_domain_key(pod), "")
            entry.running[domain].append(pod)
    return [found[key] for key in sorted(found)]


def stuck_slices(look: Look) -> Iterator[Finding]:
    """Slices that hold quota and do not run: in a wounded pool, or for another reason."""
    general: dict[str, list[Slice]] = defaultdict(list)
    usable = [node for node in look.snapshot.items("nodes") if is_usable(node)]
    domains: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for node in usable:
        for label in labels_of(node).items():
            domains[label].append(node)
    for part in slices(look):
        if not part.waiting:
            continue
        wounded = _wounded_pool(look, part, domains)
        if wounded:
            yield _wounded(look, part, *wounded)
        elif _waits_long(look, part):
            general[part.resource].append(part)
    for resource, parts in general.items():
        yield _pending(look, resource, parts)


def _waits_long(look: Look, part: Slice) -> bool:
    return max(_age_s(look, pod) for pod in part.waiting) > _STARTING_S


def _wounded_pool(
    look: Look, part: Slice, domains: Mapping[tuple[str, str], list[dict[str, Any]]]
) -> tuple[str, str, int] | None:
    """The pool that holds some of a slice's pods and has no usable node for the others.

    Args:
        look: the examination.
        part: the slice, some of whose pods wait.
        domains: label and value → the usable nodes that carry it.

    Returns:
        the label key, the pool and its usable nodes; None where that is not the case.
    """
    key = _domain_key(part.waiting[0])
    pinned = {dig(dict(pod), "spec", "nodeSelector", key) for pod in part.waiting} - {None}
    pools = {pool for pool in part.running if pool}
    if len(pools) != 1 or (pinned and pinned != pools):
        return None
    pool = next(iter(pools))
    if not pinned and EXCLUSIVE_TOPOLOGY not in annotations_of(part.waiting[0]):
        return None
    usable = domains.get((key, pool), [])
    if len(usable) >= part.pods or _is_growing(look, part, usable):
        return None
    return key, pool, len(usable)


def _is_growing(look: Look, part: Slice, nodes: list[dict[str, Any]]) -> bool:
    """Whether the pool's nodes come because of the slice: one is newer than its first pod.

    The nodes that a wounded pool has left are older than the pods that restarted there.
    """
    pods = [*part.waiting, *(pod for pods in part.running.values() for pod in pods)]
    oldest = max(_age_s(look, pod) for pod in pods)
    return any(_age_s(look, node) < oldest for node in nodes if _age_s(look, node))


def _age_s(look: Look, item: Object) -> float:
    return look.snapshot.age_s(dig(dict(item), "metadata", "creationTimestamp"))


def _wounded(look: Look, part: Slice, key: str, pool: str, usable: int) -> Finding:
    stuck = name_of(part.running[pool][0])
    return look.finding(
        "DOC030",
        _E,
        part.resource,
        f"{part.title} is stuck in the wounded pool {pool}: {len(part.running[pool])} of its "
        f"{count(part.pods, 'pod')} run there, the rest waits for ever "
        f"({some(map(name_of, part.waiting), 2)}), since the slice is bound to the pool and that "
        f"has {count(usable, 'usable node')}",
        f"{look.kubectl('cordon', '-l', f'{key}={pool}')} and then "
        f"{look.kubectl('-n', part.namespace, 'delete', 'pod', stuck)}: the slice restarts in a "
        "healthy pool (docs/hotswap.md)",
    )


def _pending(look: Look, resource: str, parts: list[Slice]) -> Finding:
    pods = [pod for part in parts for pod in part.waiting]
    reasons = {why for pod in pods if (why := _why(pod))}
    names = ", ".join(part.title for part in parts)
    lasting = max(_age_s(look, pod) for pod in pods) > _SCALING_S
    return look.finding(
        "DOC025",
        _E if lasting else _W,
        resource,
        f"{count(len(pods), 'pod')} of {names} without a node, while the job holds its quota: "
        + (some(reasons, 2) or "the scheduler has said nothing"),
        "nodes that the quota counts on are missing, full or tainted: "
        + look.kubectl("-n", parts[0].namespace, "describe", "pod", name_of(pods[0])),
    )


def _why(pod: Object) -> str:
    gates = dig(dict(pod), "spec", "schedulingGates") or []
    if gates:
        return f"held back by the scheduling gate {gates[0].get('name')}"
    found = condition(pod, "PodScheduled")
    return str(found.get("message", "")) if found.get("status") == "False" else ""


def spread_slices(look: Look) -> Iterator[Finding]:
    """TPU slices of several hosts whose running pods are on more than one node pool."""
    tpu_pools = {
        labels_of(node).get(POOL_LABEL)
        for node in look.snapshot.items("nodes")
        if is_multi_host(node)
    }
    for part in slices(look):
        pools = {pool: pods for pool, pods in part.running.items() if pool}
        exclusive = any(
            EXCLUSIVE_TOPOLOGY in annotations_of(pod) for pods in pools.values() for pod in pods
        )
        if len(pools) < 2 or not (exclusive or set(pools) & tpu_pools):
            continue
        counts = ", ".join(f"{len(pods)} in {pool}" for pool, pods in sorted(pools.items()))
        yield look.finding(
            "DOC031",
            _E,
            part.resource,
            f"{part.title} is spread over {len(pools)} node pools ({counts}): that is no TPU "
            "slice, and training hangs while every pod is Running",
            _restart(look, part),
        )


def _restart(look: Look, part: Slice) -> str:
    """How to place the whole job again: through Kueue, which waits until the old pods are gone."""
    for workload in look.snapshot.items("workloads"):
        for owner in dig(workload, "metadata", "ownerReferences") or []:
            if (owner.get("kind"), owner.get("name")) == ("JobSet", part.jobset):
                off, on = (
                    look.kubectl(
                        "-n",
                        part.namespace,
                        "patch",
                        "workloads.kueue.x-k8s.io",
                        name_of(workload),
                        "--type=merge",
                        f'--patch={{"spec":{{"active":{value}}}}}',
                    )
                    for value in ("false", "true")
                )
                return (
                    f"{off}, wait until the JobSet's pods are gone, then {on}; docs/hotswap.md "
                    "says which settings of Kueue prevent it"
                )
    return "delete the JobSet's pods, so that it restarts"


def unready_nodes(look: Look) -> Iterator[Finding]:
    """Nodes that are NotReady and still hold pods of jobs, those of one node pool together."""
    held: dict[str, list[str]] = defaultdict(list)
    for pod in look.snapshot.items("jobpods"):
        node = dig(pod, "spec", "nodeName")
        if node and dig(pod, "status", "phase") not in ("Succeeded", "Failed"):
            held[node].append(f"{namespace_of(pod)}/{name_of(pod)}")
    pools: dict[str, list[str]] = defaultdict(list)
    for node in look.snapshot.items("nodes"):
        name = name_of(node)
        if name in held and not is_true(node, "Ready"):
            pools[labels_of(node).get(POOL_LABEL, name)].append(name)
    for pool, names in sorted(pools.items()):
        pods = [pod for name in names for pod in held[name]]
        yield look.finding(
            "DOC026",
            _W,
            f"Node {min(names)}",
            f"{count(len(names), 'node')} of pool {pool} not ready ({some(names)}), with "
            f"{count(len(pods), 'pod')} of jobs ({some(pods, 2)}): they are kept for five minutes, "
            "and then until the node is deleted",
            "GKE repairs it; to restart the job at once: "
            + look.kubectl("delete", "node", *sorted(names)),
        )
