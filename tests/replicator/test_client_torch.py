"""Real torch and Lightning on CPU; skipped where the extra `torch` is not installed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake_replicator import FakeReplicator

from replicator.client import (
    Framework,
    ReplicatorClient,
    ReplicatorConfig,
    RestoreDataError,
    SaveError,
    StepExistsError,
)

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

from replicator.client import dcp  # noqa: E402  (imports torch)

WORKER = Path(__file__).with_name("torch_worker.py")
CONFIG = ReplicatorConfig("job", Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local"
    path.mkdir()
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def run_job(action: str, directories: list[Path], ranks_per_node: int) -> list[dict[str, object]]:
    port = free_port()
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, str(WORKER), action, str(directory)),
                *map(str, (node, len(directories), local, ranks_per_node, port)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node, directory in enumerate(directories)
        for local in range(ranks_per_node)
    ]
    results = []
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        results.append(json.loads(output.splitlines()[-1]))
    return results


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


def test_a_full_disk_is_a_save_error_and_leaves_nothing(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dcp.ReplicatorStorageWriter, "write_data", full)
    with pytest.raises(SaveError, match="No space left"):
        dcp.save(ReplicatorClient(local, CONFIG), {"w": torch.zeros(3)}, 1, 0, 1)
    assert list(local.iterdir()) == []


def full_disk(self: Any, *_: Any, **__: Any) -> None:
    """torch's writer once it has begun, on a volume without room."""
    (self.path / "__0_0.distcp").write_bytes(bytes(1000))
    raise OSError(28, "No space left on device")


