"""Node pools: from the cluster's facts, from options, or worked out from what asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from generator.fleet import Pool, resolve_pool
from generator.importing.options import Options
from generator.importing.sources import Log, Source, by_kind, entries, mapping
from schemas.catalog import (
    ACCELERATOR_LABELS,
    MACHINE_LABEL,
    RESOURCE_NAMES,
    SPOT_LABEL,
    TOPOLOGY_LABEL,
    Machine,
    chips,
    machines,
    topology_problem,
)
from schemas.inventory.cluster import NodePool
from schemas.quantity import QuantityError, parse_quantity

KNOWN_LABELS = frozenset({*ACCELERATOR_LABELS.values(), TOPOLOGY_LABEL, MACHINE_LABEL, SPOT_LABEL})
_NAME_NOISE = ("-podslice", "-slice")


@dataclass(frozen=True)
class Demand:
    """Nodes that an object asks for.

    Attributes:
        source: the object.
        labels: the node labels that it selects by.
        per_pod: accelerators that one pod takes, 0 where it does not say.
    """

    source: Source
    labels: dict[str, str]
    per_pod: int

    @property
    def accelerator(self) -> tuple[str, str] | None:
        """Type and name of the accelerator, None where none is selected."""
        for kind, label in ACCELERATOR_LABELS.items():
            if label in self.labels:
                return kind, self.labels[label]
        return None


class Pools:
    """The cluster's node pools as the inventory will have them."""

    def __init__(self) -> None:
        self.specs: dict[str, dict[str, Any]] = {}
        self.resolved: dict[str, Pool] = {}

    def add(self, name: str, spec: dict[str, Any]) -> None:
        """Take a pool in; one whose machine is unknown stays unresolved (compile says why)."""
        self.specs[name] = spec
        try:
            pool = resolve_pool(name, NodePool.model_validate(spec))
        except ValidationError:
            return
        if pool is not None:
            self.resolved[name] = pool

    def find(self, labels: dict[str, str]) -> Pool | None:
        """The pool that labels select: all of those that it knows match, the closest one wins."""
        if not KNOWN_LABELS & labels.keys():
            return None
        fitting = [
            pool
            for pool in self.resolved.values()
            if all(
                pool.labels.get(key) == value
                for key, value in labels.items()
                if key in KNOWN_LABELS or key in pool.labels
            )
        ]
        exact = [pool for pool in fitting if pool.selector == labels]
        if exact:
            return exact[0]
        fitting.sort(key=lambda pool: len(pool.selector.keys() - labels.keys()))
        return fitting[0] if fitting else None

    def only(self, labels: dict[str, str]) -> Pool | None:
        """The pool that labels select, None where they select several."""
        found = [p for p in self.resolved.values() if labels.items() <= p.labels.items()]
        return found[0] if len(found) == 1 else None

    def on_machine(self, machine: str) -> Pool | None:
        """The first pool of a machine type."""
        return next((p for p in self.resolved.values() if p.machine.name == machine), None)


def node_labels(value: Any) -> dict[str, str]:
    """A selector as texts."""
    return {str(key): str(item) for key, item in mapping(value).items()}


def pod_spec(job: dict[str, Any]) -> dict[str, Any]:
    """The pod spec of a replicated job."""
    template = mapping(mapping(mapping(job.get("template")).get("spec")).get("template"))
    return mapping(template.get("spec"))


def main_container(pod: dict[str, Any]) -> dict[str, Any]:
    """The container that trains: the first that asks for accelerators, else the first."""
    containers = entries(pod.get("containers"))
    asking = [c for c in containers if accelerators(c)]
    return (asking or containers or [{}])[0]


def accelerators(container: dict[str, Any]) -> int:
    """How many chips or GPUs a container asks for."""
    resources = mapping(container.get("resources"))
    for part in ("limits", "requests"):
        for name in RESOURCE_NAMES.values():
            value = mapping(resources.get(part)).get(name)
            if value is not None:
                return int(amount(value))
    return 0


