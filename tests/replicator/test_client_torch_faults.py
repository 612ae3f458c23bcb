"""Saves through torch.distributed.checkpoint that fail: what the caller sees, what is left behind,
and whether the node's other ranks are held up. Skipped where torch is not installed."""

from __future__ import annotations

import errno
import math
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_replicator import CONFIG
from small_volumes import needs_root, small_tmpfs

from replicator.client import (
    ClientArgumentError,
    ReplicatorClient,
    ReplicatorFailedError,
    RestoreDataError,
    SaveError,
    StepExistsError,
)

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

import torch.distributed.checkpoint as tdc  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402

from replicator.client import dcp  # noqa: E402

SMALL = {"w": torch.zeros(3)}
BIG = {"w": torch.zeros(2 * 1024 * 1024)}  # 8 MiB
LONG = 60.0
"""Seconds; a test that took it would fail."""


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.fixture
def client(tmp_path: Path) -> ReplicatorClient:
    path = tmp_path / "local"
    path.mkdir()
    return ReplicatorClient(path, CONFIG)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[ReplicatorClient]:
    """A client whose volume has room for `SMALL`, not for `BIG`."""
    with small_tmpfs(tmp_path / "full", "size=4m") as path:
        yield ReplicatorClient(path, CONFIG)


def save(client: ReplicatorClient, state: dict[str, Any], step: int, rank: int, of: int) -> None:
    dcp.save(client, state, step, rank, of, hand_over_timeout=LONG)


def save_in_a_thread(
    client: ReplicatorClient, state: dict[str, Any], step: int, rank: int, of: int
) -> None:
    dcp.async_save(client, state, step, rank, of, hand_over_timeout=LONG).result(2 * LONG)


both = pytest.mark.parametrize("act", [save, save_in_a_thread])
Save = Callable[[ReplicatorClient, dict[str, Any], int, int, int], None]


# ---- a full disk -------------------------------------------------------------------------------


@needs_root
@both
def test_a_full_disk_is_a_save_error_that_leaves_nothing_and_the_next_save_works(
    full: ReplicatorClient, act: Save
) -> None:
    with pytest.raises(SaveError, match="step 1: No space left on device") as caught:
        act(full, BIG, 1, 0, 1)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert names(full.volume.directory) == []
    act(full, SMALL, 1, 0, 1)
    act(full, SMALL, 2, 0, 1)
    assert names(full.volume.directory) == ["1", "2"]


@needs_root
def test_torchs_own_calls_tell_the_save_error_inside_theirs(full: ReplicatorClient) -> None:
    for call in (
        lambda writer: tdc.save(BIG, storage_writer=writer, no_dist=True),
        lambda writer: tdc.async_save(BIG, storage_writer=writer, no_dist=True).result(LONG),
    ):
        with pytest.raises(CheckpointException, match="step 1: No space left") as caught:
            call(dcp.ReplicatorStorageWriter(full, 1, 0, 1))
        assert isinstance(caught.value.failures[0][0], SaveError)
        assert names(full.volume.directory) == []
    writer = dcp.ReplicatorStorageWriter(full, 3, 0, 1)
    tdc.async_save(SMALL, storage_writer=writer, no_dist=True).result(LONG)
    assert names(full.volume.directory) == ["3"]


@needs_root
def test_a_rank_whose_disk_is_full_does_not_keep_the_first_one_waiting(
    full: ReplicatorClient,
) -> None:
    began = time.monotonic()
    first = dcp.async_save(full, SMALL, 1, 0, 2, hand_over_timeout=LONG)
    second = dcp.async_save(full, BIG, 1, 1, 2)
    with pytest.raises(SaveError, match="No space left"):
        second.result(LONG)
    with pytest.raises(SaveError, match=r"step 1: local ranks \[1\] could not write their part"):
        first.result(LONG)
    assert time.monotonic() - began < LONG / 2
    again = [dcp.async_save(full, SMALL, 1, rank, 2) for rank in range(2)]
    assert [saving.result(LONG) for saving in again] == [None, None]
    assert names(full.volume.directory) == ["1"]
    assert names(full.volume.directory / "1") == ["0", "1"]


@needs_root
def test_the_others_are_not_held_where_the_first_rank_cannot_write(full: ReplicatorClient) -> None:
    with pytest.raises(SaveError, match="No space left"):
        dcp.async_save(full, BIG, 1, 0, 2).result(LONG)
    dcp.async_save(full, SMALL, 1, 1, 2).result(LONG)  # its part is good, the step is not
    assert not (full.volume.directory / "1").exists()
    for step in (1, 2):
        savings = [dcp.async_save(full, SMALL, step, rank, 2) for rank in range(2)]
        assert [saving.result(LONG) for saving in savings] == [None, None]
    assert names(full.volume.directory) == ["1", "2"]