def test_the_storage_pair_alone_clears_away_what_a_full_disk_has_cut_off(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed.checkpoint as tdc
    from torch.distributed.checkpoint.api import CheckpointException

    client = ReplicatorClient(local, CONFIG)

    def save(step: int) -> None:
        writer = dcp.ReplicatorStorageWriter(client, step, 0, 1)
        tdc.save({"w": torch.zeros(3)}, storage_writer=writer, no_dist=True)

    with monkeypatch.context() as patch:
        patch.setattr(tdc.FileSystemWriter, "write_data", full_disk)
        with pytest.raises(CheckpointException, match="No space left"):
            save(1)
    assert list(local.iterdir()) == []
    save(3)
    assert [path.name for path in local.iterdir()] == ["3"]


def test_a_rank_that_cannot_write_does_not_keep_the_first_one_waiting(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed.checkpoint as tdc

    client = ReplicatorClient(local, CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(tdc.FileSystemWriter, "write_data", full_disk)
        with pytest.raises(SaveError, match="No space left"):
            dcp.save(client, {"w": torch.zeros(3)}, 1, 1, 2)
    began = time.monotonic()
    with pytest.raises(SaveError, match=r"local ranks \[1\] could not write their part"):
        dcp.save(client, {"w": torch.zeros(3)}, 1, 0, 2, hand_over_timeout=60)
    assert time.monotonic() - began < 30
    assert list(local.iterdir()) == []


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


# --- Lightning ------------------------------------------------------------------------------------


@pytest.fixture
def pl() -> Any:
    return pytest.importorskip("lightning.pytorch", reason="needs lightning")


def make_module(pl: Any) -> Any:
    class Line(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=4)

    torch.manual_seed(0)
    return Line()


def make_trainer(pl: Any, checkpoint_io: Any, max_steps: int, root: Path) -> Any:
    from lightning.pytorch.strategies import SingleDeviceStrategy

    from replicator.client.lightning import every_node_saves

    strategy = every_node_saves(SingleDeviceStrategy)(device="cpu", checkpoint_io=checkpoint_io)
    callback = pl.callbacks.ModelCheckpoint(
        dirpath=root / "unused", every_n_train_steps=3, save_top_k=-1
    )
    return pl.Trainer(
        strategy=strategy,
        max_steps=max_steps,
        callbacks=[callback],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def test_lightning_saves_through_the_replicator_and_resumes(
    local: Path, tmp_path: Path, pl: Any
) -> None:
    from replicator.client.lightning import ReplicatorCheckpointIO

    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        checkpoint_io = ReplicatorCheckpointIO(client, client.start(handshake_timeout=5))
        assert checkpoint_io.restored_path() is None
        model = make_module(pl)
        make_trainer(pl, checkpoint_io, 6, tmp_path).fit(model)
        replicator.wait_for_saved(3)
        replicator.wait_for_saved(6)
        assert not (tmp_path / "unused").exists() or not list((tmp_path / "unused").iterdir())
        trained = {name: value.clone() for name, value in model.state_dict().items()}
        again = ReplicatorClient(local, CONFIG)
        resumed_io = ReplicatorCheckpointIO(again, again.start(handshake_timeout=5))
        fresh = make_module(pl)
        trainer = make_trainer(pl, resumed_io, 6, tmp_path)
        trainer.fit(fresh, ckpt_path=resumed_io.restored_path())
        assert trainer.global_step == 6
        assert all(torch.equal(fresh.state_dict()[name], trained[name]) for name in trained)


def test_a_ddp_job_saves_on_every_node_and_resumes(tmp_path: Path, pl: Any) -> None:
    directories = [tmp_path / f"node{node}" for node in range(2)]
    for directory in directories:
        directory.mkdir()

    def run(steps: int) -> list[dict[str, Any]]:
        port = free_port()
        worker = str(Path(__file__).with_name("lightning_worker.py"))
        processes = [
            subprocess.Popen(
                [
                    *(sys.executable, worker, str(directory), str(node), "2", str(port)),
                    *(str(tmp_path / "unused"), str(steps)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for node, directory in enumerate(directories)
        ]
        results = []
        for process in processes:
            output, errors = process.communicate(timeout=150)
            assert process.returncode == 0, errors[-4000:]
            results.append(json.loads(output.splitlines()[-1]))
        return results

    with FakeReplicator(directories[0]) as first, FakeReplicator(directories[1]) as second:
        begun = run(4)
        assert [(r["restored"], r["step"]) for r in begun] == [(None, 4)] * 2
        for replicator in (first, second):
            replicator.wait_for_saved(2)
            replicator.wait_for_saved(4)
        resumed = run(6)
        assert [(r["restored"], r["step"]) for r in resumed] == [(4, 6)] * 2
        assert resumed[0]["weight"] == resumed[1]["weight"] != begun[0]["weight"]
        for replicator in (first, second):
            replicator.wait_for_saved(6)


def test_a_callback_that_writes_a_step_under_two_names_hands_it_over_once(
    local: Path, tmp_path: Path, pl: Any
) -> None:
    from replicator.client.lightning import ReplicatorCheckpointIO

    checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))
    trainer = make_trainer(pl, checkpoint_io, 6, tmp_path)
    trainer.checkpoint_callback.save_last = True  # the same step again, at once
    trainer.fit(make_module(pl))
    assert sorted(path.name for path in local.iterdir()) == ["3", "6"]
    found = torch.load(local / "6" / "checkpoint.pt", weights_only=False)
    assert found["global_step"] == 6


def test_all_of_a_step_is_handed_over_after_its_weights_alone(local: Path, pl: Any) -> None:
    from replicator.client.lightning import ReplicatorCheckpointIO

    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        checkpoint_io = ReplicatorCheckpointIO(client, client.start(handshake_timeout=5))
        weights = {"global_step": 3, "state_dict": {}}
        checkpoint_io.save_checkpoint(weights, "weights.ckpt")
        replicator.wait_for_saved(3)
        checkpoint_io.save_checkpoint(weights | {"optimizer_states": [1]}, "all.ckpt")
        while (local / "3").exists():
            time.sleep(0.01)
        restored = ReplicatorClient(local, CONFIG).start(handshake_timeout=5)
        assert restored is not None
        found = checkpoint_io.load_checkpoint(restored.path / "checkpoint.pt")
        assert found["optimizer_states"] == [1]


def test_only_the_first_rank_of_a_node_saves(local: Path, pl: Any) -> None:
    from replicator.client.lightning import EveryNodeSaves, ReplicatorCheckpointIO

    class Strategy(EveryNodeSaves):
        def __init__(self, local_rank: int) -> None:
            self.local_rank = local_rank
            self.checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))

    Strategy(1).save_checkpoint({"global_step": 4}, "unused")
    assert list(local.iterdir()) == []
    Strategy(0).save_checkpoint({"global_step": 4}, "unused")
    assert [p.name for p in local.iterdir()] == ["4"]


def test_a_checkpoint_without_a_step_and_a_full_disk_are_save_errors(
    local: Path, pl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicator.client.lightning import ReplicatorCheckpointIO

    checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))
    with pytest.raises(SaveError, match="no global_step"):
        checkpoint_io.save_checkpoint({}, "unused")

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("file write failed")

    monkeypatch.setattr(type(checkpoint_io).__mro__[1], "save_checkpoint", full)
    with pytest.raises(SaveError, match="file write failed"):
        checkpoint_io.save_checkpoint({"global_step": 1}, "unused")
    assert list(local.iterdir()) == []


def test_removing_a_checkpoint_leaves_the_replicators_data_alone(
    local: Path, tmp_path: Path, pl: Any
) -> None:
    from replicator.client.lightning import ReplicatorCheckpointIO

    checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))
    (local / "5").mkdir()
    checkpoint_io.remove_checkpoint(local / "5")
    assert (local / "5").is_dir()
    other = tmp_path / "other.ckpt"
    other.write_bytes(b"")
    checkpoint_io.remove_checkpoint(other)
    assert not other.exists()
