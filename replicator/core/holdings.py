"""The copies that one node holds, and what it has put aside rather than deleted."""

from __future__ import annotations

from collections.abc import Iterable

from replicator.core import effects as fx
from replicator.core.deletion import may_delete
from replicator.core.messages import Progress
from replicator.core.model import CheckpointId, Content, Copy, Key, ShardId


class Holdings:
    """A node's inventory, as its records say. Quarantined data is no part of it."""

    def __init__(self, copies: Iterable[Copy]) -> None:
        self.copies: dict[Key, tuple[Content, int]] = {}  # content and the saving job's node count
        self._replicated: CheckpointId | None = None  # as the coordinator last said
        self._aside = True  # there may be quarantined data, put aside when ...
        self._aside_since: CheckpointId | None = None  # ... this was the newest replicated
        self.replace(copies)

    def replace(self, copies: Iterable[Copy]) -> None:
        """Take what was found in the volume in place of what was known."""
        self.copies = {Key(c.checkpoint, c.shard): (c.content, c.world) for c in copies}

    def inventory(self) -> tuple[Copy, ...]:
        """Everything that is held, for the coordinator."""
        return tuple(Copy(k.checkpoint, k.shard, c, w) for k, (c, w) in self.copies.items())

    def holds(self, checkpoint: CheckpointId, shards: Iterable[ShardId]) -> bool:
        """Whether all of these shards of the checkpoint are here."""
        return all(Key(checkpoint, shard) in self.copies for shard in shards)

    def newest(self, shards: tuple[ShardId, ...]) -> CheckpointId | None:
        """The newest checkpoint of which all of these shards are here."""
        held = {key.checkpoint for key in self.copies}
        return max((c for c in held if self.holds(c, shards)), default=None)

    # ---- what goes ------------------------------------------------------------------------------

    def delete(self, keys: Iterable[Key]) -> list[fx.NodeEffect]:
        """Copies that nobody needs any more."""
        gone = tuple(keys)
        for key in gone:
            del self.copies[key]
        return [fx.Delete(gone)] if gone else []

    def forget_old(self, progress: Progress) -> list[fx.NodeEffect]:
        """Delete what the coordinator lets go, and release what was put aside before that."""
        complete, replicated, held = progress.complete, progress.replicated, progress.held
        old = [k for k in self.copies if may_delete(k.checkpoint, complete, replicated, held)]
        effects = self.delete(old)
        of_this_run = replicated is not None and replicated.epoch == progress.run.epoch
        if of_this_run and self._aside and replicated != self._aside_since:
            effects.append(fx.ReleaseQuarantine())
            self._aside = False
        self._replicated = replicated
        return effects

    # ---- quarantine -----------------------------------------------------------------------------

    def a_new_run(self) -> None:
        """What was said of an earlier run does not count any more."""
        self._replicated = None
        self.something_is_put_aside()

    def something_is_put_aside(self) -> None:
        """It stays in quarantine until a newer checkpoint is replicated."""
        self._aside, self._aside_since = True, self._replicated

    def take_out(self, key: Key) -> tuple[Key, ...]:
        """A copy is bad; returns every name that its data is recorded under, all out of use now."""
        found = self.copies.get(key)
        if found is None:
            return ()
        manifest = found[0].manifest
        bad = tuple(k for k, (content, _) in self.copies.items() if content.manifest == manifest)
        for one in bad:
            del self.copies[one]
        self.something_is_put_aside()
        return bad

    def put_all_aside(self, reason: str) -> list[fx.NodeEffect]:
        """The job starts anew: nothing is deleted, but nothing is in use either."""
        keys = tuple(self.copies)
        if not keys:
            return []
        self.copies.clear()
        text = f"{reason}: {len(keys)} copies of earlier saves are kept aside, not deleted"
        return [fx.Quarantine(keys, reason), fx.WriteError(text)]
