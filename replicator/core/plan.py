"""Restore planning as pure functions: which checkpoint, and who takes what from whom.

Cost grows with the number of copies (n log n for the sort of checkpoints); 10,000 nodes with two
copies of two checkpoints each plan in well under a second (benchmarks/replicator/planning.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from replicator.core.model import (
    Backup,
    CheckpointId,
    Content,
    Copy,
    Failure,
    Key,
    Origin,
    ShardId,
    Source,
    content_key,
)

Holders = dict[ShardId, dict[int, Content]]
"""For each shard of one checkpoint: the ranks that hold it, and what exactly they hold."""


class Catalogue:
    """All copies in the cluster, by checkpoint. Claims only: a copy counts until proven bad."""

    def __init__(self) -> None:
        self.checkpoints: dict[CheckpointId, Holders] = {}
        self.worlds: dict[CheckpointId, int] = {}
        self._of_rank: dict[int, set[Key]] = {}

    def replace(self, rank: int, copies: Iterable[Copy]) -> None:
        """Take a node's full inventory in place of what was known of it."""
        self.forget(rank)
        for copy in copies:
            self.add(rank, copy.checkpoint, copy.shard, copy.content, copy.world)

    def forget(self, rank: int) -> None:
        """The node is gone, and its copies with it."""
        for checkpoint, shard in tuple(self._of_rank.get(rank, ())):
            self.remove(rank, checkpoint, shard)

    def add(
        self, rank: int, checkpoint: CheckpointId, shard: ShardId, content: Content, world: int
    ) -> None:
        """The node holds this copy."""
        self.worlds.setdefault(checkpoint, world)
        self.checkpoints.setdefault(checkpoint, {}).setdefault(shard, {})[rank] = content
        self._of_rank.setdefault(rank, set()).add(Key(checkpoint, shard))

    def remove(self, rank: int, checkpoint: CheckpointId, shard: ShardId) -> None:
        """The node does not hold this copy (any more)."""
        self._of_rank.get(rank, set()).discard(Key(checkpoint, shard))
        holders = self.checkpoints.get(checkpoint, {})
        owners = holders.get(shard)
        if owners is None or owners.pop(rank, None) is None or owners:
            return
        del holders[shard]
        if not holders:
            del self.checkpoints[checkpoint]
            del self.worlds[checkpoint]

    def remove_content(self, rank: int, manifest: str) -> tuple[Key, ...]:
        """The node's data of this manifest is bad; returns the names it was recorded under."""
        names = tuple(
            key
            for key in self._of_rank.get(rank, ())
            if self.holders(key.checkpoint, key.shard)[rank].manifest == manifest
        )
        for checkpoint, shard in names:
            self.remove(rank, checkpoint, shard)
        return names

    def keep_only(self, rank: int, stays: Callable[[CheckpointId], bool]) -> None:
        """The node was told to delete all other checkpoints."""
        for checkpoint, shard in tuple(self._of_rank.get(rank, ())):
            if not stays(checkpoint):
                self.remove(rank, checkpoint, shard)

    def drop(self, checkpoint: CheckpointId) -> None:
        """All nodes were told to delete the checkpoint."""
        for shard, owners in list(self.checkpoints.get(checkpoint, {}).items()):
            for rank in list(owners):
                self.remove(rank, checkpoint, shard)

    def holders(self, checkpoint: CheckpointId, shard: ShardId) -> Mapping[int, Content]:
        """Who holds the shard, and what they hold."""
        return self.checkpoints.get(checkpoint, {}).get(shard, {})

    def is_complete(self, checkpoint: CheckpointId, shards: Iterable[ShardId]) -> bool:
        """Whether every shard has at least one holder in the cluster."""
        holders = self.checkpoints.get(checkpoint)
        return holders is not None and all(shard in holders for shard in shards)

    def newest_complete(self, shards: tuple[ShardId, ...]) -> CheckpointId | None:
        """The newest checkpoint of which the cluster holds every shard."""
        for checkpoint in sorted(self.checkpoints, reverse=True):
            if self.is_complete(checkpoint, shards):
                return checkpoint
        return None


