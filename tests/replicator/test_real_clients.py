"""Real Orbax and real torch against real agents on loopback: what a fleet does when nodes die.

Save, replicate, back up; lose one node's memory; lose everybody's. Each time the values that come
back are compared by the training process itself. Skipped where the frameworks are not installed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_processes import run_workers

from replicator.backups import JobBackups
from replicator.demo.cluster import DemoCluster, free_ports
from replicator.storage import ObjectStorage

HERE = Path(__file__).parent


def start_job(worker: str, action: str, cluster: DemoCluster, step: int) -> list[dict[str, object]]:
    """Run one process per node to its end; what each printed."""
    (port,) = free_ports(1)
    size = len(cluster.nodes)
    places: dict[str, list[tuple[object, ...]]] = {
        "orbax_worker.py": [(rank, size, port, step) for rank in range(size)],
        "torch_worker.py": [(rank, size, 0, 1, port) for rank in range(size)],
    }
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "JAX_"))}
    commands = [
        (HERE / worker, action, node.local, *place)
        for node, place in zip(cluster.nodes, places[worker], strict=True)
    ]
    return [result for result, _ in run_workers(commands, 180, environ)]


def has_backup(cluster: DemoCluster, job: str) -> bool:
    backups = JobBackups(ObjectStorage.open(cluster.backup_url), job)
    return asyncio.run(backups.newest_complete()) is not None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DemoCluster]:
    with DemoCluster(tmp_path, 2) as running:
        running.start_all()
        yield running


@pytest.mark.parametrize(
    ("worker", "job", "step", "key", "needs"),
    [
        (
            "orbax_worker.py",
            "orbax-job",
            3,
            "latest",
            "orbax.checkpoint.experimental.emergency.replicator_checkpoint_manager",
        ),
        ("torch_worker.py", "torch-job", 5, "restored", "torch.distributed.checkpoint"),
    ],
    ids=["orbax", "torch"],
)
def test_values_survive_the_loss_of_one_node_and_of_all(
    cluster: DemoCluster, worker: str, job: str, step: int, key: str, needs: str
) -> None:
    pytest.importorskip(needs, reason=f"needs the extra '{worker.partition('_')[0]}'")
    for result in start_job(worker, "save", cluster, step):
        assert result[key] is None
    cluster.wait_replicated(step)
    cluster.wait_for(lambda: has_backup(cluster, job), 60, "a complete backup")

    cluster.kill(1)
    cluster.wipe(1)
    cluster.start(1)
    cluster.wait_ready(1)
    for result in start_job(worker, "load", cluster, step):
        assert (result[key], result["equal"]) == (step, True), "from the peer"

    for node in cluster.nodes:
        cluster.kill(node.index)
        cluster.wipe(node.index)
    cluster.start_all()
    for result in start_job(worker, "load", cluster, step):
        assert (result[key], result["equal"]) == (step, True), "from the backup"
