"""The console script `stowplan-replicator`."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from replicator import agent_cli, backup_cli, ranks_cli
from replicator.demo import bench
from replicator.demo import cli as demo_cli
from replicator.simulate import cli as simulate_cli


def build_parser() -> argparse.ArgumentParser:
    """All sub-commands; each sets `run`, a function from its arguments to the exit status."""
    parser = argparse.ArgumentParser(
        prog="stowplan-replicator",
        description="Keeps training checkpoints safe: peers, backups, verified restores.",
    )
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
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text
    parsed = build_parser().parse_args(arguments)
    try:
        status = parsed.run(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    if arguments is None:
        _leave(int(status))
    return int(status)


def _leave(status: int) -> NoReturn:
    """End the process without taking the interpreter apart.

    A thread of the object store's runtime that is about to call back into Python while the
    interpreter is being taken apart aborts the process: about one failed request in ten ended with
    SIGABRT instead of its exit status.
    """
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