def test_a_state_that_cannot_be_copied_does_not_keep_the_first_rank_waiting(
    client: ReplicatorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any) -> None:
        raise RuntimeError("cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(tdc.FileSystemWriter, "stage", no_memory)
        with pytest.raises(SaveError, match="step 1: RuntimeError: cannot allocate memory"):
            dcp.async_save(client, SMALL, 1, 1, 2)
    with pytest.raises(SaveError, match=r"local ranks \[1\] could not write"):
        save_in_a_thread(client, SMALL, 1, 0, 2)
    assert names(client.volume.directory) == []


# ---- what is no error of the disk --------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_swallowed_as_a_failed_save(
    client: ReplicatorClient,
    act: Save,
    kind: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch wraps it like any error, and a training loop goes on after a SaveError."""

    def interrupt(self: Any, *_: Any) -> None:
        (self.path / "__0_0.distcp").write_bytes(bytes(1000))
        raise kind

    monkeypatch.setattr(tdc.FileSystemWriter, "write_data", interrupt)
    with pytest.raises(kind):
        act(client, SMALL, 1, 0, 1)
    assert names(client.volume.directory) == []


def test_an_interrupt_is_not_swallowed_as_a_failed_load(
    client: ReplicatorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicator.client import Restored

    save(client, SMALL, 1, 0, 1)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tdc.FileSystemReader, "read_data", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dcp.load(Restored(1, client.volume.directory / "1"), {"w": torch.zeros(3)}, 0)


@both
def test_a_replicator_that_gave_up_is_told_and_the_ranks_stay_in_step(
    client: ReplicatorClient, act: Save
) -> None:
    (client.volume.directory / "replicator.failed").write_text("no backup location\n")
    with pytest.raises(ReplicatorFailedError, match="no backup location"):
        act(client, SMALL, 1, 0, 2)
    act(client, SMALL, 1, 1, 2)
    act(client, SMALL, 1, 1, 2)
    act(client, SMALL, 1, 0, 2)
    assert names(client.volume.directory) == ["1"]


@both
def test_a_step_that_is_there_is_told_as_such(client: ReplicatorClient, act: Save) -> None:
    act(client, SMALL, 1, 0, 1)
    with pytest.raises(StepExistsError) as caught:
        act(client, SMALL, 1, 0, 1)
    assert caught.value.step == 1
    assert names(client.volume.directory) == ["1"]


def test_parts_that_vanish_are_not_waited_for(client: ReplicatorClient) -> None:
    saving = dcp.async_save(client, SMALL, 1, 0, 2, hand_over_timeout=LONG)
    part = client.volume.directory / "1.pending.1" / "0"
    while not (part / ".metadata").exists():
        assert not saving.done()
        time.sleep(0.01)
    shutil.rmtree(part.parent)
    with pytest.raises(SaveError, match="1/0 is not there any more"):
        saving.result(LONG / 2)


# ---- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "rank", "of", "found"),
    [
        (-1, 0, 1, "step -1 is out of range; expected 0 to"),
        (True, 0, 1, "step True: expected a whole number"),
        ("5", 0, 1, "step '5': expected a whole number"),
        (5, "0", 1, "local rank '0': expected a whole number"),
        (5, 0, "1", "local world size '1': expected a whole number"),
        (5, 1, 1, "local rank 1 of 1: expected a rank from 0 that is below"),
        (5, -1, 1, "local rank -1 of 1: expected"),
        (5, 0, 0, "local rank 0 of 0: expected"),
    ],
)
@both
def test_places_that_cannot_be(
    client: ReplicatorClient, act: Save, step: Any, rank: Any, of: Any, found: str
) -> None:
    with pytest.raises(SaveError, match=found):
        act(client, SMALL, step, rank, of)
    assert names(client.volume.directory) == []


@pytest.mark.parametrize("timeout", [None, math.nan, "5"])
def test_a_time_out_that_is_no_number_is_refused(client: ReplicatorClient, timeout: Any) -> None:
    with pytest.raises(ClientArgumentError, match="hand_over_timeout is"):
        dcp.save(client, SMALL, 1, 0, 1, hand_over_timeout=timeout)


@pytest.mark.parametrize("step", [torch.tensor(7), pytest.importorskip("numpy").int64(7)])
def test_a_step_may_be_a_number_of_torch_or_numpy(client: ReplicatorClient, step: Any) -> None:
    for rank in (1, 0):
        save(client, SMALL, step, rank, 2)
    assert names(client.volume.directory) == ["7"]


def test_metadata_under_another_name_is_refused(client: ReplicatorClient) -> None:
    writer = dcp.ReplicatorStorageWriter(client, 1, 0, 1)
    with pytest.raises(SaveError, match="use_collectives=False is not supported"):
        tdc.save(SMALL, storage_writer=writer, no_dist=True, use_collectives=False)
    assert names(client.volume.directory) == []


def test_nothing_restored_is_nothing_to_load() -> None:
    restored: Any = None
    with pytest.raises(RestoreDataError, match="the start restored no checkpoint"):
        dcp.load(restored, {"w": torch.zeros(3)}, 0)
