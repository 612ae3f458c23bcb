"""Numbers that a reviewer would otherwise work out by hand.

Each function looks at one kind and returns lines to stand beside the raw values. A number that the
tree does not hold is left out, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from generator.diff import preemption
from generator.diff.cluster_facts import ClusterFacts, NodePool, Side, facts_from
from generator.diff.conditions import dig, entries, mapping
from generator.diff.model import Derived, Verb
from generator.diff.resources import Loaded
from schemas.quantity import QuantityError, parse_quantity

RAM_DISK_NEED = {"tpu": Decimal("2.2"), "gpu": Decimal("6.6")}
"""Smallest ratio of RAM disk to one node's local checkpoint; on GPUs with one peer. Source: the
multi-tier checkpointing guide of GKE, "inMemoryVolumeSize"."""

_PREFIX = "stowplan.dev/"


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is known about one change.

    Attributes:
        lines: the numbers.
        nodes: nodes touched, None where unknown.
        chips: chips touched, None where unknown.
        pools: names of the node pools touched, so that sums count each once.
    """

    lines: tuple[Derived, ...] = ()
    nodes: int | None = None
    chips: int | None = None
    pools: tuple[NodePool, ...] = field(default=())


def derive(verb: Verb, old: Loaded | None, new: Loaded | None, base: Side, head: Side) -> Numbers:
    """Return the numbers for one pair of resources."""
    shown = new or old
    if shown is None:
        return Numbers()
    function = _KINDS.get((shown.resource.group, shown.resource.kind))
    return function(verb, old, new, base, head) if function else Numbers()


