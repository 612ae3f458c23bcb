"""How long planning a restore takes, and how it grows with the number of nodes.

Run: python benchmarks/replicator/planning.py

Each node reports its own shard and one peer's, for two checkpoints; a tenth of the nodes is new and
has nothing. Planning is: take in all reports, choose the checkpoint, make the first assignments.
"""

from __future__ import annotations

import math
import time

from replicator.core.model import CheckpointId, Content, Copy, ShardId
from replicator.core.plan import Catalogue, Choice, Distribution, all_shards, choose


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


def main() -> None:
    print("| nodes | seconds | seconds / (n log n), relative |")
    print("|---|---|---|")
    base = None
    for nodes in (1_250, 2_500, 5_000, 10_000, 20_000, 40_000):
        inventory = reports(nodes)
        best = math.inf
        for _ in range(3):
            began = time.perf_counter()
            assert plan(nodes, inventory) == nodes
            best = min(best, time.perf_counter() - began)
        relative = best / (nodes * math.log(nodes))
        base = base or relative
        print(f"| {nodes:,} | {best:.3f} | {relative / base:.2f} |")


if __name__ == "__main__":
    main()
