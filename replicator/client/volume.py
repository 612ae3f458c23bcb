"""One node's checkpoint directory as the application sees it; every call returns at once.

What waits (`session`, `aio`) is built on these, so that the sync and the async client cannot
differ.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replicator.client.errors import (
    LocalDirectoryError,
    ReplicatorFailedError,
    RestoreDataError,
    SaveError,
    StepExistsError,
)
from replicator.config import Framework, ReplicatorConfig, parse_config
from replicator.protocol import (
    CONFIG_FILE,
    ERRORS_FILE,
    FAILED_FILE,
    MAX_SMALL_FILE_BYTES,
    MAX_STEP,
    PRERESTORE_FILE,
    CheckpointName,
    NameKind,
    Prerestore,
    ProtocolError,
    parse_checkpoint_name,
    parse_prerestore,
)

MAX_REPORT_BYTES: Final = 1024 * 1024
"""How much of `replicator.errors` and `replicator.failed` is read (the end of it)."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A checkpoint that the replicator has put in place, verified, for one worker."""

    step: int
    path: Path
    """The `.restore` link; a file or a directory is behind it. Load from it, then `release`."""
    backup: str | None = None
    """The backup it came from, or None if it came from the cluster."""

    def release(self) -> None:
        """Remove the link once the checkpoint is loaded; the data itself is the replicator's."""
        self.path.unlink(missing_ok=True)


class CheckpointVolume:
    """The files in one local directory that a job and the replicator exchange."""

    def __init__(self, directory: Path, config: ReplicatorConfig) -> None:
        """Use a directory.

        Raises:
            ConfigError: the replicator would refuse this config.
            LocalDirectoryError: there is no such directory.
        """
        self.directory = directory
        self.config = parse_config(config.to_yaml().encode(), source="config")
        if not directory.is_dir():
            raise LocalDirectoryError(
                f"{directory}: no such directory; is the checkpoint volume mounted there?"
            )

    # --- handshake
    # ----------------------------------------------------------------------------------

    def config_is_gone(self) -> bool:
        """Whether there is no `replicator.yaml`: none was written, or it has been taken."""
        return not os.path.lexists(self.directory / CONFIG_FILE)

    def write_config(self) -> None:
        """Put `replicator.yaml` in place whole, replacing any that is there."""
        final = self.directory / CONFIG_FILE
        temporary = self.directory / f"{CONFIG_FILE}.{uuid.uuid4().hex}.tmp"
        try:
            temporary.write_text(self.config.to_yaml())
            temporary.rename(final)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise LocalDirectoryError(f"{final}: {error.strerror or error}") from error

    def withdraw_config(self) -> None:
        """Take back a `replicator.yaml` that nobody took, if it is still this job's own."""
        path = self.directory / CONFIG_FILE
        try:
            if path.read_text() == self.config.to_yaml():
                path.unlink()
        except (OSError, UnicodeDecodeError):
            return

    def take_errors(self) -> str | None:
        """The text of `replicator.errors`, which is removed; None where there is none."""
        return self._take_report(ERRORS_FILE)

    def raise_if_failed(self) -> None:
        """Raise ReplicatorFailedError (and remove the file) if there is a `replicator.failed`."""
        if (report := self._take_report(FAILED_FILE)) is not None:
            raise ReplicatorFailedError(report)

    def _take_report(self, name: str) -> str | None:
        path = self.directory / name
        # Moved away first: what the replicator writes from now on goes into a new file.
        taken = self.directory / f"{name}.{uuid.uuid4().hex}.tmp"
        try:
            path.rename(taken)
            with taken.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_REPORT_BYTES))
                text = file.read(MAX_REPORT_BYTES).decode("utf-8", "replace")
            taken.unlink(missing_ok=True)
        except OSError:
            return None
        return text

    # --- restore ----------------------------------------------------------------------------------

    def prerestore(self) -> Prerestore | None:
        """What is going to be restored, or None while that is not decided.

        Raises:
            ConfigError: the file is there and makes no sense.
        """
        try:
            with (self.directory / PRERESTORE_FILE).open("rb") as file:
                return parse_prerestore(file.read(MAX_SMALL_FILE_BYTES))
        except FileNotFoundError:
            return None

    def find_restored(self, worker: int) -> tuple[Restored | None] | None:
        """One worker's outcome: None while there is none, `(None,)` = nothing to restore.

        Raises:
            RestoreDataError: the link points to nothing.
            LocalDirectoryError: the directory cannot be read.
        """
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
        if not path.exists():
            raise RestoreDataError(f"{path} points to {path.readlink()}, which is not there")
        backup = None
        try:
            prerestore = self.prerestore()
            if prerestore is not None and prerestore.step == name.step:
                backup = prerestore.backup
        except ProtocolError:
            backup = None  # only a remark on where the data came from
        return Restored(name.step, path, backup)

    def clear_no_checkpoint_marker(self, worker: int) -> None:
        """Remove a worker's marker that there was nothing to restore, as Orbax does."""
        name = CheckpointName(
            self.config.job_name, 0, self.config.node_rank, worker, NameKind.RESTORE
        )
        path = self.directory / str(name)
        if not path.is_symlink():
            path.unlink(missing_ok=True)

    # --- save -------------------------------------------------------------------------------------

    def final_path(self, step: int, worker: int) -> Path:
        """Where a finished checkpoint goes; the replicator takes it over from there."""
        if not 0 <= step <= MAX_STEP:
            raise SaveError(f"step {step} is out of range")
        if self.config.framework is Framework.PYTORCH:
            name = CheckpointName(
                self.config.job_name, step, self.config.node_rank, worker, NameKind.SAVE
            )
            return self.directory / str(name)
        return self.directory / str(step)

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
            SaveError: nothing was written, or the rename failed.
        """
        final = self.final_path(step, worker)
        pending = pending or self.pending_path(step, worker)
        if os.path.lexists(final):
            raise StepExistsError(step, final)
        try:
            pending.rename(final)
        except FileNotFoundError as error:
            raise SaveError(f"step {step}: nothing was written to {pending}") from error
        except OSError as error:
            raise SaveError(f"step {step}: {error.strerror or error}") from error
        return final

    def discard(self, step: int, worker: int) -> None:
        """Remove what was written for a step that is not handed over."""
        pending = self.pending_path(step, worker)
        if pending.is_dir() and not pending.is_symlink():
            shutil.rmtree(pending)
        else:
            pending.unlink(missing_ok=True)
