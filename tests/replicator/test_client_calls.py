"""Calls of the client that cannot be meant: refused by name, with nothing written; and what it
does where processes fork, threads race and tasks are cancelled."""

from __future__ import annotations

import asyncio
import decimal
import math
import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_kinds import Blocking, both, names
from fake_replicator import CONFIG, FILES

import replicator.client
from replicator.client import (
    AsyncReplicatorClient,
    ClientArgumentError,
    ClientConfigError,
    ClientError,
    Framework,
    HandshakeTimeoutError,
    LocalDirectoryError,
    ReplicatorClient,
    ReplicatorConfig,
    ReplicatorFailedError,
    RestoreTimeoutError,
    SaveError,
    StepExistsError,
)
from replicator.client.orbax import initialize_on_cpu
from replicator.client.volume import CheckpointVolume
from replicator.errors import ConfigError, Problem


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local"
    path.mkdir()
    return path


# ---- the directory -----------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", r"the local directory is '', an empty path: expected the path of the directory where"),
        (None, "the local directory is None: expected .*, as text"),
        (b"/tmp", "the local directory is b'/tmp': expected .*, as text"),
        (5, "the local directory is 5: expected"),
    ],
)
def test_what_is_no_path_never_means_the_current_directory(
    local: Path, kind: type[Blocking], given: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(local)
    with pytest.raises(LocalDirectoryError, match=found):
        kind(given)
    with pytest.raises(LocalDirectoryError, match=found):
        CheckpointVolume(given, CONFIG)
    environ: dict[str, str] = {}
    with pytest.raises(LocalDirectoryError, match=found):
        initialize_on_cpu(
            given,
            "job",
            process_id=0,
            processes=1,
            coordinator_address="127.0.0.1:1",
            slices=1,
            environ=environ,
        )
    assert (names(local), environ) == (set(), {})


@both
def test_a_path_may_be_text_or_path_and_the_current_directory_is_told_by_a_dot(
    local: Path, kind: type[Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(local)
    for given in (str(local), local, ".", Path(), "../local"):
        found = kind(given).client.volume.directory  # type: ignore[arg-type]
        assert found.is_absolute()
        assert found.samefile(local)


@both
def test_a_file_is_no_directory(local: Path, kind: type[Blocking]) -> None:
    (local / "file").touch()
    with pytest.raises(LocalDirectoryError, match="file: not a directory; is the checkpoint"):
        kind(local / "file")
    with pytest.raises(LocalDirectoryError, match="File name too long"):
        kind(local / ("x" * 300))


# ---- time-outs ---------------------------------------------------------------------------------

WAITS = {
    "handshake": HandshakeTimeoutError,
    "wait_for_restore": RestoreTimeoutError,
    "wait_for_prerestore": RestoreTimeoutError,
}


@both
@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("timeout", [None, math.nan, "5", True, decimal.Decimal(1)])
def test_a_time_out_that_is_no_number_is_refused(
    local: Path, kind: type[Blocking], name: str, timeout: Any
) -> None:
    with pytest.raises(ClientArgumentError, match=r"timeout is .*: expected a number of seconds"):
        kind(local).call(name, timeout=timeout)
    assert names(local) == set()


@both
@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("timeout", [0, -1, -math.inf])
def test_a_time_out_that_is_over_looks_once(
    local: Path, kind: type[Blocking], name: str, timeout: float
) -> None:
    with pytest.raises(WAITS[name]):
        kind(local).call(name, timeout=timeout)
    assert names(local) == set()


@both
def test_what_is_there_is_found_without_any_time(local: Path, kind: type[Blocking]) -> None:
    (local / "x").touch()
    (local / "job-s5-n0-w0.restore").symlink_to("x")
    assert kind(local).call("wait_for_restore", timeout=0).step == 5
    assert kind(local).call("wait_for_restore", timeout=math.inf).step == 5


# ---- steps and configs -------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("config", "step", "worker"),
    [
        (CONFIG, 1.5, 0),
        (CONFIG, "../x", 0),
        (CONFIG, None, 0),
        (CONFIG, True, 0),
        (CONFIG, 1, -1),
        (CONFIG, 1, 1),
        (CONFIG, 1, 9),
        (CONFIG, 1, 0.5),
        (FILES, 1, 2),
        (FILES, 1, -1),
        (FILES, 1.5, 0),
    ],
)
def test_a_save_that_nobody_would_take_over_is_refused(
    local: Path, kind: type[Blocking], config: ReplicatorConfig, step: Any, worker: Any
) -> None:
    with pytest.raises(SaveError, match="expected"):
        kind(local, config).save(step, worker=worker)
    assert names(local) == set()


@both
def test_the_framework_may_be_given_as_text(local: Path, kind: type[Blocking]) -> None:
    client = kind(local, replace(CONFIG, framework="orbax"))  # type: ignore[arg-type]
    assert client.client.config.framework is Framework.ORBAX


@both
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"framework": "torch"}, "framework: 'torch' is not known; expected one of pytorch, "),
        ({"framework": None}, "framework: None is not known"),
        ({"backup_interval_minutes": "30"}, "cannot be written"),
        ({"job_name": b"job"}, "cannot be written"),
        ({"peer_ranks": 1}, "cannot be written"),
        ({"node_rank": True}, "node-rank: expected a whole number"),
    ],
)
def test_a_config_of_wrong_types_is_a_clear_error(
    local: Path, kind: type[Blocking], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        kind(local, replace(CONFIG, **change))
    assert isinstance(caught.value, ConfigError)


@both
@pytest.mark.parametrize("given", [None, {}, "job"])
def test_what_is_no_config_is_a_clear_error(local: Path, kind: type[Blocking], given: Any) -> None:
    with pytest.raises(ClientConfigError, match="is no ReplicatorConfig"):
        kind(local, given)


class Index:
    """As numpy's whole numbers are: no `int`, but usable as one."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize("step", [0, 2**63 - 1, Index()])
def test_any_whole_number_in_range_is_a_step(local: Path, step: Any) -> None:
    with ReplicatorClient(local, CONFIG).save(step):
        pass
    assert names(local) == {str(step.__index__())}


@both
@pytest.mark.parametrize("step", [-1, 2**63, 10**30])
def test_a_step_out_of_range_is_told_the_range(
    local: Path, kind: type[Blocking], step: int
) -> None:
    with pytest.raises(SaveError, match=f"step {step} is out of range; expected 0 to {2**63 - 1}"):
        kind(local).save(step)


def test_every_error_goes_whole_from_one_process_to_another(tmp_path: Path) -> None:
    special: dict[str, ClientError] = {
        "StepExistsError": StepExistsError(5, tmp_path),
        "ReplicatorFailedError": ReplicatorFailedError("boom\n"),
        "ClientConfigError": ClientConfigError("config", (Problem(1, 2, "bad"),)),
    }
    for name in replicator.client.__all__:
        kind = getattr(replicator.client, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            error = special.get(name) or kind("text")
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again)) == (type(error), str(error))
            assert vars(again) == vars(error)


# ---- processes, threads, tasks -----------------------------------------------------------------


class LeftError(Exception):
    """Out of the body of a save."""


def exit_status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("config", [CONFIG, FILES], ids=["directory", "file"])
@pytest.mark.parametrize("leaves", ["at its end", "by an error"])
def test_a_forked_child_that_leaves_a_save_neither_hands_it_over_nor_removes_it(
    local: Path, config: ReplicatorConfig, leaves: str
) -> None:
    client, other = ReplicatorClient(local, config), ReplicatorClient(local, config)
    child = -1
    try:
        with client.save(5) as path:
            target = path if config is FILES else path / "weights"
            target.write_bytes(b"half")
            child = os.fork()
            if child == 0 and leaves == "by an error":
                raise LeftError
            if child != 0:
                assert exit_status(child) == 0
                with pytest.raises(SaveError, match="being written"), other.save(5):
                    pytest.fail("the child has let the parent's place go")
                assert target.read_bytes() == b"half"
                target.write_bytes(b"whole")
    except (LeftError, SaveError) as error:
        if child != 0:
            raise
        told = leaves == "by an error" or "this one was forked from it" in str(error)
        os._exit(0 if told else 1)
    finally:
        if child == 0:
            os._exit(2)
    (found,) = local.rglob("*weights") if config is CONFIG else local.iterdir()
    assert found.read_bytes() == b"whole"
    assert not [name for name in names(local) if "pending" in name]


def test_a_child_that_is_forked_after_the_handshake_saves_for_itself(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with client.save(6):
                status = 0
        finally:
            os._exit(status)
    assert exit_status(child) == 0
    with client.save(7):
        pass
    assert names(local) == {"6", "7"}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_within_a_save_leaves_nothing(local: Path, kind: type[BaseException]) -> None:
    def save() -> None:
        with ReplicatorClient(local, CONFIG).save(5) as path:
            (path / "half").touch()
            raise kind

    with pytest.raises(kind):
        save()
    assert names(local) == set()


def test_an_interrupt_while_room_is_made_leaves_nothing(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = CheckpointVolume.begin

    def interrupted(self: CheckpointVolume, step: int, worker: int) -> Path:
        begin(self, step, worker)
        raise KeyboardInterrupt

    monkeypatch.setattr(CheckpointVolume, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt), ReplicatorClient(local, CONFIG).save(5):
        pytest.fail("the body must not run")
    assert names(local) == set()


def test_threads_of_one_process_save_different_steps_at_once(local: Path) -> None:
    client = ReplicatorClient(local, CONFIG)
    together = threading.Barrier(8)

    def save(step: int) -> None:
        together.wait(10)
        with client.save(step) as path:
            together.wait(10)
            (path / "w").write_text(str(step))

    threads = [threading.Thread(target=save, args=(step,)) for step in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {name: (local / name / "w").read_text() for name in names(local)} == {
        str(step): str(step) for step in range(8)
    }


@pytest.mark.parametrize("step_of", ["begin", "discard"])
def test_a_cancelled_save_lets_nobody_else_in_before_its_thread_is_done(
    local: Path, monkeypatch: pytest.MonkeyPatch, step_of: str
) -> None:
    """Else that thread would remove what the next writer of the step has written."""
    original = getattr(CheckpointVolume, step_of)
    entered, go_on = threading.Event(), threading.Event()

    def slow(self: CheckpointVolume, step: int, worker: int) -> Any:
        if not entered.is_set():
            entered.set()
            go_on.wait(10)
        return original(self, step, worker)

    async def save(client: AsyncReplicatorClient) -> None:
        async with client.save(5) as path:
            (path / "half").touch()
            raise LeftError

    async def scenario() -> None:
        first = asyncio.create_task(save(AsyncReplicatorClient(local, CONFIG)))
        while not entered.is_set():
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.05)
        first.cancel()  # an impatient one
        await asyncio.sleep(0.05)
        with pytest.raises(SaveError, match="already"):
            async with AsyncReplicatorClient(local, CONFIG).save(5):
                pytest.fail("the body must not run")
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert names(local) == set()

    monkeypatch.setattr(CheckpointVolume, step_of, slow)
    asyncio.run(scenario())


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_that_is_cancelled_ends_at_once_and_leaves_nothing(local: Path, name: str) -> None:
    async def scenario() -> None:
        waiting = asyncio.create_task(
            getattr(AsyncReplicatorClient(local, CONFIG), name)(timeout=math.inf)
        )
        await asyncio.sleep(0.15)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(scenario())
    assert names(local) == set()
