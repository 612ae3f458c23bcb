"""The blocking client."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from replicator.client.claim import sole_writer
from replicator.client.deadline import deadline_after
from replicator.client.errors import RestoreTimeoutError
from replicator.client.handshake import Handshake
from replicator.client.volume import CheckpointVolume, Restored
from replicator.config import ReplicatorConfig
from replicator.protocol import Prerestore

POLL_SECONDS: Final = 0.1
HANDSHAKE_SECONDS: Final = 300.0
"""How long a replicator may take to accept a config; the public clients wait as long."""
RESTORE_SECONDS: Final = 3600.0
"""How long a restore may take: large shards out of object storage."""

_log = logging.getLogger("replicator.client")
T = TypeVar("T")


class ReplicatorClient:
    """One node's link to its replicator: hand the config over, restore, save.

    One process per node calls `start`; each worker may use `wait_for_restore` and `save` after
    that.
    """

    def __init__(self, directory: str | os.PathLike[str], config: ReplicatorConfig) -> None:
        """Use the checkpoint volume mounted at `directory`.

        Raises:
            ClientConfigError: the replicator would refuse this config.
            LocalDirectoryError: there is no such directory, or the path is empty.
        """
        self.volume = CheckpointVolume(directory, config)

    @property
    def config(self) -> ReplicatorConfig:
        """What this node asks of the replicator."""
        return self.volume.config

    def start(
        self,
        *,
        worker: int = 0,
        handshake_timeout: float = HANDSHAKE_SECONDS,
        restore_timeout: float = RESTORE_SECONDS,
    ) -> Restored | None:
        """Hand the config over and wait for what there is to restore; None = nothing, begin anew.

        Raises:
            HandshakeTimeoutError: see `handshake`.
            RestoreTimeoutError: see `wait_for_restore`.
            ReplicatorFailedError: the replicator gave up; its report is in the error.
            RestoreDataError: the restored data is not there.
        """
        self.handshake(timeout=handshake_timeout)
        return self.wait_for_restore(worker=worker, timeout=restore_timeout)

    def handshake(self, *, timeout: float = HANDSHAKE_SECONDS) -> None:
        """Write `replicator.yaml` and wait until the replicator has taken it.

        A config of an earlier run that is still there is waited out first. After a time-out this
        run's config is withdrawn, so that a replicator that comes up later does not act on it. A
        `replicator.failed` that lies there already is an earlier start's: it is logged, not raised.

        Args:
            timeout: seconds for both waits together; `math.inf` waits for ever. So it is for every
                wait of this client.

        Raises:
            ClientArgumentError: the time-out is no number. So it is for every wait.
            HandshakeTimeoutError: nobody took it in time.
            ReplicatorFailedError: the replicator refused it, for example as invalid, or gave up
                while this waited.
            LocalDirectoryError: it cannot be written, or the volume went away meanwhile.
        """
        attempt = Handshake(self.volume, timeout)
        try:
            while not attempt.taken():
                time.sleep(POLL_SECONDS)
        except BaseException:
            attempt.withdraw()
            raise
        self.check()

    def wait_for_prerestore(self, *, timeout: float = RESTORE_SECONDS) -> Prerestore:
        """Wait until it is decided which step will be restored (its data may still be on its way).

        Raises:
            RestoreTimeoutError: not decided in time.
            ReplicatorFailedError: the replicator gave up.
            MarkerError: `replicator.prerestore` makes no sense.
        """
        found = self._poll(timeout, self.volume.prerestore)
        if found is None:
            raise RestoreTimeoutError(f"no decision on what to restore within {timeout:g} s")
        return found

    def wait_for_restore(
        self, *, worker: int = 0, timeout: float = RESTORE_SECONDS
    ) -> Restored | None:
        """Wait for a worker's restored checkpoint; None = there is nothing to restore.

        Only meaningful after this node's handshake: before that, links of an earlier run may be
        there.

        Raises:
            RestoreTimeoutError: no outcome in time.
            ReplicatorFailedError: the replicator gave up.
            RestoreDataError: the restored data is not there.
            UnknownWorkerError: the config's `workers-per-node` knows no such worker.
        """
        found = self._poll(timeout, lambda: self.volume.find_restored(worker))
        if found is None:
            raise RestoreTimeoutError(f"no outcome of the restore within {timeout:g} s")
        if found[0] is None:
            self.volume.clear_no_checkpoint_marker(worker)
        return found[0]

    @contextmanager
    def save(self, step: int, *, worker: int = 0) -> Iterator[Path]:
        """Write a checkpoint: a context that gives the path to write to and hands it over at its
        end.

        The path is a new directory, or for the framework `pytorch` the name of a file that does not
        exist yet. If the body raises, what it wrote is removed and nothing is handed over. A child
        that is forked in the body and leaves it too changes nothing: the step is its parent's.

        Raises:
            StepExistsError: this step is there already.
            SaveError: no such step or worker, somebody else is writing this step, or it cannot be
                written, for example because the RAM disk is full.
            ReplicatorFailedError: the replicator gave up since the last call.
        """
        self.check()
        with sole_writer(step, self.volume.pending_path(step, worker)) as claim:
            try:
                yield self.volume.begin(step, worker)
                claim.confirm()
                self.volume.commit(step, worker)
            except BaseException:
                if claim.is_ours():
                    with suppress(OSError):
                        self.volume.discard(step, worker)
                raise

    def check(self) -> str | None:
        """Log and return what `replicator.errors` says (recoverable), if anything.

        Raises:
            ReplicatorFailedError: the replicator gave up.
            LocalDirectoryError: the directory cannot be looked into.
        """
        return check_volume(self.volume)

    def _poll(self, timeout: float, look: Callable[[], T | None]) -> T | None:
        deadline = deadline_after(timeout)
        while True:
            self.check()
            if (found := look()) is not None:
                return found
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)


def check_volume(volume: CheckpointVolume) -> str | None:
    """See `ReplicatorClient.check`."""
    errors = volume.reports.take_errors()
    if errors:
        _log.error("the replicator reports:\n%s", errors.rstrip())
    volume.reports.raise_if_failed()
    return errors
