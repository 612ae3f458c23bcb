"""Finished saves of one node: taken one at a time, in the order of their steps."""

from __future__ import annotations

from collections.abc import Iterable

from replicator.core import effects as fx
from replicator.core.model import CheckpointId, Run


class Saves:
    """Which steps wait, and which one is being sealed (hashed and given its final name)."""

    def __init__(self) -> None:
        self.sealing: CheckpointId | None = None
        self._waiting: list[int] = []

    def forget(self) -> None:
        """Another start of the job: what waits belongs to the earlier one."""
        self._waiting.clear()

    def add(self, step: int) -> None:
        """The application has finished saving it; telling so again changes nothing."""
        busy_with = self.sealing.step if self.sealing is not None else -1
        if step != busy_with and step not in self._waiting:
            self._waiting.append(step)
            self._waiting.sort()

    def next(self, run: Run, last_step: int, workers: int) -> list[fx.NodeEffect]:
        """Seal the next one, if none is being sealed.

        Steps of a run grow: one that is not newer than `last_step` is put aside (`RejectSave`).
        """
        effects: list[fx.NodeEffect] = []
        while self.sealing is None and self._waiting:
            step = self._waiting.pop(0)
            if step > last_step:
                self.sealing = CheckpointId(run.epoch, step)
                effects.append(fx.Seal(self.sealing, workers))
            else:
                text = (
                    f"step {step} was saved after step {last_step} in the same run; "
                    "steps of a run must grow, so it is put aside and not replicated"
                )
                effects += [fx.RejectSave(step, text), fx.WriteError(text)]
        return effects


def never_finished(step: int, workers: Iterable[int]) -> list[fx.NodeEffect]:
    """Put a step aside that these workers did not save before a later one was whole."""
    text = (
        f"step {step} was not saved by worker(s) {', '.join(map(str, workers))} before a later "
        "step was; it is put aside and not replicated"
    )
    return [fx.RejectSave(step, text), fx.WriteError(text)]
