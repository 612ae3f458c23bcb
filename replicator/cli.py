"""The console script `stowplan-replicator`."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import NoReturn

from replicator import agent_cli, backup_cli, ranks_cli
from replicator.demo import bench
from replicator.demo import cli as demo_cli
from replicator.simulate import cli as simulate_cli

EPILOG = """exit codes:
  0  done
  1  it could not be done, or what was looked at is not in order
  2  wrong usage
  130  interrupted (143: terminated, 129: its terminal is gone)
"""


def version() -> str:
    """The version of the distribution that brought this package."""
    for distribution in ("stowplan-replicator", "stowplan"):
        with contextlib.suppress(PackageNotFoundError):
            return f"{distribution} {installed_version(distribution)}"
    return "stowplan-replicator, not installed"


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object, **kwargs: object) -> None:
        print(version())
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """All sub-commands; each sets `run`, a function from its arguments to the exit status."""
    parser = argparse.ArgumentParser(
        prog="stowplan-replicator",
        description="Keeps training checkpoints safe: peers, backups, verified restores.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    agent_cli.add_commands(subparsers)
    backup_cli.add_commands(subparsers)
    demo_cli.add_commands(subparsers)
    simulate_cli.add_commands(subparsers)
    bench.add_commands(subparsers)
    ranks_cli.add_commands(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; returns its exit status."""
    _open_missing_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text
    try:
        status = _run(arguments)
    except KeyboardInterrupt:
        return 130  # and the interpreter puts away what was under way
    if arguments is None:
        _leave(status)
    return status


def _open_missing_streams() -> None:
    """Put the null device where standard output or error was closed before the start.

    Else the next file or socket that is opened gets its number, and with it what is printed.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _run(arguments: Sequence[str] | None) -> int:
    """The sub-command's exit status, once its output has left, or that of what broke it off."""
    try:
        parsed = _parsed(arguments)
        status = int(parsed.run(parsed))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away, as `head` does
        return 1
    except OSError as error:
        print(f"error: {_failed_io(error)}", file=sys.stderr)
        return 1
    return status


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    try:
        return build_parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # --help and --version: what does not leave now fails without a word
        raise


def _failed_io(error: OSError) -> str:
    """`file: reason`; a write that failed names no file."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else f"output not written: {reason}"


def _leave(status: int) -> NoReturn:
    """End the process without taking the interpreter apart; standard output is flushed before.

    A thread of the object store's runtime that is about to call back into Python while the
    interpreter is being taken apart aborts the process: about one failed request in ten ended with
    SIGABRT instead of its exit status.
    """
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(status)
