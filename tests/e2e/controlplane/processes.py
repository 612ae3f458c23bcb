"""Start processes in order, notice a crash, stop them in reverse order; nothing outlives them."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

READY_DEADLINE_S = 90.0
#: kube-apiserver and the JobSet controller may take longer than this to stop politely.
STOP_DEADLINE_S = 8.0
POLL_S = 0.1
LOG_TAIL_LINES = 25
#: Below the range that the kernel gives to outgoing connections, so that none takes the port
#: between the choice and the start.
PORTS = range(20000, 30000)
_PR_SET_PDEATHSIG = 1
_reserved: set[int] = set()


class ProcessError(Exception):
    """A part of the control plane crashed or was not ready in time; its log's tail is included."""


@dataclass(frozen=True)
class Part:
    """One process of the control plane.

    Attributes:
        name: what to call it, also the name of its log file.
        command: program and arguments.
        ready: answers whether it serves; called until it does.
        environment: the whole environment of the process.
    """

    name: str
    command: Sequence[str]
    ready: Callable[[], bool]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class _Running:
    part: Part
    process: subprocess.Popen[bytes]
    log: Path


class Processes:
    """The running parts of one plane, in starting order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[_Running] = []

    def start(self, part: Part) -> None:
        """Start a part and wait until it is ready.

        Raises:
            ProcessError: it (or an earlier part) exited, or the deadline passed.
        """
        log = self._folder / f"{part.name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                list(part.command),
                cwd=self._folder,
                env=dict(part.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        self._running.append(_Running(part, process, log))
        deadline = time.monotonic() + READY_DEADLINE_S
        while not part.ready():
            self.check()
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{part.name} was not ready after {READY_DEADLINE_S:.0f} s; end of its log:\n"
                    + _tail(log)
                )
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raise when a part has exited.

        Raises:
            ProcessError: names the part, its exit status and the end of its log.
        """
        for running in self._running:
            status = running.process.poll()
            if status is not None:
                raise ProcessError(
                    f"{running.part.name} exited with status {status}; end of its log:\n"
                    + _tail(running.log)
                )

    def kill(self, name: str) -> None:
        """Kill one part, for tests of what happens when it dies."""
        process = self._process(name)
        process.kill()
        process.wait()

    def pid(self, name: str) -> int:
        """Process id of one part."""
        return self._process(name).pid

    def pids(self) -> list[int]:
        """Process ids of all parts, in starting order."""
        return [running.process.pid for running in self._running]

    def log(self, name: str) -> str:
        """The whole log of a part."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        for running in self._running:
            if running.part.name == name:
                return running.process
        raise KeyError(name)

    def stop(self) -> None:
        """Stop all parts in reverse order; a part that outlives its deadline is killed."""
        while self._running:
            process = self._running.pop().process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_DEADLINE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def free_port() -> int:
    """A TCP port of loopback that nobody listens on, reserved until this process ends.

    A plane draws its ports before its parts listen, and several test processes draw at once: without
    the reservation one plane in some hundreds would get the same port twice.

    Raises:
        ProcessError: none is left.
    """
    for port in random.sample(PORTS, min(len(PORTS), 200)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if _reserve(port):
                return port
    raise ProcessError(f"no free port between {PORTS.start} and {PORTS.stop}")


def _reserve(port: int) -> bool:
    """Whether no test process had the port; a lock on a byte of a file, which the kernel releases."""
    if port in _reserved:
        return False
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _reserved.add(port)
    return True


@functools.cache
def _reservations() -> int:
    """The file of all reservations, open for as long as this process lives."""
    path = Path(tempfile.gettempdir()) / f"stowplan-e2e-{os.getuid()}.ports"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def listens(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _die_with_parent() -> None:
    """Let the kernel kill the child when the test run is killed and cannot stop it itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line[:400]}" for line in lines[-LOG_TAIL_LINES:])
