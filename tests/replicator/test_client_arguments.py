from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from replicator.client import Framework, LocalDirectoryError, ReplicatorConfig
from replicator.client.arguments import (
    LaunchError,
    TorchrunRanks,
    add_checkpoint_arguments,
    client_from_arguments,
    config_from_arguments,
)

RANKS = TorchrunRanks(node_rank=1, nodes=4, local_rank=3, local_world_size=8)
RECIPE = (
    "--enable-high-scale-ckpt --local-ckpt-dir=/local --job-name=llama --local-ckpt-interval=20"
)


def parse(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_checkpoint_arguments(parser)
    return parser.parse_args(text.split())


def test_the_flags_of_the_nemo_recipe() -> None:
    assert config_from_arguments(parse(RECIPE), RANKS) == ReplicatorConfig(
        job_name="llama",
        framework=Framework.PYTORCH_DISTRIBUTED,
        node_rank=1,
        nodes=4,
        peer_ranks=None,
        peers_per_node=1,
        backup_interval_minutes=30,
        backup_interval_steps=None,
    )


def test_without_the_switch_nothing_is_asked() -> None:
    assert config_from_arguments(parse("--local-ckpt-dir=/local"), RANKS) is None
    assert client_from_arguments(parse(""), RANKS) is None


def test_peers_and_interval() -> None:
    config = config_from_arguments(parse(f"{RECIPE} --peer-ranks 0 3"), RANKS)
    assert config is not None
    assert config.replication_peers() == (0, 3)
    config = config_from_arguments(
        parse(f"{RECIPE} --peers-per-node 2 --backup-interval-minutes 7.5"), RANKS
    )
    assert config is not None
    assert (config.peers_per_node, config.backup_interval_minutes) == (2, 7.5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--enable-high-scale-ckpt", "needs --local-ckpt-dir and --job-name"),
        (f"{RECIPE} --local-ckpt-dir=", "--local-ckpt-dir is empty: .* expected the directory"),
        (f"{RECIPE} --local-ckpt-dir= --job-name=", "--local-ckpt-dir and --job-name are empty"),
        (f"{RECIPE} --local-ckpt-interval=0", "--local-ckpt-interval is 0"),
        (f"{RECIPE} --job-name=../x", "job-name: '../x' cannot be used in file names"),
        (f"{RECIPE} --peer-ranks 1", "holds the node's own rank 1"),
        (f"{RECIPE} --backup-interval-minutes=-1", "expected a number from 0"),
        (f"{RECIPE} --backup-interval-minutes=nan", "expected a number from 0"),
    ],
)
def test_flags_that_no_replicator_accepts(flags: str, expected: str) -> None:
    with pytest.raises(LaunchError, match=expected.replace("(", r"\(")):
        config_from_arguments(parse(flags), RANKS)


def test_ranks_from_torchrun() -> None:
    environ = {
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "4",
        "LOCAL_RANK": "3",
        "LOCAL_WORLD_SIZE": "8",
    }
    assert TorchrunRanks.from_environment(environ) == RANKS
    assert TorchrunRanks.from_environment({**environ, "NODE_RANK": "2", "NNODES": "5"}) == (
        TorchrunRanks(2, 5, 3, 8)
    )


def test_every_missing_variable_is_named_at_once() -> None:
    with pytest.raises(LaunchError) as caught:
        TorchrunRanks.from_environment({"LOCAL_RANK": "x"})
    for part in ("NODE_RANK or GROUP_RANK", "NNODES", "LOCAL_RANK is 'x'", "LOCAL_WORLD_SIZE"):
        assert part in str(caught.value)


def test_a_client_for_this_node(tmp_path: Path) -> None:
    client = client_from_arguments(parse(f"{RECIPE} --local-ckpt-dir={tmp_path}"), RANKS)
    assert client is not None
    assert client.config.node_rank == 1
    with pytest.raises(LocalDirectoryError):
        client_from_arguments(parse(f"{RECIPE} --local-ckpt-dir={tmp_path}/none"), RANKS)
