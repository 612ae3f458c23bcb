"""RAM disk sizes: the documents' factors, and exact arithmetic."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.quantity import GIB, parse_quantity
from schemas.sizing import factor, local_checkpoint, peers_that_fit, ram_disk_gib


def test_64Gi_needs_141Gi_on_tpu_and_423Gi_on_gpu_with_one_peer() -> None:  # noqa: N802
    checkpoint = parse_quantity("64Gi")
    assert ram_disk_gib(checkpoint, factor("tpu", 1).value) == 141
    assert ram_disk_gib(checkpoint, factor("gpu", 1).value) == 423


def test_only_the_documented_factors_are_not_derived() -> None:
    assert not factor("tpu", 0).derived
    assert not factor("tpu", 3).derived
    assert not factor("gpu", 1).derived
    assert factor("gpu", 0) == factor("gpu", 0).__class__(Decimal("3.3"), derived=True)
    assert factor("gpu", 2).value == Decimal("9.9")


def test_the_factor_on_tpu_does_not_depend_on_peers() -> None:
    assert {factor("tpu", peers).value for peers in range(5)} == {Decimal("2.2")}


@given(st.integers(1, 2**44), st.sampled_from(["2.2", "3.3", "6.6", "9.9"]))
def test_the_size_is_the_least_whole_GiB_that_suffices(checkpoint: int, times: str) -> None:  # noqa: N802
    size = ram_disk_gib(Decimal(checkpoint), Decimal(times))
    needed = Fraction(checkpoint) * Fraction(times) / 2**30
    assert size >= needed > size - 1


def test_a_size_that_needs_no_rounding_is_not_rounded() -> None:
    # In binary floats 2.2 * 5 is 11.000000000000002, which would give 12.
    assert ram_disk_gib(5 * GIB, Decimal("2.2")) == 11


def test_a_model_is_spread_over_the_nodes_of_a_replica() -> None:
    assert local_checkpoint(Decimal("70e9"), Decimal(12), 16) == Decimal("52.5e9")


@pytest.mark.parametrize(
    ("room", "peers"), [(422, 0), (423, 1), (633, 1), (634, 2), (211, -1), (212, 0)]
)
def test_peers_fit_exactly_when_their_ram_disk_does(room: int, peers: int) -> None:
    assert peers_that_fit(parse_quantity("64Gi"), room * GIB) == peers
