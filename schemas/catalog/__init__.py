"""What accelerators and machine types are, as data with a source per row.

The table is ``machines.yaml`` in this folder. A machine that is not in it can be described in full
in the inventory (``nodePools.<name>.machine``).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Literal

import yaml

from schemas.quantity import GIB

AcceleratorType = Literal["tpu", "gpu"]

RESOURCE_NAMES: dict[AcceleratorType, str] = {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}
"""The extended resource that a pod asks for, which is also the key of the nodes' taint."""

ACCELERATOR_LABELS: dict[AcceleratorType, str] = {
    "tpu": "cloud.google.com/gke-tpu-accelerator",
    "gpu": "cloud.google.com/gke-accelerator",
}
TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-topology"
MACHINE_LABEL = "node.kubernetes.io/instance-type"
SPOT_LABEL = "cloud.google.com/gke-spot"
NODE_POOL_LABEL = "cloud.google.com/gke-nodepool"

# GKE documentation, "Plan node sizes": kubelet, OS and eviction reservations.
_MEMORY_BRACKETS_GIB = ((4, "0.25"), (4, "0.20"), (8, "0.10"), (112, "0.06"))
_MEMORY_REST = Decimal("0.02")
_EVICTION_BYTES = 100 * 2**20
_CPU_BRACKETS = ((1, "0.06"), (1, "0.01"), (2, "0.005"))
_CPU_REST = Decimal("0.0025")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What a node carries.

    Attributes:
        type: ``tpu`` or ``gpu``.
        name: the value of GKE's accelerator label.
        per_node: chips or GPUs on one node.
    """

    type: AcceleratorType
    name: str
    per_node: int

    @property
    def resource(self) -> str:
        """The extended resource that pods ask for."""
        return RESOURCE_NAMES[self.type]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine type.

    Attributes:
        name: the Compute Engine machine type.
        accelerator: None for a machine without one.
        vcpus: virtual CPUs of the machine.
        memory: bytes of the machine's memory.
        topologies: slice shapes by name, empty for GPUs and CPUs.
        cube: sides beyond the list may be multiples of this, 0 for none.
        max_chips: the largest slice that the cube rule allows.
        architecture: ``amd64`` or ``arm64``.
        workload_policy: a multi-host slice is placed by a workload policy, not by a topology.
    """

    name: str
    accelerator: Accelerator | None
    vcpus: int
    memory: Decimal
    topologies: tuple[str, ...] = ()
    cube: int = 0
    max_chips: int = 0
    architecture: str = "amd64"
    workload_policy: bool = False

    @property
    def allocatable_memory(self) -> Decimal:
        """Bytes left for pods and RAM disk after GKE's reservations.

        A quarter of the first 4 GiB, a fifth of the next 4, a tenth of the next 8, 6 % of the next
        112, 2 % of the rest, and 100 MiB for eviction (GKE documentation, "Plan node sizes").
        """
        return (
            self.memory
            - _reserved(self.memory / GIB, _MEMORY_BRACKETS_GIB, _MEMORY_REST) * GIB
            - _EVICTION_BYTES
        )

    @property
    def allocatable_cpu(self) -> Decimal:
        """Cores left for pods after GKE's reservations (same page)."""
        cores = Decimal(self.vcpus)
        return cores - _reserved(cores, _CPU_BRACKETS, _CPU_REST)

    def nodes_per_slice(self, topology: str) -> int:
        """How many nodes make one slice of a topology."""
        assert self.accelerator is not None
        return max(1, chips(topology) // self.accelerator.per_node)


@cache
def _reserved(total: Decimal, brackets: tuple[tuple[int, str], ...], rest: Decimal) -> Decimal:
    reserved, left = Decimal(0), total
    for width, share in brackets:
        part = min(left, Decimal(width))
        reserved += part * Decimal(share)
        left -= part
    return reserved + left * rest


def whole(value: Decimal) -> int:
    """Round down to a whole number of units."""
    return int(value.to_integral_value(rounding=ROUND_FLOOR))


def chips(topology: str) -> int:
    """The number of chips of a topology such as ``4x4`` or ``2x2x4``.

    Raises:
        ValueError: the text is no topology.
    """
    return prod(int(side) for side in topology.split("x"))


def topology_problem(machine: Machine, topology: str) -> str | None:
    """Say why a machine type has no such topology, or None. The text names those that it has."""
    if topology in machine.topologies:
        return None
    listed = ", ".join(machine.topologies)
    try:
        sides = [int(side) for side in topology.split("x")]
    except ValueError:
        return f"is no topology; {machine.name} has {listed}"
    if machine.cube and len(sides) == 3 and all(side > 0 for side in sides):
        regular = all(side % machine.cube == 0 for side in sides) and sides == sorted(sides)
        if regular and prod(sides) <= machine.max_chips:
            return None
        return (
            f"is no topology of {machine.name}; it has {listed}, and larger ones whose sides are "
            f"multiples of {machine.cube} in rising order, up to {machine.max_chips} chips"
        )
    return f"is no topology of {machine.name}; it has {listed}"


def _machine(name: str, row: dict[str, Any]) -> Machine:
    accelerator = row.get("accelerator")
    return Machine(
        name=name,
        accelerator=Accelerator(accelerator["type"], accelerator["name"], accelerator["perNode"])
        if accelerator
        else None,
        vcpus=row["vcpus"],
        memory=row["memoryGiB"] * GIB,
        topologies=tuple(row.get("topologies", ())),
        cube=row.get("cube", 0),
        max_chips=row.get("maxChips", 0),
        architecture=row.get("architecture", "amd64"),
        workload_policy=row.get("workloadPolicy", False),
    )


@cache
def _tables() -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (Path(__file__).parent / "machines.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.load(text, Loader=loader)
    return tables


@cache
def machines() -> dict[str, Machine]:
    """All machine types of the catalog by name."""
    return {name: _machine(name, row) for name, row in _tables()["machines"].items()}


@cache
def mistaken_names() -> dict[str, str]:
    """Machine type names that documents print although they do not exist, and the real ones."""
    return {name: row["means"] for name, row in _tables()["mistaken"].items()}
