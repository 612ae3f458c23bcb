"""What goes wrong in a simulated cluster: seeded faults, and their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replicator.core import messages as msg
from replicator.core.model import CheckpointId, Content, Failure, Origin, Run, ShardId, Source
from replicator.simulate.disk import Disk
from replicator.simulate.invariants import STRANGE

if TYPE_CHECKING:
    from replicator.simulate.machine import Machine
    from replicator.simulate.world import World


class Faults:
    """Seeded faults: what, where and when."""

    def __init__(self, world: World) -> None:
        self._world = world

    def plan(self, duration: float) -> None:
        """Spread a random number of faults over the time."""
        world, pick = self._world, self._world.random
        kinds = [
            (self._crash, 6),
            (self._crash_at_effect, 12),
            (self._wipe, 4),
            (self._corrupt, 4),
            (self._break, 5),
            (self._partition, 3),
            (self._fill, 2),
            (self._storage, 2),
            (self._restart_job, 5),
            (self._restart_again, 3),
            (self._damage_backup, 1),
            (self._force_version, 1),
            (self._intrude, 1),
            (self._crash_all, 1),
        ]
        actions = [action for action, _ in kinds]
        weights = [weight for _, weight in kinds]
        for _ in range(pick.randrange(8)):
            action = pick.choices(actions, weights)[0]
            world.schedule(pick.random() * duration, self._happen, action)

    def _happen(self, action: Callable[[], None]) -> None:
        self._world.note(-1, f"fault {action.__name__}")
        action()

    def end(self) -> None:
        """Everything works again (lost data stays lost)."""
        world = self._world
        if world.random.random() < 0.5:
            self._corrupt()  # what the last restart finds has to be made good without a delay
        world.network.cut(set())
        world.flip_rate = 0.0
        world.store.down = False
        forced = world.store.backups.get(world.store.forced or "")
        if forced is not None and not forced.good:
            world.store.forced = None  # the operator reads replicator.failed and corrects it
        world.transfer_time = min(world.transfer_time, 3.0)
        for machine in world.machines:
            machine.disk.full = False
            machine.crash_in = None
            if machine.node is None:
                self._start(machine, machine.life)

    def _any(self) -> Machine:
        return self._world.random.choice(self._world.machines)

    def _start_later(self, machine: Machine) -> None:
        delay = 1 + self._world.random.random() * 20
        self._world.schedule(delay, self._start, machine, machine.life)

    def _start(self, machine: Machine, life: int) -> None:
        if machine.node is None and machine.life == life:
            machine.start()

    def _crash(self) -> None:
        machine = self._any()
        machine.stop("fault")
        self._start_later(machine)

    def _crash_at_effect(self) -> None:
        machine = self._any()
        machine.crash_in = self._world.random.randrange(40)
        self._world.schedule(30, self._revive, machine)

    def _revive(self, machine: Machine) -> None:
        machine.crash_in = None
        if machine.node is None:
            self._start(machine, machine.life)

    def _crash_all(self) -> None:
        for machine in self._world.machines:
            machine.stop("all at once")
            self._start_later(machine)
        self._world.application.restart_soon()

    def _wipe(self) -> None:
        """The machine is replaced: its disk is empty and the job restarts."""
        machine = self._any()
        machine.stop("wiped")
        self._world.invariants.wiped(machine.index, self._world.now)
        fresh = Disk()
        for name in Disk.__slots__:
            setattr(machine.disk, name, getattr(fresh, name))
        self._start_later(machine)
        self._world.application.restart_soon()

    def _corrupt(self) -> None:
        copies = self._any().disk.copies
        if copies:
            stored = copies[self._world.random.choice(sorted(copies))]
            for other in copies.values():
                if other.content.manifest == stored.content.manifest:
                    other.good = False

    def _break(self) -> None:
        self._world.network.break_one()

    def _partition(self) -> None:
        world = self._world
        count = world.random.randrange(1, world.size + 1)
        world.network.cut(set(world.random.sample(range(world.size), count)))
        world.schedule(5 + world.random.random() * 50, world.network.cut, set())

    def _fill(self) -> None:
        machine = self._any()
        machine.disk.full = True
        self._world.schedule(10 + self._world.random.random() * 60, self._empty, machine)

    def _empty(self, machine: Machine) -> None:
        machine.disk.full = False

    def _storage(self) -> None:
        self._world.store.down = True
        self._world.schedule(5 + self._world.random.random() * 60, self._storage_back)

    def _storage_back(self) -> None:
        self._world.store.down = False

    def _restart_job(self) -> None:
        self._world.application.restart_soon()

    def _restart_again(self) -> None:
        """While the nodes are being gathered or restored."""
        world = self._world
        world.application.restart_soon()
        world.schedule(5 + world.random.random() * 20, world.application.restart_soon)

    def _damage_backup(self) -> None:
        backups = self._world.store.backups
        if backups:
            backups[self._world.random.choice(sorted(backups))].good = False

    def _force_version(self) -> None:
        complete = [n for n, b in self._world.store.backups.items() if b.complete and b.good]
        if complete:
            self._world.store.forced = self._world.random.choice(sorted(complete))
            self._world.application.restart_soon()

    def _intrude(self) -> None:
        world = self._world
        shard = ShardId(0, 0)
        content = Content("x", "x", 1)
        for message in (
            msg.Have(STRANGE, shard, content),
            msg.Sealed(STRANGE, (content,)),
            msg.Prepared(Run(99, "x")),
            msg.BackupDone("x", ""),
            msg.CopyFailed(
                CheckpointId(1, 1), shard, Source(Origin.LOCAL), Failure.CORRUPT, "spoofed"
            ),
        ):
            for index in range(world.size):
                world.network.intrude(index, message)
