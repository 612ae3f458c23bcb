"""Command line flags and launcher variables of a torchrun job, as a client.

The flags are those of the NeMo recipe for multi-tier checkpointing (AI-Hypercomputer/resiliency
ef69c85, benchmark/benchmark.py, and the GKE guide), so that its launch scripts keep working.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass

from replicator.client.errors import ClientError
from replicator.client.session import ReplicatorClient
from replicator.config import Framework, ReplicatorConfig, parse_config
from replicator.errors import ConfigError


class LaunchError(ClientError, ValueError):
    """Flags or launcher variables do not say what the replicator needs to know."""


@dataclass(frozen=True, slots=True)
class TorchrunRanks:
    """Where this process stands, from the variables that torchrun sets."""

    node_rank: int
    nodes: int
    local_rank: int
    local_world_size: int

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> TorchrunRanks:
        """Read GROUP_RANK and GROUP_WORLD_SIZE (or NODE_RANK and NNODES), LOCAL_RANK,
        LOCAL_WORLD_SIZE.

        Raises:
            LaunchError: one is missing or no number; all of them are named at once.
        """
        problems: list[str] = []

        def number(*names: str) -> int:
            for name in names:
                if (text := environ.get(name)) is not None:
                    if re.fullmatch(r"[0-9]{1,9}", text):
                        return int(text)
                    problems.append(f"{name} is {text!r}, not a number")
                    return 0
            problems.append(f"{' or '.join(names)} is not set")
            return 0

        ranks = cls(
            node_rank=number("NODE_RANK", "GROUP_RANK"),
            nodes=number("NNODES", "GROUP_WORLD_SIZE"),
            local_rank=number("LOCAL_RANK"),
            local_world_size=number("LOCAL_WORLD_SIZE"),
        )
        if problems:
            raise LaunchError(f"{'; '.join(problems)}: is this process started by torchrun?")
        return ranks


def add_checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the recipe's flags, and those for what it leaves fixed."""
    group = parser.add_argument_group("multi-tier checkpointing")
    group.add_argument(
        "--enable-high-scale-ckpt",
        action="store_true",
        help="checkpoint through the replicator; needs --local-ckpt-dir and --job-name",
    )
    group.add_argument(
        "--local-ckpt-dir", metavar="DIR", help="where the checkpoint volume is mounted"
    )
    group.add_argument(
        "--local-ckpt-interval", type=int, default=20, metavar="STEPS", help="steps between saves"
    )
    group.add_argument("--job-name", metavar="NAME", help="the same on all nodes, unique at a time")
    group.add_argument(
        "--backup-interval-minutes",
        type=float,
        default=30,
        metavar="MINUTES",
        help="minutes between backups to object storage (default: 30)",
    )
    peers = group.add_mutually_exclusive_group()
    peers.add_argument(
        "--peers-per-node", type=int, default=1, metavar="COUNT", help="copies on other nodes"
    )
    peers.add_argument(
        "--peer-ranks", type=int, nargs="+", metavar="RANK", help="which nodes hold the copies"
    )


def config_from_arguments(
    arguments: argparse.Namespace, ranks: TorchrunRanks
) -> ReplicatorConfig | None:
    """What the flags ask of the replicator, checked as the replicator will; None = not enabled.

    Raises:
        LaunchError: flags are missing, or hold what no replicator accepts.
    """
    if not arguments.enable_high_scale_ckpt:
        return None
    needed = {"--local-ckpt-dir": arguments.local_ckpt_dir, "--job-name": arguments.job_name}
    if missing := [flag for flag, value in needed.items() if value is None]:
        raise LaunchError(f"--enable-high-scale-ckpt needs {' and '.join(missing)}")
    if empty := [flag for flag, value in needed.items() if not value]:
        raise LaunchError(
            f"{' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty: is a variable of "
            "the launch script not set? expected the directory where the checkpoint volume is "
            "mounted, and the job's name"
        )
    if arguments.local_ckpt_interval < 1:
        raise LaunchError(
            f"--local-ckpt-interval is {arguments.local_ckpt_interval}; expected 1 up"
        )
    peer_ranks = arguments.peer_ranks
    config = ReplicatorConfig(
        job_name=arguments.job_name,
        framework=Framework.PYTORCH_DISTRIBUTED,
        node_rank=ranks.node_rank,
        nodes=ranks.nodes,
        peer_ranks=None if peer_ranks is None else tuple(peer_ranks),
        peers_per_node=arguments.peers_per_node if peer_ranks is None else len(peer_ranks),
        backup_interval_minutes=arguments.backup_interval_minutes,
        backup_interval_steps=None,
    )
    try:
        return parse_config(config.to_yaml().encode(), source="flags")
    except ConfigError as error:
        found = "; ".join(problem.message for problem in error.problems)
        raise LaunchError(f"multi-tier checkpointing: {found}") from None


def client_from_arguments(
    arguments: argparse.Namespace, ranks: TorchrunRanks
) -> ReplicatorClient | None:
    """A client for this node; None = multi-tier checkpointing is not enabled.

    Raises:
        LaunchError: flags are missing, or hold what no replicator accepts.
        LocalDirectoryError: there is no such directory.
    """
    config = config_from_arguments(arguments, ranks)
    return None if config is None else ReplicatorClient(arguments.local_ckpt_dir, config)