def _quantity(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return None


def _number(value: Decimal | float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _arrow(old: str | None, new: str | None) -> str:
    if old is not None and new is not None and old != new:
        return f"{old} → {new}"
    return new if new is not None else old or ""


def _pools_of(item: Loaded | None, side: Side) -> tuple[NodePool, ...]:
    selector = dig(item.body, "spec", "nodeSelector") if item else None
    if item is None or not isinstance(selector, dict):
        return ()
    return side.facts(item.resource.cluster).selected(selector)


def _checkpointing(
    verb: Verb, old: Loaded | None, new: Loaded | None, base: Side, head: Side
) -> Numbers:
    """RAM disk against local checkpoint and node memory; nodes whose RAM disks are touched."""
    lines = [line for line in (_disk_ratio(old, new), _memory_share(old, new)) if line]
    if verb is Verb.CHANGE:
        return Numbers(tuple(line for line in lines if line.old != line.new))
    pools = _pools_of(old, base) or (_pools_of(new, head) if verb is Verb.ADD else ())
    if not pools:
        return Numbers(tuple(lines))
    nodes, chips = sum(pool.nodes for pool in pools), sum(pool.chips for pool in pools)
    machines = ", ".join(sorted({pool.machine_type for pool in pools}))
    text = f"{nodes:,} nodes ({machines}), {chips:,} chips"
    lines.append(Derived("nodes", "spec.nodeSelector", text, None, nodes, "nodes"))
    return Numbers(tuple(lines), nodes, chips, pools)


def _ratio(item: Loaded | None) -> Decimal | None:
    if item is None:
        return None
    size = _quantity(dig(item.body, "spec", "inMemoryVolumeSize"))
    local = _quantity(item.annotation(f"{_PREFIX}local-checkpoint-size"))
    return size / local if size is not None and local else None


def _disk_ratio(old: Loaded | None, new: Loaded | None) -> Derived | None:
    before, after = _ratio(old), _ratio(new)
    shown = old if after is None else new
    if shown is None or (before is None and after is None):
        return None
    local = shown.annotation(f"{_PREFIX}local-checkpoint-size")
    values = _arrow(
        f"{_number(before)}×" if before is not None else None,
        f"{_number(after)}×" if after is not None else None,
    )
    need = RAM_DISK_NEED.get(shown.annotation(f"{_PREFIX}accelerator"))
    if shown.annotation(f"{_PREFIX}accelerator") == "gpu" and (
        shown.annotation(f"{_PREFIX}peers") != "1"
    ):
        need = None
    verdict = ""
    short = need is not None and after is not None and after < need
    if need is not None:
        verdict = f", {'LESS THAN the' if short else 'at least'} {need}× needed"
    return Derived(
        "ramdisk-ratio",
        "spec.inMemoryVolumeSize",
        f"{values} of a {local} local checkpoint{verdict}",
        None if before is None else round(float(before), 4),
        None if after is None else round(float(after), 4),
        "ratio",
        short and before != after,
    )


def _memory_share(old: Loaded | None, new: Loaded | None) -> Derived | None:
    """The RAM disk and the largest pod beside it, against what the node can give."""

    def share(item: Loaded | None) -> Decimal | None:
        if item is None:
            return None
        size = _quantity(dig(item.body, "spec", "inMemoryVolumeSize"))
        room = _quantity(item.annotation(f"{_PREFIX}node-allocatable-memory"))
        pod = _quantity(item.annotation(f"{_PREFIX}pod-memory")) or Decimal(0)
        return (size + pod) / room * 100 if size is not None and room else None

    before, after = share(old), share(new)
    shown = old if after is None else new
    if shown is None or (before is None and after is None):
        return None
    room = shown.annotation(f"{_PREFIX}node-allocatable-memory")
    pod = shown.annotation(f"{_PREFIX}pod-memory")
    values = _arrow(
        f"{_number(before, 0)} %" if before is not None else None,
        f"{_number(after, 0)} %" if after is not None else None,
    )
    has_pod = _quantity(pod) is not None
    beside = f"RAM disk + {pod} of the largest pod" if has_pod else "the RAM disk alone"
    exceeded = after is not None and after > 100
    over = ", MORE THAN the node has" if exceeded else ""
    return Derived(
        "node-memory",
        "spec.inMemoryVolumeSize",
        f"{beside}: {values} of {room} allocatable{over}",
        None if before is None else round(float(before), 2),
        None if after is None else round(float(after), 2),
        "percent",
        exceeded and before != after,
    )


Quotas = dict[tuple[str, str], Decimal]
"""(flavor, resource) → nominal quota."""


def _quotas(body: Any) -> Quotas:
    found: Quotas = {}
    for group in entries(body, "spec", "resourceGroups"):
        for flavor in entries(group, "flavors"):
            for resource in entries(flavor, "resources"):
                amount = _quantity(dig(resource, "nominalQuota"))
                if amount is not None:
                    found[(str(dig(flavor, "name")), str(dig(resource, "name")))] = amount
    return found


def _cluster_queue(
    verb: Verb, old: Loaded | None, new: Loaded | None, base: Side, head: Side
) -> Numbers:
    """Quota of accelerators, of this queue and of all queues, against the nodes' capacity."""
    before = _quotas(old.body) if old else {}
    after = _quotas(new.body) if new else {}
    shown = new or old
    if shown is None:
        return Numbers()
    side = head if new else base
    cluster = shown.resource.cluster
    facts = side.facts(cluster)
    accelerators = {pool.resource for pool in facts.pools if pool.resource}
    changed = [
        key
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key) and key[1] in accelerators
    ]
    if not changed:
        return Numbers()
    flavors = {
        item.resource.name: mapping(item.body, "spec", "nodeLabels")
        for item in side.objects(cluster, ("ResourceFlavor",))
    }
    total: Quotas = {}
    for queue in side.objects(cluster, ("ClusterQueue", "Cohort")):
        for key, amount in _quotas(queue.body).items():
            total[key] = total.get(key, Decimal(0)) + amount
    lines = []
    for flavor, resource in changed:
        capacity = _capacity(facts, flavors.get(flavor), resource)
        if capacity is None:
            continue
        lines.append(_quota_line(flavor, resource, before, after, total, capacity))
    return Numbers(tuple(lines))


def _capacity(facts: ClusterFacts, labels: dict[str, Any] | None, resource: str) -> int | None:
    pools = [pool for pool in facts.selected(labels or {}) if pool.resource == resource]
    return sum(pool.chips for pool in pools) if pools else None


def _quota_line(
    flavor: str, resource: str, before: Quotas, after: Quotas, total: Quotas, capacity: int
) -> Derived:
    key = (flavor, resource)
    old, new = before.get(key, Decimal(0)), after.get(key, Decimal(0))
    everyone = total.get(key, Decimal(0))
    over = f", {_number(everyone - capacity)} MORE THAN there are" if everyone > capacity else ""
    return Derived(
        "quota-capacity",
        f"spec.resourceGroups.flavors[{flavor}].resources[{resource}].nominalQuota",
        f"{capacity:,} on the nodes of {flavor}; all queues together {_number(everyone)}{over}",
        float(old),
        float(new),
        resource,
        everyone > capacity and new > old,
    )


def _jobset(verb: Verb, old: Loaded | None, new: Loaded | None, base: Side, head: Side) -> Numbers:
    """Pods and chips of the run; what stops is the old one."""
    before = _job_size(old.body) if old else None
    after = _job_size(new.body) if new else None
    if before is None and after is None:
        return Numbers()
    pods = _arrow(*(f"{size[0]:,}" if size else None for size in (before, after)))
    chips = _arrow(*(f"{size[1]:,}" if size else None for size in (before, after)))
    stops = before or after or (0, 0)
    lines: tuple[Derived, ...] = ()
    if before != after or verb is not Verb.CHANGE:
        lines = (
            Derived(
                "job-size",
                "",
                f"{pods} pods, {chips} chips",
                float(before[1]) if before else None,
                float(after[1]) if after else None,
                "chips",
            ),
        )
    if verb is Verb.REPLACE and old is not None and new is not None:
        lines += _endangered(old, new, base, head)
    return Numbers(lines, stops[0], stops[1])


def _endangered(old: Loaded, new: Loaded, base: Side, head: Side) -> tuple[Derived, ...]:
    """Jobs of lower priority that the new run's pods may evict while the old ones end."""
    names = preemption.endangered(old, new, base, head)
    if not names:
        return ()
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    text = f"while its old pods end, the new ones may evict those of {shown} (lower priority)"
    return (Derived("may-evict", "", text, None, len(names), "JobSets"),)


def _job_size(body: Any) -> tuple[int, int] | None:
    """Return pods and accelerators that a JobSet asks for, None where it does not say."""
    pods = chips = 0
    for job in entries(body, "spec", "replicatedJobs"):
        spec = dig(job, "template", "spec")
        replicas = dig(job, "replicas")
        parallelism = dig(spec, "parallelism")
        count = (1 if replicas is None else _whole(replicas)) * (
            1 if parallelism is None else _whole(parallelism)
        )
        pods += count
        for container in entries(spec, "template", "spec", "containers"):
            wanted = mapping(container, "resources", "limits")
            wanted = wanted or mapping(container, "resources", "requests")
            for name, amount in wanted.items():
                if name in ("google.com/tpu", "nvidia.com/gpu"):
                    chips += count * max(int(_quantity(amount) or 0), 0)
    return (pods, chips) if pods else None


def _whole(value: Any) -> int:
    """A count; nothing for what is none."""
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0


def _priority_class(
    verb: Verb, old: Loaded | None, new: Loaded | None, base: Side, head: Side
) -> Numbers:
    """How many JobSets of the head still name a class that goes or changes."""
    if old is None:
        return Numbers()
    name = old.resource.name
    jobs = head.objects(old.resource.cluster, ("JobSet",))
    users = [job.resource.full_name for job in jobs if name in _classes_named(job)]
    shown = ", ".join(users[:3]) + (", …" if len(users) > 3 else "")
    text = f"named by {len(users)} JobSet{'' if len(users) == 1 else 's'} of the head"
    return Numbers(
        (Derived("references", "", f"{text}: {shown}" if users else text, None, len(users),
                 "JobSets"),)
    )  # fmt: skip


def _cluster(verb: Verb, old: Loaded | None, new: Loaded | None, base: Side, head: Side) -> Numbers:
    """Nodes and chips of the cluster, before and after."""
    before = facts_from(old.body).pools if old else ()
    after = facts_from(new.body).pools if new else ()
    sizes = [
        (sum(pool.nodes for pool in pools), sum(pool.chips for pool in pools))
        for pools in (before, after)
    ]
    if sizes[0] == sizes[1]:
        return Numbers()
    nodes = _arrow(*(f"{size[0]:,}" if size[0] else None for size in sizes))
    chips = _arrow(*(f"{size[1]:,}" if size[1] else None for size in sizes))
    line = Derived(
        "cluster-size",
        "",
        f"{nodes} nodes, {chips} chips in all pools",
        float(sizes[0][1]) if old else None,
        float(sizes[1][1]) if new else None,
        "chips",
    )
    return Numbers((line,))


def _classes_named(job: Loaded) -> set[str]:
    labels = job.metadata.get("labels")
    found = [dig(labels, "kueue.x-k8s.io/priority-class")]
    for entry in entries(job.body, "spec", "replicatedJobs"):
        found.append(dig(entry, "template", "spec", "template", "spec", "priorityClassName"))
    return {name for name in found if isinstance(name, str)}


NEEDS: dict[str, tuple[str, ...]] = {
    "CheckpointConfiguration": ("Cluster",),
    "ClusterQueue": ("Cluster", "ResourceFlavor", "ClusterQueue", "Cohort"),
    "ResourceFlavor": ("Cluster",),
    "JobSet": preemption.NEEDS,
    "PriorityClass": ("JobSet",),
    "WorkloadPriorityClass": ("JobSet",),
}
"""Kind → the kinds of the same cluster that its numbers and rules look at."""

_KINDS = {
    ("stowplan.dev", "Cluster"): _cluster,
    ("checkpointing.gke.io", "CheckpointConfiguration"): _checkpointing,
    ("kueue.x-k8s.io", "ClusterQueue"): _cluster_queue,
    ("jobset.x-k8s.io", "JobSet"): _jobset,
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): _priority_class,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
}
