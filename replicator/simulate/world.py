"""The simulated cluster: virtual time, machines, network, faults, and the checks after each event.

Everything random comes from one generator seeded with the seed, so a seed replays exactly.
"""

from __future__ import annotations

import heapq
import math
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replicator.core.coordinator import Coordinator, Phase
from replicator.core.model import (
    CheckpointId,
    Content,
    Run,
    ShardId,
    Timing,
)
from replicator.simulate.application import Application
from replicator.simulate.disk import BackupStore
from replicator.simulate.faults import Faults
from replicator.simulate.invariants import Invariants, Violation
from replicator.simulate.machine import TICK, Machine
from replicator.simulate.network import Network

FAULT_TIME = 160.0
"""Virtual seconds during which faults happen."""
LULL_TIME = 15.0
"""Virtual seconds during which nobody reaches the coordinator, after all that."""
CALM_TIME = 380.0
"""Virtual seconds after the faults in which all nodes must restore and replicate again.

Shorter than the restore's deadline: one that only its deadline ends does not count."""
MAX_EVENTS = 400_000

SIM_TIMING = Timing(
    heartbeat=8.0,
    silence=20.0,
    join=120.0,
    settle=20.0,
    restore=400.0,
    round=40.0,
    transfer=60.0,
    retry=1.0,
    retry_cap=8.0,
    backup=60.0,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one seed."""

    seed: int
    events: int
    nodes: int
    replicated: int
    violation: str = ""
    trace: tuple[str, ...] = ()


class World:
    """One simulated run of one seed."""

    def __init__(self, seed: int, *, nodes: int | None = None, trace: bool = False) -> None:
        self.random = random.Random(seed)
        pick = self.random
        self.seed = seed
        self.size = nodes or pick.choices((1, 2, 3, 4, 8, 16, 64), (2, 30, 25, 30, 8, 1, 0.15))[0]
        self.workers = pick.choice((1, 1, 1, 2)) if self.size <= 4 else 1
        self.peers = min(pick.choice((1, 1, 1, 2)), self.size - 1)
        self.data_parallel = self.size % 2 == 0 and pick.random() < 0.25
        self.groups = 2 if self.data_parallel else None
        self.identical_replicas = pick.random() < 0.8
        self.backup_steps = pick.choice((None, 1, 3, 8)) or 10_000
        self.permute_rate = pick.choice((0.0, 0.3))
        self.transfer_time = pick.choice((0.5, 3.0, 15.0))
        self.flip_rate = pick.choice((0.0, 0.0, 0.05))
        self.save_every = pick.choice((6.0, 15.0, 40.0))
        self.timing = SIM_TIMING
        self.now = 0.0
        self.events = 0
        self.attempts = self.coordinators = self.rounds = 0
        self._queue: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._order = 0
        self._trace: list[str] | None = [] if trace else None
        self.store = BackupStore()
        self.machines = [Machine(self, index) for index in range(self.size)]
        self.machine_of = list(range(self.size))
        self.network = Network(self)
        self.application = Application(self)
        disks = [machine.disk for machine in self.machines]
        self.invariants = Invariants(disks, self.store, self.size, self.workers)
        self.invariants.data_parallel = self.data_parallel
        self.faults = Faults(self)
        self._committed: set[Run] = set()
        self._calm_since = math.inf

    # ---- time -----------------------------------------------------------------------------------

    def schedule(self, delay: float, action: Callable[..., Any], *arguments: Any) -> None:
        """Call later, in virtual seconds."""
        self.at(self.now + delay, action, *arguments)

    def at(self, when: float, action: Callable[..., Any], *arguments: Any) -> None:
        """Call at a virtual time; equal times keep their order."""
        self._order += 1
        heapq.heappush(self._queue, (when, self._order, action, arguments))

    def _run_until(self, limit: float, done: Callable[[], bool] = lambda: False) -> None:
        while self._queue and self._queue[0][0] <= limit and not done():
            self.now, _, action, arguments = heapq.heappop(self._queue)
            self.events += 1
            if self.events > MAX_EVENTS:
                raise Violation("the simulation does not come to rest")
            action(*arguments)
            self._after_event()
        if not done():
            self.now = limit

    def _after_event(self) -> None:
        coordinators = [m.coordinator for m in self.machines if m.coordinator is not None]
        self.invariants.after_event(coordinators)
        for coordinator in coordinators:
            if coordinator.phase is not Phase.RUN:
                continue
            run = coordinator.run
            if run is not None and run not in self._committed:
                self._committed.add(run)
                self._check_commit(coordinator)

    def _check_commit(self, coordinator: Coordinator) -> None:
        members = [
            self.machine_at(m.hello.address).disk for m in coordinator.members.by_rank.values()
        ]
        if coordinator.forced or any(disk.state.linked is not None for disk in members):
            return
        self.invariants.committing(members, coordinator.checkpoint)

    # ---- what machines ask ----------------------------------------------------------------------

    def note(self, machine: int, what: object) -> None:
        """Add a line to the trace, if one is kept."""
        if self._trace is not None:
            self._trace.append(f"{self.now:9.3f} m{machine} {what}")

    def told(self, machine: int, text: str) -> None:
        """What a node tells its job: that a deadline had to end a wait which no fault explains.

        No fault lasts as long as a restore may, and once they are over no round needs its time.
        """
        if text.startswith("no restore within"):
            raise Violation(f"a restore hangs: m{machine} {text}")
        overdue = "is not replicated after" in text
        if overdue and self.now > self._calm_since + self.timing.round + TICK:
            raise Violation(f"a round hangs: m{machine} {text}")

    def violated(self, text: str) -> None:
        """An invariant does not hold."""
        raise Violation(text)

    def machine_at(self, address: str) -> Machine:
        """The machine of an address."""
        return self.machines[int(address[1:])]

    def content(self, checkpoint: CheckpointId, shard: ShardId) -> Content:
        """What a rank saves: equal over data-parallel groups where the promise holds."""
        rank = shard.rank
        if self.groups is not None and self.identical_replicas:
            rank %= self.size // self.groups
        name = f"{checkpoint.epoch}.{checkpoint.step}.{rank}.{shard.worker}"
        manifest = f"{name}@{shard.rank}" if self.data_parallel else name
        return Content(name, manifest, 1)

    def name_backup(self, newest: str) -> str:
        """Minutes as zero-padded numbers: ordered like real names, and as coarse."""
        name = f"{int(self.now / 60):08d}"
        return name if name > newest else f"{int(newest) + 1:08d}"

    def replicated(self, machine: Machine, checkpoint: CheckpointId) -> None:
        """A coordinator called a checkpoint replicated."""
        coordinator = machine.coordinator
        assert coordinator is not None
        self.rounds += 1
        machine_of = list(self.machine_of)
        required: dict[ShardId, set[int]] = {}
        for rank, member in coordinator.members.by_rank.items():
            machine_of[rank] = self.machine_at(member.hello.address).index
            for worker in range(self.workers):
                required[ShardId(rank, worker)] = {rank, *member.hello.peers}
        self.invariants.replicated(checkpoint, machine_of, required, self.now)

    # ---- a whole run ----------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Faults, then calm; returns what was found."""
        try:
            for machine in self.machines:
                self.schedule(self.random.random(), machine.start)
            self.schedule(0.5, self.application.start)
            self.faults.plan(FAULT_TIME)
            self._run_until(FAULT_TIME)
            self._calm()
            self._lull()
        except Violation as found:
            return self._outcome(str(found))
        except Exception as crash:  # a crash of the core is as bad as a broken invariant
            where = traceback.extract_tb(crash.__traceback__)[-1]
            return self._outcome(f"crash: {crash!r} at {where.filename}:{where.lineno}")
        return self._outcome("")

    def _outcome(self, violation: str) -> Outcome:
        trace = tuple(self._trace or ())
        return Outcome(self.seed, self.events, self.size, self.rounds, violation, trace)

    def _calm(self) -> None:
        """Faults end, one last restart: the job must run and replicate again."""
        self.note(-1, "faults end")
        self.faults.end()
        self._calm_since = self.now
        self.application.restart_soon()
        if self.random.random() < 0.5:  # and once more, while nodes are gathered or restored
            self._run_until(self.now + 15 + self.random.random() * 10)
            self.application.restart_soon()
        before = self.rounds
        restarted = self.now
        limit = self.now + CALM_TIME
        wanted = before + 3
        self._run_until(limit, lambda: self.rounds >= wanted and self.application.running)
        if self.rounds < wanted:
            raise Violation(
                f"no progress in {CALM_TIME:.0f} s after the faults ended at {restarted:.0f}: "
                f"{self.rounds - before} checkpoints replicated"
            )

    def _lull(self) -> None:
        """A last save, while nobody reaches the coordinator that lives on: it must be replicated.

        A later save would hide that news of this one was lost.
        """
        application = self.application
        application.pausing = True
        self._run_until(self.now + LULL_TIME)
        if not application.running:
            return  # a fault of before has only now ended the job once more
        self.note(-1, "the coordinator is out of reach")
        self.network.silence(silent=True)
        application.save_once()
        self._run_until(self.now + LULL_TIME)
        self.network.silence(silent=False)

        step = application.step
        self._run_until(
            self.now + CALM_TIME, lambda: self._is_replicated(step) or not application.running
        )
        if application.running and not self._is_replicated(step):
            raise Violation(f"step {step} is never replicated")

    def _is_replicated(self, step: int) -> bool:
        """Whether a coordinator calls this step of its own run replicated."""
        for machine in self.machines:
            coordinator = machine.coordinator
            if coordinator is None or coordinator.replication is None or coordinator.run is None:
                continue
            if coordinator.replication.replicated == CheckpointId(coordinator.run.epoch, step):
                return True
        return False
