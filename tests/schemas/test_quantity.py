"""Quantities: the grammar, the canonical form and exactness."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.quantity import (
    GIB,
    QuantityError,
    canonical,
    ceil_gib,
    format_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"), ("1", "1"), ("100m", "0.1"), ("1.5", "1.5"), (".5", "0.5"), ("1e3", "1000"),
        ("1E3", "1000"), ("12e-1", "1.2"), ("1k", "1000"), ("1Ki", "1024"), ("1.5Gi", "1610612736"),
        ("64Gi", "68719476736"), ("64G", "64000000000"), ("1E", "1e18"), ("1Ei", "1152921504606846976"),
        ("-1Gi", "-1073741824"), ("+5", "5"), ("1n", "1e-9"), ("200u", "0.0002"),
    ],
)  # fmt: skip
def test_a_quantity_has_its_exact_value(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    ["", " ", "Gi", "1 Gi", "1GiB", "1gi", "1KB", "1K", "0x10", "1_000", "1,5", "1e", "e3", "NaN",
     "inf", "1Zi", "--1", "1..2", "1mm", "10E1000"],
)  # fmt: skip
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("200GiB", "write 200Gi"), ("200 Gi", "write 200Gi"), ("64gi", "write 64Gi"),
        ("64GB", "write 64Gi (powers of 1024) or 64G (powers of 1000)"),
        ("10mb", "write 10Mi (powers of 1024) or 10M (powers of 1000)"),
        ("banana", "write one such as 64Gi or 500m"),
    ],
)  # fmt: skip
def test_the_likely_intent_is_named(text: str, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert caught.value.hint == hint


def test_more_than_an_int64_is_refused() -> None:
    assert parse_quantity(str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(QuantityError, match="larger than any quantity"):
        parse_quantity(str(2**63))


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("12000m", "12"), ("1024Mi", "1Gi"), ("0.5", "500m"), ("1.5Gi", "1536Mi"), ("1000", "1k"),
        ("64Gi", "64Gi"), ("1Ki", "1Ki"), ("512Ki", "512Ki"), ("0.1Gi", "107374182400m"), ("0", "0"),
        ("0Gi", "0"), ("1000Ki", "1000Ki"), ("-1024Mi", "-1Gi"), ("100000m", "100"),
    ],
)  # fmt: skip
def test_the_canonical_form_is_that_of_kubernetes(text: str, shortest: str) -> None:
    assert canonical(text) == shortest


def test_a_binary_value_that_no_suffix_divides_is_written_in_decimal() -> None:
    assert format_quantity(Decimal(25000), binary=True) == "25k"
    assert format_quantity(Decimal(25001), binary=True) == "25001"


@given(st.integers(0, 2**60), st.booleans())
def test_writing_and_reading_gives_the_same_value(number: int, binary: bool) -> None:
    text = format_quantity(Decimal(number), binary=binary)
    assert parse_quantity(text) == number
    assert canonical(text) == text


def test_finer_than_nano_is_rounded_up() -> None:
    assert format_quantity(Decimal("1e-12")) == "1n"


@pytest.mark.parametrize(
    ("value", "gib"),
    [(0, 0), (1, 1), (GIB, 1), (GIB + 1, 2), (GIB * Decimal("140.8"), 141), (GIB * 141, 141)],
)
def test_gib_are_rounded_up(value: Decimal, gib: int) -> None:
    assert ceil_gib(Decimal(value)) == gib
