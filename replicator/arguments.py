"""Values of command line options; each parser raises `ArgumentTypeError` with what it expected."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

MAX_SECONDS: Final = 365 * 24 * 3600.0


def whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    """A parser of whole numbers within bounds, both included."""

    def parse(text: str) -> int:
        found = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
        if found is None or not lowest <= found <= highest:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {lowest} to {highest}, found {text[:80]!r}"
            )
        return found

    return parse


def path(text: str) -> Path:
    """A file or directory; an empty text, as of an unset variable, does not mean this directory."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found ''; is a variable not set?")
    return Path(text)


port: Final = whole_number(0, 65535)
"""A TCP port; 0 has the system choose one."""


def seconds(text: str) -> float:
    """A deadline: more than nothing, at most a year."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found <= MAX_SECONDS:  # what is no number compares as false
        raise argparse.ArgumentTypeError(
            f"expected seconds, more than 0 and at most {MAX_SECONDS:.0f}, found {text[:80]!r}"
        )
    return found
