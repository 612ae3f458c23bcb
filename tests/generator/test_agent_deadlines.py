"""A cap on bandwidth that no copy can meet its deadline with (INV076)."""

from __future__ import annotations

import pytest

from generator.self_hosted import ROUND_SECONDS, TRANSFER_SECONDS
from replicator.core.model import Timing
from tests.conftest import Fleet
from tests.generator.self_hosted_cases import AGENT, GIVEN, RETENTION

POOLS = {
    "tpu-v6e-docs": "classes/pools/v6e-4x4.yml",
    "gpu-h100-prod": "classes/pools/h100-mega.yml",
}


def compile_with(fleet: Fleet, cluster: str, more: str) -> list[str]:
    """The findings about deadlines, with the example's checkpoints (19.56Gi on TPU, 97.79Gi on GPU)."""
    fleet.edit(POOLS[cluster], GIVEN, AGENT + more + RETENTION)
    answer = fleet.compile("-t", cluster)
    found = [line for line in answer.err.splitlines() if "INV076" in line]
    assert answer.code == (1 if found else 0), answer.err
    return found


def test_the_deadlines_are_those_of_the_agent() -> None:
    assert (Timing().round, Timing().transfer) == (ROUND_SECONDS, TRANSFER_SECONDS)


@pytest.mark.parametrize(
    ("cluster", "bandwidth", "expected"),
    [
        ("gpu-h100-prod", "167Mi", []),
        ("gpu-h100-prod", "166Mi", ["604 s, but are given up after 600 s: no step"]),
        ("tpu-v6e-docs", "12Mi", []),
        ("tpu-v6e-docs", "11Mi", ["1821 s, but are given up after 1800 s: no lost node"]),
        ("gpu-h100-prod", "1Mi", ["100136 s, but are given up after 600 s", "after 1800 s"]),
    ],
)
def test_what_a_capped_network_cannot_move_in_time(
    fleet: Fleet, cluster: str, bandwidth: str, expected: list[str]
) -> None:
    found = compile_with(fleet, cluster, f"        bandwidth: {bandwidth}\n")
    assert len(found) == len(expected)
    for line, words in zip(found, expected, strict=True):
        assert words in line
        assert f"{POOLS[cluster]}:" in line


def test_a_longer_deadline_is_the_other_remedy(fleet: Fleet) -> None:
    more = "        bandwidth: 1Mi\n        timeouts: {round: 100136, transfer: 100136}\n"
    assert compile_with(fleet, "gpu-h100-prod", more) == []


def test_every_peer_gets_a_copy(fleet: Fleet) -> None:
    fleet.edit(POOLS["gpu-h100-prod"], "peers: 1", "peers: 2")
    (line,) = compile_with(fleet, "gpu-h100-prod", "        bandwidth: 110Mi\n")
    assert "a step's copies of 195.6Gi take 1821 s" in line
