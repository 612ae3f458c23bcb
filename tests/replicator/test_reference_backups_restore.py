"""Real agents restore backups that the public reference has written, and refuse damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from backup_cases import tree_of

from replicator.demo.cluster import DemoCluster

FIXTURES = Path(__file__).parent / "fixtures" / "reference"
CASES = {
    "fixture-files": ("pytorch", 2, 3, {}),
    "fixture-torch": ("pytorch.distributed", 1, 3, {}),
    "fixture-orbax": ("orbax", 1, 7, {"assume_data_parallelism": 2}),
}


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(job: str, root: Path, exits: ExitStack) -> DemoCluster:
    cluster = exits.enter_context(DemoCluster(root, 2, job=job, framework=CASES[job][0]))
    shutil.copytree(FIXTURES / job, root / "backup" / job)
    cluster.start_all()
    return cluster


def begin(cluster: DemoCluster) -> None:
    _, workers, _, extra = CASES[cluster.job]
    cluster.begin(workers_per_node=workers, **extra)


@pytest.mark.parametrize("job", sorted(CASES))
def test_agents_restore_it_on_every_node(job: str, tmp_path: Path, exits: ExitStack) -> None:
    cluster = start(job, tmp_path, exits)
    _, workers, step, _ = CASES[job]
    begin(cluster)
    assert cluster.wait_restored() == step
    (backup,) = (FIXTURES / job).iterdir()
    for rank, node in enumerate(cluster.nodes):
        assert (
            f"restore-backup: {backup.name}" in (node.local / "replicator.prerestore").read_text()
        )
        for worker in range(workers):
            shard = f"{job}-s{step}-n{rank}-w{worker}"
            link = node.local / f"{shard}.restore"
            cluster.wait_for(link.is_symlink, 30, f"{link.name}")
            source = backup / f"{(backup / f'{shard}.meta').read_text()}.data"
            if source.is_dir():
                assert tree_of(link.resolve()) == tree_of(source)
            else:
                assert link.read_bytes() == source.read_bytes()


def test_agents_never_link_damaged_data(tmp_path: Path, exits: ExitStack) -> None:
    cluster = start("fixture-torch", tmp_path, exits)
    victim = next((tmp_path / "backup").rglob("__1_0.distcp"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    begin(cluster)
    cluster.wait_for(
        lambda: any(cluster.failed(i) or cluster.restored(i) for i in range(2)), 60, "an outcome"
    )
    for index in range(2):
        found = cluster.restored(index)
        assert found is None or found[0] is None, cluster.log(index)
