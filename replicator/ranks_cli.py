"""Sub-command `jax-init-info`: the file in which Orbax and MaxText look for their process id.

On GKE the checkpointing driver's rank service writes it. Elsewhere an init container of the
training pod does, from what JobSet tells each pod: slice (job index) and worker (completion index).
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from replicator.agent.channel import split_address
from replicator.arguments import given_path
from replicator.errors import ProtocolError, ReplicatorError
from replicator.protocol import JAX_INIT_INFO_FILE

MAX_PROCESS = 2**31 - 1
"""JAX keeps process ids in 32 bits with a sign."""


class RankError(ReplicatorError):
    """Numbers that are no place in the job, or a file that cannot be written."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `jax-init-info`."""
    text = "write the JAX process id and coordinator where Orbax reads them"
    ranks = subparsers.add_parser("jax-init-info", help=text, description=text)
    ranks.add_argument("--local-dir", required=True, type=given_path, metavar="DIR")
    ranks.add_argument("--slice", required=True, type=int, metavar="INDEX", help="from 0")
    ranks.add_argument("--slice-size", required=True, type=int, metavar="COUNT", help="workers")
    ranks.add_argument("--worker", required=True, type=int, metavar="INDEX", help="in the slice")
    ranks.add_argument(
        "--coordinator", required=True, metavar="HOST:PORT", help="where process 0 listens"
    )
    ranks.set_defaults(run=_run)


def process_id(slice_index: int, slice_size: int, worker: int) -> int:
    """The JAX process id of a worker: slices one after the other.

    Raises:
        RankError: the worker is not in the slice, or JAX has no such process id.
    """
    process = slice_index * slice_size + worker
    if slice_index < 0 or not 0 <= worker < slice_size or process > MAX_PROCESS:
        raise RankError(
            f"worker {worker} of slice {slice_index} with {slice_size} workers: expected a slice "
            "from 0, a worker from 0 to below the slice's size, and fewer than 2**31 processes"
        )
    return process


def write_init_info(local_dir: Path, process: int, coordinator: str) -> Path:
    """Write the file whole or not at all; one of an earlier run is replaced.

    Raises:
        RankError: no such directory, or it cannot be written.
        ProtocolError: the coordinator is no HOST:PORT.
    """
    split_address(coordinator)
    if not local_dir.is_dir():
        raise RankError(f"{local_dir} is no directory; expected the checkpoint volume")
    target = local_dir / JAX_INIT_INFO_FILE
    scratch = local_dir / f".{JAX_INIT_INFO_FILE}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(scratch, flags, 0o644), "w") as file:
            file.write(f"{process}\n{coordinator}\n")
        scratch.replace(target)
    except OSError as error:
        raise RankError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        scratch.unlink(missing_ok=True)  # there only where something went wrong
    return target


def _run(arguments: argparse.Namespace) -> int:
    try:
        process = process_id(arguments.slice, arguments.slice_size, arguments.worker)
        target = write_init_info(arguments.local_dir, process, arguments.coordinator)
    except (RankError, ProtocolError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{target}: process {process}, coordinator {arguments.coordinator}")
    return 0
