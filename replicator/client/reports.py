"""What the replicator tells the job in `replicator.errors` and `replicator.failed`."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from replicator.client.errors import LocalDirectoryError, ReplicatorFailedError
from replicator.protocol import ERRORS_FILE, FAILED_FILE

MAX_REPORT_BYTES: Final = 1024 * 1024
"""How much of a report is read (the end of it)."""


def read_regular(path: Path, limit: int) -> bytes:
    """The last `limit` bytes of a regular file; waits for nobody and follows no link.

    Raises:
        OSError: it is not there, is something else (a named pipe, a directory, a link), or cannot
            be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a link, not a regular file") from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        os.lseek(fd, max(0, found.st_size - limit), os.SEEK_SET)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(fd)


class _Report(NamedTuple):
    text: str
    in_place: bool
    """Whether it had to be left where it is."""


@dataclass(slots=True)
class Reports:
    """The two reports in one directory.

    A report is taken: moved away, read, removed, so that what the replicator writes afterwards is a
    new one. Where the job may not do that (another user's file in a sticky or read-only directory)
    it is read where it is.
    """

    directory: Path
    _errors_told: str = field(default="", init=False)
    """What a `replicator.errors` that had to be left there has said so far."""
    _stale: tuple[int, int, int] | None = field(default=None, init=False)

    def take_errors(self) -> str | None:
        """What `replicator.errors` says and was not told before; None where there is nothing.

        Raises:
            LocalDirectoryError: the directory cannot be looked into.
        """
        report = self._take(ERRORS_FILE)
        before = self._errors_told
        self._errors_told = report.text if report is not None and report.in_place else ""
        if report is None:
            return None
        return report.text.removeprefix(before) or None

    def raise_if_failed(self) -> None:
        """Raise if there is a `replicator.failed`.

        Raises:
            ReplicatorFailedError: with the report, or with why it cannot be read.
            LocalDirectoryError: the directory cannot be looked into.
        """
        if (report := self._take(FAILED_FILE)) is not None:
            raise ReplicatorFailedError(report.text)

    def raise_if_newly_failed(self) -> None:
        """As `raise_if_failed`, but not for the report that `set_stale_aside` had to leave."""
        if self._signature(FAILED_FILE) not in (None, self._stale):
            self.raise_if_failed()

    def remember_stale(self) -> str | None:
        """Whatever `replicator.failed` is there now is of an earlier start; returns its text."""
        self._stale = self._signature(FAILED_FILE)
        return None if self._stale is None else self._read(FAILED_FILE)

    def set_stale_aside(self) -> str | None:
        """As `remember_stale`, and removes it if that is possible."""
        report = self._take(FAILED_FILE)
        self._stale = self._signature(FAILED_FILE) if report and report.in_place else None
        return None if report is None else report.text

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return (self.directory / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise LocalDirectoryError(f"{self.directory}: {error.strerror or error}") from error

    def _signature(self, name: str) -> tuple[int, int, int] | None:
        found = self._look(name)
        return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)

    def _take(self, name: str) -> _Report | None:
        found, path = self._look(name), self.directory / name
        if found is None:
            return None
        if stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK):
            taken = path.with_name(f"{name}.{uuid.uuid4().hex}.tmp")
            with contextlib.suppress(OSError):
                path.rename(taken)
                text = self._read(taken.name)
                with contextlib.suppress(OSError):  # the next start clears it away
                    taken.unlink(missing_ok=True)
                return None if text is None else _Report(text, in_place=False)
        left = self._read(name)
        return None if left is None else _Report(left, in_place=True)

    def _read(self, name: str) -> str | None:
        try:
            content = read_regular(self.directory / name, MAX_REPORT_BYTES)
        except FileNotFoundError:
            return None  # another process of this job has taken it
        except OSError as error:
            return f"{name} is there but cannot be read: {error.strerror or error}"
        return content.decode("utf-8", "replace")
