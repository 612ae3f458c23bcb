"""torch.distributed.checkpoint through the replicator: start, save and load, and a storage pair.

Every rank writes its own shards and metadata (`no_dist=True`) into a folder of its own below the
node's step directory, as the public NeMo client lays it out (`<step>/<rank on the node>/`). The
first rank of the node hands the directory over once all of the node's ranks are done. Files alone
coordinate this, so a rank that dies cannot leave the others in a collective.

Needs torch (extra `torch`).
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from replicator.client.dcp_storage import (
    HAND_OVER_SECONDS,
    ReplicatorStorageReader,
    ReplicatorStorageWriter,
)
from replicator.client.errors import (
    ClientError,
    RestoreDataError,
    root_cause,
    what_it_says,
)
from replicator.client.session import HANDSHAKE_SECONDS, RESTORE_SECONDS, ReplicatorClient
from replicator.client.volume import Restored

# Imported by name, so that type checks say the same with and without torch.
_distributed: Final[Any] = importlib.import_module("torch.distributed")
_checkpoint: Final[Any] = importlib.import_module("torch.distributed.checkpoint")
_api: Final[Any] = importlib.import_module("torch.distributed.checkpoint.api")

__all__ = [
    "HAND_OVER_SECONDS",
    "ReplicatorStorageReader",
    "ReplicatorStorageWriter",
    "StartError",
    "async_save",
    "load",
    "save",
    "start",
]


class StartError(ClientError):
    """Another rank of this node, which speaks to the replicator for all of them, failed to
    start."""


def save(
    client: ReplicatorClient,
    state_dict: dict[str, Any],
    step: int,
    local_rank: int,
    local_world_size: int,
    *,
    planner: Any = None,
    hand_over_timeout: float = HAND_OVER_SECONDS,
) -> None:
    """Save this rank's part of a step and hand the node's step over; call it on every rank.

    Returns once this rank's part is written; on the node's first rank, once the step is handed
    over.

    Raises:
        SaveError: it could not be written or handed over; what was written is cleared away.
        ReplicatorFailedError: the replicator gave up since the last call.
    """
    writer = ReplicatorStorageWriter(
        client, step, local_rank, local_world_size, hand_over_timeout=hand_over_timeout
    )
    with _giving_up(writer):
        _checkpoint.save(state_dict, storage_writer=writer, planner=planner, no_dist=True)


def async_save(
    client: ReplicatorClient,
    state_dict: dict[str, Any],
    step: int,
    local_rank: int,
    local_world_size: int,
    *,
    planner: Any = None,
    hand_over_timeout: float = HAND_OVER_SECONDS,
) -> Future[None]:
    """As `save`, but returns once the state is copied; a thread of torch's writes it.

    Ask the future before the next save: what `save` raises, its `result()` raises. torch wants a
    process group with a CPU backend for this, such as `cpu:gloo,cuda:nccl`.

    Raises:
        SaveError: the step or the ranks make no sense, or the state cannot be copied.
    """
    writer = ReplicatorStorageWriter(
        client, step, local_rank, local_world_size, hand_over_timeout=hand_over_timeout
    )
    with _giving_up(writer):
        saving = _checkpoint.async_save(
            state_dict, storage_writer=writer, planner=planner, no_dist=True
        )
    outcome: Future[None] = Future()
    outcome.set_running_or_notify_cancel()  # as torch's: a save that has begun goes on

    def settle(saved: Future[Any]) -> None:
        try:
            with _giving_up(writer):
                saved.result()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    saving.add_done_callback(settle)
    return outcome


@contextlib.contextmanager
def _giving_up(writer: ReplicatorStorageWriter) -> Iterator[None]:
    """Whatever is raised ends the attempt; out of torch's wrapping comes the reason."""
    with writer.giving_up_on_errors():
        try:
            yield
        except _api.CheckpointException as error:
            raise _unwrapped(error)  # noqa: B904  (it has a cause of its own)


def load(restored: Restored, state_dict: dict[str, Any], local_rank: int) -> None:
    """Load this rank's part of a restored step into `state_dict`, in place.

    Raises:
        RestoreDataError: nothing was restored, the checkpoint holds nothing of this rank, or it
            does not fit `state_dict`.
    """
    reader = ReplicatorStorageReader(restored, local_rank)
    try:
        _checkpoint.load(state_dict, storage_reader=reader, no_dist=True)
    except _api.CheckpointException as error:
        cause = _unwrapped(error)
        raise RestoreDataError(f"step {restored.step}: {what_it_says(cause)}") from cause


def _unwrapped(error: Any) -> Exception:
    """The reason inside torch's `CheckpointException`, which holds one for each rank (here one).

    Raises:
        BaseException: it is an interrupt (Ctrl-C, a handler that exits), which torch wraps as well:
            nobody who goes on after a failed save may swallow that.
    """
    (cause,) = (failure[0] for failure in error.failures.values())
    if not isinstance(cause, Exception):
        raise cause
    return root_cause(cause)


def start(
    client: ReplicatorClient,
    local_rank: int,
    *,
    handshake_timeout: float = HANDSHAKE_SECONDS,
    restore_timeout: float = RESTORE_SECONDS,
    group: Any = None,
) -> Restored | None:
    """Start on every rank together; None = there is nothing to restore.

    The first rank of each node speaks to the replicator and the others learn the outcome through
    torch.distributed. All ranks return the same step or all of them raise. The process group's own
    time-out must exceed the two given here: the other ranks wait in a collective.

    Raises:
        ClientError: as `ReplicatorClient.start`, on the rank where it happened.
        StartError: on all other ranks; also if nodes were given different steps.
    """
    restored: Restored | None = None
    failure: ClientError | None = None
    if local_rank == 0:
        try:
            restored = client.start(
                handshake_timeout=handshake_timeout, restore_timeout=restore_timeout
            )
        except ClientError as error:
            failure = error
    if not (_distributed.is_available() and _distributed.is_initialized()):
        if failure is not None:
            raise failure
        return restored
    outcomes = _exchange(local_rank, restored, failure, group)
    if failure is not None:
        raise failure
    leaders = {rank: outcome for rank, outcome in enumerate(outcomes) if outcome.local_rank == 0}
    if failed := {rank: o.failure for rank, o in leaders.items() if o.failure is not None}:
        rank, message = min(failed.items())
        raise StartError(f"rank {rank} could not start: {message}")
    steps = {None if o.restored is None else o.restored.step for o in leaders.values()}
    if len(steps) > 1:
        raise StartError(f"nodes were given different checkpoints to restore: {steps}")
    own = max(rank for rank in leaders if rank <= _distributed.get_rank(group))
    return leaders[own].restored


@dataclass(frozen=True, slots=True)
class _Outcome:
    local_rank: int
    restored: Restored | None
    failure: str | None


def _exchange(
    local_rank: int,
    restored: Restored | None,
    failure: ClientError | None,
    group: Any,
) -> list[_Outcome]:
    mine = _Outcome(local_rank, restored, None if failure is None else str(failure))
    outcomes: list[Any] = [None] * _distributed.get_world_size(group)
    _distributed.all_gather_object(outcomes, mine, group=group)
    return outcomes
