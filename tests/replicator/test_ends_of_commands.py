"""How commands that run for long end when a signal comes: in order, and with all they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Start = Callable[..., subprocess.Popen[str]]
PATIENCE_S = 60
ANY_PORT = ("--port", "0")


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a command in a process group of its own, as a shell with job control does."""
    running = []

    def begin(*arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "replicator", *arguments],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """Whether it is there and not only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_agent_says_where_it_serves_and_ends_in_order(
    start: Start, agent: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    process = start(*agent, *ANY_PORT, "--log-format", "text")
    assert process.stderr is not None
    line = process.stderr.readline()
    assert f"{tmp_path / 'volume'}: peers at 127.0.0.1:" in line
    assert "backups nowhere" in line
    time.sleep(0.2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert errors == ""


def test_an_agent_under_nohup_outlives_the_terminal(start: Start, agent: list[str]) -> None:
    process = start(*agent, *ANY_PORT, before=("nohup",))
    assert process.stderr is not None
    while "peers at" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_simulation_ends_with_its_processes_and_without_a_traceback(
    start: Start, number: signal.Signals, status: int
) -> None:
    """The terminal sends Ctrl-C and a hangup to the whole group."""
    process = start("simulate", "--seeds", "1000000", "--processes", "2")
    wait_until(lambda: len(children(process.pid)) >= 3)  # two workers and multiprocessing's own
    workers = children(process.pid)
    os.killpg(process.pid, number) if number != signal.SIGTERM else process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output, errors) == (status, "", "")
    wait_until(lambda: not any(map(is_running, workers)))


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_is_asked_about_the_command_itself_may_find_no_room_either(option: str) -> None:
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "replicator", option],
            env=buffered,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.stderr == "error: output not written: No space left on device\n"
    assert ended.returncode == 1
