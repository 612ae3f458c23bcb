"""The storage pair for torch.distributed.checkpoint; `replicator.client.dcp` is what one imports.

Needs torch (extra `torch`).
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from replicator.client.deadline import checked_seconds, deadline_after
from replicator.client.errors import (
    ClientError,
    RestoreDataError,
    SaveError,
    StepExistsError,
    root_cause,
    what_it_says,
)
from replicator.client.session import POLL_SECONDS, ReplicatorClient
from replicator.client.volume import Restored, whole_number

# Imported by name, so that type checks say the same with and without torch.
_checkpoint: Final[Any] = importlib.import_module("torch.distributed.checkpoint")

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
            SaveError: the step or the ranks make no sense.
            ClientArgumentError: the time-out is no number.
        """
        self._client = client
        self._step = whole_number(step, "step", SaveError)
        self._local_rank = whole_number(local_rank, "local rank", SaveError)
        self._local_world_size = whole_number(local_world_size, "local world size", SaveError)
        if not 0 <= self._local_rank < self._local_world_size:
            raise SaveError(
                f"local rank {local_rank} of {local_world_size}: expected a rank from 0 that is "
                "below the number of ranks on the node"
            )
        self._timeout = checked_seconds(hand_over_timeout, "hand_over_timeout")
        self._pending = client.volume.pending_path(self._step, 0)
        self._begun = self._abandoned = False
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
                them only, and a node that is restored from its own files would miss it. Also with
                `use_collectives=False`, which names the metadata so that the others miss it.
            StepExistsError: this step is there already.
            ReplicatorFailedError: the replicator gave up (looked for on the node's first rank).
        """
        self._begin_attempt()
        with self.giving_up_on_errors():
            if not is_coordinator:
                raise SaveError(_NO_DIST)
            if not kwargs.get("use_collectives", True):
                raise SaveError("use_collectives=False is not supported: leave it out")
            if self._local_rank == 0:
                for path in tuple(_given_up):
                    shutil.rmtree(path, ignore_errors=True)
                self._client.check()
            if (final := self._client.volume.final_path(self._step, 0)).exists():
                raise StepExistsError(self._step, final)
            super().set_up_storage_writer(is_coordinator, *args, **kwargs)

    def _begin_attempt(self) -> None:
        # The ranks save in step, so each one's n-th attempt belongs with the others' n-th: a part
        # that a slow rank finishes after its attempt was given up is never taken for a later one's.
        attempt = (self._client.volume.directory, self._step, self._local_rank)
        _attempts[attempt] += 1
        pending = self._client.volume.pending_path(self._step, 0)
        self._pending = pending.with_name(f"{pending.name}.{_attempts[attempt]}")
        self.path = self._own
        self._begun, self._abandoned = True, False

    @contextlib.contextmanager
    def giving_up_on_errors(self) -> Iterator[None]:
        """Whatever is raised ends the attempt; what torch or the volume raises is a SaveError."""
        try:
            yield
        except BaseException as error:
            self.abandon()
            if isinstance(error, ClientError) or not isinstance(error, Exception):
                raise
            cause = root_cause(error)
            raise SaveError(f"step {self._step}: {what_it_says(cause)}") from cause

    def prepare_local_plan(self, plan: Any) -> Any:
        """Called by torch before it writes; clears what a failed attempt of this rank has left."""
        with self.giving_up_on_errors():
            shutil.rmtree(self._own, ignore_errors=True)
            self._own.mkdir(parents=True)
            return super().prepare_local_plan(plan)

    def prepare_global_plan(self, plans: list[Any]) -> Any:
        """Called by torch with the plans of all ranks that save together.

        Raises:
            SaveError: more than this one, so `no_dist=True` was forgotten.
        """
        with self.giving_up_on_errors():
            if len(plans) != 1:
                raise SaveError(_NO_DIST)
            return super().prepare_global_plan(plans)

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Called by torch to write.

        Raises:
            SaveError: the part cannot be written, as on a full disk; it is cleared away.
        """
        with self.giving_up_on_errors():
            return super().write_data(plan, planner)

    def finish(self, metadata: Any, results: Any) -> None:
        """Called by torch once the data is written; on the node's first rank, hands the step over.

        Raises:
            SaveError: another rank of the node could not write its part, or has not finished in
                time; nothing is handed over, and what was written is cleared away.
        """
        with self.giving_up_on_errors():
            super().finish(metadata, results)
            if self._local_rank == 0:
                self._wait_for_all()
                self._client.volume.commit(self._step, 0, pending=self._pending)

    def _wait_for_all(self) -> None:
        deadline = deadline_after(self._timeout)
        ranks = range(self._local_world_size)
        while True:
            missing = [r for r in ranks if not (self._pending / str(r) / _DONE).is_file()]
            if not missing:
                return
            if self._local_rank in missing:
                raise SaveError(f"step {self._step}: {self._own} is not there any more")
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
        if not self._begun:  # torch did not come so far: the other ranks count this attempt, too
            self._begin_attempt()
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
            RestoreDataError: nothing was restored, or the checkpoint holds nothing of this rank, as
                when it was saved with fewer ranks on a node.
        """
        if restored is None:
            raise RestoreDataError("there is nothing to load: the start restored no checkpoint")
        path = restored.path / str(local_rank)
        if not (path / _DONE).is_file():
            raise RestoreDataError(f"step {restored.step} holds nothing of local rank {local_rank}")
        super().__init__(path, **options)
