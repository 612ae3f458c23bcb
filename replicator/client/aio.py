"""The client for asyncio; every call means the same as in `ReplicatorClient`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from replicator.client.claim import sole_writer
from replicator.client.deadline import deadline_after
from replicator.client.errors import RestoreTimeoutError
from replicator.client.handshake import Handshake
from replicator.client.session import (
    HANDSHAKE_SECONDS,
    POLL_SECONDS,
    RESTORE_SECONDS,
    check_volume,
)
from replicator.client.volume import CheckpointVolume, Restored
from replicator.config import ReplicatorConfig
from replicator.protocol import Prerestore

T = TypeVar("T")


class AsyncReplicatorClient:
    """`ReplicatorClient` for asyncio: waits without blocking the loop."""

    def __init__(self, directory: str | os.PathLike[str], config: ReplicatorConfig) -> None:
        """See `ReplicatorClient`."""
        self.volume = CheckpointVolume(directory, config)

    @property
    def config(self) -> ReplicatorConfig:
        """What this node asks of the replicator."""
        return self.volume.config

    async def start(
        self,
        *,
        worker: int = 0,
        handshake_timeout: float = HANDSHAKE_SECONDS,
        restore_timeout: float = RESTORE_SECONDS,
    ) -> Restored | None:
        """See `ReplicatorClient.start`."""
        await self.handshake(timeout=handshake_timeout)
        return await self.wait_for_restore(worker=worker, timeout=restore_timeout)

    async def handshake(self, *, timeout: float = HANDSHAKE_SECONDS) -> None:
        """See `ReplicatorClient.handshake`; cancelling it withdraws the config too."""
        attempt = Handshake(self.volume, timeout)
        try:
            while not attempt.taken():
                await asyncio.sleep(POLL_SECONDS)
        except BaseException:
            attempt.withdraw()
            raise
        self.check()

    async def wait_for_prerestore(self, *, timeout: float = RESTORE_SECONDS) -> Prerestore:
        """See `ReplicatorClient.wait_for_prerestore`."""
        found = await self._poll(timeout, self.volume.prerestore)
        if found is None:
            raise RestoreTimeoutError(f"no decision on what to restore within {timeout:g} s")
        return found

    async def wait_for_restore(
        self, *, worker: int = 0, timeout: float = RESTORE_SECONDS
    ) -> Restored | None:
        """See `ReplicatorClient.wait_for_restore`."""
        found = await self._poll(timeout, lambda: self.volume.find_restored(worker))
        if found is None:
            raise RestoreTimeoutError(f"no outcome of the restore within {timeout:g} s")
        if found[0] is None:
            self.volume.clear_no_checkpoint_marker(worker)
        return found[0]

    @asynccontextmanager
    async def save(self, step: int, *, worker: int = 0) -> AsyncIterator[Path]:
        """See `ReplicatorClient.save`; the body writes as it likes, in threads for example.

        Cancelling it removes what was written. A thread of the body's own is not stopped by that:
        wait for it before the body is left.
        """
        self.check()
        with sole_writer(step, self.volume.pending_path(step, worker)) as claim:
            try:
                yield await _to_its_end(self.volume.begin, step, worker)
                claim.confirm()
                self.volume.commit(step, worker)
            except BaseException:
                if claim.is_ours():
                    with suppress(OSError):
                        await _to_its_end(self.volume.discard, step, worker)
                raise

    def check(self) -> str | None:
        """See `ReplicatorClient.check`."""
        return check_volume(self.volume)

    async def _poll(self, timeout: float, look: Callable[[], T | None]) -> T | None:
        deadline = deadline_after(timeout)
        while True:
            self.check()
            if (found := look()) is not None:
                return found
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(POLL_SECONDS)


async def _to_its_end(action: Callable[[int, int], T], step: int, worker: int) -> T:
    """Run in a thread; a cancellation is raised once the thread is done.

    The step is this save's only as long as nobody else may begin it: a thread that went on beyond
    that would remove what the next one writes.
    """
    running = asyncio.get_running_loop().run_in_executor(None, action, step, worker)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # retrieved: the cancellation is what counts
        raise cancelled
    return running.result()
