"""Orbax needs no adapter: its multi-tier checkpointing speaks to this replicator as it is.

What is here is for CPUs (and other set-ups without a TPU or SLURM cluster to detect): there
`initialize_multi_tier_checkpointing` calls `jax.distributed.initialize()` without arguments, which
finds its ranks in no variable of JAX's own. `initialize_on_cpu` gives them through the SLURM
variables that JAX detects, binds the coordinator to the given address, and sets the one flag that
makes Orbax take the process index as the node's rank.

Facts: orbax-checkpoint 0.12.8, jax 0.10.2. Needs both (extra `orbax`).
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from replicator.client.errors import ClientError
from replicator.client.volume import existing_directory, whole_number
from replicator.config import MAX_JOB_NAME_LENGTH, is_safe_job_name

_HOST_AND_PORT: Final = re.compile(r".+:[0-9]{1,5}")


class OrbaxSetupError(ClientError, ValueError):
    """Ranks or addresses that cannot be meant."""


def distributed_variables(
    process_id: int, processes: int, coordinator_address: str
) -> dict[str, str]:
    """Variables from which `jax.distributed.initialize()` learns its place.

    Args:
        process_id: from 0.
        processes: how many there are.
        coordinator_address: `host:port` of process 0, which also binds to it.

    Raises:
        OrbaxSetupError: out of range, or no `host:port`.
    """
    if _HOST_AND_PORT.fullmatch(str(coordinator_address)) is None or not (
        1 <= int(coordinator_address.rpartition(":")[2]) <= 65535
    ):
        raise OrbaxSetupError(
            f"coordinator {coordinator_address!r}: expected host:port, the port from 1 to 65535"
        )
    process_id = whole_number(process_id, "process_id", OrbaxSetupError)
    processes = whole_number(processes, "processes", OrbaxSetupError)
    if not 0 <= process_id < processes:
        raise OrbaxSetupError(
            f"process {process_id} of {processes}; expected 0 to {processes - 1}"
            if processes > 0
            else f"{processes} processes; expected 1 up"
        )
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_COORDINATOR_ADDRESS": coordinator_address,
        # Its default binds every interface.
        "JAX_COORDINATOR_BIND_ADDRESS": coordinator_address,
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": str(processes),
        "SLURM_PROCID": str(process_id),
        "SLURM_LOCALID": "0",
    }


def initialize_on_cpu(
    directory: str | Path,
    run_name: str,
    *,
    process_id: int,
    processes: int,
    coordinator_address: str,
    slices: int,
    backup_interval_minutes: int | None = None,
    environ: MutableMapping[str, str] = os.environ,
    **options: Any,
) -> None:
    """Call Orbax's `initialize_multi_tier_checkpointing` in one of several processes on CPUs.

    Call it before anything initialises JAX. It waits for the replicator and, like Orbax itself,
    leaves the restored step in place as `<directory>/<step>`.

    Args:
        directory: the checkpoint volume; each process has its own.
        run_name: the job's name.
        process_id: from 0; also the node's rank.
        processes: how many there are.
        coordinator_address: `host:port` of process 0.
        slices: groups of processes that hold the same state. With 1 Orbax promises no data
            parallelism and names no peers, so that nothing is copied to other nodes.
        backup_interval_minutes: between backups; Orbax's 30 where it is None and `options` give no
            `backup_interval_steps`.
        environ: where the variables are set.
        options: passed on to Orbax.

    Raises:
        OrbaxSetupError: arguments that cannot be meant.
        LocalDirectoryError: there is no such directory, or the path is empty.
        ImportError: the extra `orbax` is not installed; nothing has been set then.
        RuntimeError: from Orbax, with the text of `replicator.failed`.
        TimeoutError: from Orbax.
    """
    volume = existing_directory(directory)
    # For an empty one Orbax would take another variable's.
    if not (isinstance(run_name, str) and is_safe_job_name(run_name)):
        raise OrbaxSetupError(
            f"run_name {run_name!r}: expected 1 to {MAX_JOB_NAME_LENGTH} letters, digits, '.', "
            "'_' and '-', beginning and ending with a letter or digit"
        )
    variables = distributed_variables(process_id, processes, coordinator_address)
    slices = whole_number(slices, "slices", OrbaxSetupError)
    if slices < 1 or processes % slices:
        raise OrbaxSetupError(f"{processes} processes cannot form {slices} equal slices")
    if find_spec("orbax") is None or find_spec("jax") is None:
        raise ImportError("orbax-checkpoint and jax are not installed; install the extra 'orbax'")
    environ.update(variables)  # before the imports: JAX reads them then
    flags = importlib.import_module("absl.flags")
    initialization = importlib.import_module(
        "orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.initialization"
    )
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    flags.FLAGS.experimental_orbax_use_distributed_process_id = True
    initialization.initialize_multi_tier_checkpointing(
        local_checkpoint_directory=epath_of(volume),
        backup_interval_minutes=backup_interval_minutes,
        num_slices=slices,
        run_name=run_name,
        use_mtc_process_ids=False,
        **options,
    )


def epath_of(directory: str | Path) -> Any:
    """The directory as the path type that Orbax wants."""
    return importlib.import_module("etils.epath").Path(str(directory))
