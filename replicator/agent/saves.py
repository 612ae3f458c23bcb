"""Taking finished saves: hash, record, rename; try again after a failure, then put aside."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from replicator.agent.metrics import Metrics
from replicator.agent.store import LocalStore
from replicator.agent.watcher import Watcher
from replicator.core.model import CheckpointId, Content
from replicator.errors import ReplicatorError
from replicator.protocol import Framework, ReplicatorConfig

SEAL_ATTEMPTS = 3
"""Times that a save is tried before it is put aside."""
SEAL_PAUSE = 2.0
LOOK_PAUSE = 1.0

log = logging.getLogger("replicator.agent")


@dataclass(slots=True)
class Saves:
    """The saves of one job on this node."""

    store: LocalStore
    watcher: Watcher
    metrics: Metrics
    _retry: dict[int, tuple[int, float]] = field(default_factory=dict)  # step: failures, not before
    _look_at: float = 0.0
    _left: set[int] = field(default_factory=set)  # given up, but could not be moved
    _seen_at: dict[int, float] = field(default_factory=dict)

    def forget(self) -> None:
        """Another job, or a new start of this one."""
        self._retry.clear()
        self._left.clear()
        self._seen_at.clear()

    def due(self, config: ReplicatorConfig, epoch: int) -> list[int]:
        """Finished steps of this run that may be taken now, in order."""
        now = time.monotonic()
        steps = []
        for step in self.watcher.finished_saves(config, self._placed(config, epoch)):
            if step not in self._left and self._retry.get(step, (0, 0.0))[1] <= now:
                self._seen_at.setdefault(step, now)
                steps.append(step)
        return steps

    def incomplete(
        self, config: ReplicatorConfig, epoch: int, last_step: int
    ) -> dict[int, list[int]]:
        """Steps that not all workers saved before they all went on, and who did not.

        Looked for now and then only: of many workers each save would look at all of them again.
        """
        now = time.monotonic()
        if now < self._look_at:
            return {}
        self._look_at = now + LOOK_PAUSE
        placed = self._placed(config, epoch)
        found = self.watcher.incomplete_saves(config, last_step, placed)
        return {step: workers for step, workers in found.items() if step not in self._left}

    def _placed(self, config: ReplicatorConfig, epoch: int) -> Callable[[int], set[int]]:
        return lambda step: self.store.placed_workers(config, CheckpointId(epoch, step))

    async def seal(
        self, config: ReplicatorConfig, checkpoint: CheckpointId
    ) -> tuple[Content, ...] | str:
        """Take one; returns its contents, or why it could not be taken."""
        try:
            by_value = config.assume_data_parallelism is not None
            orbax = config.framework is Framework.ORBAX
            with self.metrics.timed_hashing(values=orbax and by_value):
                contents = await asyncio.to_thread(self.store.seal, config, checkpoint)
        except (ReplicatorError, OSError) as error:
            return self._failed(config, checkpoint.step, error)
        self._retry.pop(checkpoint.step, None)
        self.metrics.saved_step.set(checkpoint.step)
        return contents

    def _failed(self, config: ReplicatorConfig, step: int, error: Exception) -> str:
        failures = self._retry.get(step, (0, 0.0))[0] + 1
        self._retry[step] = (failures, time.monotonic() + SEAL_PAUSE)
        text = f"{type(error).__name__}: {error}"
        if failures < SEAL_ATTEMPTS or isinstance(error, OSError):
            return text  # a full or failing volume may recover: the save stays where it is
        del self._retry[step]
        if self.reject(config, step):
            return f"{text}; it is put aside"
        return f"{text}; it stays where it is and is not replicated"

    def reject(self, config: ReplicatorConfig, step: int) -> bool:
        """Put a save aside; where that is not allowed it is not looked at again."""
        try:
            self.store.reject(config, step)
        except OSError as error:
            log.error("a save cannot be put aside", extra={"step": step, "reason": str(error)})
            self._left.add(step)
            return False
        return True

    def replicated(self, config: ReplicatorConfig, step: int) -> None:
        """The step is on every required node: observe how long that took."""
        self.metrics.replicated_step.set(step)
        began = self._seen_at.get(step)
        for older in [seen for seen in self._seen_at if seen <= step]:
            del self._seen_at[older]  # also of steps that were overtaken by a newer one
        if began is not None:
            took = time.monotonic() - began
            framework = config.framework.value
            self.metrics.observe("CheckpointReplicationTotal", framework, took, ok=True)
