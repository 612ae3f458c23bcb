"""Real Lightning on CPU; skipped where it and the extra `torch` are not installed."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest
from fake_replicator import CONFIG, FakeReplicator
from small_volumes import no_large_files
from worker_processes import run_workers

from replicator.client import (
    ClientArgumentError,
    ReplicatorClient,
    ReplicatorFailedError,
    SaveError,
    StepExistsError,
)
from replicator.demo.cluster import DemoCluster, free_ports

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
pl = pytest.importorskip("lightning.pytorch", reason="needs lightning")

from lightning.pytorch.strategies import SingleDeviceStrategy  # noqa: E402
from lightning_line import Line  # noqa: E402

from replicator.client.lightning import (  # noqa: E402
    EveryNodeSaves,
    ReplicatorCheckpointIO,
    every_node_saves,
)


def make_module() -> Any:
    torch.manual_seed(0)
    return Line(rate=0.1)


def whole(step: int) -> dict[str, Any]:
    """What makes a checkpoint of Lightning's more than weights."""
    return {"global_step": step, "optimizer_states": []}


def make_trainer(checkpoint_io: Any, max_steps: int, root: Path) -> Any:
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


def test_lightning_saves_through_the_replicator_and_resumes(local: Path, tmp_path: Path) -> None:
    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        checkpoint_io = ReplicatorCheckpointIO(client, client.start(handshake_timeout=5))
        assert checkpoint_io.restored_path() is None
        model = make_module()
        make_trainer(checkpoint_io, 6, tmp_path).fit(model)
        replicator.wait_for_saved(3)
        replicator.wait_for_saved(6)
        assert not (tmp_path / "unused").exists() or not list((tmp_path / "unused").iterdir())
        trained = {name: value.clone() for name, value in model.state_dict().items()}
        again = ReplicatorClient(local, CONFIG)
        resumed_io = ReplicatorCheckpointIO(again, again.start(handshake_timeout=5))
        fresh = make_module()
        trainer = make_trainer(resumed_io, 6, tmp_path)
        trainer.fit(fresh, ckpt_path=resumed_io.restored_path())
        assert trainer.global_step == 6
        assert all(torch.equal(fresh.state_dict()[name], trained[name]) for name in trained)


def run_job(nodes: list[Path], root: Path, steps: int, full: int = 0) -> list[dict[str, Any]]:
    """Train on DDP with a process for each node, a save every two steps; what each printed."""
    (port,) = free_ports(1)
    worker = Path(__file__).with_name("lightning_worker.py")
    commands = [
        (worker, directory, node, len(nodes), port, root, steps, full)
        for node, directory in enumerate(nodes)
    ]
    return [result | {"errors": errors} for result, errors in run_workers(commands, 150)]


def test_a_ddp_job_saves_on_every_node_and_resumes_and_a_node_without_room_ends_nothing(
    tmp_path: Path,
) -> None:
    """With real agents: the step that one node could not save is complete nowhere."""
    with DemoCluster(tmp_path / "cluster", 2) as cluster:
        cluster.start_all()
        nodes = [node.local for node in cluster.nodes]
        begun = run_job(nodes, tmp_path / "unused", 5, full=4)
        assert [(r["restored"], r["step"]) for r in begun] == [(None, 5)] * 2
        told = "training goes on without a checkpoint (failed saves in a row: 1): step 4: File too"
        assert [told in r["errors"] for r in begun] == [False, True]
        cluster.wait_replicated(2)
        resumed = run_job(nodes, tmp_path / "unused", 6)
        assert [(r["restored"], r["step"]) for r in resumed] == [(2, 6)] * 2
        assert resumed[0]["weight"] == resumed[1]["weight"] != begun[0]["weight"]
        cluster.wait_replicated(6)
        assert not list((tmp_path / "unused").glob("*"))


def test_a_callback_that_writes_a_step_under_two_names_hands_it_over_once(
    local: Path, tmp_path: Path
) -> None:
    checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))
    trainer = make_trainer(checkpoint_io, 6, tmp_path)
    trainer.checkpoint_callback.save_last = True  # the same step again, at once
    trainer.fit(make_module())
    assert sorted(path.name for path in local.iterdir()) == ["3", "6"]
    found = torch.load(local / "6" / "checkpoint.pt", weights_only=False)
    assert found["global_step"] == 6


def test_weights_alone_go_where_their_callback_says_and_the_whole_state_to_the_replicator(
    local: Path, tmp_path: Path
) -> None:
    """Handed over first, they would be all that there is of the step, and nothing resumes from
    them."""
    exports = tmp_path / "exports"
    weights = pl.callbacks.ModelCheckpoint(
        dirpath=exports,
        every_n_train_steps=3,
        save_weights_only=True,
        save_top_k=1,
        monitor="step",
        mode="max",
    )
    with DemoCluster(tmp_path / "cluster", 1) as cluster:
        cluster.start_all()
        client = ReplicatorClient(cluster.nodes[0].local, CONFIG)
        checkpoint_io = ReplicatorCheckpointIO(client, client.start(handshake_timeout=20))
        trainer = make_trainer(checkpoint_io, 6, tmp_path)
        trainer.callbacks.insert(0, weights)
        trainer.fit(make_module())
        assert [path.name for path in exports.iterdir()] == ["epoch=0-step=6.ckpt"]
        cluster.wait_for(lambda: not (client.volume.directory / "6").exists(), 20, "take-over")
        assert "steps of a run must grow" not in cluster.errors(0)
        restored = client.start(handshake_timeout=20, restore_timeout=20)
        assert restored is not None
        resumed = ReplicatorCheckpointIO(client, restored)
        trainer = make_trainer(resumed, 9, tmp_path)
        trainer.fit(make_module(), ckpt_path=resumed.restored_path())
        assert trainer.global_step == 9


