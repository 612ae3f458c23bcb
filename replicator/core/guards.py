"""Who must hold which shard so that a checkpoint counts as replicated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replicator.core.model import ShardId


class Guards:
    """The owners of shards and the peers that keep copies for them, as the nodes named them."""

    def __init__(self, shards: Iterable[ShardId], peers: Mapping[int, tuple[int, ...]]) -> None:
        self._peers = peers
        self._shards: dict[int, list[ShardId]] = {}
        for shard in shards:
            for rank in self.of(shard):
                self._shards.setdefault(rank, []).append(shard)

    def of(self, shard: ShardId) -> tuple[int, ...]:
        """Ranks that must hold the shard: its owner, then the owner's peers."""
        return self.followers(shard.rank)

    def shards_of(self, rank: int) -> list[ShardId]:
        """What the rank must hold."""
        return self._shards[rank]

    def followers(self, rank: int) -> tuple[int, ...]:
        """Ranks for which something may have become possible when this one sealed: its own too."""
        return (rank, *self._peers.get(rank, ()))

    def neighbours(self, rank: int) -> tuple[int, ...]:
        """Ranks for which something may have become possible when this one came back."""
        return tuple(sorted({other for shard in self._shards[rank] for other in self.of(shard)}))
