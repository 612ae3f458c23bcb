"""Which copies there are in the cluster, as far as the nodes have said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from replicator.core.messages import Fetch
from replicator.core.model import CheckpointId, Content, Copy, Key, Origin, ShardId, Source

Holders = dict[ShardId, dict[int, Content]]
"""For each shard of one checkpoint: the ranks that hold it, and what exactly they hold."""


class Catalogue:
    """All copies in the cluster, by checkpoint. Claims only: a copy counts until proven bad."""

    def __init__(self) -> None:
        self.checkpoints: dict[CheckpointId, Holders] = {}
        self.worlds: dict[CheckpointId, int] = {}
        self._of_rank: dict[int, set[Key]] = {}

    def replace(self, rank: int, copies: Iterable[Copy]) -> None:
        """Take a node's full inventory in place of what was known of it."""
        self.forget(rank)
        for copy in copies:
            self.add(rank, copy.checkpoint, copy.shard, copy.content, copy.world)

    def forget(self, rank: int) -> None:
        """The node is gone, and its copies with it."""
        for checkpoint, shard in tuple(self._of_rank.get(rank, ())):
            self.remove(rank, checkpoint, shard)

    def add(
        self, rank: int, checkpoint: CheckpointId, shard: ShardId, content: Content, world: int
    ) -> None:
        """The node holds this copy."""
        shards = self.checkpoints.get(checkpoint)
        if shards is None:
            shards = self.checkpoints[checkpoint] = {}
            self.worlds[checkpoint] = world
        owners = shards.get(shard)
        if owners is None:
            shards[shard] = {rank: content}
        else:
            owners[rank] = content
        names = self._of_rank.get(rank)
        if names is None:
            names = self._of_rank[rank] = set()
        names.add(Key(checkpoint, shard))

    def remove(self, rank: int, checkpoint: CheckpointId, shard: ShardId) -> None:
        """The node does not hold this copy (any more)."""
        self._of_rank.get(rank, set()).discard(Key(checkpoint, shard))
        holders = self.checkpoints.get(checkpoint, {})
        owners = holders.get(shard)
        if owners is None or owners.pop(rank, None) is None or owners:
            return
        del holders[shard]
        if not holders:
            del self.checkpoints[checkpoint]
            del self.worlds[checkpoint]

    def remove_content(self, rank: int, manifest: str) -> tuple[Key, ...]:
        """The node's data of this manifest is bad; returns the names it was recorded under."""
        names = tuple(
            key
            for key in self._of_rank.get(rank, ())
            if self.holders(key.checkpoint, key.shard)[rank].manifest == manifest
        )
        for checkpoint, shard in names:
            self.remove(rank, checkpoint, shard)
        return names

    def keep_only(self, rank: int, stays: Callable[[CheckpointId], bool]) -> None:
        """The node was told to delete all other checkpoints."""
        for checkpoint, shard in tuple(self._of_rank.get(rank, ())):
            if not stays(checkpoint):
                self.remove(rank, checkpoint, shard)

    def drop(self, checkpoint: CheckpointId) -> None:
        """All nodes were told to delete the checkpoint."""
        for shard, owners in list(self.checkpoints.get(checkpoint, {}).items()):
            for rank in list(owners):
                self.remove(rank, checkpoint, shard)

    def holders(self, checkpoint: CheckpointId, shard: ShardId) -> Mapping[int, Content]:
        """Who holds the shard, and what they hold."""
        return self.checkpoints.get(checkpoint, {}).get(shard, {})

    def is_complete(self, checkpoint: CheckpointId, shards: Iterable[ShardId]) -> bool:
        """Whether every shard has at least one holder in the cluster."""
        holders = self.checkpoints.get(checkpoint)
        return holders is not None and all(shard in holders for shard in shards)

    def newest_complete(self, shards: tuple[ShardId, ...]) -> CheckpointId | None:
        """The newest checkpoint of which the cluster holds every shard."""
        for checkpoint in sorted(self.checkpoints, reverse=True):
            if self.is_complete(checkpoint, shards):
                return checkpoint
        return None


def all_shards(world: int, workers: int) -> tuple[ShardId, ...]:
    """Every shard of a checkpoint of this job."""
    return tuple(ShardId(rank, worker) for rank in range(world) for worker in range(workers))


def verify_order(
    catalogue: Catalogue, checkpoint: CheckpointId, shard: ShardId, rank: int, world: int
) -> Fetch | None:
    """The order for a node to hash a copy that it holds; None where it holds none."""
    content = catalogue.holders(checkpoint, shard).get(rank)
    if content is None:
        return None
    return Fetch(checkpoint, shard, content, world, Source(Origin.LOCAL, rank))
