"""Room on a checkpoint volume: promised to copies before their bytes come."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from replicator.agent.files import used_bytes
from replicator.errors import ReplicatorError

SPARE_BYTES: Final = 1024 * 1024
"""Left free when space is reserved for a copy."""


class NoSpaceError(ReplicatorError):
    """The volume has no room for a copy."""


@dataclass(slots=True)
class Reservation:
    """Space promised to a copy that is on its way."""

    size: int
    written: int = 0


@dataclass(slots=True)
class Space:
    """Free bytes of one volume. `capacity` bounds what may be used, on top of what the disk allows.

    Safe to use from several threads.
    """

    root: Path
    capacity: int | None = None
    _reserved: list[Reservation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, size: int) -> Reservation:
        """Promise room for a copy.

        Raises:
            NoSpaceError: there is not enough.
        """
        with self._lock:
            free = self._free(0 if self.capacity is None else used_bytes(self.root))
            promised = sum(r.size - r.written for r in self._reserved)
            if free - promised < size + SPARE_BYTES:
                raise NoSpaceError(
                    f"{size} bytes are needed, {max(free - promised, 0)} are free on {self.root}"
                )
            reservation = Reservation(size)
            self._reserved.append(reservation)
            return reservation

    def usable(self) -> int:
        """Bytes that the volume may hold: what it does, whatever that is, and what is free."""
        used = used_bytes(self.root)
        return used + self._free(used)

    def _free(self, used: int) -> int:
        """Bytes that may be added to what is used."""
        stat = os.statvfs(self.root)
        free = stat.f_bavail * stat.f_frsize
        return free if self.capacity is None else min(free, self.capacity - used)

    def release(self, reservation: Reservation) -> None:
        """The copy is done or given up."""
        with self._lock:
            # By identity: two copies may have been promised the same.
            self._reserved = [r for r in self._reserved if r is not reservation]
