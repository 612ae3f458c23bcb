"""Who takes what from whom in a restore: the transfer schedule, as a state machine without I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from replicator.core.catalogue import Holders
from replicator.core.model import (
    Backup,
    CheckpointId,
    Content,
    Failure,
    Origin,
    ShardId,
    Source,
    content_key,
)

PATIENCE = 3
"""Failed connections of a node's shard until another kind of source is tried."""


@dataclass(slots=True)
class _Group:
    """Nodes that need equal content: every one that has got it serves the next."""

    key: str  # what makes their content equal (see `content_key`)
    # Source rank -> the name of its copy and what it holds.
    sources: dict[int, tuple[ShardId, Content]] = field(default_factory=dict)
    # Lines without duplicates: first come, first served, and all operations take constant time.
    ready: OrderedDict[int, None] = field(default_factory=OrderedDict)
    waiting: OrderedDict[ShardId, None] = field(default_factory=OrderedDict)
    cut_off: OrderedDict[ShardId, None] = field(default_factory=OrderedDict)  # of those waiting
    # Needing shard -> the source's rank, and what that was to give.
    busy: dict[ShardId, tuple[int, Content]] = field(default_factory=dict)
    from_backup: Content | None = None
    backup_busy: ShardId | None = None

    def add(self, rank: int, shard: ShardId, content: Content) -> None:
        """One more node that can serve."""
        if rank not in self.sources:
            self.sources[rank] = (shard, content)
            self.ready[rank] = None


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
    (by the caller, after a pause, through `retry`). After `PATIENCE` such failures of a node the
    backup is its source in every other try.
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
        self.unreachable: dict[ShardId, int] = {}  # how often nobody could be reached for it
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
            wanted = content_key(content, data_parallel)
            group = self._groups.get(wanted)
            if group is None:
                group = self._groups[wanted] = _Group(wanted)
            self._of_shard[shard] = group
            if shard in stored and group.from_backup is None:
                group.from_backup = stored[shard]
            own = owners.get(shard.rank)
            if own is not None and content_key(own, data_parallel) == wanted:
                local.append((shard, own))
            else:
                group.waiting[shard] = None
            for rank in sorted(owners) if len(owners) > 1 else owners:
                if content_key(owners[rank], data_parallel) == wanted:
                    group.add(rank, shard, owners[rank])
        self._local = local

    def start(self) -> list[Assignment]:
        """The first assignments: verify what is local, begin every tree."""
        assignments = []
        for shard, content in self._local:
            self._unverified.add(shard)
            assignments.append(Assignment(shard, content, Source(Origin.LOCAL, shard.rank)))
        for group in self._groups.values():
            assignments.extend(self._feed(group))
        return assignments

    def fill_from(self, backup: Backup | None) -> bool:
        """Take this backup as one more source; False where what it stores is something else."""
        if backup is None:
            return True
        stored = [(self._of_shard.get(shard), c) for shard, c in backup.shards.items()]
        if any(g and g.key != content_key(c, self._data_parallel) for g, c in stored):
            return False
        self.backup = backup
        for group, content in stored:
            if group is not None and group.from_backup is None:
                group.from_backup = content
        return True

    def done(self, shard: ShardId, content: Content) -> list[Assignment]:
        """The node of `shard.rank` holds it, verified."""
        group = self._of_shard.get(shard)
        if group is None or shard not in self.open:
            return []
        self.open.discard(shard)
        self._unverified.discard(shard)
        self.unreachable.pop(shard, None)
        self._release(group, shard)
        group.add(shard.rank, shard, content)
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
        _, asked_for = group.busy.get(shard, (None, None))
        self._release(group, shard)
        proven = failure in (Failure.CORRUPT, Failure.MISSING)
        if source.origin is Origin.LOCAL and proven:
            self._drop_source(group, shard.rank)
        elif source.origin is Origin.BACKUP and proven:
            group.from_backup = None
            self.backup_damaged = True
        elif source.origin is Origin.PEER and failure is Failure.MISSING:
            held = group.sources.get(source.rank)
            if held is not None and asked_for in (
                None,
                held[1],
            ):  # else it has got other data since
                self._drop_source(group, source.rank)
        else:
            if not proven:
                self.unreachable[shard] = self.unreachable.get(shard, 0) + 1
            held = group.sources.get(source.rank)
            suspect = held[0] if held is not None and failure is Failure.CORRUPT else None
            return self._feed(group), suspect
        self._wait(group, shard)
        return self._feed(group), None

    def retry(self, shard: ShardId) -> list[Assignment]:
        """The pause after a transient failure is over."""
        group = self._of_shard.get(shard)
        if group is None or shard not in self.open or shard in group.waiting:
            return []
        if shard in group.busy or shard == group.backup_busy or shard in self._unverified:
            return []
        self._wait(group, shard)
        return self._feed(group)

    def source_damaged(self, rank: int, shard: ShardId) -> list[Assignment]:
        """The node's own copy failed its verification: never serve from it again."""
        group = self._of_shard.get(shard)
        if group is None:
            return []
        self._drop_source(group, rank)
        return self._feed(group)

    def _drop_source(self, group: _Group, rank: int) -> None:
        held = group.sources.pop(rank, None)
        if held is not None:
            self.dropped.append((rank, held[1]))
        group.ready.pop(rank, None)

    def _release(self, group: _Group, shard: ShardId) -> None:
        source, _ = group.busy.pop(shard, (None, None))
        if source is not None and source in group.sources:
            group.ready[source] = None
        if group.backup_busy == shard:
            group.backup_busy = None

    def _feed(self, group: _Group) -> list[Assignment]:
        """Pair waiting nodes with free sources; report those that no source can serve any more."""
        assignments = self._feed_from_backup(group)
        while group.waiting and group.ready:
            source = group.ready.popitem(last=False)[0]
            shard = group.waiting.popitem(last=False)[0]
            group.cut_off.pop(shard, None)
            content = group.sources[source][1]
            group.busy[shard] = (source, content)
            origin = Origin.LOCAL if source == shard.rank else Origin.PEER
            assignments.append(Assignment(shard, content, Source(origin, source)))
        nobody = not group.sources and not group.busy and group.backup_busy is None
        if group.waiting and nobody and (group.from_backup is None or self.backup is None):
            self.exhausted.extend(group.waiting)
            group.waiting.clear()
        return assignments

    def _feed_from_backup(self, group: _Group) -> list[Assignment]:
        """One node at a time, where the cluster has nothing good or nobody who can be reached."""
        if group.from_backup is None or self.backup is None or group.backup_busy is not None:
            return []
        if not group.sources and not group.busy:
            shard = next(iter(group.waiting), None)
        else:
            shard = next(iter(group.cut_off), None)
        if shard is None:
            return []
        del group.waiting[shard]
        group.cut_off.pop(shard, None)
        group.backup_busy = shard
        source = Source(Origin.BACKUP, backup=self.backup.name)
        return [Assignment(shard, group.from_backup, source)]

    def _wait(self, group: _Group, shard: ShardId) -> None:
        """For the next free source; after too many failures also for the backup, in turn.

        The backup may be what cannot be reached.
        """
        group.waiting[shard] = None
        failures = self.unreachable.get(shard, 0)
        if failures >= PATIENCE and (failures - PATIENCE) % 2 == 0:
            group.cut_off[shard] = None


def _leading(
    shard: ShardId, owners: Mapping[int, Content], stored: Content | None
) -> Content | None:
    """What counts where holders differ: the backup's, the owner's, else the lowest rank's."""
    if stored is not None:
        return stored
    if shard.rank in owners:
        return owners[shard.rank]
    return owners[min(owners)] if owners else None
