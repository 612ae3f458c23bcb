"""What the replicator raises when something it reads is not what the protocol says."""

from __future__ import annotations

from dataclasses import dataclass


class ReplicatorError(Exception):
    """Base of every error that this package raises on purpose."""


class ProtocolError(ReplicatorError, ValueError):
    """A file, a name or a message does not follow the protocol."""


class ManifestError(ProtocolError):
    """A shard manifest cannot be trusted: malformed, damaged, or with unsafe paths."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file; line and column count from 1."""

    line: int
    column: int
    message: str


class ConfigError(ProtocolError):
    """A `replicator.yaml` is not usable; carries every problem found, in file order.

    `str()` gives one `file:line:column: message` line a problem, which is also what belongs into
    `replicator.failed`.
    """

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        self.source = source
        self.problems = problems
        super().__init__("\n".join(f"{source}:{p.line}:{p.column}: {p.message}" for p in problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, tuple[Problem, ...]]]:
        return type(self), (self.source, self.problems)  # errors go from process to process
