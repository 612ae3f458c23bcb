"""The values that the core reasons about.

They are named tuples: cheap to hash and to compare, which the simulation does millions of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class CheckpointId(NamedTuple):
    """One checkpoint of a job, ordered from old to new.

    `epoch` counts the runs of the job: every restore agreement starts a new one. It is 0 for data
    that carries no manifest of ours (written by another replicator). A step that was saved again
    after a restart has a higher epoch, so shards of two attempts are never mixed.
    """

    epoch: int
    step: int


class ShardId(NamedTuple):
    """What one worker of one node saved in a checkpoint."""

    rank: int
    worker: int


class Content(NamedTuple):
    """What a shard's bytes are.

    `digest` is the reference-compatible hash that names the data file, `manifest` the digest of our
    path-aware manifest (what verification trusts), `size` the sum of file sizes in bytes.
    """

    digest: str
    manifest: str
    size: int


class Run(NamedTuple):
    """One agreed start of the job. The token makes it unique even if all nodes lost their disks."""

    epoch: int
    token: str


class Copy(NamedTuple):
    """A shard of a checkpoint as some node holds it; `world` is the saving job's node count."""

    checkpoint: CheckpointId
    shard: ShardId
    content: Content
    world: int


class Key(NamedTuple):
    """Name of a copy within one node."""

    checkpoint: CheckpointId
    shard: ShardId


class Origin(StrEnum):
    """Where a node takes a copy from."""

    LOCAL = "local"  # a copy that this node holds: hash all of it again
    ALIAS = "alias"  # equal content that this node sealed itself: record it, move no bytes
    PEER = "peer"
    BACKUP = "backup"


class Source(NamedTuple):
    """A concrete place to take a copy from: a peer's rank and address, or a backup's name."""

    origin: Origin
    rank: int = -1
    address: str = ""
    backup: str = ""


class Failure(StrEnum):
    """Why a node could not get a copy; decides what the coordinator does next."""

    CORRUPT = "corrupt"  # the bytes do not match the manifest
    MISSING = "missing"  # the source does not have it
    NO_SPACE = "no-space"
    TRANSIENT = "transient"  # connection, deadline, storage error: worth another try


@dataclass(frozen=True, slots=True)
class Job:
    """What one node knows about its job from replicator.yaml, validated.

    `peers` are the ranks that must hold copies of this node's shards. `uid` tells two jobs of one
    name apart where the platform knows it, else it is empty. Backup intervals: at most one is
    set; minutes are wall-clock minutes between backup starts.
    """

    name: str
    rank: int
    world: int
    workers: int = 1
    peers: tuple[int, ...] = ()
    uid: str = ""
    data_parallelism: int | None = None
    backup_minutes: float | None = None
    backup_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup as listed in the storage tier.

    `problem` is empty for a complete backup, else it says what is missing. `age` is how many
    seconds ago it was begun, by the clock of who listed it; None where that is not known.
    """

    name: str
    checkpoint: CheckpointId
    world: int
    shards: dict[ShardId, Content]
    problem: str = ""
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Deadlines and periods of the core, in seconds of a monotonic clock."""

    heartbeat: float = 5.0  # silence that makes a side send a ping
    silence: float = 20.0  # silence after which the other side counts as lost
    join: float = 900.0  # all ranks must have come within this time
    settle: float = 30.0  # ranks of a job that is being restarted follow one another this closely
    restore: float = 3600.0  # restore agreement must be reached within this time
    round: float = 600.0  # every receipt of a checkpoint must be in within this time
    transfer: float = 1800.0  # one copy; the shell has its own, shorter progress deadline
    retry: float = 1.0  # first pause after a failed copy; doubles up to `retry_cap`
    retry_cap: float = 30.0
    backup: float = 7200.0


def same_content(a: Content, b: Content, data_parallel: bool) -> bool:
    """Whether one content can stand for the other.

    Under assumed data parallelism replicas may store equal values in differently named files, so
    the reference digest (for Orbax: of keys and values) decides; otherwise every path must match.
    """
    return a.digest == b.digest if data_parallel else a.manifest == b.manifest


def content_key(content: Content, data_parallel: bool) -> str:
    """The string that equal contents share (see `same_content`)."""
    return content.digest if data_parallel else content.manifest
