"""A cap on bytes per second, shared by all transfers of an agent."""

from __future__ import annotations

import threading
import time

CHUNK_BYTES = 1024 * 1024
"""Bytes that are sent between two looks at the cap."""


class Bandwidth:
    """A token bucket of one second's worth; no limit where `bytes_per_second` is None."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self.bytes_per_second = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def delay(self, size: int) -> float:
        """Account for bytes; returns seconds to wait before sending them."""
        if self.bytes_per_second is None:
            return 0.0
        with self._lock:
            now = time.monotonic()
            start = max(self._free_at, now - 1.0)
            self._free_at = start + size / self.bytes_per_second
            return max(start - now, 0.0)

    def wait(self, size: int) -> None:
        """Block until the bytes may be sent."""
        pause = self.delay(size)
        if pause > 0:
            time.sleep(pause)