def all_shards(world: int, workers: int) -> tuple[ShardId, ...]:
    """Every shard of a checkpoint of this job."""
    return tuple(ShardId(rank, worker) for rank in range(world) for worker in range(workers))


@dataclass(frozen=True, slots=True)
class Choice:
    """What to restore. No checkpoint: start from nothing, and `incomplete` says what was seen."""

    checkpoint: CheckpointId | None
    backup: Backup | None = None  # serves shards that the cluster lacks
    primary_backup: bool = False  # the backup was chosen as such (not only to fill gaps)
    discard: tuple[CheckpointId, ...] = ()
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Restoring anything would be a guess; the text says what to do. All data stays."""

    text: str


def choose(
    catalogue: Catalogue,
    backups: Iterable[Backup],
    forced: str | None,
    world: int,
    shards: tuple[ShardId, ...],
) -> Choice | Refusal:
    """Choose the restore point from what the nodes claim to hold and what backups exist.

    A forced version wins and has no alternative. Else the newest complete checkpoint in the
    cluster (a shard may also come from a backup of the very same checkpoint), else the newest
    complete backup; a backup that is newer than what the cluster holds wins over it.
    """
    by_name = sorted(backups, key=lambda backup: backup.name, reverse=True)
    if forced is not None:
        return _forced_choice(by_name, forced, world, shards)
    same = {backup.checkpoint: backup for backup in by_name if not backup.problem}
    complete_backup = next((b for b in by_name if not b.problem), None)
    incomplete: list[str] = []
    discard: list[CheckpointId] = []
    for checkpoint in sorted(catalogue.checkpoints, reverse=True):
        if complete_backup is not None and complete_backup.checkpoint > checkpoint:
            break
        held = catalogue.checkpoints[checkpoint]
        filler = same.get(checkpoint)
        if catalogue.worlds[checkpoint] != world:
            return Refusal(_other_world(checkpoint, catalogue.worlds[checkpoint], world))
        missing = [s for s in shards if s not in held and (not filler or s not in filler.shards)]
        if not missing:
            return Choice(checkpoint, filler, discard=tuple(discard), incomplete=tuple(incomplete))
        discard.append(checkpoint)
        incomplete.append(
            f"step {checkpoint.step} (run {checkpoint.epoch}): {len(missing)} of {len(shards)} "
            f"shards are nowhere, first node {missing[0].rank} worker {missing[0].worker}"
        )
    if complete_backup is not None:
        if complete_backup.world != world:
            return Refusal(
                f"backup {complete_backup.name}: "
                + _other_world(complete_backup.checkpoint, complete_backup.world, world)
            )
        if lacking := _lacking(complete_backup, shards):
            return Refusal(lacking)
        return Choice(
            complete_backup.checkpoint,
            complete_backup,
            primary_backup=True,
            discard=tuple(discard),
            incomplete=tuple(incomplete),
        )
    incomplete.extend(f"backup {b.name}: {b.problem}" for b in by_name[:3])
    return Choice(None, incomplete=tuple(incomplete))


def _forced_choice(
    backups: list[Backup], forced: str, world: int, shards: tuple[ShardId, ...]
) -> Choice | Refusal:
    named = next((backup for backup in backups if backup.name == forced), None)
    if named is None:
        known = ", ".join(backup.name for backup in backups if not backup.problem) or "none"
        return Refusal(
            f"restore.version names backup {forced!r}, which does not exist (complete backups: "
            f"{known}). Correct or remove restore.version; nothing was deleted."
        )
    if named.problem:
        return Refusal(
            f"restore.version names backup {forced!r}, which is not complete: {named.problem}. "
            "Name another one or remove restore.version; nothing was deleted."
        )
    if named.world != world:
        return Refusal(f"restore.version: {_other_world(named.checkpoint, named.world, world)}")
    if lacking := _lacking(named, shards):
        return Refusal(lacking)
    return Choice(named.checkpoint, named, primary_backup=True)


def _lacking(backup: Backup, shards: tuple[ShardId, ...]) -> str:
    missing = [shard for shard in shards if shard not in backup.shards]
    if not missing:
        return ""
    return (
        f"backup {backup.name} has no data for node {missing[0].rank} worker {missing[0].worker}: "
        "it was made with other workers-per-node. Nothing was deleted."
    )


def _other_world(checkpoint: CheckpointId, found: int, expected: int) -> str:
    return (
        f"step {checkpoint.step} was saved by {found} nodes, but this job runs {expected}: its "
        f"shards do not fit. Run with {found} nodes, or give the job another name to start anew; "
        "nothing was deleted."
    )


@dataclass(slots=True)
class _Group:
    """Nodes that need equal content: every one that has got it serves the next."""

    contents: dict[int, Content] = field(default_factory=dict)  # source rank -> what it holds
    held_as: dict[int, ShardId] = field(default_factory=dict)  # source rank -> name of its copy
    ready: deque[int] = field(default_factory=deque)
    waiting: deque[ShardId] = field(default_factory=deque)
    busy: dict[ShardId, int] = field(default_factory=dict)  # needing shard -> source rank
    from_backup: Content | None = None
    backup_busy: ShardId | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The node of `shard.rank` is to take the shard from a source."""

    shard: ShardId
    content: Content
    source: Source


