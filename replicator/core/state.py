"""What a node keeps across a crash of its agent, and how it introduces itself with that."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.core.messages import Hello
from replicator.core.model import CheckpointId, Copy, Job, Run


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node keeps across a crash of its agent."""

    job: Job | None = None
    attempt: str = ""
    epoch: int = 0
    linked: Run | None = None
    prepared: Run | None = None
    checkpoint: CheckpointId | None = None  # of `prepared` or `linked`
    forced: str = ""  # backup that restore.version named for that checkpoint
    last_step: int = -1  # newest step taken in the linked run


def hello(state: NodeState, address: str, copies: tuple[Copy, ...]) -> Hello:
    """The first message of a node that has a job, to its coordinator."""
    job = state.job
    assert job is not None
    return Hello(
        rank=job.rank,
        world=job.world,
        workers=job.workers,
        peers=job.peers,
        data_parallelism=job.data_parallelism,
        job=job.name,
        uid=job.uid,
        attempt=state.attempt,
        address=address,
        epoch=state.epoch,
        linked=state.linked,
        prepared=state.prepared,
        checkpoint=state.checkpoint,
        forced=state.forced,
        copies=copies,
    )