def amount(value: Any) -> Decimal:
    """A quantity's value; 0 for what is none."""
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return Decimal(0)


def from_facts(
    facts: dict[str, Any], flavors: list[Source]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pools that ``cluster.yaml`` lists."""
    for row in entries(mapping(facts.get("spec")).get("nodePools")):
        spec: dict[str, Any] = {"machineType": row["machineType"]}
        if row["machineType"] not in machines():
            spec["machine"] = _by_hand(row)
        tpu = mapping(row.get("accelerator")).get("type") == "tpu"
        if tpu:
            spec |= {"topology": row.get("topology"), "slices": row.get("slices")}
        else:
            spec["nodes"] = row.get("nodes")
        if row.get("spot"):
            spec["spot"] = True
        pool = resolve_pool(row["name"], NodePool.model_validate(spec))
        labels = node_labels(row.get("labels"))
        if pool is not None:
            more = {k: v for k, v in labels.items() if k not in pool.labels}
            if more:
                spec["labels"] = more
            taken = {(t.key, t.effect) for t in pool.taints}
            taints = [
                t
                for t in entries(row.get("taints"))
                if (t.get("key"), t.get("effect")) not in taken
            ]
            if taints:
                spec["taints"] = taints
            selected = _selected_by(more, labels, flavors)
            if selected:
                spec["selectBy"] = selected
        yield str(row["name"]), spec


def _by_hand(row: dict[str, Any]) -> dict[str, Any]:
    machine: dict[str, Any] = {}
    accelerator = mapping(row.get("accelerator"))
    if accelerator:
        machine["accelerator"] = {k: accelerator[k] for k in ("type", "name", "perNode")}
    machine |= {"vcpus": int(row["cpu"]), "memory": row["memory"]}
    if row.get("topology"):
        machine["topologies"] = [row["topology"]]
    return machine


def _selected_by(more: dict[str, str], labels: dict[str, str], flavors: list[Source]) -> list[str]:
    """Keys of a pool's own labels that a flavor of it selects by."""
    used: set[str] = set()
    for flavor in flavors:
        wanted = node_labels(flavor.spec.get("nodeLabels"))
        if wanted.items() <= labels.items():
            used |= wanted.keys() & more.keys()
    return sorted(used)


def demands(sources: list[Source]) -> list[Demand]:
    """What JobSets, flavors and checkpoint configurations say of nodes, the plainest first."""
    found: list[Demand] = []
    for source in by_kind(sources, "JobSet"):
        for job in entries(source.spec.get("replicatedJobs")):
            pod = pod_spec(job)
            count = accelerators(main_container(pod))
            found.append(Demand(source, node_labels(pod.get("nodeSelector")), count))
    for source in by_kind(sources, "ResourceFlavor"):
        found.append(Demand(source, node_labels(source.spec.get("nodeLabels")), 0))
    return found


def work_out(pools: Pools, sources: list[Source], options: Options, log: Log) -> None:
    """Add the pools that objects ask for and nobody named, with a word about each."""
    for name, spec in options.node_pools.items():
        pools.add(name, spec)
    for demand in demands(sources):
        accelerator = demand.accelerator
        if accelerator is None or pools.find(demand.labels) is not None:
            continue
        topology = demand.labels.get(TOPOLOGY_LABEL)
        if accelerator[0] == "tpu" and topology is None:
            if demand.source.kind == "JobSet":
                log.missing(
                    f"its nodeSelector has no {TOPOLOGY_LABEL}, so which slices it runs on is not "
                    "to be known",
                    "add it; slices that are cut to size while a job runs (dynamic slicing) have "
                    "no place in the inventory",
                    demand.source,
                    ("spec", "replicatedJobs"),
                )
            continue
        _derive(pools, demand, accelerator, topology, sources, log)


def _derive(
    pools: Pools,
    demand: Demand,
    accelerator: tuple[str, str],
    topology: str | None,
    sources: list[Source],
    log: Log,
) -> None:
    kind, label = accelerator
    name = _pool_name(pools, label, topology)
    candidates = _machines(label, topology, demand)
    shape = f"{topology}:SLICES" if topology else "NODES"
    if len(candidates) != 1:
        known = ", ".join(m.name for m in candidates) or "none of the catalog"
        log.missing(
            f"which machine type has {label}{f' {topology}' if topology else ''} is not to be "
            f"known: {known}",
            f"add --node-pool {name}=MACHINE:{shape}",
            demand.source,
        )
        return
    machine = candidates[0]
    unit = chips(topology) if topology else _per_node(machine)
    count, said = _count(demand.labels, kind, unit, sources)
    if count is None:
        log.missing(
            f"how many {'slices' if topology else 'nodes'} of {machine.name} there are is not to "
            f"be known{said}",
            f"add --node-pool {name}={machine.name}:{shape}",
            demand.source,
        )
        return
    spec: dict[str, Any] = {"machineType": machine.name}
    spec |= {"topology": topology, "slices": count} if topology else {"nodes": count}
    if demand.labels.get(SPOT_LABEL) == "true":
        spec["spot"] = True
    pools.add(name, spec)
    what = f"{count} slices of {topology}" if topology else f"{count} nodes"
    log.derived(
        f"node pool {name}: {machine.name} by its labels, {what} by the quotas{said}",
        f"if it is larger, --node-pool {name}={machine.name}:{shape}",
        demand.source,
    )


def _pool_name(pools: Pools, label: str, topology: str | None) -> str:
    name = label.removeprefix("tpu-").removeprefix("nvidia-")
    for noise in _NAME_NOISE:
        name = name.removesuffix(noise)
    if name in pools.specs and topology:
        name = f"{name}-{topology}"
    while name in pools.specs:
        name += "-more"
    return name


def _per_node(machine: Machine) -> int:
    return machine.accelerator.per_node if machine.accelerator else 1


def _machines(label: str, topology: str | None, demand: Demand) -> list[Machine]:
    """The machine types that nodes with these labels can be of."""
    wanted = demand.labels.get(MACHINE_LABEL)
    fitting = [
        machine
        for machine in machines().values()
        if machine.accelerator is not None
        and machine.accelerator.name == label
        and (wanted is None or machine.name == wanted)
        and (topology is None or topology_problem(machine, topology) is None)
    ]
    if len(fitting) > 1 and demand.per_pod:
        fitting = [m for m in fitting if _per_node(m) == demand.per_pod] or fitting
    return fitting


def _count(
    labels: dict[str, str], kind: str, unit: int, sources: list[Source]
) -> tuple[int | None, str]:
    """Slices (TPU) or nodes (GPU) that the quotas of fitting flavors add up to."""
    fitting = {
        flavor.name
        for flavor in by_kind(sources, "ResourceFlavor")
        if flavor.spec.get("nodeLabels")
        and node_labels(flavor.spec["nodeLabels"]).items() <= labels.items()
    }
    total, named = Decimal(0), []
    for queue in by_kind(sources, "ClusterQueue"):
        for group in entries(queue.spec.get("resourceGroups")):
            for flavor_quota in entries(group.get("flavors")):
                if flavor_quota.get("name") not in fitting:
                    continue
                for resource in entries(flavor_quota.get("resources")):
                    if resource.get("name") == RESOURCE_NAMES[kind]:  # type: ignore[index]
                        total += amount(resource.get("nominalQuota"))
                        named.append(queue.name)
    if not total:
        return None, ": no quota speaks of them"
    shown = f" ({total} in {', '.join(dict.fromkeys(named))})"
    if total % unit:
        return None, f": the quotas{shown} are no whole number of {unit}"
    return int(total // unit), shown
