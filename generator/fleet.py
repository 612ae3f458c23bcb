"""One cluster with everything looked up: machines, slices, capacity, RAM disks.

Between the inventory's words and the builders: what the catalog and arithmetic add, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from schemas.catalog import (
    ACCELERATOR_LABELS,
    MACHINE_LABEL,
    SPOT_LABEL,
    TOPOLOGY_LABEL,
    Accelerator,
    Machine,
    chips,
    machines,
    whole,
)
from schemas.inventory import Parameters
from schemas.inventory.base import Taint
from schemas.inventory.checkpointing import Checkpointing
from schemas.inventory.cluster import HandMachine, NodePool
from schemas.quantity import GIB, parse_quantity
from schemas.sizing import Factor, factor, local_checkpoint, ram_disk_gib


@dataclass(frozen=True)
class Pool:
    """A node pool of the inventory with its machine's facts.

    Attributes:
        name: the inventory's name.
        spec: what the user said.
        machine: what the catalog (or the user, by hand) says of its machine type.
        slices: TPU slices, 1 for anything else.
        nodes: nodes in all.
    """

    name: str
    spec: NodePool
    machine: Machine
    slices: int
    nodes: int

    @cached_property
    def accelerator(self) -> Accelerator | None:
        """What each node carries."""
        return self.machine.accelerator

    @cached_property
    def is_tpu(self) -> bool:
        """Whether it is made of TPU slices."""
        return self.accelerator is not None and self.accelerator.type == "tpu"

    @cached_property
    def nodes_per_slice(self) -> int:
        """Nodes of one TPU slice; all nodes of any other pool."""
        return self.nodes // self.slices

    @cached_property
    def is_multi_host(self) -> bool:
        """Whether a TPU slice spans several nodes, which GKE makes a node pool of its own."""
        return self.is_tpu and self.nodes_per_slice > 1

    @cached_property
    def gke_pools(self) -> tuple[str, ...]:
        """The node pools as GKE has them: one a slice for multi-host TPU, else one."""
        if self.is_multi_host:
            return tuple(f"{self.name}-{index}" for index in range(self.slices))
        return (self.name,)

    @cached_property
    def selector(self) -> dict[str, str]:
        """The labels that workloads and flavors select it by, in sorted order."""
        labels = {key: self.spec.labels[key] for key in self.spec.select_by}
        if self.accelerator is None:
            labels[MACHINE_LABEL] = self.machine.name
        else:
            labels[ACCELERATOR_LABELS[self.accelerator.type]] = self.accelerator.name
        if self.spec.topology is not None:
            labels[TOPOLOGY_LABEL] = self.spec.topology
            if _is_ambiguous(self.machine, self.spec.topology):
                labels[MACHINE_LABEL] = self.machine.name
        if self.spec.spot:
            labels[SPOT_LABEL] = "true"
        return dict(sorted(labels.items()))

    @cached_property
    def labels(self) -> dict[str, str]:
        """Every label of its nodes that is known here, in sorted order."""
        return dict(
            sorted({**self.selector, **self.spec.labels, MACHINE_LABEL: self.machine.name}.items())
        )

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """Its nodes' taints: GKE's own for the accelerator, then the user's."""
        own: list[Taint] = []
        if self.accelerator is not None:
            own.append(Taint(key=self.accelerator.resource, value="present", effect="NoSchedule"))
        if self.machine.architecture == "arm64":
            own.append(Taint(key="kubernetes.io/arch", value="arm64", effect="NoSchedule"))
        return (*own, *self.spec.taints)

    @property
    def accelerators(self) -> int:
        """Chips or GPUs in all."""
        return self.nodes * self.accelerator.per_node if self.accelerator else 0


def _is_ambiguous(machine: Machine, topology: str) -> bool:
    """Whether two machine types of one accelerator have this topology (2x4: one 8t or two 4t)."""
    return any(
        other.name != machine.name
        and other.accelerator is not None
        and machine.accelerator is not None
        and other.accelerator.name == machine.accelerator.name
        and topology in other.topologies
        for other in machines().values()
    )


@dataclass(frozen=True)
class RamDisk:
    """The RAM disks of one checkpointing configuration.

    Attributes:
        name: the configuration's name.
        spec: what the user said.
        pool: the pool that it serves.
        checkpoint: bytes that one node saves, None where only the RAM disk's size was given.
        factor: least RAM disk per byte of checkpoint.
        size: ``inMemoryVolumeSize`` as it is written.
        selector: the labels of the nodes that have it, in sorted order.
    """

    name: str
    spec: Checkpointing
    pool: Pool
    checkpoint: Decimal | None
    factor: Factor
    size: str
    selector: dict[str, str]

    @property
    def bytes(self) -> Decimal:
        """The RAM disk's size in bytes."""
        return parse_quantity(self.size)

    @property
    def self_hosted(self) -> bool:
        """Whether this project's replicator serves it, not GKE's driver."""
        return self.spec.agent is not None

    @property
    def node_bytes(self) -> Decimal:
        """What it takes of a node's memory: the RAM disk, and the agent where there is one."""
        agent = self.spec.agent
        return self.bytes + (parse_quantity(agent.memory) if agent else 0)

    @property
    def node_cpu(self) -> Decimal:
        """What it takes of a node's cores: the agent's, where there is one."""
        agent = self.spec.agent
        return parse_quantity(agent.cpu) if agent else Decimal(0)

    @property
    def required_gib(self) -> int | None:
        """The least size in GiB, None where the checkpoint's size is unknown."""
        if self.checkpoint is None:
            return None
        return ram_disk_gib(self.checkpoint, self.factor.value)


