"""The invariants of the design, checked while a simulation runs.

1 the newest complete checkpoint, in cluster or backup, is never deleted; 2 a restore link points
only at verified data; 3 all nodes of a run, and of a start of the job, restore the same step; 4 a
step is called replicated only when every required copy was verified on its peer; 5 a backup is
complete only when all its parts are stored; 6 crashes may repeat any action (shown by 1 to 5
holding under crashes, and by progress once faults end); 7 messages from strangers are not acted on.

Each is checked at the effect that could break it, before anything else happens. What can be seen of
them in the state (3, 5, 7, and that a linked node remembers what it linked) is checked after every
event as well, so that no way around those effects exists.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator.core.catalogue import all_shards
from replicator.core.coordinator import Coordinator
from replicator.core.model import CheckpointId, Content, Key, Run, ShardId, content_key
from replicator.simulate.disk import BackupStore, Disk, StoredBackup

NEWS_DELAY = 0.2
"""Virtual seconds within which a coordinator learns that a machine is gone."""


STRANGE = CheckpointId(99, 99)
"""What messages of strangers speak of; the job itself never comes that far."""


class Violation(AssertionError):  # noqa: N818
    """An invariant does not hold."""


class Invariants:
    """Truth that the core cannot see, and the checks against it."""

    def __init__(self, disks: list[Disk], store: BackupStore, world: int, workers: int) -> None:
        self._disks = disks
        self._store = store
        self._world = world
        self._shards = all_shards(world, workers)
        self._restored: dict[Run, CheckpointId | None] = {}
        self._of_start: dict[int, tuple[Run, CheckpointId | None]] = {}
        self._certain: set[Run] = set()  # planned with the backups and restore.version known
        self._receipts: dict[tuple[int, Key], str] = {}
        self._lost: dict[tuple[int, Key], tuple[str, float]] = {}
        self._ghosts: list[tuple[float, Disk]] = []
        self.announced: CheckpointId | None = None
        self.data_parallel = False

    # ---- truth ----------------------------------------------------------------------------------

    def newest(self, disks: Iterable[Disk], *, intact: bool) -> CheckpointId | None:
        """The newest checkpoint of which every shard is somewhere (with `intact`: undamaged).

        A damaged copy that nobody has hashed since still counts when `intact` is false.
        """
        found: dict[CheckpointId, set[ShardId]] = {}
        for disk in disks:
            for key, stored in disk.copies.items():
                if stored.good or not intact:
                    found.setdefault(key.checkpoint, set()).add(key.shard)
        best = [c for c, shards in found.items() if len(shards) == len(self._shards)]
        whole = [
            backup.checkpoint
            for _, backup in sorted(self._store.backups.items())
            if backup.complete and (backup.good or not intact)
        ]
        # A backup counts by its time: after a forced return to an older step the next backup is
        # what the operator wants back, although its checkpoint is older.
        best += whole[-1:] if intact else whole
        return max(best, default=None)

    def _is_whole(self, checkpoint: CheckpointId) -> bool:
        found = {k.shard for disk in self._disks for k in disk.copies if k.checkpoint == checkpoint}
        return len(found) == len(self._shards)

    # ---- checks ---------------------------------------------------------------------------------

    def after_event(self, coordinators: Iterable[Coordinator]) -> None:
        """What must hold of the state at any moment."""
        for machine, disk in enumerate(self._disks):
            linked = disk.state.linked
            if linked is not None and self._restored.get(linked, STRANGE) != disk.state.checkpoint:
                raise Violation(f"3: m{machine} remembers another restore of {linked}")
            if STRANGE in (key.checkpoint for key in disk.copies):
                raise Violation(f"7: m{machine} holds what a stranger spoke of")
        for coordinator in coordinators:
            if STRANGE in coordinator.catalogue.checkpoints or coordinator.checkpoint == STRANGE:
                raise Violation("7: a coordinator counts what a stranger spoke of")
        for name, backup in self._store.backups.items():
            if backup.complete and len(backup.records) != len(self._shards):
                raise Violation(f"5: backup {name} is complete without all of its shards")

    def received(self, machine: int, key: Key, content: Content) -> None:
        """A verified copy landed on a machine's disk."""
        self._receipts[machine, key] = content_key(content, self.data_parallel)

    def deleting(self, machine: int, keys: Iterable[Key], now: float) -> None:
        """Invariant 1, for a deletion that the core ordered (call before it happens)."""
        disk = self._disks[machine]
        # A disk that was lost a moment ago counts as there: nobody can know yet.
        disks = [*self._disks, *(ghost for when, ghost in self._ghosts if now - when < NEWS_DELAY)]
        before = self.newest(disks, intact=False)
        gone = {key: disk.copies.pop(key) for key in keys if key in disk.copies}
        after = self.newest(disks, intact=False)
        disk.copies.update(gone)
        if before is not None and (after is None or after < before):
            raise Violation(f"1: deleting {sorted(gone)} on m{machine} destroys {before}")
        useful = self.announced is not None and self._is_whole(self.announced)
        for key in gone:
            if useful and key.checkpoint == self.announced:
                raise Violation(f"1: m{machine} deletes {key} of the newest replicated checkpoint")
            self._receipts.pop((machine, key), None)

    def linking(
        self,
        machine: int,
        start: int,
        attempt: str,
        shards: tuple[ShardId, ...],
        run: Run,
        checkpoint: CheckpointId | None,
    ) -> None:
        """Invariants 2 and 3, when a node links its shards in this start of the job."""
        if run in self._restored and self._restored[run] != checkpoint:
            raise Violation(
                f"3: run {run} restores {checkpoint} on m{machine}, elsewhere {self._restored[run]}"
            )
        self._restored[run] = checkpoint
        first = self._of_start.setdefault(start, (run, checkpoint))
        if first[1] != checkpoint:
            raise Violation(f"3: m{machine} links {run} {checkpoint}, in the same start {first}")
        if run not in self._certain:
            raise Violation(f"1: m{machine} links {run}, planned before the backups were read")
        if checkpoint is None:
            return
        for shard in shards:
            stored = self._disks[machine].copies.get(Key(checkpoint, shard))
            if stored is None or stored.verified != attempt:
                raise Violation(f"2: m{machine} links {checkpoint} without verified data")

    def planning(self, run: Run, forced: str, read: str | None) -> None:
        """A plan that nodes may prepare for: `read` is what restore.version named ("" nothing)."""
        if read is None:
            raise Violation(f"1: {run} is planned before the backups were read")
        if forced != read:
            raise Violation(f"1: {run} restores version {forced!r} where {read!r} was asked for")
        self._certain.add(run)

    def committing(self, members: Iterable[Disk], checkpoint: CheckpointId | None) -> None:
        """A restore may not go back further than damage and losses force it to."""
        best = self.newest(members, intact=True)
        if best is not None and (checkpoint is None or checkpoint < best):
            raise Violation(f"1: restored {checkpoint} although {best} is whole")
        if self.announced is not None and not self._is_whole(self.announced):
            # It went with its disks, and so may have all memory of its epoch: a later checkpoint
            # can have its name.
            self.announced = None

    def replicated(
        self,
        checkpoint: CheckpointId,
        machine_of: list[int],
        required: dict[ShardId, set[int]],
        now: float,
    ) -> None:
        """Invariant 4, when the coordinator calls a checkpoint replicated."""
        for shard in self._shards:
            keys = set()
            for rank in required[shard]:
                entry = (machine_of[rank], Key(checkpoint, shard))
                receipt = self._receipts.get(entry)
                lost, when = self._lost.get(entry, ("", 0.0))
                if receipt is None and lost and now - when < NEWS_DELAY:
                    receipt = lost  # it was verified; that the disk is gone cannot be known yet
                if receipt is None:
                    raise Violation(f"4: {checkpoint} called replicated, n{rank} lacks {shard}")
                keys.add(receipt)
            if len(keys) != 1:
                raise Violation(f"4: copies of {shard} of {checkpoint} differ")
        if self.announced is None or checkpoint > self.announced:
            self.announced = checkpoint

    @staticmethod
    def storing(name: str, backup: StoredBackup, checkpoint: CheckpointId) -> None:
        """Invariant 5, when a part of a backup is written: one name is one checkpoint."""
        if backup.checkpoint != checkpoint:
            raise Violation(f"5: {checkpoint} is stored in backup {name} of {backup.checkpoint}")

    def completing_backup(self, name: str) -> None:
        """Invariant 5, when the final manifest of a backup is written."""
        backup = self._store.backups.get(name)
        missing = [s for s in self._shards if backup is None or s not in backup.records]
        if backup is None or missing:
            raise Violation(f"5: backup {name} called complete without {missing}")
        for shard, content in backup.records.items():
            if content_key(content, self.data_parallel) not in backup.data:
                raise Violation(f"5: backup {name} has no data for {shard}")

    def wiped(self, machine: int, now: float) -> None:
        """A machine loses its disk (call before it happens): not a deletion of ours."""
        self._ghosts = [(t, g) for t, g in self._ghosts if now - t < NEWS_DELAY]
        self._ghosts.append((now, Disk(copies=dict(self._disks[machine].copies))))
        for entry in [entry for entry in self._receipts if entry[0] == machine]:
            self._lost[entry] = (self._receipts.pop(entry), now)
