"""How long one coordinator is busy with a whole job: a restore, a checkpoint with its backup, and
all nodes coming back one by one after the network was cut.

Run: python benchmarks/replicator/coordinator.py

All nodes' messages are fed to the state machine one after the other, without network or hashing:
what is measured is the coordinator's own time, which is what bounds the size of a job.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

from replicator import collector
from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.coordinator import Coordinator
from replicator.core.model import CheckpointId, Content, Copy, Job, ShardId, Timing


def content(step: int, rank: int) -> Content:
    return Content(f"d{step}.{rank}", f"m{step}.{rank}", 1)


def hello(rank: int, world: int) -> msg.Hello:
    copies = tuple(
        Copy(CheckpointId(1, 1), ShardId(r, 0), content(1, r), world) for r in (rank, rank ^ 1)
    )
    return msg.Hello(
        rank, world, 1, (rank ^ 1,), None, "job", "", "a", f"h:{rank + 1}", 1, None, None, None,
        "", () if rank % 10 == 0 else copies,
    )  # fmt: skip


def carry_out(coordinator: Coordinator, effects: list[fx.CoordinatorEffect], done: set) -> None:
    """Answer every order as a healthy node would; the backups are read last of all."""
    pending = list(effects)
    while pending:
        effect = pending.pop()
        if isinstance(effect, fx.Replicated):
            done.add(effect.checkpoint)
        if isinstance(effect, fx.ReadBackups):
            pending += coordinator.backups_read((), None, "", 0.0)
        if not isinstance(effect, fx.SendTo):
            continue
        message, connection = effect.message, effect.rank + 1
        if isinstance(message, msg.StartBackup):
            pending += coordinator.received(connection, msg.BackupDone(message.name, ""), 0.0)
        if isinstance(message, msg.Fetch):
            have = msg.Have(message.checkpoint, message.shard, message.content)
            pending += coordinator.received(connection, have, 0.0)
        if isinstance(message, msg.Plan) and not message.tentative:
            pending += coordinator.received(connection, msg.Prepared(message.run), 0.0)


def measure(world: int) -> list[float]:
    """Seconds of CPU for the restore, the checkpoint with its backup, and the return."""
    job = Job("job", 0, world, peers=(1,), backup_steps=1)
    coordinator = Coordinator(job, "t", Timing(), lambda newest: newest + "0", 0.0)
    done: set[CheckpointId] = set()
    times = [time.process_time()]
    for rank in range(world):
        carry_out(coordinator, coordinator.received(rank + 1, hello(rank, world), 0.0), done)
    assert CheckpointId(1, 1) in done
    times.append(time.process_time())
    assert coordinator.run is not None
    step = CheckpointId(coordinator.run.epoch, 2)
    for rank in range(world):
        sealed = msg.Sealed(step, (content(2, rank),))
        carry_out(coordinator, coordinator.received(rank + 1, sealed, 0.0), done)
    assert step in done
    times.append(time.process_time())
    for rank in range(world):
        coordinator.lost(rank + 1, 1.0)
    for rank in range(world):
        copies = tuple(Copy(step, ShardId(r, 0), content(2, r), world) for r in (rank, rank ^ 1))
        back = replace(hello(rank, world), linked=coordinator.run, copies=copies)
        carry_out(coordinator, coordinator.received(world + rank + 1, back, 2.0), done)
    assert coordinator.replication is not None
    assert coordinator.replication.replicated == step
    times.append(time.process_time())
    return [after - before for before, after in pairwise(times)]


def main() -> None:
    collector.calm()  # as the agent does
    print("| nodes | restore, s | a checkpoint and its backup, s | all nodes come back, s |")
    print("|---|---|---|---|")
    for world in (500, 1000, 2000, 4000, 10_000):
        print(f"| {world:,} | {' | '.join(f'{s:.2f}' for s in measure(world))} |", flush=True)


if __name__ == "__main__":
    main()
