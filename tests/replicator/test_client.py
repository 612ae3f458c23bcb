from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_replicator import CONFIG, FILES, FakeReplicator

from replicator.client import (
    AsyncReplicatorClient,
    ClientError,
    HandshakeTimeoutError,
    LocalDirectoryError,
    MarkerError,
    Prerestore,
    ReplicatorClient,
    ReplicatorFailedError,
    RestoreDataError,
    RestoreTimeoutError,
    SaveError,
    StepExistsError,
    UnknownWorkerError,
)
from replicator.errors import ConfigError


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_nothing_to_restore_then_save_then_restore_it(local: Path) -> None:
    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        assert client.start(handshake_timeout=5, restore_timeout=5) is None
        assert not [name for name in names(local) if name.endswith(".restore")]
        with client.save(7) as path:
            assert path.parent == local
            (path / "weights").write_bytes(b"w7")
        replicator.wait_for_saved(7)
        again = ReplicatorClient(local, CONFIG)
        restored = again.start(handshake_timeout=5, restore_timeout=5)
        assert restored is not None
        assert (restored.step, restored.backup) == (7, None)
        assert (restored.path / "weights").read_bytes() == b"w7"
        assert again.wait_for_prerestore(timeout=1) == Prerestore(7)
        restored.release()
        restored.release()
        assert not restored.path.is_symlink()
        assert [n for n in names(local) if n.endswith(".data")], "the data is the replicator's"


def test_step_0_is_a_checkpoint_like_any_other(local: Path) -> None:
    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, CONFIG)
        client.start(handshake_timeout=5, restore_timeout=5)
        with client.save(0) as path:
            (path / "w").write_bytes(b"0")
        replicator.wait_for_saved(0)
        restored = client.start(handshake_timeout=5, restore_timeout=5)
        assert restored is not None
        assert restored.step == 0
        assert (restored.path / "w").read_bytes() == b"0"


def test_one_file_per_worker(local: Path) -> None:
    with FakeReplicator(local) as replicator:
        client = ReplicatorClient(local, FILES)
        client.start(handshake_timeout=5, restore_timeout=5)
        for worker in range(2):
            with client.save(3, worker=worker) as path:
                assert not path.exists()
                path.write_bytes(b"worker %d" % worker)
        while len(replicator.saved) < 2:
            replicator.wait_for_saved(3)
        client.handshake(timeout=5)
        for worker in range(2):
            restored = client.wait_for_restore(worker=worker, timeout=5)
            assert restored is not None
            assert restored.path.read_bytes() == b"worker %d" % worker
        with pytest.raises(UnknownWorkerError, match="workers-per-node: 2 expected 0 to 1"):
            client.wait_for_restore(worker=2)


