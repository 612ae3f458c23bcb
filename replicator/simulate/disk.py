"""What a simulated machine keeps across a crash of its agent, and what the backup tier keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from replicator.core.model import Backup, CheckpointId, Content, Job, Key, ShardId
from replicator.core.state import NodeState


@dataclass(slots=True)
class Stored:
    """One copy. `good` is the truth, which the core cannot see without hashing.

    `verified` is the start of the job (its `attempt`) in which every byte was last hashed here.
    """

    content: Content
    world: int
    good: bool = True
    verified: str = ""


@dataclass(slots=True)
class Disk:
    """A machine's checkpoint volume."""

    state: NodeState = field(default_factory=NodeState)
    accepted_at: float = 0.0  # when the state's job was
    copies: dict[Key, Stored] = field(default_factory=dict)
    quarantine: list[tuple[Key, Stored]] = field(default_factory=list)
    config: Job | None = None  # a replicator.yaml that waits to be consumed
    saves: set[int] = field(default_factory=set)  # finished step directories
    marker: tuple[CheckpointId | None] | None = None  # the restore link or empty marker
    errors: int = 0
    failed: bool = False
    full: bool = False

    def good_copy(self, manifest: str) -> Stored | None:
        """A copy of this content whose bytes are intact."""
        for stored in self.copies.values():
            if stored.good and stored.content.manifest == manifest:
                return stored
        return None


@dataclass(slots=True)
class StoredBackup:
    """One backup: parts arrive one by one; the last write makes it complete."""

    checkpoint: CheckpointId
    world: int
    records: dict[ShardId, Content] = field(default_factory=dict)
    data: set[str] = field(default_factory=set)  # keys of contents whose bytes are stored
    complete: bool = False
    good: bool = True


@dataclass(slots=True)
class BackupStore:
    """The backup tier."""

    backups: dict[str, StoredBackup] = field(default_factory=dict)
    forced: str | None = None
    down: bool = False

    def listing(self, skip: tuple[str, ...]) -> list[Backup]:
        """What an agent sees of it."""
        return [
            Backup(name, b.checkpoint, b.world, dict(b.records), "" if b.complete else "unfinished")
            for name, b in self.backups.items()
            if name not in skip
        ]
