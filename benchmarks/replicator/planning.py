"""How long planning a restore takes, and how it grows with the number of nodes.

Run: python benchmarks/replicator/planning.py

Each node reports its own shard and one peer's, for two checkpoints; a tenth of the nodes is new and
has nothing. Planning is: take in all reports, choose the checkpoint, make the first assignments.
Beside it the schedule of one restore in which all nodes need the same data, from start to end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from replicator import collector
from replicator.core.catalogue import Catalogue, all_shards
from replicator.core.distribution import Assignment, Distribution
from replicator.core.model import (
    Backup,
    CheckpointId,
    Content,
    Copy,
    Failure,
    Origin,
    ShardId,
)
from replicator.core.plan import Choice, choose

ROUNDS = 5
"""The best counts: what else the machine does can only add to it."""


def reports(nodes: int) -> list[list[Copy]]:
    made: list[list[Copy]] = []
    for node in range(nodes):
        copies = []
        for step in (1, 2):
            for rank in (node, node ^ 1):
                if rank < nodes and node % 10 != 0:
                    content = Content(f"d{step}.{rank}", f"m{step}.{rank}", 1)
                    copies.append(Copy(CheckpointId(1, step), ShardId(rank, 0), content, nodes))
        made.append(copies)
    return made


def plan(nodes: int, inventory: list[list[Copy]]) -> int:
    catalogue = Catalogue()
    for node, copies in enumerate(inventory):
        catalogue.replace(node, copies)
    shards = all_shards(nodes, 1)
    choice = choose(catalogue, (), None, nodes, shards)
    assert isinstance(choice, Choice)
    assert choice.checkpoint == CheckpointId(1, 2)
    holders = catalogue.checkpoints[choice.checkpoint]
    return len(Distribution(choice.checkpoint, holders, None, shards, False).start())


def distribute(nodes: int) -> int:
    """All nodes lost the same data: one reads the backup, the rest take it from one another.

    Every third node fails at first and tries again. Returns how many got it.
    """
    step, content = CheckpointId(1, 2), Content("d", "m", 1)
    shards = all_shards(nodes, 1)
    backup = Backup("b", step, nodes, dict.fromkeys(shards, content))
    distribution = Distribution(step, {}, backup, shards, True)
    failing = set(shards[::3])
    orders = distribution.start()
    while orders:
        again: list[Assignment] = []
        for shard, source in ((order.shard, order.source) for order in orders):
            if shard in failing and source.origin is Origin.PEER:
                failing.discard(shard)
                again += distribution.failed(shard, source, Failure.TRANSIENT)[0]
                again += distribution.retry(shard)
            else:
                failing.discard(shard)
                again += distribution.done(shard, content)
        orders = again
    return nodes - len(distribution.open)


def main() -> None:
    collector.calm()  # as the agent does
    print("| nodes | planning, s of CPU | / (n log n), relative | one tree, s of CPU | relative |")
    print("|---|---|---|---|---|")
    base: list[float] = []
    for nodes in (1_250, 2_500, 5_000, 10_000, 20_000, 40_000):
        inventory = reports(nodes)
        took = [_best(plan, nodes, inventory), _best(distribute, nodes)]
        relative = [seconds / (nodes * math.log(nodes)) for seconds in took]
        base = base or relative
        cells = (f"{s:.3f} | {r / b:.2f}" for s, r, b in zip(took, relative, base, strict=True))
        print(f"| {nodes:,} | {' | '.join(cells)} |", flush=True)


def _best(work: Callable[..., int], nodes: int, *arguments: object) -> float:
    best = math.inf
    for _ in range(ROUNDS):
        began = time.process_time()
        assert work(nodes, *arguments) == nodes
        best = min(best, time.process_time() - began)
    return best


if __name__ == "__main__":
    main()
