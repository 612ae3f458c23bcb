"""Whether self-hosted agents can move a checkpoint within their deadlines at the speed they may."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal

from generator.fleet import RamDisk
from generator.problems import Problem
from generator.self_hosted import ROUND_SECONDS, TRANSFER_SECONDS
from schemas.inventory.self_hosted import AgentTimeouts
from schemas.quantity import GIB, parse_quantity

MIB = Decimal(2**20)


def too_slow(disk: RamDisk) -> Iterator[Problem]:
    """What a cap on bandwidth makes impossible.

    In a round a GPU node sends its copy to each of its peers; on TPU the replicas of the model are
    one another's copies, and only a restore moves any.
    """
    agent, checkpoint = disk.spec.agent, disk.checkpoint
    if agent is None or agent.bandwidth is None or checkpoint is None:
        return
    given = agent.timeouts or AgentTimeouts()
    copies = 0 if disk.pool.is_tpu else disk.spec.peers
    rate = parse_quantity(agent.bandwidth)
    for name, limit, amount, what, outcome in (
        ("round", given.round or ROUND_SECONDS, checkpoint * copies, "a step's copies",
         "no step is ever replicated"),
        ("transfer", given.transfer or TRANSFER_SECONDS, checkpoint, "one copy",
         "no lost node is ever restored from a peer"),
    ):  # fmt: skip
        needed = (amount / rate).to_integral_value(ROUND_CEILING)
        if needed > limit:
            yield Problem(
                "INV076",
                ("checkpointing", disk.name, "agent", "bandwidth"),
                f"at {agent.bandwidth} a second {what} of {amount / GIB:.4g}Gi take {needed} s, "
                f"but are given up after {limit} s: {outcome}",
                f"allow at least {_mebibytes(amount / limit)}, or write timeouts.{name}: {needed} "
                "or more",
            )


def _mebibytes(rate: Decimal) -> str:
    return f"{(rate / MIB).to_integral_value(ROUND_CEILING)}Mi"
