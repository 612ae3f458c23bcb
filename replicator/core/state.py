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
    in_vain: int = 0  # starts before this one that were never restored
    waited: int = 0  # milliseconds that the last of them had waited
    epoch: int = 0
    linked: Run | None = None
    prepared: Run | None = None
    checkpoint: CheckpointId | None = None  # of `prepared` or `linked`
    forced: str = ""  # backup that restore.version named for that checkpoint
    last_step: int = -1  # newest step taken in the linked run


def hello(state: NodeState, age: float, address: str, copies: tuple[Copy, ...]) -> Hello:
    """The first message of a node that has a job (since `age` seconds), to its coordinator."""
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
        age=milliseconds(age),
        in_vain=state.in_vain,
        waited=state.waited,
        address=address,
        epoch=state.epoch,
        linked=state.linked,
        prepared=state.prepared,
        checkpoint=state.checkpoint,
        forced=state.forced,
        copies=copies,
    )


def milliseconds(seconds: float) -> int:
    """As messages carry a duration; one that a clock made negative is none."""
    return max(int(seconds * 1000), 0)
