"""One backup at a time: when it starts, who stores what, when it may be called complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from replicator.core import effects as fx
from replicator.core.catalogue import Catalogue, all_shards
from replicator.core.messages import BackupDone, StartBackup
from replicator.core.model import Backup, CheckpointId, Content, Job, ShardId, Timing, content_key


@dataclass(slots=True)
class _Running:
    name: str
    checkpoint: CheckpointId
    orders: dict[int, StartBackup]
    shards: tuple[tuple[ShardId, Content], ...]
    waiting: set[int]
    deadline: float


class BackupRound:
    """The backups of one run. Interval minutes count between starts; failures are tried again.

    They count on over restarts, from the newest complete backup: a job that is restarted more often
    than that would never have one. Until it is known which backups there are, none begins: a new
    one must not get the name of another, or an older one.

    A checkpoint of which a good backup exists is not stored again: a job that is restarted over and
    over before its next save would fill the storage with the same data.
    """

    def __init__(self, job: Job, timing: Timing, name_backup: Callable[[str], str]) -> None:
        self._job = job
        self._timing = timing
        self._name_backup = name_backup
        self._newest = ""
        self._stored: set[CheckpointId] = set()
        self._last_start = 0.0
        self._last_step: int | None = None
        self._running: _Running | None = None
        self._begun: float | None = None  # when the newest complete one was
        self._listed = False

    @property
    def listed(self) -> bool:
        """Whether it is known which backups there are."""
        return self._listed

    def list_is(self, backups: Sequence[Backup], now: float) -> None:
        """Which backups there are, newest first, down to the first complete one."""
        self._listed = True
        self.known(backup.name for backup in backups)
        ages = [backup.age for backup in backups if not backup.problem and backup.age is not None]
        self._begun = now - max(min(ages), 0.0) if ages else None

    def known(self, names: Iterable[str]) -> None:
        """Names that exist already, complete or not: a new one must be later."""
        self._newest = max([self._newest, *names])

    def stored(self, checkpoints: Iterable[CheckpointId]) -> None:
        """The checkpoints of which the storage holds a backup that was found complete and good."""
        self._stored = set(checkpoints)

    def start(self, now: float, forced: str) -> None:
        """A run begins; its first backup is one interval after the newest that there is."""
        self._last_start = now if self._begun is None else self._begun
        self._last_step = None
        self._running = None
        self.known([forced])

    def resume(self, backups: Sequence[Backup], epoch: int, now: float) -> None:
        """As `list_is`, for a run that another coordinator began."""
        self.list_is(backups, now)
        self._last_start = now if self._begun is None else self._begun
        complete = [backup.checkpoint for backup in backups if not backup.problem]
        self._stored.update(complete)
        self._last_step = max((c.step for c in complete if c.epoch == epoch), default=None)

    def abandon(self) -> None:
        """The run is over: what was stored of an unfinished backup stays invisible."""
        self._running = None

    def holds(self) -> tuple[CheckpointId, ...]:
        """Checkpoints that nodes must keep because they are being stored."""
        return (self._running.checkpoint,) if self._running is not None else ()

    def maybe_start(
        self, checkpoint: CheckpointId, catalogue: Catalogue, now: float
    ) -> list[tuple[int, StartBackup]]:
        """Orders for a backup of a checkpoint that was just replicated, if one is due."""
        if checkpoint in self._stored:
            self._last_step = checkpoint.step
            return []
        if self._running is not None or not self._listed or not self._is_due(checkpoint.step, now):
            return []
        job = self._job
        shards: list[tuple[ShardId, Content]] = []
        uploader: dict[str, ShardId] = {}
        for shard in all_shards(job.world, job.workers):
            content = catalogue.holders(checkpoint, shard).get(shard.rank)
            if content is None:
                return []
            shards.append((shard, content))
            # Equal content is stored once, by the last rank, as the public reference does.
            uploader[content_key(content, job.data_parallelism is not None)] = shard
        storing = set(uploader.values())
        stored_as = {shard: content for shard, content in shards if shard in storing}
        parallel = job.data_parallelism is not None
        shards = [(s, stored_as[uploader[content_key(c, parallel)]]) for s, c in shards]
        name = self._name_backup(self._newest)
        self.known([name])
        stores: dict[int, list[ShardId]] = {}
        for shard in uploader.values():
            stores.setdefault(shard.rank, []).append(shard)
        orders = {
            rank: StartBackup(name, checkpoint, tuple(sorted(stores.get(rank, []))))
            for rank in range(job.world)
        }
        limit = now + self._timing.backup
        self._running = _Running(name, checkpoint, orders, tuple(shards), set(orders), limit)
        return sorted(orders.items(), key=lambda item: item[0])

    def _is_due(self, step: int, now: float) -> bool:
        job = self._job
        if job.backup_minutes is not None:
            return now - self._last_start >= job.backup_minutes * 60.0
        if job.backup_steps is not None:
            return self._last_step is None or step - self._last_step >= job.backup_steps
        return False

    def repeat(self, rank: int) -> StartBackup | None:
        """The order for a node that came back before its part was reported."""
        running = self._running
        if running is None or rank not in running.waiting:
            return None
        return running.orders[rank]

    def part_done(
        self, rank: int, done: BackupDone, now: float
    ) -> tuple[list[fx.CoordinatorEffect], str]:
        """A node's part is stored or failed; returns effects and a report for `.errors`."""
        running = self._running
        if running is None or done.name != running.name:
            return [], ""
        if done.no_room:
            self._counts(running)  # at once the next one would fare no better
            return [], self._give_up(f"node {rank}: {done.problem}", "after its interval")
        if rank not in running.waiting:
            return [], ""
        if done.problem:
            return [], self._give_up(f"node {rank}: {done.problem}")
        running.waiting.discard(rank)
        if running.waiting:
            return [], ""
        complete = fx.CompleteBackup(
            running.name, running.checkpoint, self._job.world, running.shards
        )
        return [complete], ""

    def completed(self, name: str, problem: str) -> str:
        """The backup's own manifest is written, or not; returns a report for `.errors`."""
        running = self._running
        if running is None or name != running.name:
            return ""
        if problem:
            return self._give_up(problem)
        self._counts(running)
        self._stored.add(running.checkpoint)
        self._running = None
        return ""

    def _counts(self, running: _Running) -> None:
        """The next one is due an interval after this one began."""
        self._last_start = running.deadline - self._timing.backup
        self._last_step = running.checkpoint.step

    def _give_up(self, why: str, again: str = "with the next step") -> str:
        assert self._running is not None
        name, self._running = self._running.name, None
        return f"backup {name} failed and stays incomplete: {why}; it is tried again {again}"

    def tick(self, now: float) -> str:
        """Expire a backup that takes too long; returns a report for `.errors`."""
        running = self._running
        if running is None or now < running.deadline:
            return ""
        late = sorted(running.waiting)[:8]
        return self._give_up(f"not stored within {self._timing.backup:.0f} s by node(s) {late}")
