"""One writer at a time for a step: what two wrote into one place would be handed over as one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from replicator.client.errors import ClientError, SaveError, why

_TRIES: Final = 100
"""Each means that another writer let the place go between two of our calls."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A step that one process writes; a child that it forks meanwhile is another process."""

    step: int
    pending: Path
    process: int = field(default_factory=os.getpid)

    def is_ours(self) -> bool:
        """Whether this is still the process which began to write."""
        return self.process == os.getpid()

    def confirm(self) -> None:
        """Allow the hand-over.

        Raises:
            SaveError: this is a forked child.
        """
        if not self.is_ours():
            raise SaveError(
                f"step {self.step} is being written to {self.pending} by process {self.process}; "
                "this one was forked from it meanwhile, and cannot hand the step over"
            )


@contextmanager
def sole_writer(step: int, pending: Path) -> Iterator[Claim]:
    """Keep everybody else, in this process and in others of the node, from writing `pending`.

    A lock on an empty directory beside it, which ends with its process. Its name is one that the
    agent clears away at a job's start; torch's attempts are counted from 1.

    Raises:
        SaveError: somebody else writes this step, or the volume cannot be written: also for what
            the operating system says while the place is held.
    """
    place = pending.with_name(f"{pending.name}.0")
    try:
        lock = _lock(place)
    except BlockingIOError:
        raise SaveError(
            f"step {step} is being written to {pending} already, by another process or thread; "
            "expected one save of a step per node (for the framework pytorch: per worker)"
        ) from None
    except OSError as error:
        raise SaveError(f"step {step}: {why(error)}") from error
    claim = Claim(step, pending)
    try:
        yield claim
    except OSError as error:
        if isinstance(error, ClientError):
            raise
        raise SaveError(f"step {step}: {why(error)}") from error
    finally:
        if claim.is_ours():
            with suppress(OSError):
                place.rmdir()
            with suppress(OSError):
                # Closing is not enough: a child that was forked meanwhile holds the lock, too.
                fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _lock(place: Path) -> int:
    """The descriptor that holds the lock on the directory which is at `place` now.

    Raises:
        BlockingIOError: somebody else holds it.
        OSError: the directory cannot be made or opened.
    """
    for _ in range(_TRIES):
        place.mkdir(exist_ok=True)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            _flock(descriptor)
            if _is_still(place, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise BlockingIOError


def _flock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # some network file systems have no locks: as good as without this module


def _is_still(place: Path, descriptor: int) -> bool:
    try:
        found, locked = place.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (locked.st_dev, locked.st_ino)
