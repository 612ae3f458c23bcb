"""Copies without a replicator, each a process of its own: what the benchmark compares with."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import signal
import socket
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError

from blake3 import blake3

from replicator.demo.cluster import DemoError

CHUNK = 4 * 1024 * 1024


def _socket_copy(
    barrier: Barrier, source: Path, target: Path, *, hashing: bool = False, verifying: bool = False
) -> None:
    """One connection: all files of a directory, from one process to another."""
    files = sorted(source.iterdir())
    listener = socket.create_server(("127.0.0.1", 0))
    arguments = (listener.getsockname()[1], files, verifying)
    child = multiprocessing.Process(target=_send, args=arguments, daemon=True)
    child.start()
    connection, _ = listener.accept()
    target.mkdir()
    buffer = memoryview(bytearray(CHUNK))
    barrier.wait()
    connection.sendall(b"!")
    for file in files:
        left, hasher = file.stat().st_size, blake3()
        with (target / file.name).open("wb", buffering=0) as out:
            while left:
                count = connection.recv_into(buffer, min(left, CHUNK), socket.MSG_WAITALL)
                if not count:
                    raise OSError(f"{file.name} did not arrive")
                if hashing:
                    hasher.update(buffer[:count])
                out.write(buffer[:count])
                left -= count
        if verifying and connection.recv(32, socket.MSG_WAITALL) != hasher.digest():
            raise OSError(f"{file.name} arrived damaged")
    barrier.wait()
    connection.close()
    listener.close()
    child.join()


def _send(port: int, files: list[Path], verifying: bool) -> None:
    """The other end of a connection, which says what went wrong."""
    buffer = memoryview(bytearray(CHUNK))
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        if not connection.recv(1):
            return
        for file in files:
            with file.open("rb", buffering=0) as source:
                hasher = blake3()
                while verifying and (count := source.readinto(buffer)):
                    hasher.update(buffer[:count])
                source.seek(0)
                connection.sendfile(source)
                if verifying:
                    connection.sendall(hasher.digest())


def _file_copy(barrier: Barrier, source: Path, target: Path) -> None:
    """All files of a directory."""
    target.mkdir()
    barrier.wait()
    for file in source.iterdir():
        shutil.copyfile(file, target / file.name)
    barrier.wait()


def hash_only(barrier: Barrier, source: Path, target: Path) -> None:
    """What a node that lost nothing does in a restore."""
    target.mkdir()
    buffer = memoryview(bytearray(CHUNK))
    barrier.wait()
    for file in sorted(source.iterdir()):
        hasher = blake3()
        with file.open("rb", buffering=0) as data:
            while count := data.readinto(buffer):
                hasher.update(buffer[:count])
    barrier.wait()


PLAIN: dict[str, Callable[[Barrier, Path, Path], None]] = {
    "socket": partial(_socket_copy, hashing=False),
    "hashed": partial(_socket_copy, hashing=True),
    "verified": partial(_socket_copy, hashing=True, verifying=True),
    "file": _file_copy,
}


def _copy(
    copy: Callable[[Barrier, Path, Path], None], barrier: Barrier, source: Path, target: Path
) -> None:
    """A worker; one that fails does not leave the others waiting."""
    try:
        copy(barrier, source, target)
    except OSError as error:
        print(f"error: {target}: {error.strerror or error}", file=sys.stderr, flush=True)
        barrier.abort()
    except BrokenBarrierError:
        pass  # another has said why


def _start(workers: list[multiprocessing.Process]) -> None:
    """A Ctrl-C is for this process, which ends them: they inherit the mask that holds it back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        for worker in workers:
            worker.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def timed_copies(
    copies: list[Callable[[Barrier, Path, Path], None]],
    sources: list[Path],
    root: Path,
    rounds: int,
) -> float:
    """Median seconds in which all sources were copied at once, each in its way.

    Raises:
        DemoError: one of them could not be.
    """
    took = []
    for number in range(rounds + 1):
        targets = [root / f"copy{index}" for index in range(len(sources))]
        barrier = multiprocessing.Barrier(len(sources) + 1)
        workers = [
            multiprocessing.Process(target=_copy, args=(copy, barrier, source, target))
            for copy, source, target in zip(copies, sources, targets, strict=True)
        ]
        try:
            _start(workers)
            barrier.wait()
            began = time.perf_counter()
            barrier.wait()
        except BrokenBarrierError:
            raise DemoError(f"a plain copy within {root} failed; its reason stands above") from None
        except BaseException:
            for worker in workers:
                if worker.pid is not None:  # else it was not started yet
                    worker.kill()
            raise
        if number:  # the first warms the pages
            took.append(time.perf_counter() - began)
        for worker in workers:
            worker.join()
        for target in targets:
            shutil.rmtree(target)
    return statistics.median(took)
