"""The coordinator's state machine, on the agent of node 0: it decides, nodes carry out.

Phases: GATHER (wait until every rank has said hello) -> RESTORE (see restore.py) -> RUN (see
rounds.py). It keeps nothing on disk: a new coordinator learns all from the nodes' hellos, so that a
crash at any point can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.backups import BackupRound
from replicator.core.catalogue import Catalogue
from replicator.core.deletion import may_delete
from replicator.core.members import Members
from replicator.core.model import (
    Backup,
    CheckpointId,
    Job,
    Run,
    ShardId,
    Timing,
)
from replicator.core.restore import Restore
from replicator.core.rounds import Replication


class Phase(StrEnum):
    """What the coordinator is doing."""

    GATHER = "gather"
    RESTORE = "restore"
    RUN = "run"
    FAILED = "failed"


class Coordinator:
    """The state machine. Every method returns effects to be carried out in order."""

    def __init__(
        self,
        job: Job,
        token: str,
        timing: Timing,
        name_backup: Callable[[str], str],
        now: float,
    ) -> None:
        """Start gathering.

        Args:
            job: node 0's view of the job.
            token: unique to this coordinator's life; makes its runs unique.
            timing: deadlines.
            name_backup: gives a new backup's name, later than the newest known one it is given.
            now: monotonic seconds.
        """
        self.job = job
        self.phase = Phase.GATHER
        self.members = Members(job, timing)
        self.catalogue = Catalogue()
        self.restore: Restore | None = None
        self.replication: Replication | None = None
        self.run: Run | None = None
        self.checkpoint: CheckpointId | None = None
        self.forced = ""  # the backup that restore.version named for the current run
        self.backups = BackupRound(job, timing, name_backup)
        self._timing = timing
        self._token = token
        self._restores = 0
        self._since = now
        self._discard: tuple[CheckpointId, ...] = ()
        self._told: msg.Progress | None = None  # the last that all nodes were sent

    # ---- membership -----------------------------------------------------------------------------

    def received(
        self, connection: int, message: msg.ToCoordinator, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A message on a connection, already decoded and authenticated."""
        if isinstance(message, msg.Hello):
            return self._on_hello(connection, message, now)
        rank = self.members.rank_of(connection)
        if rank is None:
            return []
        self.members.heard(rank, now)
        handler = _HANDLERS.get(type(message))
        return handler(self, rank, message, now) if handler is not None else []

    def _on_hello(
        self, connection: int, hello: msg.Hello, now: float
    ) -> list[fx.CoordinatorEffect]:
        problem = self.members.problem(connection, hello, now)
        if problem:
            return [fx.Answer(connection, msg.NotYet(problem))]
        effects, before = self.members.admit(connection, hello, now)
        if before is not None:
            self.catalogue.forget(before)
        self.catalogue.replace(hello.rank, hello.copies)
        if self.phase is Phase.RUN:
            return effects + self._rejoin(hello, now)
        if self.phase is not Phase.GATHER:
            self._gather(now)
        return effects + self._evaluate(now)

    def lost(self, connection: int, now: float) -> list[fx.CoordinatorEffect]:
        """A connection is closed."""
        rank = self.members.remove(connection)
        if rank is None:
            return []
        self.catalogue.forget(rank)
        if self.phase is Phase.RUN and self.replication is not None:
            self.replication.left(rank)
        elif self.phase is Phase.RESTORE:
            self._gather(now)
        return []

    def _gather(self, now: float) -> None:
        self.phase = Phase.GATHER
        self.replication = None
        self.restore = None
        self._since = now
        self.backups.abandon()

    def _rejoin(self, hello: msg.Hello, now: float) -> list[fx.CoordinatorEffect]:
        """A hello while the run goes on: a reconnection, a late commit, or the run is over."""
        if self.run not in (hello.linked, hello.prepared if hello.linked is None else None):
            self._gather(now)
            return self._evaluate(now)
        replication = self.replication
        assert replication is not None
        active = replication.active
        replication.arrived({hello.rank: hello.address}, now)
        effects = self._welcome(hello.rank, now)
        order = self.backups.repeat(hello.rank)
        if order is not None:
            effects += self.members.to(hello.rank, order, now)
        targets = replication.neighbours(hello.rank) if replication.active == active else None
        return effects + self._after_change(now, targets)

    def _welcome(self, rank: int, now: float) -> list[fx.CoordinatorEffect]:
        assert self.replication is not None
        assert self.run is not None
        effects: list[fx.CoordinatorEffect] = []
        if self.members.by_rank[rank].hello.linked is None:
            commit = msg.Commit(self.run, self.checkpoint, self._discard)
            effects += self.members.to(rank, commit, now)
        return effects + self.members.to(rank, self.replication.progress(), now)

    def _evaluate(self, now: float) -> list[fx.CoordinatorEffect]:
        """In GATHER: go on once every rank is here and their states fit together."""
        if not self.members.everyone:
            return []
        hellos = [member.hello for member in self.members.by_rank.values()]
        runs = {hello.linked or hello.prepared for hello in hellos}
        if len(runs) == 1 and None not in runs:
            return self._resume(hellos[0], now)  # all linked or prepared for one and the same run
        if any(hello.linked is not None for hello in hellos):
            return []  # some still run: their replicator.yaml is yet to come
        self._restores += 1
        self.phase = Phase.RESTORE
        self.restore = Restore(
            self.job,
            self._timing,
            self.members,
            self.catalogue,
            f"{self._token}-{self._restores}",
            self.run.epoch if self.run is not None else 0,
            now,
        )
        return self.restore.start(now) + self._restore_changed(now)

    def _resume(self, hello: msg.Hello, now: float) -> list[fx.CoordinatorEffect]:
        self.run = hello.linked or hello.prepared
        self.checkpoint = hello.checkpoint
        self.forced = hello.forced
        self._discard = ()
        effects = self._enter_run(now, resumed=True)
        return [*effects, fx.Log(f"run {self.run} goes on")]

    # ---- restore --------------------------------------------------------------------------------

    def backups_read(
        self, backups: Sequence[Backup], forced: str | None, problem: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        """The backup tier was listed, or could not be (then `problem` says why)."""
        if self.restore is None:
            return []
        self.backups.known(backup.name for backup in backups)
        effects = self.restore.backups_read(backups, forced, problem, now)
        return effects + self._restore_changed(now)

    def forced_is_bad(self, problem: str, now: float) -> list[fx.CoordinatorEffect]:
        """`restore.version` cannot be read as a backup's name: refuse, delete nothing."""
        if self.restore is None:
            return []
        self.restore.forced_is_bad(problem)
        return self._restore_changed(now)

    def _restore_changed(self, now: float) -> list[fx.CoordinatorEffect]:
        """Follow the restore: still going on, refused, or ready to be committed."""
        restore = self.restore
        if restore is None:
            return []
        self.run, self.checkpoint = restore.run, restore.checkpoint
        if restore.refused:
            self.restore = None
            self.phase = Phase.FAILED
            refusal = msg.Refuse(restore.refused)
            return [*self.members.broadcast(refusal, now), fx.Log(restore.refused)]
        if not restore.ready or restore.run is None:
            return []
        self.restore = None
        self.forced = restore.forced
        self._discard = restore.discard
        for checkpoint in restore.discard:
            self.catalogue.drop(checkpoint)
        if restore.checkpoint is None:
            self.catalogue = Catalogue()  # the nodes put aside whatever they held
        commit = msg.Commit(restore.run, restore.checkpoint, restore.discard)
        effects = self.members.broadcast(commit, now)
        return effects + self._enter_run(now, resumed=False)

    def _on_have(self, rank: int, have: msg.Have, now: float) -> list[fx.CoordinatorEffect]:
        if self.phase is Phase.RUN and self.replication is not None:
            if have.shard.rank < self.job.world and have.shard.worker < self.job.workers:
                self.replication.receipt(rank, have.checkpoint, have.shard, have.content)
            return self._after_change(now, (rank,))
        if self.restore is not None:
            return self.restore.have(rank, have, now) + self._restore_changed(now)
        self.catalogue.add(rank, have.checkpoint, have.shard, have.content, self.job.world)
        return []

    def _on_copy_failed(
        self, rank: int, failed: msg.CopyFailed, now: float
    ) -> list[fx.CoordinatorEffect]:
        if self.phase is Phase.RUN:
            return self._round_copy_failed(rank, failed, now)
        if self.restore is None:
            return []
        return self.restore.copy_failed(rank, failed, now) + self._restore_changed(now)

    def _on_prepared(
        self, rank: int, prepared: msg.Prepared, now: float
    ) -> list[fx.CoordinatorEffect]:
        if self.restore is None:
            return []
        self.restore.prepared(rank, prepared)
        return self._restore_changed(now)

    # ---- run ------------------------------------------------------------------------------------

    def _enter_run(self, now: float, *, resumed: bool) -> list[fx.CoordinatorEffect]:
        assert self.run is not None
        self.phase = Phase.RUN
        self._told = None
        self.backups.start(now, self.forced)
        members = self.members.by_rank
        self.replication = Replication(
            self.run,
            self.job.world,
            self.job.workers,
            {rank: member.hello.peers for rank, member in members.items()},
            self.job.data_parallelism is not None,
            self.catalogue,
            self._timing,
        )
        addresses = {rank: member.hello.address for rank, member in members.items()}
        effects: list[fx.CoordinatorEffect] = []
        if resumed:
            self.replication.resume(now)
            self.replication.arrived(addresses, now)
            if self.replication.replicated is not None:
                effects.append(fx.Replicated(self.replication.replicated))
            for rank in sorted(members):
                effects += self._welcome(rank, now)
            return effects + self._after_change(now)
        self.replication.restored(self.checkpoint, now)
        self.replication.arrived(addresses, now)
        unprotected = sorted(rank for rank, m in members.items() if not m.hello.peers)
        if unprotected:
            text = f"unprotected: node(s) {unprotected[:8]} have no peer; only backups help them"
            effects += self.members.broadcast(msg.Report(text), now)
        return effects + self._after_change(now)

    def _on_sealed(self, rank: int, sealed: msg.Sealed, now: float) -> list[fx.CoordinatorEffect]:
        replication = self.replication
        if replication is None:
            for worker, content in enumerate(sealed.contents[: self.job.workers]):
                shard = ShardId(rank, worker)
                self.catalogue.add(rank, sealed.checkpoint, shard, content, self.job.world)
            return []
        active = replication.active
        replication.seal(rank, sealed.checkpoint, sealed.contents, now)
        targets = replication.followers(rank) if replication.active == active else None
        return self._after_change(now, targets)

    def _round_copy_failed(
        self, rank: int, failed: msg.CopyFailed, now: float
    ) -> list[fx.CoordinatorEffect]:
        assert self.replication is not None
        order = self.replication.copy_failed(rank, failed, now)
        return [] if order is None else self.members.to(failed.source.rank, order, now)

    def _on_backup_done(
        self, rank: int, done: msg.BackupDone, now: float
    ) -> list[fx.CoordinatorEffect]:
        effects, report = self.backups.part_done(rank, done, now)
        return self._backup_changed(effects, report, now)

    def backup_completed(self, name: str, problem: str, now: float) -> list[fx.CoordinatorEffect]:
        """The manifest of a backup is written, or could not be."""
        return self._backup_changed([], self.backups.completed(name, problem), now)

    def _backup_changed(
        self, effects: list[fx.CoordinatorEffect], report: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        if report:
            effects = [*effects, *self.members.broadcast(msg.Report(report), now)]
        return effects + self._after_change(now)

    def _after_change(
        self, now: float, targets: Sequence[int] | None = None
    ) -> list[fx.CoordinatorEffect]:
        """Close the round if it is done, give new orders, let old data go."""
        replication = self.replication
        if replication is None:
            return []
        effects: list[fx.CoordinatorEffect] = []
        done = replication.newly_replicated(now)
        if done is not None:
            effects.append(fx.Replicated(done))
            targets = None
            for rank, order in self.backups.maybe_start(done, self.catalogue, now):
                effects += self.members.to(rank, order, now)
            if self.forced and self.run is not None and done.epoch == self.run.epoch:
                effects.append(fx.ClearForcedVersion(self.forced))
                self.forced = ""
        replication.held = set(self.backups.holds())
        effects += self._progress(replication, now)
        for rank, fetch in replication.orders(now, targets):
            effects += self.members.to(rank, fetch, now)
        return effects

    def _progress(self, replication: Replication, now: float) -> list[fx.CoordinatorEffect]:
        """Tell all nodes what may go, whenever that has changed."""
        stay = replication.progress()
        if stay == self._told:
            return []
        self._told = stay
        for rank in self.members.by_rank:
            self.catalogue.keep_only(
                rank, lambda c: not may_delete(c, stay.complete, stay.replicated, stay.held)
            )
        return self.members.broadcast(stay, now)

    # ---- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[fx.CoordinatorEffect]:
        """Called about once a second: heartbeats, deadlines, retries."""
        effects: list[fx.CoordinatorEffect] = []
        for connection in self.members.silent(now):
            effects += [fx.Drop(connection), *self.lost(connection, now)]
        effects += self.members.pings(now)
        if self.phase is Phase.GATHER:
            effects += self._tick_gather(now)
        elif self.restore is not None:
            effects += self.restore.tick(now)
            effects += self._restore_changed(now)
        elif self.replication is not None:
            effects += self._tick_run(self.replication, now)
        return effects

    def _tick_gather(self, now: float) -> list[fx.CoordinatorEffect]:
        if now - self._since <= self._timing.join:
            return []
        self._since = now
        text, stale = self.members.absence()
        effects = self.members.broadcast(msg.Report(text), now)
        refusal = msg.Refuse(text + ". Nothing was deleted.")
        for rank in sorted(self.members.by_rank.keys() - stale):
            effects += self.members.to(rank, refusal, now)
        return effects

    def _tick_run(self, replication: Replication, now: float) -> list[fx.CoordinatorEffect]:
        effects: list[fx.CoordinatorEffect] = []
        for text in (replication.tick(now), self.backups.tick(now)):
            if text:
                effects += self.members.broadcast(msg.Report(text), now)
        return effects + self._after_change(now)


_HANDLERS: dict[type[Any], Callable[..., list[fx.CoordinatorEffect]]] = {
    msg.Sealed: Coordinator._on_sealed,
    msg.Have: Coordinator._on_have,
    msg.CopyFailed: Coordinator._on_copy_failed,
    msg.Prepared: Coordinator._on_prepared,
    msg.BackupDone: Coordinator._on_backup_done,
}
