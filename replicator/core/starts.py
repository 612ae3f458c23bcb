"""How often, and how long, a node's job has been started without having been restored."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.core.model import Job
from replicator.core.state import NodeState, milliseconds


@dataclass(slots=True)
class Starts:
    """The starts of one job since its last restore, also such as were given up."""

    accepted_at: float = 0.0  # the latest one, in monotonic seconds
    count: int = 0
    job: tuple[str, str] = ("", "")  # its name and uid

    def found(self, state: NodeState, job: Job, age: float, now: float) -> None:
        """The agent is back, and its job was accepted so many seconds ago."""
        self.accepted_at = now - age
        self.count = state.in_vain + 1 if state.linked is None else 0
        self.job = job.name, job.uid

    def another(self, job: Job, now: float) -> tuple[int, int]:
        """One more; returns how many before it were in vain, and milliseconds that the last was."""
        same = (job.name, job.uid) == self.job
        before, waited = self.count if same else 0, milliseconds(now - self.accepted_at)
        self.accepted_at, self.count, self.job = now, before + 1, (job.name, job.uid)
        return before, waited if before else 0

    def restored(self) -> None:
        """None of them was in vain."""
        self.count = 0