class Distribution:
    """The transfer schedule of one restore.

    Local copies are verified where they are. What is missing travels in a broadcast tree that
    doubles per round: a source serves one node at a time, and a node that has verified its copy
    becomes a source. Where the cluster holds nothing good, one node reads the backup and then
    serves the others. Only proven damage takes a source out; a failed connection is tried again
    (by the caller, after a pause, through `retry`).
    """

    def __init__(
        self,
        checkpoint: CheckpointId,
        holders: Holders,
        backup: Backup | None,
        shards: tuple[ShardId, ...],
        data_parallel: bool,
    ) -> None:
        self.checkpoint = checkpoint
        self.backup = backup
        self._data_parallel = data_parallel
        self._groups: dict[str, _Group] = {}
        self._of_shard: dict[ShardId, _Group] = {}
        self._unverified: set[ShardId] = set()
        self.open: set[ShardId] = set(shards)
        self.exhausted: list[ShardId] = []
        self.dropped: list[tuple[int, Content]] = []  # sources proven bad, for the caller to drain
        self.backup_damaged = False
        stored = backup.shards if backup is not None else {}
        local: list[tuple[ShardId, Content]] = []
        for shard in shards:
            owners = holders.get(shard, {})
            content = _leading(shard, owners, stored.get(shard))
            if content is None:
                self.exhausted.append(shard)
                continue
            group = self._groups.setdefault(content_key(content, data_parallel), _Group())
            self._of_shard[shard] = group
            if shard in stored and group.from_backup is None:
                group.from_backup = stored[shard]
            own = owners.get(shard.rank)
            if own is not None and self._same(own, content):
                local.append((shard, own))
            else:
                group.waiting.append(shard)
            for rank in sorted(owners):
                if self._same(owners[rank], content):
                    self._add_source(group, rank, shard, owners[rank])
        self._local = local

    def _same(self, a: Content, b: Content) -> bool:
        return content_key(a, self._data_parallel) == content_key(b, self._data_parallel)

    @staticmethod
    def _add_source(group: _Group, rank: int, shard: ShardId, content: Content) -> None:
        if rank not in group.contents:
            group.ready.append(rank)
            group.contents[rank] = content
            group.held_as[rank] = shard

    def start(self) -> list[Assignment]:
        """The first assignments: verify what is local, begin every tree."""
        assignments = []
        for shard, content in self._local:
            self._unverified.add(shard)
            assignments.append(Assignment(shard, content, Source(Origin.LOCAL, shard.rank)))
        for group in self._groups.values():
            assignments.extend(self._feed(group))
        return assignments

    def done(self, shard: ShardId, content: Content) -> list[Assignment]:
        """The node of `shard.rank` holds it, verified."""
        group = self._of_shard.get(shard)
        if group is None or shard not in self.open:
            return []
        self.open.discard(shard)
        self._unverified.discard(shard)
        self._release(group, shard)
        self._add_source(group, shard.rank, shard, content)
        return self._feed(group)

    def failed(
        self, shard: ShardId, source: Source, failure: Failure
    ) -> tuple[list[Assignment], ShardId | None]:
        """The copy did not arrive.

        Returns assignments that can start now, and (for damage that a reader of a peer's copy
        found) the name under which the source holds it, so that the caller can have the source
        verify it. After that, or a transient failure, the shard rests until `retry`.
        """
        group = self._of_shard.get(shard)
        if group is None or shard not in self.open:
            return [], None
        self._unverified.discard(shard)
        self._release(group, shard)
        proven = failure in (Failure.CORRUPT, Failure.MISSING)
        if source.origin is Origin.LOCAL and proven:
            self._drop_source(group, shard.rank)
        elif source.origin is Origin.BACKUP and proven:
            group.from_backup = None
            self.backup_damaged = True
        elif source.origin is Origin.PEER and failure is Failure.MISSING:
            self._drop_source(group, source.rank)
        else:
            suspect = group.held_as.get(source.rank) if failure is Failure.CORRUPT else None
            return self._feed(group), suspect
        group.waiting.append(shard)
        return self._feed(group), None

    def retry(self, shard: ShardId) -> list[Assignment]:
        """The pause after a transient failure is over."""
        group = self._of_shard.get(shard)
        if group is None or shard not in self.open or shard in group.waiting:
            return []
        if shard in group.busy or shard == group.backup_busy or shard in self._unverified:
            return []
        group.waiting.append(shard)
        return self._feed(group)

    def source_damaged(self, rank: int, shard: ShardId) -> list[Assignment]:
        """The node's own copy failed its verification: never serve from it again."""
        group = self._of_shard.get(shard)
        if group is None:
            return []
        self._drop_source(group, rank)
        return self._feed(group)

    def _drop_source(self, group: _Group, rank: int) -> None:
        content = group.contents.pop(rank, None)
        group.held_as.pop(rank, None)
        if content is not None:
            self.dropped.append((rank, content))
        if rank in group.ready:
            group.ready.remove(rank)

    def _release(self, group: _Group, shard: ShardId) -> None:
        source = group.busy.pop(shard, None)
        if source is not None and source in group.contents and source not in group.ready:
            group.ready.append(source)
        if group.backup_busy == shard:
            group.backup_busy = None

    def _feed(self, group: _Group) -> list[Assignment]:
        """Pair waiting nodes with free sources; report those that no source can serve any more."""
        assignments = []
        while group.waiting and group.ready:
            source = group.ready.popleft()
            shard = group.waiting.popleft()
            group.busy[shard] = source
            origin = Origin.LOCAL if source == shard.rank else Origin.PEER
            assignments.append(Assignment(shard, group.contents[source], Source(origin, source)))
        if group.waiting and not group.contents and not group.busy:
            if group.from_backup is not None and self.backup is not None:
                if group.backup_busy is None:
                    shard = group.waiting.popleft()
                    group.backup_busy = shard
                    source_of = Source(Origin.BACKUP, backup=self.backup.name)
                    assignments.append(Assignment(shard, group.from_backup, source_of))
            elif group.backup_busy is None:
                self.exhausted.extend(group.waiting)
                group.waiting.clear()
        return assignments


def _leading(
    shard: ShardId, owners: Mapping[int, Content], stored: Content | None
) -> Content | None:
    """What counts where holders differ: the backup's, the owner's, else the lowest rank's."""
    if stored is not None:
        return stored
    if shard.rank in owners:
        return owners[shard.rank]
    return owners[min(owners)] if owners else None
