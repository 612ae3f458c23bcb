"""What an agent asks of its surroundings."""

from __future__ import annotations

import hashlib
from typing import Protocol

from replicator.errors import ReplicatorError


class PlatformError(ReplicatorError):
    """The surroundings cannot answer; worth another try unless the text says otherwise."""


class Platform(Protocol):
    """Finds the coordinator of a job. Peers' own addresses come from the coordinator."""

    @property
    def job_uid(self) -> str:
        """Identity of the job's run where the platform knows it, else empty.

        Raises:
            PlatformError: it cannot be found out now.
        """

    async def coordinators(self, job: str) -> list[str]:
        """Addresses (`host:port`) at which the job's coordinator may be, best first.

        Raises:
            PlatformError: it cannot be found out now.
        """

    async def publish(self, job: str, address: str, since: float) -> None:
        """This agent serves the job's coordinator; called every few seconds.

        `since` is when (wall clock) it took the job: of two agents the younger one wins.

        Raises:
            PlatformError: it cannot be published now, or another agent holds the job.
        """

    async def withdraw(self, job: str) -> None:
        """This agent serves the job's coordinator no longer."""

    async def begin(self, job: str) -> None:
        """Make ready what a job needs on this node, before its backups are touched.

        Called again after a failure, and after a restart of the agent.

        Raises:
            PlatformError: it cannot be done now.
        """


def object_name(job: str, prefix: str = "") -> str:
    """A name that a Kubernetes object may have: readable where it can be, unique for each job."""
    readable = "".join(c if c.isalnum() and c.isascii() else "-" for c in job.lower())[:40]
    digest = hashlib.sha256(job.encode()).hexdigest()[:10]
    return f"{prefix}{readable.strip('-') or 'job'}-{digest}"