def test_only_the_first_rank_of_a_node_saves(local: Path) -> None:
    class Strategy(EveryNodeSaves):
        def __init__(self, local_rank: int) -> None:
            self.local_rank = local_rank
            self.checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))

    Strategy(1).save_checkpoint(whole(4), "unused")
    assert list(local.iterdir()) == []
    Strategy(0).save_checkpoint(whole(4), "unused")
    assert [p.name for p in local.iterdir()] == ["4"]


def test_a_checkpoint_without_a_step_and_a_full_disk_are_save_errors(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))
    with pytest.raises(SaveError, match="no global_step"):
        checkpoint_io.save_checkpoint({"optimizer_states": []}, "unused")
    with pytest.raises(SaveError, match="global_step True: expected a whole number"):
        checkpoint_io.save_checkpoint(whole(True), "unused")

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("file write failed")

    monkeypatch.setattr(type(checkpoint_io).__mro__[1], "save_checkpoint", full)
    with pytest.raises(SaveError, match="file write failed"):
        checkpoint_io.save_checkpoint(whole(1), "unused")
    assert list(local.iterdir()) == []


def test_removing_a_checkpoint_leaves_the_replicators_data_alone(
    local: Path, tmp_path: Path
) -> None:
    checkpoint_io = ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG))
    (local / "5").mkdir()
    for path in (local / "5", local / "5" / "checkpoint.pt"):
        checkpoint_io.remove_checkpoint(path)
    assert (local / "5").is_dir()
    other = tmp_path / "other.ckpt"
    other.write_bytes(b"")
    checkpoint_io.remove_checkpoint(other)
    assert not other.exists()


# ---- steps that cannot be saved ----------------------------------------------------------------


class NoRoom(pl.Callback):  # type: ignore[misc, name-defined]
    """The disk is full when this step is saved (before the checkpoint callback, which comes
    last)."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.limit = contextlib.ExitStack()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            self.limit.enter_context(no_large_files())

    def on_train_batch_start(self, *_: Any) -> None:
        self.limit.close()

    def on_exception(self, *_: Any) -> None:
        self.limit.close()


def names(local: Path) -> list[str]:
    return sorted(path.name for path in local.iterdir())


def test_by_default_a_full_disk_ends_the_training_with_the_reason(
    local: Path, tmp_path: Path
) -> None:
    trainer = make_trainer(ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG)), 9, tmp_path)
    trainer.callbacks.insert(0, NoRoom(6))
    with pytest.raises(SaveError, match="step 6: File too large"):
        trainer.fit(make_module())
    assert (trainer.global_step, names(local)) == (6, ["3"])


def test_with_warn_a_full_disk_costs_one_step_and_nothing_else(
    local: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = ReplicatorClient(local, CONFIG)
    trainer = make_trainer(ReplicatorCheckpointIO(client, on_save_error="warn"), 12, tmp_path)
    trainer.callbacks.insert(0, NoRoom(6))
    trainer.fit(make_module())
    assert (trainer.global_step, names(local)) == (12, ["12", "3", "9"])
    (record,) = (r for r in caplog.records if r.name == "replicator.client")
    assert record.levelno == logging.ERROR
    assert "(failed saves in a row: 1): step 6: File too large" in record.getMessage()


def test_a_step_that_is_there_already_is_kept_either_way(
    local: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in ("3", "6"):
        (local / step).mkdir()
    client = ReplicatorClient(local, CONFIG)
    with pytest.raises(StepExistsError):
        make_trainer(ReplicatorCheckpointIO(client), 9, tmp_path).fit(make_module())
    checkpoint_io = ReplicatorCheckpointIO(client, on_save_error="warn")
    make_trainer(checkpoint_io, 9, tmp_path).fit(make_module())
    assert names(local) == ["3", "6", "9"]
    assert not list((local / "3").iterdir())
    assert "(failed saves in a row: 2): step 6 is there already" in caplog.text


def test_an_agent_that_died_is_not_noticed_by_saves_and_takes_the_newest_once_it_is_back(
    tmp_path: Path,
) -> None:
    with DemoCluster(tmp_path / "cluster", 1) as cluster:
        cluster.start_all()
        client = ReplicatorClient(cluster.nodes[0].local, CONFIG)
        checkpoint_io = ReplicatorCheckpointIO(client, client.start(handshake_timeout=20))
        cluster.kill(0)
        make_trainer(checkpoint_io, 6, tmp_path).fit(make_module())
        assert {"3", "6"} <= set(names(client.volume.directory))
        cluster.start(0)
        cluster.wait_replicated(6)
        cluster.wait_for(
            lambda: not {"3", "6"} & set(names(client.volume.directory)), 20, "take-over"
        )


@pytest.mark.parametrize("on_save_error", ["raise", "warn"])
def test_a_replicator_that_gave_up_ends_the_training_either_way(
    local: Path, tmp_path: Path, on_save_error: Any
) -> None:
    client = ReplicatorClient(local, CONFIG)
    checkpoint_io = ReplicatorCheckpointIO(client, on_save_error=on_save_error)
    (local / "replicator.failed").write_text("no backup location\n")
    with pytest.raises(ReplicatorFailedError, match="no backup location"):
        make_trainer(checkpoint_io, 9, tmp_path).fit(make_module())


def test_another_word_for_what_a_failed_save_does_is_refused(local: Path) -> None:
    word: Any = "ignore"
    with pytest.raises(ClientArgumentError, match="'ignore': expected 'raise' or 'warn'"):
        ReplicatorCheckpointIO(ReplicatorClient(local, CONFIG), on_save_error=word)
