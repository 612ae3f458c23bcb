"""State machines of the core in the states that tests of its rules begin with."""

from __future__ import annotations

from dataclasses import replace

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.coordinator import Coordinator, Phase
from replicator.core.model import (
    Backup,
    CheckpointId,
    Content,
    Copy,
    Job,
    Key,
    Origin,
    Run,
    ShardId,
    Source,
    Timing,
)
from replicator.core.node import Node
from replicator.core.state import NodeState

RUN = Run(1, "t")
JOB = Job("job", rank=0, world=2, peers=(1,))
TIMING = Timing()


def at(step: int, run: int = 1) -> CheckpointId:
    return CheckpointId(run, step)


def content(name: str) -> Content:
    return Content(name, name, 1)


OWN = Key(at(5), ShardId(0, 0))
LOCAL = Source(Origin.LOCAL, 0)
VERIFY_OWN = msg.Fetch(at(5), ShardId(0, 0), content("own"), 2, LOCAL)


def kinds(effects) -> list[type]:
    return [type(effect) for effect in effects]


def running_node() -> Node:
    state = NodeState(job=JOB, attempt="a", epoch=1, linked=RUN, prepared=RUN)
    node = Node(state, (), "h:1", TIMING)
    node.start(0.0)
    node.link_up(0.0)
    return node


def started_node(plan: bool = True) -> tuple[Node, list]:
    """A node that holds its shards of two steps and has just been given a new configuration."""
    held = [Copy(at(step), ShardId(0, 0), content("own"), 2) for step in (4, 5)]
    node = Node(NodeState(), held, "h:1", TIMING)
    effects = node.accept(JOB, "a", 0.0)
    node.link_up(0.0)
    if plan:
        node.received(msg.Plan(Run(2, "t"), at(5), "", "", (ShardId(0, 0),)), 0.0)
    return node, effects


def hello(rank: int, **changes) -> msg.Hello:
    plain = msg.Hello(
        rank, 2, 1, (1 - rank,), None, "job", "", f"a{rank}", 0, 0, 0, f"h:{rank + 1}", 0,
        None, None, None, "", (),
    )  # fmt: skip
    return replace(plain, **changes)


def coordinator() -> Coordinator:
    return Coordinator(JOB, "t", TIMING, lambda newest: newest + "0", 0.0)


def texts(effects) -> list[str]:
    messages = [e.message for e in effects if isinstance(e, fx.SendTo | fx.Answer)]
    return [m.text for m in messages if isinstance(m, msg.NotYet | msg.Refuse | msg.Report)]


def restoring(held: CheckpointId) -> tuple[Coordinator, list]:
    """Two nodes with a shard each, and what they are told before the backups are known."""
    made = coordinator()
    effects: list = []
    for rank in range(2):
        copies = (Copy(held, ShardId(rank, 0), content(f"own{rank}"), 2),)
        effects += made.received(rank + 1, hello(rank, epoch=1, copies=copies), 0.0)
    return made, effects


def sent(effects, kind: type) -> list:
    messages = [e.message for e in effects if isinstance(e, fx.SendTo)]
    return [m for m in messages if isinstance(m, kind)]


def stored(name: str, checkpoint: CheckpointId) -> Backup:
    shards = {ShardId(rank, 0): content(f"own{rank}") for rank in range(2)}
    return Backup(name, checkpoint, 2, shards)


def in_a_run(world: int = 2) -> Coordinator:
    """A coordinator whose nodes have just been released from nothing."""
    made = coordinator()
    for rank in range(world):
        made.received(rank + 1, hello(rank), 0.0)
    made.backups_read((), None, "", 0.0)
    assert made.run is not None
    for rank in range(world):
        made.received(rank + 1, msg.Prepared(made.run), 0.0)
    assert made.phase is Phase.RUN
    return made


def save(made: Coordinator, step: int, now: float, ranks=(0, 1)) -> list:
    assert made.run is not None
    effects = []
    for rank in ranks:
        made.members.heard(rank, now)
        sealed = msg.Sealed(at(step, made.run.epoch), (content(f"{step}.{rank}"),))
        effects += made.received(rank + 1, sealed, now)
    return effects


def backing_up(read=(), every: int = 1) -> Coordinator:
    """A coordinator that stores steps of a run that began from nothing."""
    job = Job("job", rank=0, world=2, peers=(1,), backup_steps=every)
    made = Coordinator(job, "t", TIMING, lambda newest: newest + "0", 0.0)
    for rank in range(2):
        made.received(rank + 1, hello(rank), 0.0)
    made.backups_read(read, None, "", 0.0)
    assert made.run is not None
    for rank in range(2):
        made.received(rank + 1, msg.Prepared(made.run), 0.0)
    assert made.phase is Phase.RUN
    return made


def replicate(made: Coordinator, step: int, now: float) -> list:
    assert made.run is not None
    effects = save(made, step, now)
    for rank in range(2):
        other = ShardId(1 - rank, 0)
        have = msg.Have(at(step, made.run.epoch), other, content(f"{step}.{1 - rank}"))
        effects += made.received(rank + 1, have, now)
    return effects


def last_progress(effects) -> msg.Progress:
    sent = [e.message for e in effects if isinstance(e, fx.SendTo)]
    return [m for m in sent if isinstance(m, msg.Progress)][-1]
