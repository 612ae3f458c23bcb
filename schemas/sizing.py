"""How large the RAM disk of a node has to be.

Factors: GKE documentation, "Multi-Tier Checkpointing", ``inMemoryVolumeSize``: 2.2 times the local
checkpoint on TPU, 6.6 times on GPU with one peer. A GPU node keeps its own copy and one per peer,
so a copy is 3.3 times the checkpoint; the factor for any other number of peers is derived from
that and marked so. On TPU the replicas of the model are each other's copies and nothing is stored
for peers, so the factor does not depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from schemas.catalog import AcceleratorType
from schemas.quantity import GIB, ceil_gib

TPU_FACTOR = Decimal("2.2")
GPU_FACTOR_PER_COPY = Decimal("3.3")
DOCUMENTED_GPU_PEERS = 1


@dataclass(frozen=True, slots=True)
class Factor:
    """RAM disk over local checkpoint.

    Attributes:
        value: the factor.
        derived: True where the documents state no figure and it follows from the one they do.
    """

    value: Decimal
    derived: bool


def factor(accelerator: AcceleratorType, peers: int) -> Factor:
    """Return the least RAM disk per byte of local checkpoint."""
    if accelerator == "tpu":
        return Factor(TPU_FACTOR, derived=False)
    return Factor(GPU_FACTOR_PER_COPY * (1 + peers), derived=peers != DOCUMENTED_GPU_PEERS)


def local_checkpoint(parameters: Decimal, bytes_per_parameter: Decimal, nodes: int) -> Decimal:
    """Bytes that one node saves of a model that is spread over so many nodes."""
    return parameters * bytes_per_parameter / nodes


def ram_disk_gib(checkpoint: Decimal, times: Decimal) -> int:
    """The least RAM disk in whole GiB: 64Gi gives 141 on TPU and 423 on GPU with one peer."""
    return ceil_gib(checkpoint * times)


def peers_that_fit(checkpoint: Decimal, room: Decimal) -> int:
    """How many GPU peers a room in bytes allows; -1 where not even the node's own copy fits."""
    peers = -1
    while ram_disk_gib(checkpoint, GPU_FACTOR_PER_COPY * (2 + peers)) * GIB <= room:
        peers += 1
        if peers > 64:
            break
    return peers
