"""Kubernetes quantities, exactly.

A quantity is a decimal number with an optional suffix: binary (``Ki`` … ``Ei``), decimal (``n u m k
M G T P E``) or an exponent (``e3``, ``E3``). All arithmetic here is in :class:`decimal.Decimal`;
binary floats never appear.

Source: ``k8s.io/apimachinery/pkg/api/resource/quantity.go`` (grammar, canonical form, limits).
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import lru_cache

BINARY_SUFFIXES: dict[str, int] = {
    "Ki": 1,
    "Mi": 2,
    "Gi": 3,
    "Ti": 4,
    "Pi": 5,
    "Ei": 6,
}
DECIMAL_SUFFIXES: dict[str, int] = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
MAX_VALUE = Decimal(2**63 - 1)
"""Kubernetes caps a quantity here; larger values are rejected rather than clipped."""

GIB = Decimal(2**30)

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>\d+(?:\.\d*)?|\.\d+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d{1,3}))?"
)
_EXACT = Context(prec=60)
_NANO = Decimal("1e-9")


class QuantityError(ValueError):
    """The text is no Kubernetes quantity.

    Attributes:
        message: what is wrong.
        hint: what to write instead, empty where the intent is not clear.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


def _near_miss(text: str) -> str:
    """Name the likely intent of a text that is no quantity, or an empty string."""
    compact = text.replace(" ", "").replace("_", "")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]+)", compact)
    if match is None:
        return ""
    number, unit = match.groups()
    first = unit[0].upper()
    if first in "KMGTPE" and unit.lower() in {
        f"{first.lower()}{end}" for end in ("", "b", "i", "ib")
    }:
        binary = f"{number}{first}i"
        decimal = f"{number}{'k' if first == 'K' else first}"
        if unit.lower().endswith("ib") or (len(unit) == 2 and unit[1] in "iI") or " " in text:
            return f"write {binary}"
        return f"write {binary} (powers of 1024) or {decimal} (powers of 1000)"
    return ""


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Decimal:
    """Return the exact value of a quantity.

    Raises:
        QuantityError: the text does not follow the grammar, or is out of range.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        hint = _near_miss(text) or "write one such as 64Gi or 500m"
        raise QuantityError(f"{text!r} is not a Kubernetes quantity", hint)
    value = Decimal(match["sign"] + match["digits"])
    if match["suffix"]:
        suffix = match["suffix"]
        if suffix in BINARY_SUFFIXES:
            value = _EXACT.multiply(value, Decimal(1024) ** BINARY_SUFFIXES[suffix])
        else:
            value = _EXACT.scaleb(value, DECIMAL_SUFFIXES[suffix])
    elif match["exponent"]:
        value = _EXACT.scaleb(value, int(match["exponent"]))
    if abs(value) > MAX_VALUE:
        raise QuantityError(f"{text!r} is larger than any quantity can be (2^63 - 1)")
    return value


def _is_binary(text: str) -> bool:
    return text[-1:] == "i"


def _shortest(value: Decimal, units: list[tuple[str, Decimal]]) -> str:
    """Write value with the largest unit that leaves a whole number."""
    for suffix, factor in units:
        scaled = _EXACT.divide(value, factor)
        if scaled == scaled.to_integral_value():
            return f"{scaled.to_integral_value():f}{suffix}"
    raise QuantityError(f"{value} is finer than a quantity can express (1n)")


_BINARY_UNITS = [(s, Decimal(1024) ** p) for s, p in reversed(BINARY_SUFFIXES.items())]
_DECIMAL_UNITS = [(s, Decimal(10) ** p) for s, p in reversed(DECIMAL_SUFFIXES.items())]


@lru_cache(maxsize=4096)
def format_quantity(value: Decimal, *, binary: bool = False) -> str:
    """Write a value in canonical form: no fraction, the largest suffix that allows it.

    As in Kubernetes, a binary value below 1024 or with a fraction falls back to decimal suffixes,
    and anything finer than a nano unit is rounded up, away from zero. One that no binary suffix
    divides does so too: Kubernetes would write it bare, and read what it wrote as decimal.
    """
    value = value.quantize(_NANO, rounding=ROUND_UP, context=_EXACT)
    if value == 0:
        return "0"
    whole = value == value.to_integral_value()
    if binary and whole and _EXACT.remainder(value, Decimal(1024)) == 0:
        return _shortest(value, _BINARY_UNITS)
    return _shortest(value, _DECIMAL_UNITS)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return the canonical spelling of a quantity: ``12000m`` → ``12``, ``1024Mi`` → ``1Gi``,
    ``0.5`` → ``500m``.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return format_quantity(parse_quantity(text), binary=_is_binary(text))


def ceil_gib(value: Decimal) -> int:
    """Round a number of bytes up to whole GiB."""
    return int(_EXACT.divide(value, GIB).to_integral_value(rounding=ROUND_CEILING))
