"""Sub-command `simulate`."""

from __future__ import annotations

import argparse

from replicator.arguments import whole_number
from replicator.ending import end_in_order
from replicator.simulate.run import TRACE_TAIL, replay, run_seeds

MOST = 10**12
"""Seeds; more than anybody can run."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `simulate`."""
    text = "run the core in a simulated cluster with faults and check its invariants"
    parser = subparsers.add_parser("simulate", help=text, description=text)
    parser.add_argument("--seeds", type=whole_number(1, MOST), default=2000, metavar="COUNT")
    parser.add_argument("--first-seed", type=whole_number(0, MOST), default=0, metavar="SEED")
    parser.add_argument(
        "--nodes", type=whole_number(1, 64), metavar="COUNT", help="1 to 64; default: mixed"
    )
    parser.add_argument("--processes", type=whole_number(1, 1024), default=1, metavar="COUNT")
    parser.add_argument(
        "--replay", type=whole_number(0, MOST), metavar="SEED", help="one seed, with its trace"
    )
    parser.set_defaults(run=_simulate)


def _simulate(arguments: argparse.Namespace) -> int:
    end_in_order()  # the other processes too
    if arguments.replay is not None:
        return _replay(arguments.replay, arguments.nodes)
    summary = run_seeds(
        arguments.first_seed,
        arguments.seeds,
        nodes=arguments.nodes,
        processes=arguments.processes,
    )
    print(
        f"{summary.seeds} seeds, {summary.events} events, {summary.replicated} checkpoints "
        f"replicated, {summary.seconds:.0f} s, {len(summary.failures)} failures"
    )
    for failure in summary.failures:
        print(f"seed {failure.seed} ({failure.nodes} nodes): {failure.violation}")
    if summary.failures:
        _replay(summary.failures[0].seed, arguments.nodes)
    return 1 if summary.failures else 0


def _replay(seed: int, nodes: int | None) -> int:
    outcome = replay(seed, nodes)
    hidden = max(len(outcome.trace) - TRACE_TAIL, 0)
    if hidden:
        print(f"... {hidden} lines before")
    for line in outcome.trace[-TRACE_TAIL:]:
        print(line)
    verdict = outcome.violation or "all invariants hold"
    print(f"seed {seed}, {outcome.nodes} nodes, {outcome.events} events: {verdict}")
    return 1 if outcome.violation else 0
