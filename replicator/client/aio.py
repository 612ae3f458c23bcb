"""The client for asyncio; every call means the same as in `ReplicatorClient`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from replicator.client.claim import sole_writer
from replicator.client.errors import (
    RestoreTimeoutError,
)
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

    def __init__(self, directory: str | Path, config: ReplicatorConfig) -> None:
        """See `ReplicatorClient`."""
        self.volume = CheckpointVolume(Path(directory), config)

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
        """See `ReplicatorClient.save`; the body writes as it likes, in threads for example."""
        self.check()
        with sole_writer(step, self.volume.pending_path(step, worker)):
            pending = await asyncio.to_thread(self.volume.begin, step, worker)
            try:
                yield pending
                self.volume.commit(step, worker)
            except BaseException:
                with suppress(OSError):
                    await asyncio.to_thread(self.volume.discard, step, worker)
                raise

    def check(self) -> str | None:
        """See `ReplicatorClient.check`."""
        return check_volume(self.volume)

    async def _poll(self, timeout: float, look: Callable[[], T | None]) -> T | None:
        deadline = time.monotonic() + timeout
        while True:
            self.check()
            if (found := look()) is not None:
                return found
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(POLL_SECONDS)
