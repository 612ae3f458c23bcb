"""Which checkpoint to restore, as a pure function of what the cluster and the backups hold.

Planning a restore is this and distribution.py. Its cost grows with the number of copies (n log n
for the sort of checkpoints); 10,000 nodes with two copies of two checkpoints each plan in well
under a second (benchmarks/replicator/planning.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from replicator.core.catalogue import Catalogue
from replicator.core.model import Backup, CheckpointId, ShardId


@dataclass(frozen=True, slots=True)
class Choice:
    """What to restore. No checkpoint: start from nothing, and `incomplete` says what was seen."""

    checkpoint: CheckpointId | None
    backup: Backup | None = None  # serves shards that the cluster lacks
    primary_backup: bool = False  # the backup was chosen as such (not only to fill gaps)
    discard: tuple[CheckpointId, ...] = ()
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Restoring anything would be a guess; the text says what to do. All data stays."""

    text: str


def choose(
    catalogue: Catalogue,
    backups: Iterable[Backup],
    forced: str | None,
    world: int,
    shards: tuple[ShardId, ...],
    under_way: CheckpointId | None = None,
) -> Choice | Refusal:
    """Choose the restore point from what the nodes claim to hold and what backups exist.

    A forced version wins and has no alternative. Else the newest complete checkpoint in the
    cluster (a shard may also come from a backup of the very same checkpoint), else the newest
    complete backup; a backup that is newer than what the cluster holds wins over it.

    Transfers that restore `under_way` have a source for each of its shards, although nobody may
    hold one under its name any more: with data parallelism a counterpart's equal content serves.
    """
    by_name = sorted(backups, key=lambda backup: backup.name, reverse=True)
    if forced is not None:
        return _forced_choice(by_name, forced, world, shards)
    same = {backup.checkpoint: backup for backup in by_name if not backup.problem}
    complete_backup = next((b for b in by_name if not b.problem), None)
    incomplete: list[str] = []
    discard: list[CheckpointId] = []
    for checkpoint in sorted(catalogue.checkpoints, reverse=True):
        if complete_backup is not None and complete_backup.checkpoint > checkpoint:
            break
        held = catalogue.checkpoints[checkpoint]
        filler = same.get(checkpoint)
        if catalogue.worlds[checkpoint] != world:
            return Refusal(_other_world(checkpoint, catalogue.worlds[checkpoint], world))
        missing = [s for s in shards if s not in held and (not filler or s not in filler.shards)]
        if not missing or checkpoint == under_way:
            return Choice(checkpoint, filler, discard=tuple(discard), incomplete=tuple(incomplete))
        discard.append(checkpoint)
        incomplete.append(
            f"step {checkpoint.step} (run {checkpoint.epoch}): {len(missing)} of {len(shards)} "
            f"shards are nowhere, first node {missing[0].rank} worker {missing[0].worker}"
        )
    if complete_backup is not None:
        if complete_backup.world != world:
            return Refusal(
                f"backup {complete_backup.name}: "
                + _other_world(complete_backup.checkpoint, complete_backup.world, world)
            )
        if lacking := _lacking(complete_backup, shards):
            return Refusal(lacking)
        return Choice(
            complete_backup.checkpoint,
            complete_backup,
            primary_backup=True,
            discard=tuple(discard),
            incomplete=tuple(incomplete),
        )
    incomplete.extend(f"backup {b.name}: {b.problem}" for b in by_name[:3])
    return Choice(None, incomplete=tuple(incomplete))


def _forced_choice(
    backups: list[Backup], forced: str, world: int, shards: tuple[ShardId, ...]
) -> Choice | Refusal:
    named = next((backup for backup in backups if backup.name == forced), None)
    if named is None:
        known = ", ".join(backup.name for backup in backups if not backup.problem) or "none"
        return Refusal(
            f"restore.version names backup {forced!r}, which does not exist (complete backups: "
            f"{known}). Correct or remove restore.version; nothing was deleted."
        )
    if named.problem:
        return Refusal(
            f"restore.version names backup {forced!r}, which is not complete: {named.problem}. "
            "Name another one or remove restore.version; nothing was deleted."
        )
    if named.world != world:
        return Refusal(f"restore.version: {_other_world(named.checkpoint, named.world, world)}")
    if lacking := _lacking(named, shards):
        return Refusal(lacking)
    return Choice(named.checkpoint, named, primary_backup=True)


def _lacking(backup: Backup, shards: tuple[ShardId, ...]) -> str:
    missing = [shard for shard in shards if shard not in backup.shards]
    if not missing:
        return ""
    return (
        f"backup {backup.name} has no data for node {missing[0].rank} worker {missing[0].worker}: "
        "it was made with other workers-per-node. Nothing was deleted."
    )


def _other_world(checkpoint: CheckpointId, found: int, expected: int) -> str:
    return (
        f"step {checkpoint.step} was saved by {found} nodes, but this job runs {expected}: its "
        f"shards do not fit. Run with {found} nodes, or give the job another name to start anew; "
        "nothing was deleted."
    )
