"""One node's checkpoint directory as the application sees it; every call returns at once.

What waits (`session`, `aio`) is built on these, so that the sync and the async client cannot
differ.
"""

from __future__ import annotations

import contextlib
import operator
import os
import shutil
import stat
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from replicator.client.errors import (
    ClientConfigError,
    ClientError,
    LocalDirectoryError,
    MarkerError,
    RestoreDataError,
    SaveError,
    StepExistsError,
    UnknownWorkerError,
)
from replicator.client.reports import Reports, read_regular
from replicator.config import Framework, ReplicatorConfig, parse_config
from replicator.errors import ConfigError, Problem
from replicator.protocol import (
    CONFIG_FILE,
    MAX_CONFIG_BYTES,
    MAX_SMALL_FILE_BYTES,
    MAX_STEP,
    PRERESTORE_FILE,
    CheckpointName,
    NameKind,
    Prerestore,
    parse_checkpoint_name,
    parse_prerestore,
)

_KINDS: Final = {stat.S_IFREG: "a file", stat.S_IFLNK: "a link", stat.S_IFIFO: "a named pipe"}


@dataclass(frozen=True, slots=True)
class Restored:
    """A checkpoint that the replicator has put in place, verified, for one worker."""

    step: int
    path: Path
    """The `.restore` link; a file or a directory is behind it. Load from it, then `release`."""
    backup: str | None = None
    """The backup it came from, or None if it came from the cluster."""

    def release(self) -> None:
        """Remove the link once the checkpoint is loaded; the data itself is the replicator's.

        Where the job may not remove it, it stays until the replicator's next start.
        """
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class CheckpointVolume:
    """The files in one local directory that a job and the replicator exchange."""

    def __init__(self, directory: str | os.PathLike[str], config: ReplicatorConfig) -> None:
        """Use a directory.

        Raises:
            ClientConfigError: the replicator would refuse this config.
            LocalDirectoryError: there is no such directory.
        """
        self.config = checked_config(config)
        self.directory = existing_directory(directory)
        self.reports = Reports(self.directory)
        self._written_to: tuple[int, int] | None = None  # the directory that holds our config

    # --- handshake
    # ----------------------------------------------------------------------------------

    def config_is_gone(self) -> bool:
        """Whether there is no `replicator.yaml`: none was written, or it has been taken.

        Raises:
            LocalDirectoryError: the directory cannot be looked into, or is not the one any more
                into which this run's config was written.
        """
        try:
            (self.directory / CONFIG_FILE).lstat()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise LocalDirectoryError(f"{self.directory}: {error.strerror or error}") from error
        else:
            return False
        if self._written_to not in (None, self._identity()):
            raise LocalDirectoryError(
                f"{self.directory} is another directory than the one into which {CONFIG_FILE} was "
                "written; was the checkpoint volume unmounted or exchanged?"
            )
        return True

    def _identity(self) -> tuple[int, int]:
        try:
            found = self.directory.stat()
        except OSError as error:
            raise LocalDirectoryError(f"{self.directory}: {error.strerror or error}") from error
        return found.st_dev, found.st_ino

    def write_config(self) -> None:
        """Put `replicator.yaml` in place whole, replacing any that is there.

        Raises:
            LocalDirectoryError: it cannot be written.
        """
        final = self.directory / CONFIG_FILE
        temporary = self.directory / f"{CONFIG_FILE}.{uuid.uuid4().hex}.tmp"
        self._written_to = self._identity()
        try:
            temporary.write_text(self.config.to_yaml())
            temporary.rename(final)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise LocalDirectoryError(f"{final}: {error.strerror or error}") from error

    def withdraw_config(self) -> None:
        """Take back a `replicator.yaml` that nobody took, if it is still this job's own."""
        path = self.directory / CONFIG_FILE
        with contextlib.suppress(OSError):
            if read_regular(path, MAX_CONFIG_BYTES) == self.config.to_yaml().encode():
                path.unlink()

    # --- restore ----------------------------------------------------------------------------------

    def prerestore(self) -> Prerestore | None:
        """What is going to be restored, or None while that is not decided.

        Raises:
            MarkerError: the file is there and cannot be read, or makes no sense.
        """
        path = self.directory / PRERESTORE_FILE
        try:
            return parse_prerestore(read_regular(path, MAX_SMALL_FILE_BYTES), source=str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MarkerError(f"{path}: {error.strerror or error}") from error
        except ConfigError as error:
            raise MarkerError(str(error)) from error

    def find_restored(self, worker: int) -> tuple[Restored | None] | None:
        """One worker's outcome: None while there is none, `(None,)` = nothing to restore.

        Raises:
            UnknownWorkerError: nothing will ever be restored for this worker.
            RestoreDataError: the link points to nothing.
            LocalDirectoryError: the directory cannot be read.
        """
        self._check_worker(worker)
        try:
            entries = [entry.name for entry in self.directory.iterdir()]
        except OSError as error:
            raise LocalDirectoryError(f"{self.directory}: {error.strerror or error}") from error
        found = [
            name
            for entry in entries
            if (name := parse_checkpoint_name(entry, self.config.job_name)) is not None
            and name.kind is NameKind.RESTORE
            and (name.node_rank, name.worker) == (self.config.node_rank, worker)
        ]
        links = [name for name in found if (self.directory / str(name)).is_symlink()]
        if links:
            return (self._restored(max(links)),)
        return (None,) if any(name.step == 0 for name in found) else None

    def _restored(self, name: CheckpointName) -> Restored:
        path = self.directory / str(name)
        try:
            there = path.exists()
            target = path.readlink()
        except OSError as error:
            raise RestoreDataError(f"{path}: {error.strerror or error}") from error
        if not there:
            raise RestoreDataError(f"{path} points to {target}, which is not there")
        backup = None
        try:
            prerestore = self.prerestore()
            if prerestore is not None and prerestore.step == name.step:
                backup = prerestore.backup
        except MarkerError:
            backup = None  # only a remark on where the data came from
        return Restored(name.step, path, backup)

    def clear_no_checkpoint_marker(self, worker: int) -> None:
        """Remove a worker's marker that there was nothing to restore, as Orbax does.

        Where the job may not remove it, it stays until the replicator's next start.
        """
        name = CheckpointName(
            self.config.job_name, 0, self.config.node_rank, worker, NameKind.RESTORE
        )
        path = self.directory / str(name)
        with contextlib.suppress(OSError):
            if not path.is_symlink():
                path.unlink(missing_ok=True)

    # --- save -------------------------------------------------------------------------------------

    def final_path(self, step: int, worker: int) -> Path:
        """Where a finished checkpoint goes; the replicator takes it over from there.

        Raises:
            SaveError: no such step, or no such worker: the replicator would never look at it.
        """
        step = whole_number(step, "step", SaveError)
        if not 0 <= step <= MAX_STEP:
            raise SaveError(f"step {step} is out of range; expected 0 to {MAX_STEP}")
        try:
            self._check_worker(worker)
        except UnknownWorkerError as error:
            raise SaveError(f"step {step}: {error}") from None
        if self.config.framework is Framework.PYTORCH:
            name = CheckpointName(
                self.config.job_name, step, self.config.node_rank, worker, NameKind.SAVE
            )
            return self.directory / str(name)
        return self.directory / str(step)

    def _check_worker(self, worker: int) -> None:
        workers = self.config.workers_per_node
        if not 0 <= whole_number(worker, "worker", UnknownWorkerError) < workers:
            raise UnknownWorkerError(
                f"worker {worker} is out of range; with workers-per-node: {workers} expected 0 to "
                f"{workers - 1}"
            )

    def pending_path(self, step: int, worker: int) -> Path:
        """Where a checkpoint is written before `commit`."""
        final = self.final_path(step, worker)
        return final.with_name(f"{final.name}.pending")

    def begin(self, step: int, worker: int) -> Path:
        """Make room to write a checkpoint; what a crashed attempt left behind is replaced.

        Raises:
            StepExistsError: a finished checkpoint of this step is still there.
            SaveError: the directory cannot be written.
        """
        final, pending = self.final_path(step, worker), self.pending_path(step, worker)
        if os.path.lexists(final):
            raise StepExistsError(step, final)
        try:
            self.discard(step, worker)
            if self.config.framework is not Framework.PYTORCH:
                pending.mkdir()
        except OSError as error:
            raise SaveError(f"step {step}: {error.strerror or error}") from error
        return pending

    def commit(self, step: int, worker: int, *, pending: Path | None = None) -> Path:
        """Hand a written checkpoint over: one rename, so that it is there whole or not at all.

        Raises:
            StepExistsError: a finished checkpoint of this step is still there.
            SaveError: nothing was written, or what no replicator would ever take over; or the
                rename failed.
        """
        final = self.final_path(step, worker)
        pending = pending or self.pending_path(step, worker)
        if os.path.lexists(final):
            raise StepExistsError(step, final)
        try:
            self._check_kind(step, pending)
            pending.rename(final)
        except FileNotFoundError as error:
            raise SaveError(
                f"step {step}: {pending} is not there: nothing was written, or the checkpoint "
                "volume was unmounted or exchanged meanwhile"
            ) from error
        except OSError as error:
            raise SaveError(f"step {step}: {error.strerror or error}") from error
        return final

    def _check_kind(self, step: int, pending: Path) -> None:
        mode = pending.lstat().st_mode
        files = self.config.framework is Framework.PYTORCH
        if not (stat.S_ISDIR(mode) or (files and stat.S_ISREG(mode))):
            expected = "a file or a directory" if files else "the directory that was made for it"
            raise SaveError(
                f"step {step}: {pending} is {_KINDS.get(stat.S_IFMT(mode), 'something else')}; "
                f"expected {expected}, or the replicator would not take it over"
            )

    def discard(self, step: int, worker: int) -> None:
        """Remove what was written for a step that is not handed over."""
        pending = self.pending_path(step, worker)
        if pending.is_dir() and not pending.is_symlink():
            shutil.rmtree(pending)
        else:
            pending.unlink(missing_ok=True)


def existing_directory(given: str | os.PathLike[str]) -> Path:
    """The checkpoint volume's directory, absolute.

    A program that changes its working directory later, as some launchers make it, still means the
    volume.

    Raises:
        LocalDirectoryError: it is no path or an empty one (a variable that was not set must not
            mean the current directory), or there is no such directory.
    """
    expected = "expected the path of the directory where the checkpoint volume is mounted"
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise LocalDirectoryError(f"the local directory is {given!r}: {expected}, as text")
    if not text:
        raise LocalDirectoryError(f"the local directory is {given!r}, an empty path: {expected}")
    directory = Path(text).absolute()
    try:
        if directory.is_dir():
            return directory
        found = "not a directory" if directory.exists() else "no such directory"
    except OSError as error:
        raise LocalDirectoryError(f"{directory}: {error.strerror or error}") from error
    raise LocalDirectoryError(f"{directory}: {found}; is the checkpoint volume mounted there?")


def checked_config(config: ReplicatorConfig) -> ReplicatorConfig:
    """A config as the replicator will read it; its framework may be given as plain text.

    Raises:
        ClientConfigError: the replicator would refuse it.
    """
    if not isinstance(config, ReplicatorConfig):
        wrong = f"{config!r} is no ReplicatorConfig"
        raise ClientConfigError("config", (Problem(1, 1, wrong),))
    known = ", ".join(Framework)
    try:
        framework = Framework(config.framework)
    except ValueError:
        found = f"framework: {config.framework!r} is not known; expected one of {known}"
        raise ClientConfigError("config", (Problem(1, 1, found),)) from None
    try:
        text = replace(config, framework=framework).to_yaml().encode()
    except (TypeError, ValueError) as error:
        raise ClientConfigError("config", (Problem(1, 1, f"cannot be written: {error}"),)) from None
    try:
        return parse_config(text, source="config")
    except ConfigError as error:
        raise ClientConfigError(error.source, error.problems) from None


def whole_number(number: int, what: str, error: type[ClientError]) -> int:
    """A number as Python counts, whatever library's it is (numpy's, a tensor of one).

    Raises:
        ClientError: of the given kind, if it is no whole number.
    """
    try:
        if isinstance(number, bool):
            raise TypeError
        return operator.index(number)
    except TypeError:
        raise error(f"{what} {number!r}: expected a whole number") from None
