"""Standard streams that are closed, full or without a reader: a line at most, no traceback."""

from __future__ import annotations

import contextlib
import os
import sys


def open_missing_streams() -> None:
    """Put the null device where standard input, output or error was closed before the start.

    Else the next file that is opened gets its number, and with it what is printed.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def discard_output() -> None:
    """Have what could not be written stay unsaid, also when the interpreter tries once more."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failed_io(error: OSError) -> str:
    """``file: reason``; a write that failed names no file."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else f"output not written: {reason}"
