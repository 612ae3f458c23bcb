"""The nearest valid spelling, and numbers with their nouns."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a misspelt one, or None if none is close.

    Case and the separators ``-``, ``_`` do not count as differences.
    """
    by_shape: dict[str, str] = {}
    for candidate in known:
        by_shape.setdefault(_shape(candidate), candidate)
    close = get_close_matches(_shape(word), by_shape, n=1, cutoff=0.7)
    return by_shape[close[0]] if close else None


def _shape(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def plural(number: int, one: str, many: str = "") -> str:
    """``1 cluster``, ``1,000 clusters``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
