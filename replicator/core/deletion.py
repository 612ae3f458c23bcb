"""What may be deleted while a job runs."""

from __future__ import annotations

from collections.abc import Sequence

from replicator.core.model import CheckpointId


def may_delete(
    checkpoint: CheckpointId,
    complete: CheckpointId | None,
    replicated: CheckpointId | None,
    held: Sequence[CheckpointId],
) -> bool:
    """Whether a checkpoint is neither the newest complete, the newest replicated, held, nor newer.

    This is the only rule by which copies are ever deleted in a run (invariant 1).
    """
    if complete is None or checkpoint >= complete:
        return False
    return checkpoint != replicated and checkpoint not in held
