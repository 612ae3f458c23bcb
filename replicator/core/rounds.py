"""Replication within a run: which copies are missing, who makes them, and what may then go.

A checkpoint becomes *complete* when every node has sealed its shards, and *replicated* when every
required node has sent a receipt for every shard. Old data goes only by `Progress`.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator.core.catalogue import Catalogue, all_shards, verify_order
from replicator.core.deletion import may_delete
from replicator.core.guards import Guards
from replicator.core.messages import CopyFailed, Fetch, Progress
from replicator.core.model import (
    CheckpointId,
    Content,
    Failure,
    Origin,
    Run,
    ShardId,
    Source,
    Timing,
    same_content,
)

MAX_INTO_NODE = 2
"""Copies that one node takes at a time; more would only share the same link and cores."""

Pair = tuple[int, ShardId]
"""A required copy: the rank that must hold it, and the shard."""


class Replication:
    """The state of replication in one run of a job."""

    def __init__(
        self,
        run: Run,
        world: int,
        workers: int,
        peers: dict[int, tuple[int, ...]],
        data_parallel: bool,
        catalogue: Catalogue,
        timing: Timing,
    ) -> None:
        self.run = run
        self.complete: CheckpointId | None = None
        self.replicated: CheckpointId | None = None
        self.active: CheckpointId | None = None
        self.held: set[CheckpointId] = set()
        self.present: set[int] = set()
        self.addresses: dict[int, str] = {}
        self.sealed: dict[CheckpointId, set[int]] = {}
        self._inherited: set[CheckpointId] = set()  # kept until a checkpoint is replicated
        self.problems: dict[Pair, str] = {}
        # Copies that a reader found bad; until their holders have hashed them they do not count.
        self._doubted: set[tuple[int, CheckpointId, ShardId]] = set()
        self._world = world
        self._workers = workers
        self._data_parallel = data_parallel
        self._catalogue = catalogue
        self._timing = timing
        self.shards = all_shards(world, workers)
        self.guards = Guards(self.shards, peers)
        self._all_stale = False  # `_missing` must be found out anew: all of it ...
        self._stale: set[int] = set()  # ... or what these ranks lack
        self._missing: dict[int, set[ShardId]] = {}  # target -> shards of the active checkpoint
        self._in_flight: dict[Pair, float] = {}
        self._not_before: dict[Pair, float] = {}
        self._delay: dict[Pair, float] = {}
        self._deadline = 0.0
        self._overdue = False
        self._passed_by = False  # whether a node will never save the active checkpoint
        self._news = ""  # to be reported by the next tick

    def restored(self, checkpoint: CheckpointId | None, now: float) -> None:
        """The run starts from this checkpoint: complete, and to be made redundant again."""
        self._hold_what_there_is()
        if checkpoint is not None:
            self.complete = checkpoint
            self.sealed[checkpoint] = set(range(self._world))
            self._activate(checkpoint, now)

    def resume(self, now: float) -> None:
        """A new coordinator takes over a run: learn its state from the nodes' inventories."""
        self._hold_what_there_is()
        self.complete = self._catalogue.newest_complete(self.shards)
        self._learn_saves(range(self._world))
        for checkpoint in sorted(self._catalogue.checkpoints, reverse=True):
            if not any(True for _ in self._lacking(checkpoint)):
                self.replicated = checkpoint
                break
        self._choose_next(now)

    def _hold_what_there_is(self) -> None:
        """Which of the complete checkpoints was the last redundant one is not known: keep all."""
        self._inherited = {
            c for c in self._catalogue.checkpoints if self._catalogue.is_complete(c, self.shards)
        }

    def _learn_saves(self, ranks: Iterable[int]) -> None:
        """What these ranks have saved, from their inventories: who was cut off could not say so."""
        for checkpoint, holders in sorted(self._catalogue.checkpoints.items()):  # as it was saved
            if checkpoint.epoch != self.run.epoch and checkpoint != self.complete:
                continue
            if may_delete(checkpoint, self.complete, self.replicated, tuple(self.held)):
                continue
            for rank in ranks:
                if self._owner_has(holders, rank):
                    self._saved(rank, checkpoint)

    def _saved(self, rank: int, checkpoint: CheckpointId) -> None:
        self.sealed.setdefault(checkpoint, set()).add(rank)
        active = self.active
        if active is not None and checkpoint > active and rank not in self.sealed.get(active, ()):
            self._passed_by = True  # steps of a run grow

    def _owner_has(self, holders: dict[ShardId, dict[int, Content]], rank: int) -> bool:
        shards = (ShardId(rank, worker) for worker in range(self._workers))
        return all(rank in holders.get(shard, {}) for shard in shards)

    def _lacking(self, checkpoint: CheckpointId) -> Iterable[Pair]:
        for shard in self.shards:
            holders = self._catalogue.holders(checkpoint, shard)
            for rank in self.guards.of(shard):
                if rank not in holders:
                    yield rank, shard

    def _activate(self, checkpoint: CheckpointId, now: float) -> None:
        self.active = checkpoint
        self._all_stale = True
        self._in_flight.clear()
        self._not_before.clear()
        self._delay.clear()
        self.problems.clear()
        self._deadline = now + self._timing.round
        self._overdue = False
        self._passed_by = False

    # ---- what happened --------------------------------------------------------------------------

    def seal(
        self, rank: int, checkpoint: CheckpointId, contents: tuple[Content, ...], now: float
    ) -> None:
        """A node saved its shards of a checkpoint."""
        if checkpoint.epoch != self.run.epoch or len(contents) != self._workers:
            return
        if may_delete(checkpoint, self.complete, self.replicated, tuple(self.held)):
            return
        for worker, content in enumerate(contents):
            self.receipt(rank, checkpoint, ShardId(rank, worker), content)
        self._saved(rank, checkpoint)
        self._advance(checkpoint)
        self._choose_next_if_free(now)

    def _advance(self, checkpoint: CheckpointId) -> None:
        """Call a checkpoint complete if all saved it and all of it is in the cluster right now."""
        if len(self.sealed.get(checkpoint, ())) < self._world:
            return
        newer = self.complete is None or checkpoint > self.complete
        doubted = any(one == checkpoint for _, one, _ in self._doubted)
        if newer and not doubted and self._catalogue.is_complete(checkpoint, self.shards):
            self.complete = checkpoint

    def _damaged(self) -> None:
        """Copies were found bad and left the catalogue: what is complete may have to step back."""
        self._step_back()
        self._all_stale = True

    def _step_back(self) -> None:
        if len(self.present) < self._world:
            return
        if self.complete and not self._catalogue.is_complete(self.complete, self.shards):
            self.complete = self._catalogue.newest_complete(self.shards)
        if self.replicated and not self._catalogue.is_complete(self.replicated, self.shards):
            self.replicated = None

    def receipt(
        self, rank: int, checkpoint: CheckpointId, shard: ShardId, content: Content
    ) -> None:
        """A node holds a verified copy."""
        self._catalogue.add(rank, checkpoint, shard, content, self._world)
        if (rank, checkpoint, shard) in self._doubted:
            self._doubted.discard((rank, checkpoint, shard))
            self._advance(checkpoint)
        if checkpoint == self.active:
            self._settle(rank, shard)

    def _settle(self, rank: int, shard: ShardId) -> None:
        pair = (rank, shard)
        self._in_flight.pop(pair, None)
        self._not_before.pop(pair, None)
        self._delay.pop(pair, None)
        self.problems.pop(pair, None)
        waiting = self._missing.get(rank)
        if waiting is not None:
            waiting.discard(shard)
            if not waiting:
                del self._missing[rank]

    def copy_failed(self, rank: int, failed: CopyFailed, now: float) -> Fetch | None:
        """A node could not make a copy, or its own proved bad.

        Returns the order for the source to hash what it holds, where a reader found it wanting.
        """
        order = None
        checkpoint, shard, source = failed.checkpoint, failed.shard, failed.source
        if source.origin is Origin.LOCAL and failed.failure in (Failure.CORRUPT, Failure.MISSING):
            held = self._catalogue.holders(checkpoint, shard).get(rank)
            if held is not None:
                self._catalogue.remove_content(rank, held.manifest)
            self._doubted.discard((rank, checkpoint, shard))
            self._damaged()
        elif source.origin is Origin.PEER and failed.failure in (Failure.CORRUPT, Failure.MISSING):
            # The source itself says what it has: a reader's news may be older than that.
            order = verify_order(self._catalogue, checkpoint, shard, source.rank, self._world)
            if order is not None and source.rank in self.present:
                self._doubted.add((source.rank, checkpoint, shard))
        self._retry_later((rank, shard), checkpoint, failed.detail, now)
        return order

    def _retry_later(self, pair: Pair, checkpoint: CheckpointId, text: str, now: float) -> None:
        """Try again after a pause that doubles."""
        if checkpoint != self.active or pair not in self._in_flight:
            return
        del self._in_flight[pair]
        delay = self._delay.get(pair, self._timing.retry)
        self._not_before[pair] = now + delay
        self._delay[pair] = min(delay * 2, self._timing.retry_cap)
        self.problems[pair] = text

    def arrived(self, addresses: dict[int, str], now: float) -> None:
        """Nodes are (back) in the run; their inventories are in the catalogue."""
        self.present.update(addresses)
        self.addresses.update(addresses)
        for rank in addresses:
            self._forget_orders(rank)
        self._stale.update(addresses)
        self._learn_saves(addresses)
        self._step_back()
        if len(self.present) == self._world:  # before, "complete" lets nothing go
            for checkpoint in sorted(self.sealed):
                self._advance(checkpoint)
        self._choose_next_if_free(now)
        thin = self.replicated if self.active is None else None
        if thin is not None and any(True for _ in self._lacking(thin)):
            self._activate(thin, now)

    def left(self, rank: int) -> None:
        """A node is gone; its receipts do not count until it is back and shows its copies."""
        self.present.discard(rank)
        self._doubted = {doubt for doubt in self._doubted if doubt[0] != rank}
        self._forget_orders(rank)
        self._stale.add(rank)

    def _refresh(self) -> None:
        """Find out anew what is missing, after nodes came, went or lost data.

        Only of those nodes: ten thousand that come back one by one must not cost its square.
        """
        for rank in range(self._world) if self._all_stale else self._stale:
            lacking: set[ShardId] = set()
            if self.active is not None:
                holders = self._catalogue.checkpoints.get(self.active, {})
                lacking = {s for s in self.guards.shards_of(rank) if rank not in holders.get(s, {})}
            if lacking:
                self._missing[rank] = lacking
            else:
                self._missing.pop(rank, None)
        self._all_stale = False
        self._stale.clear()

    def _forget_orders(self, rank: int) -> None:
        for shard in self.guards.shards_of(rank):
            self._in_flight.pop((rank, shard), None)

    # ---- what to do -----------------------------------------------------------------------------

    def newly_replicated(self, now: float) -> CheckpointId | None:
        """Close the active round if every receipt is in; returns the checkpoint, or None.

        Only when all nodes are present: what an absent node holds is not known.
        """
        if self.active is None or len(self.present) < self._world:
            return None
        self._refresh()
        if self._missing:
            return None
        done, self.active = self.active, None
        news = self.replicated is None or done > self.replicated
        if news:
            self.replicated = done
            self._inherited = {c for c in self._inherited if c > done}
            if self.complete is None or done > self.complete:
                self.complete = done
        for old in [c for c in self.sealed if self._gone(c)]:
            del self.sealed[old]
        self._doubted = {doubt for doubt in self._doubted if not self._gone(doubt[1])}
        self._choose_next(now)
        return done if news else None

    def _gone(self, checkpoint: CheckpointId) -> bool:
        return may_delete(checkpoint, self.complete, self.replicated, tuple(self.keep()))

    def _choose_next_if_free(self, now: float) -> None:
        """The round that is open goes on, unless it is hopeless or only restores redundancy."""
        if self.active in (None, self.replicated) or self._overdue:
            self._choose_next(now)
        elif self._passed_by:
            self._news = self._report("") + "a newer step takes its place."
            self._choose_next(now)

    def _choose_next(self, now: float) -> None:
        newer = [c for c in self.sealed if self.replicated is None or c > self.replicated]
        if newer and max(newer) != self.active:
            self._activate(max(newer), now)

    def keep(self) -> tuple[CheckpointId, ...]:
        """Checkpoints that must stay although they are neither complete nor replicated."""
        active = {self.active} if self.active else set()
        return tuple(sorted(self.held | active | self._inherited))

    def progress(self) -> Progress:
        """The message that lets nodes delete what is no longer needed.

        While a node is away nothing may go: with it a complete checkpoint may have become a
        partial one, and the one before may be needed again.
        """
        everyone = len(self.present) == self._world
        complete = self.complete if everyone else None
        return Progress(self.run, complete, self.replicated, self.keep())

    def orders(self, now: float, targets: Iterable[int] | None = None) -> list[tuple[int, Fetch]]:
        """Copies to start now, for the given target ranks or for all."""
        if self.active is None:
            return []
        self._refresh()
        orders: list[tuple[int, Fetch]] = []
        for rank in list(self._missing) if targets is None else targets:
            if rank not in self.present or rank not in self._missing:
                continue
            running = sum((rank, shard) in self._in_flight for shard in self._missing[rank])
            for shard in sorted(self._missing[rank]):
                if running >= MAX_INTO_NODE:
                    break
                fetch = self._order(rank, shard, now)
                if fetch is not None:
                    self._in_flight[rank, shard] = now + self._timing.transfer
                    orders.append((rank, fetch))
                    running += 1
        return orders

    def _order(self, rank: int, shard: ShardId, now: float) -> Fetch | None:
        pair = (rank, shard)
        assert self.active is not None
        if pair in self._in_flight or self._not_before.get(pair, 0.0) > now:
            return None
        holders = self._catalogue.holders(self.active, shard)
        sources = [r for r in holders if r in self.present]
        if not sources:
            return None
        # After a failure the next holder in turn is asked.
        preferred = shard.rank if shard.rank in sources and pair not in self._delay else None
        source = preferred if preferred is not None else sources[int(now) % len(sources)]
        content = holders[source]
        if self._data_parallel:
            own = self._catalogue.holders(self.active, ShardId(rank, shard.worker)).get(rank)
            if own is None and rank != shard.rank and not self._overdue:
                return None  # its own save may turn out equal: then no bytes need to move
            if own is not None and same_content(own, content, True):
                return Fetch(self.active, shard, own, self._world, Source(Origin.ALIAS, rank))
        origin = Source(Origin.PEER, source, self.addresses.get(source, ""))
        return Fetch(self.active, shard, content, self._world, origin)

    def tick(self, now: float) -> str:
        """Expire transfers and the round; returns a report when a round has just failed."""
        news, self._news = self._news, ""
        for pair in [pair for pair, limit in self._in_flight.items() if limit <= now]:
            del self._in_flight[pair]
            self.problems[pair] = "no answer within the transfer deadline"
        if self.active is None or self._overdue or now < self._deadline:
            return news
        self._overdue = True
        text = self._report(f" after {self._timing.round:.0f} s") + "the copies are tried again."
        self._choose_next(now)
        return f"{news} {text}".lstrip()

    def _report(self, late: str) -> str:
        assert self.active is not None
        self._refresh()
        step = self.active.step
        unsaved = sorted(set(range(self._world)) - self.sealed.get(self.active, set()))
        if unsaved:
            others = sorted({c.step for c in self.sealed if c != self.active})
            saved = f"; other steps that were saved: {_few(others)}" if others else ""
            why = f"node(s) {_few(unsaved)} did not save it{saved}"
        elif self.problems:
            (rank, shard), text = next(iter(self.problems.items()))
            why = f"node {rank} could not take the copy of node {shard.rank}: {text}"
        else:
            why = f"no receipt from node(s) {_few(sorted(self._missing))}"
        kept = self.replicated.step if self.replicated is not None else "none"
        return (
            f"step {step} is not replicated{late}: {why}. "
            f"The last replicated step ({kept}) is kept; "
        )


def _few(numbers: list[int]) -> str:
    text = ", ".join(map(str, numbers[:8]))
    return text if len(numbers) <= 8 else f"{text} and {len(numbers) - 8} more"
