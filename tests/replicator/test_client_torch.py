"""Real torch on CPU; skipped where the extra `torch` is not installed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fake_replicator import FakeReplicator
from worker_processes import run_workers

from replicator.client import (
    Framework,
    ReplicatorClient,
    ReplicatorConfig,
    RestoreDataError,
    SaveError,
    StepExistsError,
)
from replicator.demo.cluster import free_ports

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

from replicator.client import dcp  # noqa: E402  (imports torch)

WORKER = Path(__file__).with_name("torch_worker.py")
CONFIG = ReplicatorConfig("job", Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)


def run_job(action: str, directories: list[Path], ranks_per_node: int) -> list[dict[str, object]]:
    (port,) = free_ports(1)
    commands = [
        (WORKER, action, directory, node, len(directories), local, ranks_per_node, port)
        for node, directory in enumerate(directories)
        for local in range(ranks_per_node)
    ]
    return [result for result, _ in run_workers(commands, 120)]


@pytest.mark.parametrize(("nodes", "ranks_per_node"), [(2, 1), (1, 2)])
def test_a_gloo_job_saves_and_restores_equal_values(
    tmp_path: Path, nodes: int, ranks_per_node: int
) -> None:
    directories = [tmp_path / f"node{node}" for node in range(nodes)]
    for directory in directories:
        directory.mkdir()
    replicators = [FakeReplicator(directory) for directory in directories]
    for replicator in replicators:
        replicator.__enter__()
    results = run_job("save", directories, ranks_per_node)
    assert [result["restored"] for result in results] == [None] * len(results)
    for replicator in replicators:
        replicator.wait_for_saved(5)
    for result in run_job("load", directories, ranks_per_node):
        assert result == {"restored": 5, "equal": True, "step": 5}
    for replicator in replicators:
        replicator.__exit__()


def test_the_storage_pair_alone_and_async(local: Path) -> None:
    import torch.distributed.checkpoint as tdc

    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        assert dcp.start(client, 0, handshake_timeout=5, restore_timeout=5) is None
        state = {"w": torch.arange(6.0).reshape(2, 3)}
        writer = dcp.ReplicatorStorageWriter(client, 1, 0, 1)
        tdc.save(state, storage_writer=writer, no_dist=True)
        replicator.wait_for_saved(1)
        later = {"w": torch.arange(6.0).reshape(2, 3) * 2}
        writer = dcp.ReplicatorStorageWriter(client, 2, 0, 1)
        tdc.async_save(later, storage_writer=writer, no_dist=True).result()
        replicator.wait_for_saved(2)
        restored = dcp.start(client, 0, handshake_timeout=5, restore_timeout=5)
        assert restored is not None
        assert restored.step == 2
        loaded = {"w": torch.zeros(2, 3)}
        tdc.load(loaded, storage_reader=dcp.ReplicatorStorageReader(restored, 0), no_dist=True)
        assert torch.equal(loaded["w"], later["w"])


def test_a_rank_that_never_writes_fails_the_step_and_leaves_nothing(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    with pytest.raises(SaveError, match=r"local ranks \[1\] have not written"):
        dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 2, hand_over_timeout=0.3)
    assert list(local.iterdir()) == []


def test_ranks_may_finish_in_any_order(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    first = threading.Thread(
        target=dcp.save, args=(client, {"w": torch.zeros(3)}, 1, 0, 2), daemon=True
    )
    first.start()
    dcp.save(client, {"w": torch.ones(3)}, 1, 1, 2)
    first.join(10)
    assert sorted(p.name for p in (local / "1").iterdir()) == ["0", "1"]


def test_a_part_of_an_attempt_that_was_given_up_is_never_mixed_into_the_next(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ReplicatorClient(local, CONFIG)
    with monkeypatch.context() as patch:

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(dcp.ReplicatorStorageWriter, "write_data", full)
        with pytest.raises(SaveError):
            dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 2)
    dcp.save(client, {"w": torch.zeros(3)}, 1, 1, 2)  # the slow rank, after the first gave up
    with pytest.raises(SaveError, match=r"local ranks \[1\] have not written"):
        dcp.save(client, {"w": torch.ones(3)}, 1, 0, 2, hand_over_timeout=0.3)
    assert not (local / "1").exists()
    dcp.save(client, {"w": torch.ones(3)}, 1, 1, 2)
    dcp.save(client, {"w": torch.ones(3)}, 1, 1, 2)
    dcp.save(client, {"w": torch.ones(3)}, 1, 0, 2)
    assert sorted(p.name for p in (local / "1").iterdir()) == ["0", "1"]


def test_what_a_slow_rank_writes_after_the_first_gave_up_does_not_stay(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    with pytest.raises(SaveError):
        dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 2, hand_over_timeout=0.1)
    dcp.save(client, {"w": torch.zeros(3)}, 1, 1, 2)
    assert [path.name for path in local.iterdir()] == ["1.pending.1"]
    dcp.save(client, {"w": torch.zeros(3)}, 2, 1, 2)
    dcp.save(client, {"w": torch.zeros(3)}, 2, 0, 2)
    assert [path.name for path in local.iterdir()] == ["2"]


def test_ranks_stay_in_step_where_only_one_saw_that_the_step_was_there(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    (local / "1").mkdir()
    with pytest.raises(StepExistsError):
        dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 2)
    (local / "1").rmdir()  # the replicator took it over before the other rank looked
    dcp.save(client, {"w": torch.zeros(3)}, 1, 1, 2)
    dcp.save(client, {"w": torch.ones(3)}, 1, 1, 2)
    dcp.save(client, {"w": torch.ones(3)}, 1, 0, 2, hand_over_timeout=5)
    assert [path.name for path in local.iterdir()] == ["1"]


def test_a_step_that_is_there_already_is_kept(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 1)
    before = {p: p.read_bytes() for p in local.rglob("*") if p.is_file()}
    with pytest.raises(StepExistsError):
        dcp.save(client, {"w": torch.ones(3)}, 1, 0, 1)
    assert {p: p.read_bytes() for p in local.rglob("*") if p.is_file()} == before


def test_saving_collectively_is_refused(local: Path) -> None:
    writer = dcp.ReplicatorStorageWriter(ReplicatorClient(local, CONFIG), 1, 0, 1)
    with pytest.raises(SaveError, match="no_dist=True"):
        writer.set_up_storage_writer(False)
    with pytest.raises(SaveError, match="no_dist=True"):
        writer.prepare_global_plan([None, None])
    with pytest.raises(SaveError, match="pass no checkpoint_id"):
        writer.reset("/elsewhere")
    with pytest.raises(SaveError, match="local rank 2 of 2"):
        dcp.ReplicatorStorageWriter(ReplicatorClient(local, CONFIG), 1, 2, 2)


def test_a_checkpoint_without_this_ranks_part_is_a_clear_error(local: Path) -> None:
    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        dcp.start(client, 0, handshake_timeout=5, restore_timeout=5)
        dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 1)
        replicator.wait_for_saved(1)
        restored = dcp.start(client, 0, handshake_timeout=5, restore_timeout=5)
        assert restored is not None
        with pytest.raises(RestoreDataError, match="nothing of local rank 1"):
            dcp.load(restored, {"w": torch.zeros(3)}, 1)
        with pytest.raises(RestoreDataError, match="step 1"):
            dcp.load(restored, {"other": torch.zeros(3)}, 0)