def test_the_replicators_report_is_logged_and_taken(
    local: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeReplicator(local):
        ReplicatorClient(local, CONFIG).start(handshake_timeout=5, restore_timeout=5)
    assert "nothing found anywhere" in caplog.text
    assert "replicator.errors" not in names(local)


def test_a_failure_is_an_error_with_the_report(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    (local / "replicator.failed").write_text("coordinator lost\n")
    with pytest.raises(ReplicatorFailedError) as caught:
        client.wait_for_restore(timeout=5)
    assert caught.value.report == "coordinator lost\n"
    assert "replicator.failed" not in names(local)
    (local / "replicator.failed").write_text("again\n")
    with pytest.raises(ReplicatorFailedError, match="again"), client.save(3):
        pytest.fail("the body must not run")
    assert names(local) == set()


def test_without_a_replicator_the_handshake_times_out_and_leaves_nothing(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    with pytest.raises(HandshakeTimeoutError, match="does a replicator run on this node"):
        client.handshake(timeout=0.3)
    assert names(local) == set()


def test_a_config_of_an_earlier_run_is_waited_out_and_left_alone(local: Path) -> None:
    earlier = local / "replicator.yaml"
    earlier.write_text("earlier")
    with pytest.raises(HandshakeTimeoutError, match="an earlier run's"):
        ReplicatorClient(local, CONFIG).handshake(timeout=0.3)
    assert earlier.read_text() == "earlier"


def test_an_outcome_that_never_comes_is_a_time_out(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    start = time.monotonic()
    with pytest.raises(RestoreTimeoutError):
        client.wait_for_restore(timeout=0.2)
    with pytest.raises(RestoreTimeoutError):
        client.wait_for_prerestore(timeout=0.2)
    assert time.monotonic() - start < 5
    assert issubclass(RestoreTimeoutError, ClientError)
    assert issubclass(RestoreTimeoutError, TimeoutError)


def test_links_of_other_jobs_nodes_and_workers_are_not_ours(local: Path) -> None:
    (local / "x").write_bytes(b"")
    for name in ("other-s1-n0-w0.restore", "job-s1-n1-w0.restore", "job-s1-n0-w1.restore"):
        (local / name).symlink_to("x")
    with pytest.raises(RestoreTimeoutError):
        ReplicatorClient(local, CONFIG).wait_for_restore(timeout=0.2)


def test_a_link_to_nothing_is_never_returned(local: Path) -> None:
    (local / "job-s5-n0-w0.restore").symlink_to("ab.data")
    with pytest.raises(RestoreDataError, match=r"points to ab\.data, which is not there"):
        ReplicatorClient(local, CONFIG).wait_for_restore(timeout=5)


def test_the_backup_that_a_restore_came_from_is_named(local: Path) -> None:
    (local / "x").write_bytes(b"")
    (local / "job-s5-n0-w0.restore").symlink_to("x")
    (local / "replicator.prerestore").write_bytes(Prerestore(5, "2026-11-30_09-48").to_bytes())
    restored = ReplicatorClient(local, CONFIG).wait_for_restore(timeout=5)
    assert restored is not None
    assert restored.backup == "2026-11-30_09-48"


def test_a_save_that_fails_hands_nothing_over_and_leaves_nothing(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)

    class BoomError(Exception):
        pass

    def half_a_save() -> None:
        with client.save(5) as path:
            (path / "half").write_bytes(b"1")
            raise BoomError

    with pytest.raises(BoomError):
        half_a_save()
    assert names(local) == set()
    with pytest.raises(SaveError, match="step 5: No space left"), client.save(5):
        raise OSError(28, "No space left on device")
    assert names(local) == set()


def test_a_step_that_is_there_already_is_not_overwritten(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    (local / "5").mkdir()
    (local / "5" / "w").write_bytes(b"first")
    with pytest.raises(StepExistsError) as caught, client.save(5):
        pytest.fail("the body must not run")
    assert caught.value.step == 5
    with pytest.raises(StepExistsError), client.save(6):
        (local / "6").mkdir()
    assert (local / "5" / "w").read_bytes() == b"first"
    assert names(local) == {"5", "6"}


def test_what_a_crash_left_half_written_is_replaced(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    pending = client.volume.begin(5, 0)
    (pending / "old").write_bytes(b"1")
    with client.save(5) as path:
        assert path == pending
        (path / "new").write_bytes(b"2")
    assert names(local / "5") == {"new"}


def test_a_save_of_files_that_writes_none_is_an_error(local: Path) -> None:
    client = ReplicatorClient(local, FILES)
    with pytest.raises(SaveError, match="nothing was written"), client.save(5):
        pass


@pytest.mark.parametrize("step", [-1, 2**63])
def test_a_step_out_of_range_is_refused(local: Path, step: int) -> None:
    with pytest.raises(SaveError, match="out of range"), ReplicatorClient(local, CONFIG).save(step):
        pytest.fail("the body must not run")


def test_a_directory_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LocalDirectoryError, match="is the checkpoint volume mounted"):
        ReplicatorClient(tmp_path / "none", CONFIG)


def test_a_volume_that_goes_away_is_a_clear_error(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    pending = client.volume.begin(4, 0)
    local.rename(local.with_name("elsewhere"))
    with pytest.raises(LocalDirectoryError, match="No such file"):
        client.handshake(timeout=5)
    with pytest.raises(LocalDirectoryError, match="No such file"):
        client.wait_for_restore(timeout=5)
    with pytest.raises(SaveError, match="step 5: No such file"), client.save(5):
        pytest.fail("the body must not run")
    with pytest.raises(SaveError, match="nothing was written"):
        client.volume.commit(4, 0)
    assert not pending.exists()


def test_a_prerestore_that_makes_no_sense_does_not_hide_the_checkpoint(local: Path) -> None:
    (local / "x").write_bytes(b"")
    (local / "job-s5-n0-w0.restore").symlink_to("x")
    (local / "replicator.prerestore").write_bytes(b"[1]")
    client = ReplicatorClient(local, CONFIG)
    restored = client.wait_for_restore(timeout=5)
    assert restored is not None
    assert (restored.step, restored.backup) == (5, None)
    with pytest.raises(MarkerError, match=r"replicator\.prerestore:1:1: expected a mapping"):
        client.wait_for_prerestore(timeout=5)


@pytest.mark.parametrize(
    "change",
    [{"node_rank": 1}, {"nodes": 0}, {"job_name": '../x"\nnodes: 9'}, {"peer_ranks": (0,)}],
)
def test_a_config_that_the_replicator_would_refuse_is_refused_here(
    local: Path, change: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        ReplicatorClient(local, replace(CONFIG, **change))  # type: ignore[arg-type]


def test_the_same_with_asyncio_without_blocking_the_loop(local: Path) -> None:
    async def scenario() -> None:
        client = AsyncReplicatorClient(local, CONFIG)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        with pytest.raises(HandshakeTimeoutError):
            await client.handshake(timeout=0.3)
        assert ticks >= 5
        assert names(local) == set()
        with FakeReplicator(local) as replicator:
            assert await client.start(handshake_timeout=5, restore_timeout=5) is None
            async with client.save(4) as path:
                await asyncio.to_thread((path / "w").write_bytes, b"4")
            await asyncio.to_thread(replicator.wait_for_saved, 4)
            restored = await client.start(handshake_timeout=5, restore_timeout=5)
            assert restored is not None
            assert (restored.path / "w").read_bytes() == b"4"
            assert await client.wait_for_prerestore(timeout=1) == Prerestore(4)
            with pytest.raises(UnknownWorkerError):
                await client.wait_for_restore(worker=9)
        with pytest.raises(SaveError):
            async with client.save(5) as path:
                raise OSError(28, "No space left on device")
        with pytest.raises(StepExistsError):
            async with client.save(6) as path:
                (local / "6").mkdir()
        (local / "replicator.failed").write_text("gone")
        with pytest.raises(ReplicatorFailedError):
            client.check()
        ticking.cancel()

    asyncio.run(scenario())


def test_a_cancelled_handshake_takes_its_config_back(local: Path) -> None:
    async def scenario() -> None:
        client = AsyncReplicatorClient(local, CONFIG)
        waiting = asyncio.create_task(client.handshake(timeout=60))
        while "replicator.yaml" not in names(local):
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert names(local) == set()

    asyncio.run(scenario())


def test_readers_never_see_half_a_config(local: Path) -> None:
    """The public NeMo client writes in place, and races with the replicator; this one must not."""
    client = ReplicatorClient(local, CONFIG)
    expected = client.config.to_yaml()
    seen: set[str] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            try:
                seen.add((local / "replicator.yaml").read_text())
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(300):
        client.volume.write_config()
        client.volume.withdraw_config()
    client.volume.write_config()
    time.sleep(0.05)
    stop.set()
    watcher.join()
    assert seen == {expected}


def test_the_client_alone_imports_no_heavy_library() -> None:
    program = (
        "import sys, replicator.client, replicator.client.arguments\n"
        "heavy = {'obstore', 'torch', 'jax', 'orbax', 'lightning', 'tensorstore', 'pydantic',"
        " 'grpc', 'generator', 'schemas', 'reclass_rs', 'prometheus_client'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
