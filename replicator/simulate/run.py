"""Run many seeds, on several processes; print and replay a failing one."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.pool import Pool

from replicator.simulate.world import Outcome, World

TRACE_TAIL = 400
"""Lines of a failing seed's trace that are printed."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a batch of seeds did."""

    seeds: int
    events: int
    replicated: int
    seconds: float
    failures: tuple[Outcome, ...]


def run_seed(seed: int, nodes: int | None = None) -> Outcome:
    """One seed, without a trace."""
    return World(seed, nodes=nodes).run()


def replay(seed: int, nodes: int | None = None) -> Outcome:
    """The same seed again, with its trace."""
    return World(seed, nodes=nodes, trace=True).run()


def _pool(processes: int) -> Pool:
    """Processes that leave Ctrl-C and a hangup of the terminal to this one, which then ends them.

    A signal that comes while they are being started is delivered once they can be ended; they
    inherit the mask that holds it back.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
    resource_tracker.ensure_running()  # its start lets the other two through again
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        return multiprocessing.get_context("spawn").Pool(processes, _let_parent_end_us)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _let_parent_end_us() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _chunk(arguments: tuple[int, int, int | None]) -> tuple[int, int, int, list[Outcome]]:
    first, count, nodes = arguments
    events = replicated = 0
    failures = []
    for seed in range(first, first + count):
        outcome = run_seed(seed, nodes)
        events += outcome.events
        replicated += outcome.replicated
        if outcome.violation:
            failures.append(outcome)
    return count, events, replicated, failures


def _chunks(first: int, count: int, nodes: int | None) -> Iterator[tuple[int, int, int | None]]:
    size = 100
    for start in range(first, first + count, size):
        yield start, min(size, first + count - start), nodes


def run_seeds(
    first: int, count: int, *, nodes: int | None = None, processes: int = 1, stop_after: int = 5
) -> Summary:
    """Run seeds `first` to `first + count - 1`; stops early after some failures."""
    began = time.monotonic()
    if processes <= 1:
        return _collect(map(_chunk, _chunks(first, count, nodes)), began, stop_after)
    with _pool(processes) as pool:
        results = pool.imap(_chunk, _chunks(first, count, nodes))
        return _collect(results, began, stop_after)


def _collect(
    results: Iterable[tuple[int, int, int, list[Outcome]]], began: float, stop_after: int
) -> Summary:
    seeds = events = replicated = 0
    failures: list[Outcome] = []
    for count, some_events, some_replicated, some_failures in results:
        seeds += count
        events += some_events
        replicated += some_replicated
        failures += some_failures
        if len(failures) >= stop_after:
            break
    return Summary(seeds, events, replicated, time.monotonic() - began, tuple(failures))
