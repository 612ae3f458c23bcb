"""What the client does where processes fork, signals come, threads race and tasks are cancelled."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from client_kinds import names
from fake_replicator import CONFIG, FILES

from replicator.client import (
    AsyncReplicatorClient,
    ReplicatorClient,
    ReplicatorConfig,
    SaveError,
)
from replicator.client.volume import CheckpointVolume

WAITS = ("handshake", "wait_for_restore", "wait_for_prerestore")


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


@pytest.mark.parametrize("place", ["save", "handshake", "wait_for_restore"])
@pytest.mark.parametrize("handler", ["exits", "interrupts"])
def test_a_signal_whose_handler_raises_leaves_nothing(
    local: Path, place: str, handler: str
) -> None:
    program = """
import os, signal, sys, threading
from replicator.client import Framework, ReplicatorClient, ReplicatorConfig
handlers = {"exits": lambda *_: sys.exit(3), "interrupts": signal.default_int_handler}
signal.signal(signal.SIGTERM, handlers[sys.argv[3]])
config = ReplicatorConfig("job", Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)
client = ReplicatorClient(sys.argv[1], config)
if sys.argv[2] == "save":
    with client.save(5) as path:
        (path / "half").touch()
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
getattr(client, sys.argv[2])()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(local), place, handler],
        check=False,
        timeout=60,
        capture_output=True,
    )
    assert done.returncode == {"exits": 3, "interrupts": -signal.SIGINT}[handler]
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
