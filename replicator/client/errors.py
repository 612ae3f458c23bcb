"""What can go wrong between a training process and the replicator on its node."""

from __future__ import annotations

from pathlib import Path

from replicator.errors import ConfigError, ReplicatorError


class ClientError(ReplicatorError):
    """Base of everything the client library raises on purpose."""


class ClientConfigError(ClientError, ConfigError):
    """A config that no replicator would accept; carries every problem."""


class ClientArgumentError(ClientError, ValueError):
    """An argument of a call that cannot be meant, such as a time-out that is no number."""


class LocalDirectoryError(ClientError):
    """The local checkpoint directory is not there (any more), or cannot be read or written."""


class HandshakeTimeoutError(ClientError, TimeoutError):
    """Nobody took `replicator.yaml` in time: no replicator serves this directory, or it is
    stuck."""


class RestoreTimeoutError(ClientError, TimeoutError):
    """The replicator took the config, but did not say in time what there is to restore."""


class ReplicatorFailedError(ClientError):
    """The replicator wrote `replicator.failed`; `report` is its text."""

    def __init__(self, report: str) -> None:
        self.report = report
        super().__init__(f"the replicator failed:\n{report.rstrip()}")

    def __reduce__(self) -> tuple[type[ReplicatorFailedError], tuple[str]]:
        # Errors go from process to process, for example out of a pool.
        return type(self), (self.report,)


class RestoreDataError(ClientError):
    """A `.restore` link is there, but what it points to is not."""


class UnknownWorkerError(ClientError):
    """The node has no worker of this number: the config's `workers-per-node` says how many."""


class MarkerError(ClientError):
    """`replicator.prerestore` is there, but is not what the protocol says."""


class SaveError(ClientError):
    """A checkpoint could not be written or handed over; earlier checkpoints are not affected."""


class StepExistsError(SaveError):
    """A checkpoint of this step is there already and has not been taken over yet."""

    def __init__(self, step: int, path: Path) -> None:
        self.step = step
        self.path = path
        super().__init__(f"step {step} is there already: {path}")

    def __reduce__(self) -> tuple[type[StepExistsError], tuple[int, Path]]:
        return type(self), (self.step, self.path)


def why(error: OSError) -> str:
    """What an error of the operating system says, with the file that it is about."""
    text = error.strerror or str(error) or type(error).__name__
    return text if error.filename is None else f"{text}: {error.filename}"


def root_cause(error: Exception) -> Exception:
    """The client's or the operating system's error behind one of torch's, else the error itself.

    On a full disk torch's writer of archives raises "unexpected pos 704 vs 598" while it handles
    what the disk said.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError | ClientError):
            return found
        found = found.__cause__ or found.__context__
    return error


def what_it_says(error: Exception) -> str:
    """An error's text; torch's own kinds say little without their name."""
    if isinstance(error, OSError):
        return why(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")