@dataclass(frozen=True)
class Fleet:
    """A cluster, resolved."""

    spec: Parameters
    pools: dict[str, Pool]
    ram_disks: dict[str, RamDisk]
    kueue_api: str
    jobset_minor: tuple[int, ...]

    @cached_property
    def ram_disk_of_pool(self) -> dict[str, RamDisk]:
        """Pool name → the RAM disk on its nodes, also where another pool is named whose nodes
        have the same labels."""
        return {
            name: disk
            for disk in self.ram_disks.values()
            for name, pool in self.pools.items()
            if disk.selector.items() <= pool.labels.items()
        }

    def capacity(self, pool: Pool, resource: str, slices: int | None = None) -> Decimal:
        """What a pool (or some of its slices or nodes) has of a resource for workloads.

        Memory leaves out the RAM disks, and both leave out what a self-hosted agent asks for: Kueue
        knows of neither. cpu and memory are rounded down to whole cores and GiB a node.
        """
        nodes = pool.nodes if slices is None else slices * self._unit(pool)
        if pool.accelerator is not None and resource == pool.accelerator.resource:
            return Decimal(nodes * pool.accelerator.per_node)
        disk = self.ram_disk_of_pool.get(pool.name)
        if resource == "cpu":
            cores = pool.machine.allocatable_cpu - (disk.node_cpu if disk else 0)
            return max(Decimal(0), Decimal(nodes * whole(cores)))
        if resource == "memory":
            free = pool.machine.allocatable_memory - (disk.node_bytes if disk else 0)
            return max(Decimal(0), nodes * whole(free / GIB) * GIB)
        return Decimal(0)

    def units(self, pool: Pool) -> int:
        """What a share of the pool is counted in: slices for TPU, nodes for the rest."""
        return pool.slices if pool.is_tpu else pool.nodes

    def _unit(self, pool: Pool) -> int:
        return pool.nodes_per_slice if pool.is_tpu else 1


def machine_of(pool: NodePool) -> Machine | None:
    """The facts of a pool's machine type: given by hand, or from the catalog, or None."""
    if pool.machine is not None:
        return _by_hand(pool.machine_type, pool.machine)
    return machines().get(pool.machine_type)


def _by_hand(name: str, machine: HandMachine) -> Machine:
    accelerator = machine.accelerator
    return Machine(
        name=name,
        accelerator=Accelerator(accelerator.type, accelerator.name, accelerator.per_node)
        if accelerator
        else None,
        vcpus=machine.vcpus,
        memory=parse_quantity(machine.memory),
        topologies=machine.topologies,
    )


def resolve_pool(name: str, spec: NodePool) -> Pool | None:
    """Look a node pool up; None where its machine or topology is unknown (a check says so)."""
    machine = machine_of(spec)
    if machine is None:
        return None
    if machine.accelerator is not None and machine.accelerator.type == "tpu":
        if spec.topology is None or spec.slices is None:
            return None
        try:
            per_slice = machine.nodes_per_slice(spec.topology)
        except ValueError:
            return None
        if chips(spec.topology) < 1:
            return None
        return Pool(name, spec, machine, spec.slices, spec.slices * per_slice)
    if spec.nodes is None:
        return None
    return Pool(name, spec, machine, 1, spec.nodes)


def checkpoint_bytes(spec: Checkpointing) -> Decimal | None:
    """Bytes that one node saves, given or from the model; None where neither was said."""
    if spec.local_checkpoint_size is not None:
        return parse_quantity(spec.local_checkpoint_size)
    if spec.model is not None:
        model = spec.model
        return local_checkpoint(
            model.parameters, model.bytes_per_parameter, model.nodes_per_replica
        )
    return None


def resolve_ram_disk(
    name: str, spec: Checkpointing, pools: dict[str, Pool], used: Iterable[str] = ()
) -> RamDisk | None:
    """Size one configuration; None where its pool is unknown or has no accelerator.

    Args:
        name: the configuration's name.
        spec: what the user said.
        pools: the cluster's pools.
        used: names of the pools that jobs of the configuration run on.
    """
    pool = pools.get(spec.node_pool)
    if pool is None or pool.accelerator is None:
        return None
    times = factor(pool.accelerator.type, spec.peers)
    checkpoint = checkpoint_bytes(spec)
    size = spec.in_memory_volume_size
    if size is None:
        assert checkpoint is not None  # the model requires one of the three
        size = f"{ram_disk_gib(checkpoint, times.value)}Gi"
    others = [pools[other] for other in used if other in pools]
    return RamDisk(name, spec, pool, checkpoint, times, size, _nodes_of(spec, pool, others))


def _nodes_of(spec: Checkpointing, pool: Pool, others: list[Pool]) -> dict[str, str]:
    """The labels of the nodes that have a RAM disk.

    GKE's driver is selected by machine type alone: it is made anew, and every RAM disk with it,
    when its selector changes. Agents keep to their own pool where ``selectBy`` tells it apart, so
    that other pools of the machine type keep their memory, unless their jobs run there as well.
    """
    labels: dict[str, str] = {}
    if spec.agent is not None:
        own = {key: pool.spec.labels[key] for key in pool.spec.select_by}
        labels |= {k: v for k, v in own.items() if all(p.labels.get(k) == v for p in others)}
    return dict(sorted({**labels, MACHINE_LABEL: pool.machine.name}.items()))
