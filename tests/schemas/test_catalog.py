"""The machine catalog: every row sourced and consistent, GKE's reservations, topologies."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from schemas.catalog import Machine, chips, machines, mistaken_names, topology_problem, whole
from schemas.quantity import GIB

ROWS = yaml.safe_load((Path(__file__).parents[2] / "schemas/catalog/machines.yaml").read_text())[
    "machines"
]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_row_has_a_known_source_and_whole_slices(name: str) -> None:
    row, machine = ROWS[name], machines()[name]
    assert {part.strip() for part in row["source"].split(",")} <= {
        "gke-tpu",
        "gce",
        "xpk",
        "ctk",
        "gke-ironwood",
        "mtc",
    }
    assert machine.accelerator is not None
    for topology in machine.topologies:
        assert chips(topology) % machine.accelerator.per_node == 0
        assert topology_problem(machine, topology) is None
    assert bool(machine.topologies) == (machine.accelerator.type == "tpu")


def test_the_families_that_the_product_promises_are_there() -> None:
    series = {row["series"].split(" (")[0] for row in ROWS.values()}
    assert {"TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "Ironwood"} <= series
    assert {"A3 High", "A3 Mega", "A3 Ultra", "A4"} <= series


def test_names_that_exist_in_documents_only_point_to_real_ones() -> None:
    assert set(mistaken_names()).isdisjoint(machines())
    assert set(mistaken_names().values()) <= set(machines())


@pytest.mark.parametrize(
    ("memory", "allocatable"),
    [
        # 25 % of 4 GiB + 20 % of 4 GiB + 10 % of 8 GiB + 100 MiB (GKE, "Plan node sizes")
        (16, Decimal(16) - 1 - Decimal("0.8") - Decimal("0.8") - Decimal(100) / 1024),
        (4, Decimal(3) - Decimal(100) / 1024),
        (128, Decimal(128) - Decimal("2.6") - Decimal("6.72") - Decimal(100) / 1024),
        (720, Decimal(720) - Decimal("9.32") - Decimal("11.84") - Decimal(100) / 1024),
    ],
)
def test_memory_is_reserved_as_gke_documents(memory: int, allocatable: Decimal) -> None:
    machine = Machine("m", None, 8, memory * GIB)
    assert machine.allocatable_memory / GIB == allocatable


def test_cpu_is_reserved_as_gke_documents() -> None:
    # 6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the rest
    assert Machine("m", None, 8, GIB).allocatable_cpu == Decimal("7.91")
    assert whole(machines()["ct6e-standard-4t"].allocatable_cpu) == 179


@pytest.mark.parametrize(
    ("machine", "topology", "nodes"),
    [
        ("ct6e-standard-4t", "4x4", 4), ("ct6e-standard-8t", "2x4", 1), ("ct6e-standard-4t", "2x4", 2),
        ("ct5p-hightpu-4t", "4x4x4", 16), ("ct5p-hightpu-4t", "2x2x1", 1),
        ("tpu7x-standard-4t", "8x8x8", 128), ("ct5lp-hightpu-1t", "1x1", 1),
    ],
)  # fmt: skip
def test_a_slice_has_its_chips_over_those_of_a_node(
    machine: str, topology: str, nodes: int
) -> None:
    assert topology_problem(machines()[machine], topology) is None
    assert machines()[machine].nodes_per_slice(topology) == nodes


@pytest.mark.parametrize(
    ("machine", "topology"),
    [
        ("ct6e-standard-4t", "4x4x4"), ("ct6e-standard-8t", "4x4"), ("ct5p-hightpu-4t", "4x8x4"),
        ("ct5p-hightpu-4t", "3x3x3"), ("ct5p-hightpu-4t", "4x4"), ("ct5p-hightpu-4t", "32x32x32"),
        ("ct5p-hightpu-4t", "0x0x0"), ("ct6e-standard-4t", "4 x 4"), ("ct6e-standard-4t", ""),
    ],
)  # fmt: skip
def test_a_topology_that_the_machine_does_not_have_is_refused(machine: str, topology: str) -> None:
    problem = topology_problem(machines()[machine], topology)
    assert problem is not None
    assert machines()[machine].topologies[-1] in problem
