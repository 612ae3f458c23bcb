"""Effects: what the core asks its shell to do, in order. Each is safe to repeat after a crash."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.core.messages import ToCoordinator, ToNode
from replicator.core.model import CheckpointId, Content, Key, ShardId, Source
from replicator.core.state import NodeState

# ---- of a node ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Persist:
    """Make the state durable before anything that follows."""

    state: NodeState


@dataclass(frozen=True, slots=True)
class Send:
    """To the coordinator, on the connection that is up; dropped when there is none."""

    message: ToCoordinator


@dataclass(frozen=True, slots=True)
class Seal:
    """Hash the saved step of every worker and give it its final names; answer SealDone."""

    checkpoint: CheckpointId
    workers: int


@dataclass(frozen=True, slots=True)
class GetCopy:
    """Fetch or verify one copy; answer CopyDone. A copy is visible only once verified."""

    key: Key
    content: Content
    world: int
    source: Source


@dataclass(frozen=True, slots=True)
class CancelCopies:
    """Stop all transfers into this node; their answers are ignored."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Write `replicator.prerestore`: what will be restored."""

    checkpoint: CheckpointId | None
    backup: str


@dataclass(frozen=True, slots=True)
class Link:
    """Release the application: restore links to the shards, or empty markers when there is none."""

    checkpoint: CheckpointId | None
    workers: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete copies that are no longer needed."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Take copies out of use without deleting their data."""

    keys: tuple[Key, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseQuarantine:
    """A newer checkpoint is safe: quarantined data of older runs may go."""


@dataclass(frozen=True, slots=True)
class RejectSave:
    """A save that breaks the rules: put it aside, so that it is not seen again."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Upload:
    """Store this node's part of a backup; answer UploadDone."""

    name: str
    checkpoint: CheckpointId
    upload: tuple[ShardId, ...]
    record: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class StopUploads:
    """Stop storing parts of backups; none of them is answered any more."""


@dataclass(frozen=True, slots=True)
class CheckRoom:
    """See whether so many bytes fit the volume beside all data that is recorded.

    Answer with `no_room` where they do not.
    """

    size: int


@dataclass(frozen=True, slots=True)
class WriteError:
    """Append to `replicator.errors`."""

    text: str


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """Write `replicator.failed`: the application aborts."""

    text: str


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Drop the coordinator connection, if any, and make a new one after a pause."""


NodeEffect = (
    Persist
    | Send
    | Seal
    | GetCopy
    | CancelCopies
    | Announce
    | Link
    | Delete
    | Quarantine
    | ReleaseQuarantine
    | RejectSave
    | Upload
    | StopUploads
    | CheckRoom
    | WriteError
    | WriteFailed
    | Reconnect
)

# ---- of a coordinator ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendTo:
    """To one rank's connection; dropped when it is gone."""

    rank: int
    message: ToNode


@dataclass(frozen=True, slots=True)
class Answer:
    """To a connection that is not (or no longer) a member's."""

    connection: int
    message: ToNode


@dataclass(frozen=True, slots=True)
class Drop:
    """Close a connection."""

    connection: int


@dataclass(frozen=True, slots=True)
class ReadBackups:
    """Read `restore.version` and judge backups, newest first, up to the first complete one.

    Backups in `skip` were found damaged and do not count. Answer with `backups_read`.
    """

    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListBackups:
    """As `ReadBackups`, but without `restore.version`: to know which there are while a job runs.

    Answer with `backups_listed`.
    """


@dataclass(frozen=True, slots=True)
class CompleteBackup:
    """Every part is stored: write the manifest that makes the backup complete."""

    name: str
    checkpoint: CheckpointId
    world: int
    shards: tuple[tuple[ShardId, Content], ...]


@dataclass(frozen=True, slots=True)
class ClearForcedVersion:
    """Remove `restore.version` if it still names this backup: the run has saved since."""

    name: str


@dataclass(frozen=True, slots=True)
class NotReplicated:
    """For metrics and logs: a round has failed, as all nodes are told; why."""

    text: str


@dataclass(frozen=True, slots=True)
class Replicated:
    """For metrics and logs: this checkpoint is on every required node."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Log:
    """For logs and metrics: a coordinator's decision."""

    text: str


CoordinatorEffect = (
    SendTo
    | Answer
    | Drop
    | ReadBackups
    | ListBackups
    | CompleteBackup
    | ClearForcedVersion
    | Replicated
    | NotReplicated
    | Log
)
