"""The coordinator's state machine, on the agent of node 0: it decides, nodes carry out.

Phases: GATHER (wait until every rank has said hello) -> RESTORE (see restore.py) -> RUN (see
running.py). It keeps nothing on disk: a new coordinator learns all from the nodes' hellos, so that
a crash at any point can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.backups import BackupRound
from replicator.core.catalogue import Catalogue
from replicator.core.members import Members
from replicator.core.model import Backup, CheckpointId, Job, Run, ShardId, Timing
from replicator.core.restore import Restore
from replicator.core.rounds import Replication
from replicator.core.running import Running

UNSETTLED = (
    "a node was started anew before it was restored; the others may follow, and are waited for "
    "until no more come"
)


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
        self.running: Running | None = None
        self.run: Run | None = None
        self.checkpoint: CheckpointId | None = None
        self.forced = ""  # the backup that restore.version named for the current run
        self.backups = BackupRound(job, timing, name_backup)
        self._timing = timing
        self._token = token
        self._restores = 0
        self._since = now
        self._unsettled = False

    @property
    def replication(self) -> Replication | None:
        """What is replicated, while the job runs."""
        return self.running.replication if self.running is not None else None

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
        if self.running is not None:
            return self.running.received(rank, message, now)
        if isinstance(message, msg.Sealed):
            self._note(rank, message)
        elif self.restore is not None:
            return self.restore.received(rank, message, now) + self._restore_changed(now)
        elif isinstance(message, msg.Have):
            copy = (message.checkpoint, message.shard, message.content)
            self.catalogue.add(rank, *copy, self.job.world)
        return []

    def _note(self, rank: int, sealed: msg.Sealed) -> None:
        """A node that still runs has saved; what others have of it is not looked at now."""
        for worker, content in enumerate(sealed.contents[: self.job.workers]):
            shard = ShardId(rank, worker)
            self.catalogue.add(rank, sealed.checkpoint, shard, content, self.job.world)

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
        if self.running is not None:
            if self.run in (hello.linked, hello.prepared if hello.linked is None else None):
                return effects + self.running.rejoin(hello, now)
            self._gather(now)  # the run is over for one, so it is for all
        elif self.phase is not Phase.GATHER:
            self._gather(now)
        return effects + self._evaluate(now)

    def lost(self, connection: int, now: float) -> list[fx.CoordinatorEffect]:
        """A connection is closed."""
        rank = self.members.remove(connection)
        if rank is None:
            return []
        self.catalogue.forget(rank)
        if self.running is not None:
            self.running.left(rank)
        elif self.phase is Phase.RESTORE:
            self._gather(now)
        return []

    def _gather(self, now: float) -> None:
        self.phase = Phase.GATHER
        self.running = None
        self.restore = None
        self._since = now
        self.backups.abandon()

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
        patience = self._timing.join + self._timing.settle  # a rank may be started again and again
        if now - self._since < patience and self.members.unsettled(now):  # looked at in each tick
            known, self._unsettled = self._unsettled, True
            return [] if known else [fx.Log(UNSETTLED)]
        self._unsettled = False
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

    # ---- restore --------------------------------------------------------------------------------

    def backups_read(
        self, backups: Sequence[Backup], forced: str | None, problem: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        """The backup tier was listed, or could not be (then `problem` says why)."""
        if self.restore is None:
            return []
        if not problem:
            self.backups.list_is(backups, now)
        effects = self.restore.backups_read(backups, forced, problem, now)
        return effects + self._restore_changed(now)

    def backups_listed(
        self, backups: Sequence[Backup], problem: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        """Which backups there are, or why that cannot be told now."""
        if self.running is None:
            return []
        return self.running.backups_listed(backups, problem, now)

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
        self.backups.stored(restore.stored)
        for checkpoint in restore.discard:
            self.catalogue.drop(checkpoint)
        if restore.checkpoint is None:
            self.catalogue = Catalogue()  # the nodes put aside whatever they held
        return self._enter_run(restore.run, restore.discard, now).begin(now)

    # ---- run ------------------------------------------------------------------------------------

    def _enter_run(self, run: Run, discard: tuple[CheckpointId, ...], now: float) -> Running:
        self.phase = Phase.RUN
        self.running = Running(
            self.job,
            self._timing,
            self.members,
            self.catalogue,
            self.backups,
            run,
            self.checkpoint,
            self.forced,
            discard,
            now,
        )
        return self.running

    def _resume(self, hello: msg.Hello, now: float) -> list[fx.CoordinatorEffect]:
        self.run = run = hello.linked or hello.prepared
        assert run is not None
        self.checkpoint = hello.checkpoint
        self.forced = hello.forced
        effects = self._enter_run(run, (), now).resume(now)
        return [*effects, fx.Log(f"run {run.epoch} goes on")]

    def backup_completed(self, name: str, problem: str, now: float) -> list[fx.CoordinatorEffect]:
        """The manifest of a backup is written, or could not be."""
        if self.running is None:
            return []
        return self.running.backup_completed(name, problem, now)

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
        elif self.running is not None:
            effects += self.running.tick(now)
        return effects

    def _tick_gather(self, now: float) -> list[fx.CoordinatorEffect]:
        effects = self._evaluate(now)
        members = self.members
        here = members.everyone and all(m.hello.linked is None for m in members.by_rank.values())
        # Where all are here, none is late: more starts are waited for, or the restore has begun.
        if here or self.phase is not Phase.GATHER or now - self._since <= self._timing.join:
            return effects
        self._since = now
        text, stale = members.absence()
        effects += members.broadcast(msg.Report(text), now)
        refusal = msg.Refuse(text + ". Nothing was deleted.")
        for rank in sorted(members.by_rank.keys() - stale):
            effects += members.to(rank, refusal, now)
        return effects
