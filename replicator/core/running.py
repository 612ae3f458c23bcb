"""The run phase of a coordinator: replication, backups, and what may go because of them.

It begins with the commit of a restore, or where a new coordinator finds all nodes in one run, and
lasts until the coordinator drops it because a node starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.backups import BackupRound
from replicator.core.catalogue import Catalogue
from replicator.core.deletion import may_delete
from replicator.core.members import Members
from replicator.core.model import Backup, CheckpointId, Job, Run, Timing
from replicator.core.rounds import Replication


class Running:
    """One run, as its coordinator sees it."""

    def __init__(
        self,
        job: Job,
        timing: Timing,
        members: Members,
        catalogue: Catalogue,
        backups: BackupRound,
        run: Run,
        checkpoint: CheckpointId | None,
        forced: str,
        discard: tuple[CheckpointId, ...],
        now: float,
    ) -> None:
        """All nodes are members and have what the commit links.

        Args:
            job: node 0's view of the job.
            timing: deadlines.
            members: all nodes.
            catalogue: what they hold.
            backups: knows the names that are taken.
            run: what all have agreed on.
            checkpoint: what was restored in it, None for nothing.
            forced: the backup that restore.version named for it.
            discard: checkpoints that proved useless in the restore.
            now: monotonic seconds.
        """
        self.run = run
        self._job = job
        self._timing = timing
        self._members = members
        self._catalogue = catalogue
        self._backups = backups
        self._checkpoint = checkpoint
        self._forced = forced
        self._discard = discard
        self._told: msg.Progress | None = None  # the last that all nodes were sent
        self._list_at: float | None = None  # when to ask again which backups there are
        backups.start(now, forced)
        self.replication = Replication(
            run,
            job.world,
            job.workers,
            {rank: member.hello.peers for rank, member in members.by_rank.items()},
            job.data_parallelism is not None,
            catalogue,
            timing,
        )

    def _addresses(self) -> dict[int, str]:
        return {rank: member.hello.address for rank, member in self._members.by_rank.items()}

    def begin(self, now: float) -> list[fx.CoordinatorEffect]:
        """After a restore: release the nodes, then make redundant again what was restored."""
        effects: list[fx.CoordinatorEffect] = []
        for rank in sorted(self._members.by_rank):
            effects += self._commit(rank, now)
        self.replication.restored(self._checkpoint, now)
        self.replication.arrived(self._addresses(), now)
        members = self._members.by_rank
        unprotected = sorted(rank for rank, m in members.items() if not m.hello.peers)
        if unprotected:
            text = f"unprotected: node(s) {unprotected[:8]} have no peer; only backups help them"
            effects += self._members.broadcast(msg.Report(text), now)
        return effects + self._after_change(now)

    def resume(self, now: float) -> list[fx.CoordinatorEffect]:
        """A new coordinator goes on where the one before ended."""
        self.replication.resume(now)
        self.replication.arrived(self._addresses(), now)
        effects: list[fx.CoordinatorEffect] = []
        if self.replication.replicated is not None:
            effects.append(fx.Replicated(self.replication.replicated))
        if not self._backups.listed:
            effects.append(fx.ListBackups())
        for rank in sorted(self._members.by_rank):
            effects += self._welcome(rank, now)
        return effects + self._after_change(now)

    # ---- membership -----------------------------------------------------------------------------

    def rejoin(self, hello: msg.Hello, now: float) -> list[fx.CoordinatorEffect]:
        """A node of this run is back, or was late for the commit."""
        replication = self.replication
        active = replication.active
        replication.arrived({hello.rank: hello.address}, now)
        effects = self._welcome(hello.rank, now)
        order = self._backups.repeat(hello.rank)
        if order is not None:
            effects += self._members.to(hello.rank, order, now)
        targets = (
            replication.guards.neighbours(hello.rank) if replication.active == active else None
        )
        return effects + self._after_change(now, targets)

    def _welcome(self, rank: int, now: float) -> list[fx.CoordinatorEffect]:
        effects: list[fx.CoordinatorEffect] = []
        if self._members.by_rank[rank].hello.linked is None:
            effects += self._commit(rank, now)
        return effects + self._members.to(rank, self.replication.progress(), now)

    def _commit(self, rank: int, now: float) -> list[fx.CoordinatorEffect]:
        self._members.committed(rank, self.run, self._checkpoint, self._forced)
        return self._members.to(rank, msg.Commit(self.run, self._checkpoint, self._discard), now)

    def left(self, rank: int) -> None:
        """A node is gone."""
        self.replication.left(rank)

    # ---- messages -------------------------------------------------------------------------------

    def received(
        self, rank: int, message: msg.ToCoordinator, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A member's message."""
        handler = _HANDLERS.get(type(message))
        return handler(self, rank, message, now) if handler is not None else []

    def _on_have(self, rank: int, have: msg.Have, now: float) -> list[fx.CoordinatorEffect]:
        if have.shard.rank < self._job.world and have.shard.worker < self._job.workers:
            self.replication.receipt(rank, have.checkpoint, have.shard, have.content)
        return self._after_change(now, (rank,))

    def _on_sealed(self, rank: int, sealed: msg.Sealed, now: float) -> list[fx.CoordinatorEffect]:
        replication = self.replication
        active = replication.active
        replication.seal(rank, sealed.checkpoint, sealed.contents, now)
        targets = replication.guards.followers(rank) if replication.active == active else None
        return self._after_change(now, targets)

    def _on_copy_failed(
        self, rank: int, failed: msg.CopyFailed, now: float
    ) -> list[fx.CoordinatorEffect]:
        order = self.replication.copy_failed(rank, failed, now)
        return [] if order is None else self._members.to(failed.source.rank, order, now)

    def _on_backup_done(
        self, rank: int, done: msg.BackupDone, now: float
    ) -> list[fx.CoordinatorEffect]:
        effects, report = self._backups.part_done(rank, done, now)
        return self._backup_changed(effects, report, now)

    def backup_completed(self, name: str, problem: str, now: float) -> list[fx.CoordinatorEffect]:
        """The manifest of a backup is written, or could not be."""
        return self._backup_changed([], self._backups.completed(name, problem), now)

    def backups_listed(
        self, backups: Sequence[Backup], problem: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        """Which backups there are; then one may begin. Asked again where that cannot be told."""
        if self._backups.listed:
            return []
        if problem:
            self._list_at = now + self._timing.retry_cap
            return []
        self._backups.resume(backups, self.run.epoch, now)
        replicated = self.replication.replicated
        effects = [] if replicated is None else self._back_up(replicated, now)
        return effects + self._after_change(now)

    def _back_up(self, checkpoint: CheckpointId, now: float) -> list[fx.CoordinatorEffect]:
        effects: list[fx.CoordinatorEffect] = []
        for rank, order in self._backups.maybe_start(checkpoint, self._catalogue, now):
            effects += self._members.to(rank, order, now)
        return effects

    def _backup_changed(
        self, effects: list[fx.CoordinatorEffect], report: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        if report:
            effects = [*effects, *self._members.broadcast(msg.Report(report), now)]
        return effects + self._after_change(now)

    # ---- what follows ---------------------------------------------------------------------------

    def _after_change(
        self, now: float, targets: Sequence[int] | None = None
    ) -> list[fx.CoordinatorEffect]:
        """Close the round if it is done, give new orders, let old data go."""
        replication = self.replication
        effects: list[fx.CoordinatorEffect] = []
        done = replication.newly_replicated(now)
        if done is not None:
            effects.append(fx.Replicated(done))
            targets = None
            effects += self._back_up(done, now)
            if self._forced and done.epoch == self.run.epoch:
                effects.append(fx.ClearForcedVersion(self._forced))
                self._forced = ""
        replication.held = set(self._backups.holds())
        effects += self._progress(now)
        for rank, fetch in replication.orders(now, targets):
            effects += self._members.to(rank, fetch, now)
        return effects

    def _progress(self, now: float) -> list[fx.CoordinatorEffect]:
        """Tell all nodes what may go, whenever that has changed."""
        stay = self.replication.progress()
        if stay == self._told:
            return []
        self._told = stay
        for rank in self._members.by_rank:
            self._catalogue.keep_only(
                rank, lambda c: not may_delete(c, stay.complete, stay.replicated, stay.held)
            )
        return self._members.broadcast(stay, now)

    def tick(self, now: float) -> list[fx.CoordinatorEffect]:
        """Deadlines and retries."""
        effects: list[fx.CoordinatorEffect] = []
        if self._list_at is not None and now >= self._list_at:
            self._list_at = None
            effects.append(fx.ListBackups())
        if failed := self.replication.tick(now):
            effects.append(fx.NotReplicated(failed))
        for text in (failed, self._backups.tick(now)):
            if text:
                effects += self._members.broadcast(msg.Report(text), now)
        return effects + self._after_change(now)


_HANDLERS: dict[type[Any], Callable[..., list[fx.CoordinatorEffect]]] = {
    msg.Sealed: Running._on_sealed,
    msg.Have: Running._on_have,
    msg.CopyFailed: Running._on_copy_failed,
    msg.BackupDone: Running._on_backup_done,
}
