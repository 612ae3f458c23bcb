"""torch.distributed.checkpoint through the replicator: a storage pair and the start of a job.

Every rank writes its own shards and metadata (`no_dist=True`) into a folder of its own below the
node's step directory, as the public NeMo client lays it out (`<step>/<rank on the node>/`). The
first rank of the node hands the directory over once all of the node's ranks are done. Files alone
coordinate this, so a rank that dies cannot leave the others in a collective.

Needs torch (extra `torch`).
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from replicator.client.errors import ClientError, RestoreDataError, SaveError, StepExistsError
from replicator.client.session import (
    HANDSHAKE_SECONDS,
    POLL_SECONDS,
    RESTORE_SECONDS,
    ReplicatorClient,
)
from replicator.client.volume import Restored

# Imported by name, so that type checks say the same with and without torch.
_distributed: Final[Any] = importlib.import_module("torch.distributed")
_checkpoint: Final[Any] = importlib.import_module("torch.distributed.checkpoint")
_api: Final[Any] = importlib.import_module("torch.distributed.checkpoint.api")

HAND_OVER_SECONDS: Final = 600.0
"""How long the first rank of a node waits for the others to finish writing."""
_DONE: Final = ".metadata"
"""torch writes this last, by rename."""
_attempts: Final[Counter[tuple[Path, int, int]]] = Counter()
"""How often each rank of this process has begun to save a step."""
_given_up: Final[set[Path]] = set()
"""What this process, as the first rank of its node, will never hand over. A slow rank may write its
part there later, so it is cleared away again at each save that follows."""
_NO_DIST: Final = "every node keeps only what it saves itself: call save with no_dist=True"


class StartError(ClientError):
    """Another rank of this node, which speaks to the replicator for all of them, failed to
    start."""


class ReplicatorStorageWriter(_checkpoint.FileSystemWriter):  # type: ignore[misc]
    """Writes one rank's part of a step; pass it to `torch.distributed.checkpoint.save`.

    Example::

        writer = ReplicatorStorageWriter(client, step, local_rank, local_world_size)
        dcp.save(state_dict, storage_writer=writer, no_dist=True)

    `save` returns once this rank's part is written; on the node's first rank, once the step is
    handed over. Works under `async_save` too.
    """

    def __init__(
        self,
        client: ReplicatorClient,
        step: int,
        local_rank: int,
        local_world_size: int,
        *,
        hand_over_timeout: float = HAND_OVER_SECONDS,
        **options: Any,
    ) -> None:
        """Prepare to write a step.

        Args:
            client: this node's.
            step: the step's number.
            local_rank: this rank's place on its node; 0 hands over.
            local_world_size: ranks on this node.
            hand_over_timeout: seconds that rank 0 waits for the others.
            options: for `FileSystemWriter`. `sync_files` is off by default: the directory is a RAM
                disk, and what makes a checkpoint durable is the replicator.

        Raises:
            SaveError: the ranks make no sense.
        """
        if not 0 <= local_rank < local_world_size:
            raise SaveError(f"local rank {local_rank} of {local_world_size}")
        self._client = client
        self._step = step
        self._local_rank = local_rank
        self._local_world_size = local_world_size
        self._timeout = hand_over_timeout
        self._pending = client.volume.pending_path(step, 0)
        self._abandoned = False
        super().__init__(self._own, **{"sync_files": False, **options})

    @property
    def _own(self) -> Path:
        return self._pending / str(self._local_rank)

    def reset(self, checkpoint_id: Any = None) -> None:
        """Called by torch before each save; the path is this writer's own, so none may be given."""
        if checkpoint_id is not None:
            raise SaveError("the step decides the path: pass no checkpoint_id")
        super().reset(None)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called by torch at the start of a save.

        Raises:
            SaveError: without `no_dist=True`: torch would then write what ranks share on one of
                them only, and a node that is restored from its own files would miss it.
            StepExistsError: this step is there already.
        """
        if not is_coordinator:
            raise SaveError(_NO_DIST)
        # The ranks save in step, so each one's n-th attempt belongs with the others' n-th: a part
        # that a slow rank finishes after its attempt was given up is never taken for a later one's.
        attempt = (self._client.volume.directory, self._step, self._local_rank)
        _attempts[attempt] += 1
        pending = self._client.volume.pending_path(self._step, 0)
        self._pending = pending.with_name(f"{pending.name}.{_attempts[attempt]}")
        self.path = self._own
        self._abandoned = False
        if self._local_rank == 0:
            for path in tuple(_given_up):
                shutil.rmtree(path, ignore_errors=True)
        if (final := self._client.volume.final_path(self._step, 0)).exists():
            self.abandon()
            raise StepExistsError(self._step, final)
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)

    def prepare_local_plan(self, plan: Any) -> Any:
        """Called by torch before it writes; clears what a failed attempt of this rank has left."""
        shutil.rmtree(self._own, ignore_errors=True)
        self._own.mkdir(parents=True)
        return super().prepare_local_plan(plan)

    def prepare_global_plan(self, plans: list[Any]) -> Any:
        """Called by torch with the plans of all ranks that save together.

        Raises:
            SaveError: more than this one, so `no_dist=True` was forgotten.
        """
        if len(plans) != 1:
            raise SaveError(_NO_DIST)
        return super().prepare_global_plan(plans)

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Called by torch to write; a part that cannot be written, as on a full disk, is cleared
        away."""
        try:
            return super().write_data(plan, planner)
        except BaseException:
            self.abandon()
            raise

    def finish(self, metadata: Any, results: Any) -> None:
        """Called by torch once the data is written; on the node's first rank, hands the step over.

        Raises:
            SaveError: another rank of the node could not write its part, or has not finished in
                time; nothing is handed over, and what was written is cleared away.
        """
        try:
            super().finish(metadata, results)
            if self._local_rank == 0:
                self._wait_for_all()
                self._client.volume.commit(self._step, 0, pending=self._pending)
        except BaseException:
            self.abandon()
            raise

    def _wait_for_all(self) -> None:
        deadline = time.monotonic() + self._timeout
        ranks = range(self._local_world_size)
        while True:
            missing = [r for r in ranks if not (self._pending / str(r) / _DONE).is_file()]
            if not missing:
                return
            if failed := [r for r in missing if self._mark_of(r).exists()]:
                raise SaveError(
                    f"step {self._step}: local ranks {failed} could not write their part; the step "
                    "is given up"
                )
            if time.monotonic() >= deadline:
                raise SaveError(
                    f"step {self._step}: local ranks {missing} have not written their part within "
                    f"{self._timeout:g} s; the step is given up"
                )
            time.sleep(POLL_SECONDS)

    def _mark_of(self, rank: int) -> Path:
        """By which a rank tells the node's first one that its part will not come."""
        return self._pending / f"{rank}.failed"

    def abandon(self) -> None:
        """Clear away what was written: this rank's part, on the node's first rank all parts.

        The first rank does not wait for a part that was abandoned.
        """
        if self._abandoned:
            return
        self._abandoned = True
        if self._local_rank == 0:
            _given_up.add(self._pending)
            shutil.rmtree(self._pending, ignore_errors=True)
            return
        shutil.rmtree(self._own, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._pending.mkdir(exist_ok=True)
            self._mark_of(self._local_rank).touch()


class ReplicatorStorageReader(_checkpoint.FileSystemReader):  # type: ignore[misc]
    """Reads one rank's part of a restored step; pass it to `torch.distributed.checkpoint.load`.

    Example::

        reader = ReplicatorStorageReader(restored, local_rank)
        dcp.load(state_dict, storage_reader=reader, no_dist=True)
    """

    def __init__(self, restored: Restored, local_rank: int, **options: Any) -> None:
        """Prepare to read.

        Raises:
            RestoreDataError: the checkpoint holds nothing of this rank, as when it was saved with
                fewer ranks on a node.
        """
        path = restored.path / str(local_rank)
        if not (path / _DONE).is_file():
            raise RestoreDataError(f"step {restored.step} holds nothing of local rank {local_rank}")
        super().__init__(path, **options)


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

    Raises:
        SaveError: it could not be written or handed over; what was written is cleared away.
        ReplicatorFailedError: the replicator gave up since the last call.
    """
    if local_rank == 0:
        client.check()
    writer = ReplicatorStorageWriter(
        client, step, local_rank, local_world_size, hand_over_timeout=hand_over_timeout
    )
    try:
        _checkpoint.save(state_dict, storage_writer=writer, planner=planner, no_dist=True)
    except _api.CheckpointException as error:
        causes = [failure[0] for failure in error.failures.values()]
        writer.abandon()
        own = next((cause for cause in causes if isinstance(cause, SaveError)), None)
        raise (own or SaveError(f"step {step}: {causes[0]}")) from error


def load(restored: Restored, state_dict: dict[str, Any], local_rank: int) -> None:
    """Load this rank's part of a restored step into `state_dict`, in place.

    Raises:
        RestoreDataError: the checkpoint holds nothing of this rank, or does not fit `state_dict`.
    """
    reader = ReplicatorStorageReader(restored, local_rank)
    try:
        _checkpoint.load(state_dict, storage_reader=reader, no_dist=True)
    except _api.CheckpointException as error:
        causes = "; ".join(str(failure[0]) for failure in error.failures.values())
        raise RestoreDataError(f"step {restored.step}: {causes}") from error


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
