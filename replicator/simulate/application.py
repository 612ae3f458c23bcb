"""The simulated training job: starts on all machines, saves in step, is restarted as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator.config import default_peers
from replicator.core.model import CheckpointId, Job, Run

if TYPE_CHECKING:
    from replicator.simulate.world import World


SLOWEST_START = 20.0
"""Seconds in which all ranks start: no more than the core waits for the others (`settle`)."""


class Application:
    """All ranks of the job and the controller that restarts them together."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.generation = 0
        self.step = 0
        self._linked: dict[int, Run] = {}
        self._start_step: int = 0
        self.running = False
        self._restarting = False
        self.pausing = False
        self._start_of: dict[int, int] = {}  # machine -> the start whose configuration it has

    def start(self) -> None:
        """Write replicator.yaml on every machine and wait for the restore."""
        world = self._world
        self.generation += 1
        self._restarting = False
        self._linked.clear()
        self.running = False
        if world.random.random() < world.permute_rate:
            world.random.shuffle(world.machine_of)
        spread = world.random.choice((3.0, 3.0, SLOWEST_START))
        for rank, index in enumerate(world.machine_of):
            delay = world.random.random() * spread
            world.schedule(delay, self._write_config, self.generation, rank, index)

    def _write_config(self, generation: int, rank: int, index: int) -> None:
        world = self._world
        if generation != self.generation:
            return
        machine = world.machines[index]
        self._start_of[index] = generation
        machine.disk.config = Job(
            name="job",
            rank=rank,
            world=world.size,
            workers=world.workers,
            peers=default_peers(rank, world.size, world.peers, world.groups),
            data_parallelism=world.groups,
            backup_steps=world.backup_steps,
        )
        if machine.node is not None:
            machine.scan()

    def linked(self, index: int, run: Run, checkpoint: CheckpointId | None) -> None:
        """A rank got its restore link; once all have one of the same run, training goes on."""
        world = self._world
        if self._start_of[index] != self.generation or world.machines[index].disk.config:
            return  # of an earlier start: no rank of this one has been told yet that it may look
        self._linked[index] = run
        if len(self._linked) < world.size or len(set(self._linked.values())) > 1:
            return
        if self.running:
            return
        self.running = True
        self.step = checkpoint.step if checkpoint is not None else -1
        world.schedule(world.save_every * world.random.random(), self._save, self.generation)

    def _save(self, generation: int) -> None:
        """All ranks save the next step, not quite at the same moment."""
        if generation != self.generation or not self.running or self.pausing:
            return
        self.save_once()
        pause = self._world.save_every * (0.5 + self._world.random.random())
        self._world.schedule(pause, self._save, generation)

    def save_once(self) -> None:
        """The next step, on every machine."""
        world = self._world
        self.step += world.random.choice((1, 1, 5))
        for index in range(world.size):
            delay = world.random.random() * 2
            world.schedule(delay, self._save_on, self.generation, index, self.step)

    def _save_on(self, generation: int, index: int, step: int) -> None:
        if generation != self.generation or not self.running:
            return
        machine = self._world.machines[index]
        machine.disk.saves.add(step)
        if machine.node is not None:
            machine.scan()

    def start_of(self, index: int) -> int:
        """Which start of the job a machine's links belong to."""
        return self._start_of[index]

    def failed(self, index: int) -> None:
        """`replicator.failed` appeared: the job aborts and is restarted."""
        self.restart_soon()

    def restart_soon(self) -> None:
        """The controller restarts all ranks after a moment."""
        self.running = False
        if not self._restarting:
            self._restarting = True
            self._world.schedule(2 + self._world.random.random() * 10, self.start)
