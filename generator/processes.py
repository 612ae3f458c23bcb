"""Work shared among processes, of which each may die without the others waiting for it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Result = TypeVar("Result")
_PR_SET_PDEATHSIG = 1
"""prctl(2), ``linux/prctl.h``."""
_STOPS = (signal.SIGINT, signal.SIGTERM)
_SHARES = (2, 24)
"""Items handed to a worker at once, the fewest and the most: few are shared evenly, many cost
fewer messages."""


def ending(code: int | None) -> str:
    """How a process ended, from its exit code."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process if its parent is killed (Linux; elsewhere the pipe does)."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it was killed before
        os._exit(1)


@dataclass
class _Worker:
    """A worker process.

    Attributes:
        process: the process.
        pipe: our end of its pipe.
        share: the places of the items that it has in hand, empty while it waits.
    """

    process: BaseProcess
    pipe: Connection
    share: Sequence[int] = ()


@dataclass
class InOrder(Generic[Result]):
    """Work on items in several processes.

    Attributes:
        work: makes an item's result; what it raises is raised here.
        lost: makes the result of an item whose worker died of it, from the item and how it ended.
        jobs: how many processes.
    """

    work: Callable[[str], Result]
    lost: Callable[[str, str], Result]
    jobs: int
    _workers: list[_Worker] = field(default_factory=list)

    def results(self, items: Sequence[str]) -> Iterator[Result]:
        """The results in the order of the items.

        When a worker dies, what it had in hand is done again, each item by itself: an item of which
        a second worker dies is a lost one.
        """
        from multiprocessing.connection import wait

        todo = deque(shares(len(items), self.jobs))
        done: dict[int, Result] = {}
        given = 0
        try:
            while given < len(items):
                self._hand_out(todo, items)
                ready = {worker.pipe: worker for worker in self._workers if worker.share}
                for pipe in wait(list(ready)):
                    worker = ready[pipe]  # type: ignore[index]
                    try:
                        answer = worker.pipe.recv()
                    except (EOFError, OSError):  # in the midst of its answer, too
                        how = self._bury(worker)
                        if len(worker.share) > 1:
                            todo.extendleft([place] for place in reversed(worker.share))
                        else:
                            place = worker.share[0]
                            done[place] = self.lost(items[place], how)
                        continue
                    if isinstance(answer, Exception):
                        raise answer
                    done.update(zip(worker.share, answer, strict=True))
                    worker.share = ()
                while given in done:
                    yield done.pop(given)
                    given += 1
        finally:
            for worker in self._workers:
                worker.process.kill()  # what it was at is of no use any more
            for worker in list(self._workers):
                self._bury(worker)

    def _hand_out(self, todo: deque[Sequence[int]], items: Sequence[str]) -> None:
        idle = [worker for worker in self._workers if not worker.share]
        while todo and (idle or len(self._workers) < self.jobs):
            worker = idle.pop() if idle else self._hire()
            worker.share = todo.popleft()
            with contextlib.suppress(OSError):  # it died, which its answer will say
                worker.pipe.send([items[place] for place in worker.share])

    def _hire(self) -> _Worker:
        import multiprocessing

        # Fork shares what is loaded already; where it is not to be had (macOS), spawn costs time.
        forks = sys.platform.startswith("linux")
        ours, theirs = multiprocessing.Pipe()
        # A fork has our ends of the pipes too.
        ends = [ours, *(worker.pipe for worker in self._workers)] if forks else []
        begin = (
            multiprocessing.get_context("fork").Process
            if forks
            else multiprocessing.get_context("spawn").Process
        )
        process = begin(target=_serve, args=(self.work, theirs, ends, os.getpid()), daemon=True)
        # Until it is set up, a worker would answer a signal with a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _bury(self, worker: _Worker) -> str:
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        return ending(worker.process.exitcode)


def shares(count: int, jobs: int) -> Iterator[Sequence[int]]:
    """Portions of the work, smaller towards its end: no worker is to be idle for long there."""
    fewest, most = _SHARES
    begun = 0
    while begun < count:
        size = max(fewest, min(most, (count - begun) // (4 * jobs)))
        yield range(begun, min(count, begun + size))
        begun += size


def _serve(
    work: Callable[[str], Result], pipe: Connection, ends: Sequence[Connection], parent: int
) -> None:
    """A worker's life: shares come in, their results go out, until the pipe is closed.

    Args:
        work: makes an item's result.
        pipe: the worker's end.
        ends: the parent's ends of this and other pipes; while somebody holds them open, nobody
            sees that the parent is gone.
        parent: the parent's id.
    """
    import gc

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles an interrupt
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    die_with_parent(parent)
    for end in ends:
        end.close()
    # The values that are made hold no cycles: the collector would walk them for nothing.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    # A parent that was killed may have left an answer unread: the pipe is reset then, not ended.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            share = pipe.recv()
            try:
                pipe.send([work(item) for item in share])
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                pipe.send(error)
