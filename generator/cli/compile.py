"""``stowplan compile``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from generator.cli.terminal import ProgressLine, grouped, print_findings
from generator.compile import Options, Outcome, compile_fleet
from generator.inventory import InventoryError
from generator.output import OutputError

_LISTED = 20


def _shard(text: str) -> tuple[int, int]:
    index, slash, count = text.partition("/")
    try:
        pair = int(index), int(count)
    except ValueError:
        pair = 0, 0
    if not slash or not 1 <= pair[0] <= pair[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with 1 <= I <= N, such as 1/4")
    return pair


def _jobs(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "-t", "--target", action="append", default=[], metavar="CLUSTER",
        help="only these clusters; globs allowed, may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "-j", "--jobs", type=_jobs, default=0, metavar="N", help="processes (default: one a core)"
    )
    parser.add_argument(
        "--shard", type=_shard, default=(1, 1), metavar="I/N",
        help="only the Ith of N parts of the clusters, for CI matrices",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 and list files that are stale"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="write good clusters although others have errors"
    )
    parser.add_argument(
        "--no-cache", action="store_true", help="build clusters that did not change"
    )
    parser.add_argument(
        "-C", "--directory", default=".", metavar="DIR",
        help="the folder that holds inventory/ and compiled/ (default: here)",
    )  # fmt: skip
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing when all is well")


def run(arguments: argparse.Namespace) -> int:
    """Compile and report."""
    options = Options(
        root=Path(os.path.abspath(arguments.directory)),  # noqa: PTH100 - links stay as given
        targets=tuple(arguments.target),
        jobs=arguments.jobs,
        shard=arguments.shard,
        check=arguments.check,
        keep_going=arguments.keep_going,
        cache=not arguments.no_cache,
    )
    progress = ProgressLine("compiling")
    try:
        outcome = compile_fleet(options, progress)
    except InventoryError as error:
        print_findings(error.findings)
        return 2
    except OutputError as error:
        print(f"error: {error}; nothing was changed", file=sys.stderr)
        return 2
    finally:
        progress.clear()
    return _report(outcome, options, arguments.quiet)


def _report(outcome: Outcome, options: Options, quiet: bool) -> int:
    print_findings(outcome.findings)
    for path in outcome.foreign:
        print(f"note: compiled/{path} is not from stowplan; it is left alone", file=sys.stderr)
    if outcome.has_errors:
        kept = "other clusters were written" if options.keep_going else "nothing was written"
        errors = [finding for finding in outcome.findings if finding.severity == "error"]
        count = len(grouped(errors))
        bad = f" in {len(outcome.failed)} of {outcome.clusters} clusters" if outcome.failed else ""
        print(f"{count} error{'s' * (count != 1)}{bad}; {kept}", file=sys.stderr)
        return 1
    if options.check:
        for path in outcome.stale:
            print(f"compiled/{path}")
        if outcome.stale:
            print(f"{len(outcome.stale)} files are stale; run stowplan compile", file=sys.stderr)
        return 1 if outcome.stale else 0
    if not quiet:
        _summary(outcome)
    return 0


def _summary(outcome: Outcome) -> None:
    changes = [("wrote", p) for p in outcome.written] + [("removed", p) for p in outcome.removed]
    for verb, path in changes[:_LISTED]:
        print(f"{verb} compiled/{path}")
    if len(changes) > _LISTED:
        print(f"… and {len(changes) - _LISTED} more")
    plural = "" if outcome.clusters == 1 else "s"
    unchanged = outcome.clusters - outcome.built
    print(
        f"{outcome.clusters} cluster{plural}: {outcome.built} built, {unchanged} unchanged; "
        f"{len(outcome.written)} files written, {len(outcome.removed)} removed"
    )
