"""The coordinator's state machine, on the agent of node 0: it decides, nodes carry out.

Phases: GATHER (wait until every rank has said hello) -> READING (look at the backups) -> RESTORE
(plan, transfers, two-phase agreement) -> RUN (replication rounds). It keeps nothing on disk: a new
coordinator learns all from the nodes' hellos, so that a crash at any point can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.backups import BackupRound
from replicator.core.model import (
    Backup,
    CheckpointId,
    Failure,
    Job,
    Origin,
    Run,
    ShardId,
    Source,
    Timing,
)
from replicator.core.node import may_delete
from replicator.core.plan import Assignment, Catalogue, Choice, Distribution, all_shards, choose
from replicator.core.plan import Refusal as Refused
from replicator.core.rounds import Replication

READ_ATTEMPTS = 5
"""Listings of the backup tier that may fail before a restore is given up."""


class Phase(StrEnum):
    """What the coordinator is doing."""

    GATHER = "gather"
    READING = "reading"
    RESTORE = "restore"
    RUN = "run"
    FAILED = "failed"


@dataclass(slots=True)
class Member:
    """A rank with a live connection."""

    connection: int
    hello: msg.Hello
    heard: float
    sent: float


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
        self.members: dict[int, Member] = {}
        self._rank_by_connection: dict[int, int] = {}
        self._checks: set[tuple[int, ShardId]] = set()
        self.catalogue = Catalogue()
        self.replication: Replication | None = None
        self.run: Run | None = None
        self.checkpoint: CheckpointId | None = None
        self.shards = all_shards(job.world, job.workers)
        self.backups = BackupRound(job, timing, name_backup)
        self._timing = timing
        self._token = token
        self._runs = 0
        self._since = now
        self._backup_list: list[Backup] = []
        self._damaged_backups: tuple[str, ...] = ()
        self._forced = ""
        self._reads_failed = 0
        self._read_at: float | None = None
        self._distribution: Distribution | None = None
        self._discard: tuple[CheckpointId, ...] = ()
        self._prepared: set[int] = set()
        self._retries: dict[ShardId, tuple[float, float]] = {}  # shard -> (when, next delay)
        self._transfers: dict[ShardId, tuple[Source, float]] = {}

    # ---- membership -----------------------------------------------------------------------------

    def received(
        self, connection: int, message: msg.ToCoordinator, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A message on a connection, already decoded and authenticated."""
        if isinstance(message, msg.Hello):
            return self._on_hello(connection, message, now)
        rank = self._rank_of(connection)
        if rank is None:
            return []
        self.members[rank].heard = now
        handler = _HANDLERS.get(type(message))
        return handler(self, rank, message, now) if handler is not None else []

    def _rank_of(self, connection: int) -> int | None:
        rank = self._rank_by_connection.get(connection)
        if rank is None or rank not in self.members:
            return None
        return rank if self.members[rank].connection == connection else None

    def _on_hello(
        self, connection: int, hello: msg.Hello, now: float
    ) -> list[fx.CoordinatorEffect]:
        problem = self._hello_problem(connection, hello, now)
        if problem:
            return [fx.Answer(connection, msg.NotYet(problem))]
        effects: list[fx.CoordinatorEffect] = []
        old = self.members.get(hello.rank)
        if old is not None and old.connection != connection:
            effects.append(fx.Drop(old.connection))
            del self._rank_by_connection[old.connection]
        stale = self._rank_of(connection)
        if stale is not None and stale != hello.rank:  # the node took another rank
            del self.members[stale]
            self.catalogue.forget(stale)
        self.members[hello.rank] = Member(connection, hello, now, now)
        self._rank_by_connection[connection] = hello.rank
        self.catalogue.replace(hello.rank, hello.copies)
        if self.phase is Phase.RUN:
            return effects + self._rejoin(hello, now)
        if self.phase is not Phase.GATHER:
            effects += self._gather(now)
        return effects + self._evaluate(now)

    def _hello_problem(self, connection: int, hello: msg.Hello, now: float) -> str:
        job = self.job
        if hello.job != job.name:
            return f"this coordinator serves job {job.name!r}, not {hello.job!r}"
        if hello.uid and job.uid and hello.uid != job.uid:
            return f"another run of job {job.name!r} (uid {job.uid}) uses this coordinator"
        if hello.world != job.world or hello.workers != job.workers:
            return (
                f"node {hello.rank} expects {hello.world} nodes x {hello.workers} workers, the "
                f"coordinator {job.world} x {job.workers}; waiting for equal replicator.yaml files"
            )
        if not 0 <= hello.rank < job.world:
            return f"node-rank {hello.rank} is outside 0..{job.world - 1}"
        if hello.data_parallel != (job.data_parallelism is not None):
            return "assume-data-parallelism differs between nodes"
        if any(not 0 <= peer < job.world or peer == hello.rank for peer in hello.peers):
            return f"node {hello.rank} names peers outside the job or itself: {hello.peers}"
        old = self.members.get(hello.rank)
        if old is None or old.connection == connection or old.hello.address == hello.address:
            return ""
        if now - old.heard >= self._timing.silence:
            return ""
        return f"node-rank {hello.rank} is taken by the node at {old.hello.address}"

    def lost(self, connection: int, now: float) -> list[fx.CoordinatorEffect]:
        """A connection is closed."""
        rank = self._rank_of(connection)
        if rank is None:
            return []
        del self.members[rank]
        del self._rank_by_connection[connection]
        self.catalogue.forget(rank)
        if self.phase is Phase.RUN and self.replication is not None:
            self.replication.left(rank)
            return []
        if self.phase in (Phase.READING, Phase.RESTORE):
            return self._gather(now)
        return []

    def _gather(self, now: float) -> list[fx.CoordinatorEffect]:
        self.phase = Phase.GATHER
        self.replication = None
        self._distribution = None
        self._read_at = None
        self._since = now
        self.backups.abandon()
        return []

    def _rejoin(self, hello: msg.Hello, now: float) -> list[fx.CoordinatorEffect]:
        """A hello while the run goes on: a reconnection, a late commit, or the run is over."""
        replication = self.replication
        assert replication is not None
        if hello.linked == self.run or (hello.linked is None and hello.prepared == self.run):
            effects = self._welcome(hello.rank, now)
            order = self.backups.repeat(hello.rank)
            if order is not None:
                effects += self._to(hello.rank, order, now)
            return effects + self._after_change(now)
        return self._gather(now) + self._evaluate(now)

    def _welcome(self, rank: int, now: float) -> list[fx.CoordinatorEffect]:
        assert self.replication is not None
        assert self.run is not None
        hello = self.members[rank].hello
        effects: list[fx.CoordinatorEffect] = []
        if hello.linked is None:
            effects += self._to(rank, msg.Commit(self.run, self.checkpoint, self._discard), now)
        self.replication.arrived(rank, hello.address, now)
        return effects + self._to(rank, self.replication.progress(), now)

    def _evaluate(self, now: float) -> list[fx.CoordinatorEffect]:
        """In GATHER: go on once every rank is here and their states fit together."""
        if self.phase is not Phase.GATHER or len(self.members) < self.job.world:
            return []
        hellos = [member.hello for member in self.members.values()]
        linked = {hello.linked for hello in hellos if hello.linked is not None}
        runs = {hello.linked or hello.prepared for hello in hellos}
        if len(runs) == 1 and None not in runs:
            return self._resume(hellos[0], now)  # all linked or prepared for one and the same run
        if linked:
            return []  # some still run: their replicator.yaml is yet to come
        return self._read_backups(now)

    def _resume(self, hello: msg.Hello, now: float) -> list[fx.CoordinatorEffect]:
        self.run = hello.linked or hello.prepared
        self.checkpoint = hello.checkpoint
        self._forced = hello.forced
        self._discard = ()
        effects = self._enter_run(now, resumed=True)
        return [*effects, fx.Log(f"run {self.run} goes on")]

    # ---- restore --------------------------------------------------------------------------------

    def _read_backups(self, now: float) -> list[fx.CoordinatorEffect]:
        self.phase = Phase.READING
        self._since = now
        self._reads_failed = 0
        self._read_at = None
        self._damaged_backups = ()
        return [fx.ReadBackups()]

    def backups_read(
        self, backups: Sequence[Backup], forced: str | None, problem: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        """The backup tier was listed, or could not be (then `problem` says why).

        A tier that does not answer is no reason to start from nothing.
        """
        if self.phase is not Phase.READING or self._read_at is not None:
            return []
        if problem:
            self._reads_failed += 1
            if self._reads_failed >= READ_ATTEMPTS:
                return self._refuse(f"backups cannot be read: {problem}. Nothing was deleted.", now)
            self._read_at = now + min(self._timing.retry * 2**self._reads_failed, 30.0)
            return []
        self._backup_list = list(backups)
        self.backups.known(backup.name for backup in backups)
        self._forced = forced or ""
        return self._plan(now)

    def forced_is_bad(self, problem: str, now: float) -> list[fx.CoordinatorEffect]:
        """`restore.version` cannot be read as a backup's name: refuse, delete nothing."""
        if self.phase is not Phase.READING:
            return []
        return self._refuse(problem, now)

    @property
    def forced_by(self) -> str:
        """The backup that `restore.version` named for the current run, else empty."""
        return self._forced

    def _refuse(self, text: str, now: float) -> list[fx.CoordinatorEffect]:
        self.phase = Phase.FAILED
        self._distribution = None
        return [*self._broadcast(msg.Refuse(text), now), fx.Log(text)]

    def _plan(self, now: float) -> list[fx.CoordinatorEffect]:
        """Choose a restore point from what is known now, and start its transfers."""
        choice = choose(
            self.catalogue, self._backup_list, self._forced or None, self.job.world, self.shards
        )
        if isinstance(choice, Refused):
            return self._refuse(choice.text, now)
        seen = [member.hello.epoch for member in self.members.values()]
        seen += [c.epoch for c in self.catalogue.checkpoints]
        seen += [b.checkpoint.epoch for b in self._backup_list]
        if self.run is not None:
            seen.append(self.run.epoch)
        self._runs += 1
        self.run = Run(max(seen, default=0) + 1, f"{self._token}-{self._runs}")
        self.phase = Phase.RESTORE
        self.checkpoint = choice.checkpoint
        self._discard = choice.discard if choice.checkpoint is not None else ()
        self._prepared = set()
        self._checks.clear()
        self._retries.clear()
        self._transfers.clear()
        effects = [*self._announce(choice, now)]
        if choice.checkpoint is None:
            self._distribution = None
            return effects
        holders = self.catalogue.checkpoints.get(choice.checkpoint, {})
        if self._forced:
            holders = {}  # the backup's data is what was asked for, verified against the backup
        self._distribution = Distribution(
            choice.checkpoint,
            holders,
            choice.backup,
            self.shards,
            self.job.data_parallelism is not None,
        )
        return effects + self._assign(self._distribution.start(), now)

    def _announce(self, choice: Choice, now: float) -> list[fx.CoordinatorEffect]:
        assert self.run is not None
        backup = choice.backup.name if choice.backup and choice.primary_backup else ""
        effects: list[fx.CoordinatorEffect] = []
        for rank in sorted(self.members):
            needs: tuple[ShardId, ...] = ()
            if choice.checkpoint is not None:
                needs = tuple(ShardId(rank, worker) for worker in range(self.job.workers))
            plan = msg.Plan(self.run, choice.checkpoint, backup, self._forced, needs)
            effects += self._to(rank, plan, now)
        if choice.incomplete:
            text = "not restorable: " + "; ".join(choice.incomplete[:5])
            effects += self._broadcast(msg.Report(text), now)
        what = "nothing" if choice.checkpoint is None else f"step {choice.checkpoint.step}"
        where = f" from backup {backup}" if backup else ""
        effects.append(fx.Log(f"run {self.run.epoch}: restoring {what}{where}"))
        return effects

    def _assign(self, assignments: Sequence[Assignment], now: float) -> list[fx.CoordinatorEffect]:
        distribution = self._distribution
        assert distribution is not None
        effects: list[fx.CoordinatorEffect] = []
        for shard, content, source in ((a.shard, a.content, a.source) for a in assignments):
            if source.origin is Origin.PEER:
                member = self.members.get(source.rank)
                address = member.hello.address if member is not None else ""
                source = replace_address(source, address)
            fetch = msg.Fetch(distribution.checkpoint, shard, content, self.job.world, source)
            self._transfers[shard] = (source, now + self._timing.transfer)
            effects += self._to(shard.rank, fetch, now)
        for rank, content in distribution.dropped:
            self.catalogue.remove_content(rank, content.manifest)
        distribution.dropped.clear()
        if distribution.backup_damaged and distribution.backup is not None:
            self._damaged_backups += (distribution.backup.name,)
            distribution.backup_damaged = False
        if distribution.exhausted:
            effects.append(fx.Log(f"step {distribution.checkpoint.step} is damaged; next choice"))
            effects += self._choose_again(now)
        return effects

    def _choose_again(self, now: float) -> list[fx.CoordinatorEffect]:
        """A checkpoint proved damaged: choose without what is bad."""
        known_bad = {b.name for b in self._backup_list} & set(self._damaged_backups)
        if not known_bad:
            return self._plan(now)
        if self._forced in known_bad:
            return self._refuse(
                f"restore.version names backup {self._forced!r}, whose data does not match its "
                "manifest. Name another one or remove restore.version; nothing was deleted.",
                now,
            )
        self.phase = Phase.READING
        self._distribution = None
        self._read_at = None
        return [fx.ReadBackups(self._damaged_backups)]

    def _on_have(self, rank: int, have: msg.Have, now: float) -> list[fx.CoordinatorEffect]:
        if self.phase is Phase.RUN:
            assert self.replication is not None
            if have.shard.rank < self.job.world and have.shard.worker < self.job.workers:
                self.replication.receipt(rank, have.checkpoint, have.shard, have.content)
            return self._after_change(now, (rank,))
        self.catalogue.add(rank, have.checkpoint, have.shard, have.content, self.job.world)
        self._checks.discard((rank, have.shard))
        distribution = self._distribution
        if distribution is None or have.checkpoint != distribution.checkpoint:
            return []
        if have.shard.rank != rank or have.shard not in distribution.open:
            return self._maybe_commit(now)
        self._transfers.pop(have.shard, None)
        return self._assign(distribution.done(have.shard, have.content), now)

    def _on_copy_failed(
        self, rank: int, failed: msg.CopyFailed, now: float
    ) -> list[fx.CoordinatorEffect]:
        if self.phase is Phase.RUN:
            return self._round_copy_failed(rank, failed, now)
        distribution = self._distribution
        if distribution is None or failed.checkpoint != distribution.checkpoint:
            return []
        self._checks.discard((rank, failed.shard))
        proven = failed.failure in (Failure.CORRUPT, Failure.MISSING)
        if failed.source.origin is Origin.LOCAL and proven:
            held = self.catalogue.holders(failed.checkpoint, failed.shard).get(rank)
            if held is not None:
                for key in self.catalogue.remove_content(rank, held.manifest):
                    own = key.checkpoint == failed.checkpoint and key.shard.rank == rank
                    if own and key.shard not in distribution.open:
                        return self._plan(now)  # it counted as restored: begin again without it
            if failed.shard.rank != rank:
                return self._assign(distribution.source_damaged(rank, failed.shard), now)
        if failed.shard.rank != rank:
            return self._maybe_commit(now)
        self._transfers.pop(failed.shard, None)
        assignments, suspect = distribution.failed(failed.shard, failed.source, failed.failure)
        if not proven or failed.failure is Failure.CORRUPT:
            _, delay = self._retries.get(failed.shard, (0.0, self._timing.retry))
            self._retries[failed.shard] = (now + delay, min(delay * 2, self._timing.retry_cap))
        effects = self._assign(assignments, now)
        if suspect is not None and self._distribution is distribution:
            effects += self._verify_source(failed.checkpoint, suspect, failed.source.rank, now)
        return effects

    def _verify_source(
        self, checkpoint: CheckpointId, shard: ShardId, rank: int, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A reader found damage: have the holder hash its own copy, which settles whose it is."""
        content = self.catalogue.holders(checkpoint, shard).get(rank)
        if content is None or rank not in self.members:
            return []
        self._checks.add((rank, shard))
        local = Source(Origin.LOCAL, rank)
        order = msg.Fetch(checkpoint, shard, content, self.job.world, local)
        return self._to(rank, order, now)

    def _on_prepared(
        self, rank: int, prepared: msg.Prepared, now: float
    ) -> list[fx.CoordinatorEffect]:
        if self.phase is not Phase.RESTORE or prepared.run != self.run:
            return []
        self._prepared.add(rank)
        return self._maybe_commit(now)

    def _maybe_commit(self, now: float) -> list[fx.CoordinatorEffect]:
        """Commit once all are prepared and no copy is under suspicion."""
        if len(self._prepared) < self.job.world or self._checks or self.run is None:
            return []
        commit = msg.Commit(self.run, self.checkpoint, self._discard)
        for checkpoint in self._discard:
            self.catalogue.drop(checkpoint)
        if self.checkpoint is None:
            self.catalogue = Catalogue()  # the nodes put aside whatever they held
        effects = self._broadcast(commit, now)
        return effects + self._enter_run(now, resumed=False)

    # ---- run ------------------------------------------------------------------------------------

    def _enter_run(self, now: float, *, resumed: bool) -> list[fx.CoordinatorEffect]:
        assert self.run is not None
        self.phase = Phase.RUN
        self._distribution = None
        self.backups.start(now, self._forced)
        self.replication = Replication(
            self.run,
            self.job.world,
            self.job.workers,
            {rank: member.hello.peers for rank, member in self.members.items()},
            self.job.data_parallelism is not None,
            self.catalogue,
            self._timing,
        )
        if resumed:
            self.replication.resume(now)
        else:
            self.replication.restored(self.checkpoint, now)
        effects: list[fx.CoordinatorEffect] = []
        if resumed and self.replication.replicated is not None:
            effects.append(fx.Replicated(self.replication.replicated))
        for rank in sorted(self.members):
            if resumed:
                effects += self._welcome(rank, now)
            else:
                self.replication.arrived(rank, self.members[rank].hello.address, now)
        unprotected = sorted(r for r, m in self.members.items() if not m.hello.peers)
        if unprotected and not resumed:
            text = f"unprotected: node(s) {unprotected[:8]} have no peer; only backups help them"
            effects += self._broadcast(msg.Report(text), now)
        return effects + self._after_change(now)

    def _on_sealed(self, rank: int, sealed: msg.Sealed, now: float) -> list[fx.CoordinatorEffect]:
        replication = self.replication
        if self.phase is not Phase.RUN or replication is None:
            for worker, content in enumerate(sealed.contents[: self.job.workers]):
                shard = ShardId(rank, worker)
                self.catalogue.add(rank, sealed.checkpoint, shard, content, self.job.world)
            return []
        complete, active = replication.complete, replication.active
        replication.seal(rank, sealed.checkpoint, sealed.contents, now)
        targets = replication.followers(rank) if replication.active == active else None
        effects = self._progress(now) if replication.complete != complete else []
        return effects + self._after_change(now, targets)

    def _round_copy_failed(
        self, rank: int, failed: msg.CopyFailed, now: float
    ) -> list[fx.CoordinatorEffect]:
        replication = self.replication
        assert replication is not None
        effects: list[fx.CoordinatorEffect] = []
        origin, damage = failed.source.origin, failed.failure
        checkpoint, shard = failed.checkpoint, failed.shard
        if origin is Origin.LOCAL and damage in (Failure.CORRUPT, Failure.MISSING):
            held = self.catalogue.holders(checkpoint, shard).get(rank)
            if held is not None:
                self.catalogue.remove_content(rank, held.manifest)
            replication.damaged()
        elif origin is Origin.PEER and damage is Failure.MISSING:
            self.catalogue.remove(failed.source.rank, checkpoint, shard)
            replication.damaged()
        elif origin is Origin.PEER and damage is Failure.CORRUPT:
            effects += self._verify_source(checkpoint, shard, failed.source.rank, now)
        replication.failed(rank, failed.checkpoint, failed.shard, failed.detail, now)
        return effects

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
            effects = [*effects, *self._broadcast(msg.Report(report), now)]
        return effects + self._after_change(now)

    def _after_change(
        self, now: float, targets: Sequence[int] | None = None
    ) -> list[fx.CoordinatorEffect]:
        """Close the round if it is done, give new orders, let old data go."""
        replication = self.replication
        if replication is None or self.phase is not Phase.RUN:
            return []
        effects: list[fx.CoordinatorEffect] = []
        held_before, kept_before = set(replication.held), replication.keep()
        done = replication.newly_replicated(now)
        if done is not None:
            effects.append(fx.Replicated(done))
            targets = None
            if len(self.members) == self.job.world:
                for rank, order in self.backups.maybe_start(done, self.catalogue, now):
                    effects += self._to(rank, order, now)
            if self._forced and self.run is not None and done.epoch == self.run.epoch:
                effects.append(fx.ClearForcedVersion(self._forced))
                self._forced = ""
        replication.held = set(self.backups.holds())
        if done is not None or replication.held != held_before or kept_before != replication.keep():
            effects += self._progress(now)
        for rank, fetch in replication.orders(now, targets):
            effects += self._to(rank, fetch, now)
        return effects

    def _progress(self, now: float) -> list[fx.CoordinatorEffect]:
        replication = self.replication
        assert replication is not None
        stay = replication.progress()
        for rank in self.members:
            self.catalogue.keep_only(
                rank, lambda c: not may_delete(c, stay.complete, stay.replicated, stay.held)
            )
        return self._broadcast(stay, now)

    # ---- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[fx.CoordinatorEffect]:
        """Called about once a second: heartbeats, deadlines, retries."""
        effects: list[fx.CoordinatorEffect] = []
        silent = [m for m in self.members.values() if now - m.heard > self._timing.silence]
        for member in silent:
            effects += [fx.Drop(member.connection), *self.lost(member.connection, now)]
        for rank, member in self.members.items():
            if now - member.sent >= self._timing.heartbeat:
                effects += self._to(rank, msg.Ping(), now)
        return effects + _TICKS[self.phase](self, now)

    def _tick_gather(self, now: float) -> list[fx.CoordinatorEffect]:
        if now - self._since <= self._timing.join:
            return []
        self._since = now
        missing = sorted(set(range(self.job.world)) - self.members.keys())
        stale = sorted(r for r, m in self.members.items() if m.hello.linked is not None)
        text = f"not all nodes came within {self._timing.join:.0f} s: missing {missing[:16]}"
        if stale and len(stale) < len(self.members):
            text += f"; still in the previous run: {stale[:16]}"
        fatal = [r for r, m in self.members.items() if m.hello.linked is None]
        effects = self._broadcast(msg.Report(text), now)
        for rank in fatal:
            effects += self._to(rank, msg.Refuse(text + ". Nothing was deleted."), now)
        return effects

    def _tick_reading(self, now: float) -> list[fx.CoordinatorEffect]:
        if self._read_at is not None and now >= self._read_at:
            self._read_at = None
            return [fx.ReadBackups(self._damaged_backups)]
        return self._restore_deadline(now)

    def _restore_deadline(self, now: float) -> list[fx.CoordinatorEffect]:
        if now - self._since <= self._timing.restore:
            return []
        late = sorted(set(range(self.job.world)) - self._prepared)[:16]
        return self._refuse(
            f"no restore within {self._timing.restore:.0f} s; not ready: node(s) {late}. "
            "Nothing was deleted.",
            now,
        )

    def _tick_restore(self, now: float) -> list[fx.CoordinatorEffect]:
        effects: list[fx.CoordinatorEffect] = []
        distribution = self._distribution
        if distribution is None:
            return self._restore_deadline(now)
        for shard, (source, limit) in list(self._transfers.items()):
            if now >= limit and self._distribution is distribution:
                late = "no answer within the transfer deadline"
                failed = msg.CopyFailed(
                    distribution.checkpoint, shard, source, Failure.TRANSIENT, late
                )
                effects += self._on_copy_failed(shard.rank, failed, now)
        for shard, (when, delay) in list(self._retries.items()):
            if now >= when and self._distribution is distribution:
                self._retries[shard] = (float("inf"), delay)
                effects += self._assign(distribution.retry(shard), now)
        return effects or self._restore_deadline(now)

    def _tick_run(self, now: float) -> list[fx.CoordinatorEffect]:
        replication = self.replication
        assert replication is not None
        effects: list[fx.CoordinatorEffect] = []
        if text := replication.tick(now):
            effects += self._broadcast(msg.Report(text), now)
        if text := self.backups.tick(now):
            effects += self._broadcast(msg.Report(text), now)
        return effects + self._after_change(now)

    def _tick_failed(self, now: float) -> list[fx.CoordinatorEffect]:
        return []

    # ---- sending --------------------------------------------------------------------------------

    def _to(self, rank: int, message: msg.ToNode, now: float) -> list[fx.CoordinatorEffect]:
        member = self.members.get(rank)
        if member is None:
            return []
        member.sent = now
        return [fx.SendTo(rank, message)]

    def _broadcast(self, message: msg.ToNode, now: float) -> list[fx.CoordinatorEffect]:
        effects: list[fx.CoordinatorEffect] = []
        for rank in sorted(self.members):
            effects += self._to(rank, message, now)
        return effects


def replace_address(source: Source, address: str) -> Source:
    """The same source with the address under which its node is reached now."""
    return source._replace(address=address)


_HANDLERS: dict[type[Any], Callable[..., list[fx.CoordinatorEffect]]] = {
    msg.Sealed: Coordinator._on_sealed,
    msg.Have: Coordinator._on_have,
    msg.CopyFailed: Coordinator._on_copy_failed,
    msg.Prepared: Coordinator._on_prepared,
    msg.BackupDone: Coordinator._on_backup_done,
}

_TICKS: dict[Phase, Callable[[Coordinator, float], list[fx.CoordinatorEffect]]] = {
    Phase.GATHER: Coordinator._tick_gather,
    Phase.READING: Coordinator._tick_reading,
    Phase.RESTORE: Coordinator._tick_restore,
    Phase.RUN: Coordinator._tick_run,
    Phase.FAILED: Coordinator._tick_failed,
}
