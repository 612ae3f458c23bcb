"""One simulated machine: a disk, and an agent that may crash between any two effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator.core import effects as fx
from replicator.core.coordinator import Coordinator
from replicator.core.messages import Plan
from replicator.core.model import (
    Content,
    Copy,
    Failure,
    Key,
    Origin,
    ShardId,
    Source,
    content_key,
)
from replicator.core.node import Node
from replicator.simulate.disk import Disk, Stored, StoredBackup

if TYPE_CHECKING:
    from replicator.simulate.world import World

TICK = 5.0
SHORT_OF_ROOM = 0.2
"""How often the next save would not fit beside the step that is being stored in a backup."""
"""Virtual seconds between two ticks of an agent."""


class Machine:
    """Carries out the effects of its node and, on rank 0, of its coordinator."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.disk = Disk()
        self.node: Node | None = None
        self.coordinator: Coordinator | None = None
        self.life = 0  # counts starts of the agent; events of an earlier life are void
        self.fetches = 0  # counts cancellations
        self.uploads = 0  # likewise
        self.crash_in: int | None = None  # effects until the agent dies
        self.connection: int | None = None
        self.sealing = False
        self.forced_as_read: str | None = None  # None until the coordinator's listing has come

    # ---- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """The agent starts with what is on its disk."""
        self.life += 1
        copies = [Copy(*key, s.content, s.world) for key, s in self.disk.copies.items()]
        address = f"m{self.index}"
        self.node = Node(self.disk.state, copies, address, self.world.timing)
        self.sealing = False
        self._supervise_coordinator()
        self.later(TICK * (0.5 + self.world.random.random()), self.tick)
        self.apply(self.node.start(self.world.now, self.world.now - self.disk.accepted_at))
        self.scan()

    def stop(self, why: str) -> None:
        """The agent dies; its disk stays."""
        if self.node is None:
            return
        self.world.note(self.index, f"agent dies: {why}")
        self.node = self.coordinator = None
        self.crash_in = None
        self.life += 1
        self.world.network.machine_down(self.index)
        self.connection = None

    def later(self, delay: float, action: object, *arguments: object) -> None:
        """Run a method later, unless this agent has died by then."""
        self.world.schedule(delay, self._if_alive, self.life, action, arguments)

    def _if_alive(self, life: int, action: object, arguments: tuple[object, ...]) -> None:
        if self.node is not None and life == self.life:
            action(*arguments)  # type: ignore[operator]

    def tick(self) -> None:
        """Once per period: the shell's timer."""
        assert self.node is not None
        self.later(TICK, self.tick)
        self.scan()
        self.apply(self.node.tick(self.world.now))
        if self.coordinator is not None:
            self.decide(self.coordinator.tick(self.world.now))

    def scan(self) -> None:
        """Look at the checkpoint volume: a new configuration, finished saves."""
        node = self.node
        if node is None:
            return
        for step in sorted(self.disk.saves):
            self.apply(node.saved(step, self.world.now))
            if self.node is None:
                return
        job = self.disk.config
        if job is None or self.sealing:
            return
        self.disk.saves.clear()
        self.disk.marker = None
        self.disk.failed = False
        self.world.attempts += 1
        self.apply(node.accept(job, f"a{self.world.attempts}", self.world.now))
        if self.node is not None:
            self.disk.config = None
            self._supervise_coordinator()

    def _supervise_coordinator(self) -> None:
        job = self.node.state.job if self.node is not None else None
        if job is None or job.rank != 0:
            self.coordinator = None
            return
        self.world.coordinators += 1
        self.forced_as_read = None
        token = f"c{self.world.coordinators}"
        self.coordinator = Coordinator(
            job, token, self.world.timing, self.world.name_backup, self.world.now
        )
        self.world.network.drop_all_to(self.index)

    # ---- effects of the node --------------------------------------------------------------------

    def apply(self, effects: list[fx.NodeEffect]) -> None:
        """Carry out effects in order; the agent may die before any of them."""
        for effect in effects:
            if self.crash_in is not None:
                self.crash_in -= 1
                if self.crash_in < 0:
                    self.stop(f"before {type(effect).__name__}")
                    return
            if self.node is None:
                return
            self.world.note(self.index, effect)
            getattr(self, f"_do_{type(effect).__name__}")(effect)

    def _do_Persist(self, effect: fx.Persist) -> None:  # noqa: N802
        if effect.state.attempt != self.disk.state.attempt:
            self.disk.accepted_at = self.world.now
        self.disk.state = effect.state

    def _do_Send(self, effect: fx.Send) -> None:  # noqa: N802
        if self.connection is not None:
            self.world.network.send_up(self.connection, effect.message)

    def _do_Reconnect(self, effect: fx.Reconnect) -> None:  # noqa: N802
        if self.connection is not None:
            self.world.network.close(self.connection, by=self.index)
            self.connection = None
        self.later(0.2 + self.world.random.random(), self._connect)

    def _connect(self) -> None:
        node = self.node
        assert node is not None
        if node.state.job is None or self.connection is not None:
            return
        self.connection = self.world.network.open(self.index)
        if self.connection is None:
            self.later(1.0 + self.world.random.random() * 2, self._connect)
            return
        self.apply(node.link_up(self.world.now))

    def _do_Seal(self, effect: fx.Seal) -> None:  # noqa: N802
        self.sealing = True
        self.later(0.1 + self.world.random.random() * 2, self._seal, effect)

    def _seal(self, effect: fx.Seal) -> None:
        assert self.node is not None
        job = self.node.state.job
        assert job is not None
        self.sealing = False
        step = effect.checkpoint.step
        if step not in self.disk.saves:
            self.apply(self.node.seal_failed(effect.checkpoint, "vanished"))
            return
        contents = []
        for worker in range(effect.workers):
            content = self.world.content(effect.checkpoint, ShardId(job.rank, worker))
            key = Key(effect.checkpoint, ShardId(job.rank, worker))
            attempt = self.node.state.attempt
            self.disk.copies[key] = Stored(content, job.world, verified=attempt)
            self.world.invariants.received(self.index, key, content)
            contents.append(content)
        self.disk.saves.discard(step)
        self.apply(self.node.sealed(effect.checkpoint, tuple(contents), self.world.now))
        self.scan()

    def _do_RejectSave(self, effect: fx.RejectSave) -> None:  # noqa: N802
        self.disk.saves.discard(effect.step)

    def _do_GetCopy(self, effect: fx.GetCopy) -> None:  # noqa: N802
        delay = 0.05 + self.world.random.random() * self.world.transfer_time
        self.later(delay, self._get_copy, self.fetches, effect)

    def _do_CancelCopies(self, effect: fx.CancelCopies) -> None:  # noqa: N802
        self.fetches += 1

    def _get_copy(self, generation: int, effect: fx.GetCopy) -> None:
        if generation != self.fetches:
            return
        node = self.node
        assert node is not None
        failure = self._transfer(effect)
        if failure is None:
            self.later(0.0, self._copied, effect)
        else:
            source = effect.source
            self.apply(node.copy_failed(effect.key, source, failure, "simulated", self.world.now))

    def _transfer(self, effect: fx.GetCopy) -> Failure | None:
        """Move the bytes; returns why it failed, or None when a verified copy is in place."""
        source, content = effect.source, effect.content
        failure = self._read(source, content)
        if failure is not None:
            return failure
        if source.origin in (Origin.PEER, Origin.BACKUP) and self.disk.full:
            return Failure.NO_SPACE
        assert self.node is not None
        attempt = self.node.state.attempt
        old = self.disk.copies.get(effect.key)
        if source.origin is Origin.LOCAL and old is not None:
            old.verified = attempt
        else:
            self.disk.copies[effect.key] = Stored(content, effect.world, verified=attempt)
        self.world.invariants.received(self.index, effect.key, content)
        return None

    def _read(self, source: Source, content: Content) -> Failure | None:
        world = self.world
        if source.origin in (Origin.LOCAL, Origin.ALIAS):
            return None if self.disk.good_copy(content.manifest) else Failure.CORRUPT
        if source.origin is Origin.BACKUP:
            if world.store.down:
                return Failure.TRANSIENT
            backup = world.store.backups.get(source.backup)
            key = content_key(content, world.data_parallel)
            if backup is None or key not in backup.data:
                return Failure.MISSING
            return None if backup.good else Failure.CORRUPT
        peer = world.machine_at(source.address)
        if peer.node is None or not world.network.reachable(self.index, peer.index):
            return Failure.TRANSIENT
        if not any(s.content.manifest == content.manifest for s in peer.disk.copies.values()):
            return Failure.MISSING
        if peer.disk.good_copy(content.manifest) is None:
            return Failure.CORRUPT
        if world.random.random() < world.flip_rate:
            return Failure.CORRUPT
        return Failure.TRANSIENT if world.random.random() < world.flip_rate else None

    def _copied(self, effect: fx.GetCopy) -> None:
        assert self.node is not None
        self.apply(self.node.copied(effect.key, effect.content, effect.world, self.world.now))

    def _do_Announce(self, effect: fx.Announce) -> None:  # noqa: N802
        pass

    def _do_Link(self, effect: fx.Link) -> None:  # noqa: N802
        assert self.node is not None
        state = self.node.state
        assert state.job is not None
        run = state.linked or state.prepared
        assert run is not None
        shards = tuple(ShardId(state.job.rank, worker) for worker in range(effect.workers))
        start = self.world.application.start_of(self.index)
        self.world.invariants.linking(
            self.index, start, state.attempt, shards, run, effect.checkpoint
        )
        self.disk.marker = (effect.checkpoint,)
        self.world.application.linked(self.index, run, effect.checkpoint)

    def _do_Delete(self, effect: fx.Delete) -> None:  # noqa: N802
        self.world.invariants.deleting(self.index, effect.keys, self.world.now)
        for key in effect.keys:
            self.disk.copies.pop(key, None)

    def _do_Quarantine(self, effect: fx.Quarantine) -> None:  # noqa: N802
        for key in effect.keys:
            stored = self.disk.copies.pop(key, None)
            if stored is not None:
                self.disk.quarantine.append((key, stored))

    def _do_ReleaseQuarantine(self, effect: fx.ReleaseQuarantine) -> None:  # noqa: N802
        self.disk.quarantine.clear()

    def _do_Upload(self, effect: fx.Upload) -> None:  # noqa: N802
        delay = 0.5 + self.world.random.random() * 10
        self.later(delay, self._upload, self.uploads, effect)

    def _do_StopUploads(self, effect: fx.StopUploads) -> None:  # noqa: N802
        self.uploads += 1

    def _do_CheckRoom(self, effect: fx.CheckRoom) -> None:  # noqa: N802
        if self.disk.full or self.world.random.random() < SHORT_OF_ROOM:
            self.later(self.world.random.random(), self._no_room)

    def _no_room(self) -> None:
        if self.node is not None:
            self.apply(self.node.no_room(self.world.now))

    def _upload(self, generation: int, effect: fx.Upload) -> None:
        if generation != self.uploads:
            return
        assert self.node is not None
        problem = "" if not self.world.store.down else "storage does not answer"
        if not problem:
            problem = self._store_part(effect)
        self.apply(self.node.uploaded(effect.name, problem, self.world.now))

    def _store_part(self, effect: fx.Upload) -> str:
        assert self.node is not None
        job = self.node.state.job
        if job is None:
            return "the job has ended"
        backup = self.world.store.backups.setdefault(
            effect.name, StoredBackup(effect.checkpoint, job.world)
        )
        self.world.invariants.storing(effect.name, backup, effect.checkpoint)
        for shard in effect.record:
            stored = self.disk.copies.get(Key(effect.checkpoint, shard))
            if stored is None:
                return "copy is gone"
            if shard in effect.upload:
                if not stored.good:
                    return "copy is damaged"
                backup.data.add(content_key(stored.content, self.world.data_parallel))
            backup.records[shard] = stored.content
        return ""

    def _do_WriteError(self, effect: fx.WriteError) -> None:  # noqa: N802
        self.disk.errors += 1
        self.world.told(self.index, effect.text)

    def _do_WriteFailed(self, effect: fx.WriteFailed) -> None:  # noqa: N802
        self.disk.failed = True
        self.world.told(self.index, effect.text)
        self.world.application.failed(self.index)

    # ---- effects of the coordinator -------------------------------------------------------------

    def decide(self, effects: list[fx.CoordinatorEffect]) -> None:
        """Carry out the coordinator's effects; it dies with its agent."""
        for effect in effects:
            if self.crash_in is not None:
                self.crash_in -= 1
                if self.crash_in < 0:
                    self.stop(f"before {type(effect).__name__}")
                    return
            if self.coordinator is None:
                return
            self.world.note(self.index, effect)
            getattr(self, f"_do_{type(effect).__name__}")(effect)

    def _do_SendTo(self, effect: fx.SendTo) -> None:  # noqa: N802
        assert self.coordinator is not None
        plan = effect.message
        if isinstance(plan, Plan) and not plan.tentative:
            self.world.invariants.planning(plan.run, plan.forced, self.forced_as_read)
        member = self.coordinator.members.by_rank.get(effect.rank)
        if member is not None:
            self.world.network.send_down(member.connection, effect.message)

    def _do_Answer(self, effect: fx.Answer) -> None:  # noqa: N802
        self.world.network.send_down(effect.connection, effect.message)

    def _do_Drop(self, effect: fx.Drop) -> None:  # noqa: N802
        self.world.network.close(effect.connection, by=self.index)

    def _do_ReadBackups(self, effect: fx.ReadBackups) -> None:  # noqa: N802
        self.forced_as_read = None
        self.later(0.1 + self.world.random.random(), self._read_backups, self.coordinator, effect)

    def _read_backups(self, asked_by: Coordinator, effect: fx.ReadBackups) -> None:
        coordinator, store = self.coordinator, self.world.store
        if coordinator is not asked_by:
            return
        problem = "storage does not answer" if store.down else ""
        if not problem:
            self.forced_as_read = store.forced or ""
        self.decide(
            asked_by.backups_read(store.listing(effect.skip), store.forced, problem, self.world.now)
        )

    def _do_ListBackups(self, effect: fx.ListBackups) -> None:  # noqa: N802
        self.later(0.1 + self.world.random.random(), self._list_backups, self.coordinator)

    def _list_backups(self, asked_by: Coordinator) -> None:
        if self.coordinator is asked_by:
            store, now = self.world.store, self.world.now
            problem = "storage does not answer" if store.down else ""
            self.decide(asked_by.backups_listed(store.listing(()), problem, now))

    def _do_CompleteBackup(self, effect: fx.CompleteBackup) -> None:  # noqa: N802
        self.later(0.5, self._complete_backup, self.coordinator, effect)

    def _complete_backup(self, asked_by: Coordinator, effect: fx.CompleteBackup) -> None:
        if self.coordinator is not asked_by:
            return
        problem = "storage does not answer" if self.world.store.down else ""
        if not problem:
            self.world.invariants.completing_backup(effect.name)
            self.world.store.backups[effect.name].complete = True
        self.decide(asked_by.backup_completed(effect.name, problem, self.world.now))

    def _do_ClearForcedVersion(self, effect: fx.ClearForcedVersion) -> None:  # noqa: N802
        if self.world.store.forced == effect.name:
            self.world.store.forced = None

    def _do_Replicated(self, effect: fx.Replicated) -> None:  # noqa: N802
        self.world.replicated(self, effect.checkpoint)

    def _do_NotReplicated(self, effect: fx.NotReplicated) -> None:  # noqa: N802
        pass

    def _do_Log(self, effect: fx.Log) -> None:  # noqa: N802
        pass
