"""Messages between a node and the coordinator of its job. Plain values; the shell encodes them."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.core.model import (
    CheckpointId,
    Content,
    Copy,
    Failure,
    Run,
    ShardId,
    Source,
)

# ---- node to coordinator ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """First message on a connection, and again after every new replicator.yaml.

    `attempt` is new for each accepted replicator.yaml. `linked` is the run whose restore link
    stands, `prepared` the run whose shards are verified but not linked (with its checkpoint).
    `epoch` is the highest epoch that this node has ever seen; `forced` the backup that
    `restore.version` named for `prepared` or `linked`. `age` is how many milliseconds ago that
    replicator.yaml was accepted. `in_vain` counts those before it that were replaced without having
    been restored, and `waited` is how many milliseconds the last of them had.
    """

    rank: int
    world: int
    workers: int
    peers: tuple[int, ...]
    data_parallelism: int | None
    job: str
    uid: str
    attempt: str
    age: int
    in_vain: int
    waited: int
    address: str
    epoch: int
    linked: Run | None
    prepared: Run | None
    checkpoint: CheckpointId | None
    forced: str
    copies: tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class Sealed:
    """The node saved a checkpoint: all of its workers' shards are hashed and in place."""

    checkpoint: CheckpointId
    contents: tuple[Content, ...]  # by worker


@dataclass(frozen=True, slots=True)
class Have:
    """Receipt: this node holds the shard, every byte verified against its manifest."""

    checkpoint: CheckpointId
    shard: ShardId
    content: Content


@dataclass(frozen=True, slots=True)
class CopyFailed:
    """The node could not get (or, for a local source, verify) a copy."""

    checkpoint: CheckpointId
    shard: ShardId
    source: Source
    failure: Failure
    detail: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """All shards that the node needs for this run are on its disk and verified."""

    run: Run


@dataclass(frozen=True, slots=True)
class BackupDone:
    """The node's part of a backup is stored; `problem` is empty on success.

    `no_room` says that the node can keep what is being stored no longer, be it that its own part is
    stored already.
    """

    name: str
    problem: str
    no_room: bool = False


@dataclass(frozen=True, slots=True)
class Ping:
    """Sign of life, both ways."""


# ---- coordinator to node ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A restore begins: forget what was asked before. No checkpoint means a start from nothing.

    A `tentative` one was made before the backups were read: the node verifies and fetches what it
    needs but counts as prepared only once the same run's plan comes again, no longer tentative.
    """

    run: Run
    checkpoint: CheckpointId | None
    backup: str
    forced: str
    needs: tuple[ShardId, ...]
    tentative: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """Get this copy, verify it, keep it, and answer Have or CopyFailed."""

    checkpoint: CheckpointId
    shard: ShardId
    content: Content
    world: int
    source: Source


@dataclass(frozen=True, slots=True)
class Commit:
    """All nodes are prepared: release the application.

    `discard` are checkpoints proven useless (their shards are not all anywhere).
    """

    run: Run
    checkpoint: CheckpointId | None
    discard: tuple[CheckpointId, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """What may be deleted: everything older than `complete` except `replicated` and `held`."""

    run: Run
    complete: CheckpointId | None
    replicated: CheckpointId | None
    held: tuple[CheckpointId, ...]


@dataclass(frozen=True, slots=True)
class StartBackup:
    """Store this node's part of a checkpoint under a backup's name."""

    name: str
    checkpoint: CheckpointId
    upload: tuple[ShardId, ...]  # shards whose data (not only its name) this node stores


@dataclass(frozen=True, slots=True)
class Report:
    """A recoverable problem for `replicator.errors`."""

    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The job cannot go on; the text goes to `replicator.failed`. Nothing is deleted."""

    text: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """This node's hello cannot be used now; try again after a pause."""

    text: str


ToCoordinator = Hello | Sealed | Have | CopyFailed | Prepared | BackupDone | Ping
ToNode = Plan | Fetch | Commit | Progress | StartBackup | Report | Refuse | NotYet | Ping
