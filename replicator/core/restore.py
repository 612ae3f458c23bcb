"""The restore phase of a coordinator: read backups, choose, transfer, agree.

What the cluster holds is mostly what will be restored, so its verification and transfers begin
while the backups are still being read, on a tentative plan. Nobody is prepared, let alone linked,
on that: once the backups and `restore.version` are known the plan is confirmed or made anew.

It ends in one of three ways: `ready` (all nodes hold verified data and are prepared), `refused`
(with the reason), or the coordinator drops it because a node came or went.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.catalogue import Catalogue, all_shards, verify_order
from replicator.core.distribution import PATIENCE, Assignment, Distribution
from replicator.core.members import Members
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
from replicator.core.plan import Choice, choose
from replicator.core.plan import Refusal as Refused

READ_ATTEMPTS = 5
"""Listings of the backup tier that may fail before a restore is given up."""


class Restore:
    """One restore, from the moment when every rank is there."""

    def __init__(
        self,
        job: Job,
        timing: Timing,
        members: Members,
        catalogue: Catalogue,
        token: str,
        epoch: int,
        now: float,
    ) -> None:
        self.run: Run | None = None
        self.checkpoint: CheckpointId | None = None
        self.forced = ""
        self.discard: tuple[CheckpointId, ...] = ()
        self.backups: list[Backup] = []
        self.ready = False
        self.refused = ""
        self._job = job
        self._timing = timing
        self._members = members
        self._catalogue = catalogue
        self._shards = all_shards(job.world, job.workers)
        self._token = token
        self._epoch = epoch  # highest known so far
        self._plans = 0
        self._since = now
        self._reading = False
        self._reads_failed = 0
        self._read_at: float | None = None
        self._damaged_backups: tuple[str, ...] = ()
        self._distribution: Distribution | None = None
        self._prepared: set[int] = set()
        self._checks: set[tuple[int, ShardId]] = set()  # copies under suspicion
        self._retries: dict[ShardId, tuple[float, float]] = {}  # shard -> (when, next delay)
        self._transfers: dict[ShardId, tuple[Source, float]] = {}

    @property
    def stored(self) -> set[CheckpointId]:
        """The checkpoints of the complete backups, but for those whose data proved damaged."""
        sound = (b for b in self.backups if not b.problem and b.name not in self._damaged_backups)
        return {backup.checkpoint for backup in sound}

    # ---- choosing -------------------------------------------------------------------------------

    def start(self, now: float) -> list[fx.CoordinatorEffect]:
        """Begin by looking at the backups, and with what the cluster holds meanwhile."""
        self._reading = True
        self.forced = ""
        return [*self._read(), *self._plan(now)]

    def _read(self) -> list[fx.CoordinatorEffect]:
        return [fx.ReadBackups(self._damaged_backups)]

    def backups_read(
        self, backups: Sequence[Backup], forced: str | None, problem: str, now: float
    ) -> list[fx.CoordinatorEffect]:
        """The backup tier was listed, or could not be (then `problem` says why).

        A tier that does not answer is no reason to start from nothing.
        """
        if not self._reading or self._read_at is not None:
            return []
        if problem:
            self._reads_failed += 1
            if self._reads_failed >= READ_ATTEMPTS:
                self.refused = f"backups cannot be read: {problem}. Nothing was deleted."
            self._read_at = now + min(self._timing.retry * 2**self._reads_failed, 30.0)
            return []
        self._reading = False
        self.backups = list(backups)
        self.forced = forced or ""
        choice = self._choose(self._distribution.checkpoint if self._distribution else None)
        if isinstance(choice, Choice) and self._is_under_way(choice):
            self.discard = choice.discard
            return self._announce(choice, now)
        return self._carry_out(choice, now)

    def _is_under_way(self, choice: Choice) -> bool:
        """Whether the tentative plan is just this, and its run newer than all that is stored."""
        distribution = self._distribution
        return (
            distribution is not None
            and self.run is not None
            and not choice.primary_backup
            and choice.checkpoint == distribution.checkpoint
            and all(backup.checkpoint.epoch < self.run.epoch for backup in self.backups)
            and distribution.fill_from(choice.backup)
        )

    def forced_is_bad(self, problem: str) -> None:
        """`restore.version` cannot be read as a backup's name: refuse, delete nothing."""
        if self._reading:
            self.refused = problem

    def _choose(self, under_way: CheckpointId | None = None) -> Choice | Refused:
        """The restore point, from what is known now."""
        backups = [] if self._reading else self.backups
        forced = self.forced or None
        return choose(self._catalogue, backups, forced, self._job.world, self._shards, under_way)

    def _plan(self, now: float) -> list[fx.CoordinatorEffect]:
        """Choose, and start the transfers.

        While the backups are being read that is tentative, and without a checkpoint that the
        cluster alone can restore there is nothing to do until they are known.
        """
        choice = self._choose()
        if self._reading and (isinstance(choice, Refused) or choice.checkpoint is None):
            self._forget_plan()
            return []
        return self._carry_out(choice, now)

    def _forget_plan(self) -> None:
        self._distribution = None
        self.ready = False
        self._prepared.clear()
        self._checks.clear()
        self._retries.clear()
        self._transfers.clear()

    def _carry_out(self, choice: Choice | Refused, now: float) -> list[fx.CoordinatorEffect]:
        if isinstance(choice, Refused):
            self.refused = choice.text
            return []
        self._forget_plan()
        seen = [member.hello.epoch for member in self._members.by_rank.values()]
        seen += [c.epoch for c in self._catalogue.checkpoints]
        seen += [b.checkpoint.epoch for b in self.backups]
        self._epoch = max([self._epoch, *seen]) + 1
        self._plans += 1
        self.run = Run(self._epoch, f"{self._token}-{self._plans}")
        self.checkpoint = choice.checkpoint
        self.discard = choice.discard if choice.checkpoint is not None else ()
        effects = self._announce(choice, now)
        if choice.checkpoint is None:
            return effects
        holders = self._catalogue.checkpoints.get(choice.checkpoint, {})
        if self.forced:
            holders = {}  # the backup's data is what was asked for, verified against the backup
        self._distribution = Distribution(
            choice.checkpoint,
            holders,
            choice.backup,
            self._shards,
            self._job.data_parallelism is not None,
        )
        return effects + self._assign(self._distribution.start(), now)

    def _announce(self, choice: Choice, now: float) -> list[fx.CoordinatorEffect]:
        assert self.run is not None
        backup = choice.backup.name if choice.backup and choice.primary_backup else ""
        effects: list[fx.CoordinatorEffect] = []
        for rank in sorted(self._members.by_rank):
            needs: tuple[ShardId, ...] = ()
            if choice.checkpoint is not None:
                needs = tuple(ShardId(rank, worker) for worker in range(self._job.workers))
            plan = msg.Plan(self.run, choice.checkpoint, backup, self.forced, needs, self._reading)
            effects += self._members.to(rank, plan, now)
        if self._reading:
            return effects
        if choice.incomplete:
            text = "not restorable: " + "; ".join(choice.incomplete[:5])
            effects += self._members.broadcast(msg.Report(text), now)
        what = "nothing" if choice.checkpoint is None else f"step {choice.checkpoint.step}"
        where = f" from backup {backup}" if backup else ""
        effects.append(fx.Log(f"run {self.run.epoch}: restoring {what}{where}"))
        return effects

    # ---- transfers ------------------------------------------------------------------------------

    def _assign(self, assignments: Sequence[Assignment], now: float) -> list[fx.CoordinatorEffect]:
        distribution = self._distribution
        assert distribution is not None
        effects: list[fx.CoordinatorEffect] = []
        for shard, content, source in ((a.shard, a.content, a.source) for a in assignments):
            if source.origin is Origin.PEER:
                member = self._members.by_rank.get(source.rank)
                source = source._replace(address=member.hello.address if member else "")
            fetch = msg.Fetch(distribution.checkpoint, shard, content, self._job.world, source)
            self._transfers[shard] = (source, now + self._timing.transfer)
            effects += self._members.to(shard.rank, fetch, now)
        for rank, content in distribution.dropped:
            self._catalogue.remove_content(rank, content.manifest)
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
        if self._reading:
            return self._plan(now)
        known_bad = {b.name for b in self.backups} & set(self._damaged_backups)
        if not known_bad:
            return self._plan(now)
        if self.forced in known_bad:
            self.refused = (
                f"restore.version names backup {self.forced!r}, whose data does not match its "
                "manifest. Name another one or remove restore.version; nothing was deleted."
            )
            return []
        return self.start(now)

    def received(
        self, rank: int, message: msg.ToCoordinator, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A member's message."""
        handler = _HANDLERS.get(type(message))
        return handler(self, rank, message, now) if handler is not None else []

    def _on_have(self, rank: int, have: msg.Have, now: float) -> list[fx.CoordinatorEffect]:
        """A node holds a verified copy."""
        self._catalogue.add(rank, have.checkpoint, have.shard, have.content, self._job.world)
        self._checks.discard((rank, have.shard))
        distribution = self._distribution
        if distribution is None or have.checkpoint != distribution.checkpoint:
            return []
        if have.shard.rank == rank and have.shard in distribution.open:
            self._transfers.pop(have.shard, None)
            return self._assign(distribution.done(have.shard, have.content), now)
        self._settle()
        return []

    def _on_copy_failed(
        self, rank: int, failed: msg.CopyFailed, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A node could not get a copy, or its own proved bad."""
        distribution = self._distribution
        if distribution is None or failed.checkpoint != distribution.checkpoint:
            return []
        self._checks.discard((rank, failed.shard))
        proven = failed.failure in (Failure.CORRUPT, Failure.MISSING)
        if failed.source.origin is Origin.LOCAL and proven:
            known = rank in self._catalogue.holders(failed.checkpoint, failed.shard)
            if self._forget_copy(distribution, rank, failed):
                return self._plan(now)  # it counted as restored: begin again without it
            if failed.shard.rank != rank and known:
                effects = self._assign(distribution.source_damaged(rank, failed.shard), now)
                self._settle()  # all may be prepared from elsewhere, and have waited for this
                return effects
            # Not known (any more): the news is of data that is out already, and what the node has
            # got since is good.
        if failed.shard.rank != rank:
            self._settle()
            return []
        self._transfers.pop(failed.shard, None)
        assignments, suspect = distribution.failed(failed.shard, failed.source, failed.failure)
        if not proven or failed.failure is Failure.CORRUPT:
            _, delay = self._retries.get(failed.shard, (0.0, self._timing.retry))
            self._retries[failed.shard] = (now + delay, min(delay * 2, self._timing.retry_cap))
        effects = self._assign(assignments, now)
        if distribution.unreachable.get(failed.shard) == PATIENCE:
            effects += self._report_unreachable(failed, now)
        if suspect is not None and self._distribution is distribution:
            effects += self._verify_source(failed.checkpoint, suspect, failed.source.rank, now)
        return effects

    def _report_unreachable(self, failed: msg.CopyFailed, now: float) -> list[fx.CoordinatorEffect]:
        """Say once why this restore takes long."""
        where = (
            "its backup" if failed.source.origin is Origin.BACKUP else f"node {failed.source.rank}"
        )
        text = (
            f"node {failed.shard.rank} cannot get its data of step {failed.checkpoint.step} from "
            f"{where}: {failed.detail}. It is tried again, also with what else has it."
        )
        return [fx.Log(text), *self._members.broadcast(msg.Report(text), now)]

    def _forget_copy(self, distribution: Distribution, rank: int, failed: msg.CopyFailed) -> bool:
        """A node's copy is bad, under all its names; True if one of them counted as restored."""
        held = self._catalogue.holders(failed.checkpoint, failed.shard).get(rank)
        if held is None:
            return False
        names = self._catalogue.remove_content(rank, held.manifest)
        return any(
            key.checkpoint == failed.checkpoint
            and key.shard.rank == rank
            and key.shard not in distribution.open
            for key in names
        )

    def _verify_source(
        self, checkpoint: CheckpointId, shard: ShardId, rank: int, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A reader found damage: have the holder hash its own copy, which settles whose it is."""
        order = verify_order(self._catalogue, checkpoint, shard, rank, self._job.world)
        if order is None or rank not in self._members.by_rank:
            return []
        self._checks.add((rank, shard))
        return self._members.to(rank, order, now)

    # ---- agreement ------------------------------------------------------------------------------

    def _on_prepared(
        self, rank: int, prepared: msg.Prepared, now: float
    ) -> list[fx.CoordinatorEffect]:
        """A node has all it needs, verified and recorded."""
        if prepared.run == self.run and not self._reading:
            self._prepared.add(rank)
            self._settle()
        return []

    def _settle(self) -> None:
        """Ready once all are prepared and no copy is under suspicion."""
        everyone = len(self._prepared) == self._job.world
        self.ready = everyone and not self._checks and not self._reading

    # ---- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[fx.CoordinatorEffect]:
        """Retries and deadlines."""
        if now - self._since > self._timing.restore:
            late = sorted(set(range(self._job.world)) - self._prepared)[:16]
            self.refused = (
                f"no restore within {self._timing.restore:.0f} s; not ready: node(s) {late}. "
                "Nothing was deleted."
            )
            return []
        if self._read_at is not None and now >= self._read_at:
            self._read_at = None
            return self._read() + self._tick_transfers(now)
        return self._tick_transfers(now)

    def _tick_transfers(self, now: float) -> list[fx.CoordinatorEffect]:
        distribution = self._distribution
        if distribution is None:
            return []
        effects: list[fx.CoordinatorEffect] = []
        for shard, (source, limit) in list(self._transfers.items()):
            if now >= limit and self._distribution is distribution:
                late_text = "no answer within the transfer deadline"
                failed = msg.CopyFailed(
                    distribution.checkpoint, shard, source, Failure.TRANSIENT, late_text
                )
                effects += self._on_copy_failed(shard.rank, failed, now)
        for shard, (when, delay) in list(self._retries.items()):
            if now >= when and self._distribution is distribution:
                self._retries[shard] = (float("inf"), delay)
                effects += self._assign(distribution.retry(shard), now)
        return effects


_HANDLERS: dict[type[Any], Callable[..., list[fx.CoordinatorEffect]]] = {
    msg.Have: Restore._on_have,
    msg.CopyFailed: Restore._on_copy_failed,
    msg.Prepared: Restore._on_prepared,
}
