"""What the commands share that end with a report: its arguments, its writing, its faults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from generator.cli.streams import discard_output, failed_io
from generator.findings import Severity

if TYPE_CHECKING:
    from generator.checks.report import Report

EXIT_FINE, EXIT_FINDINGS, EXIT_USAGE = 0, 1, 2


def add_report_arguments(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """Declare how the report looks, where it goes and what fails the command."""
    parser.add_argument("--format", choices=formats, default="text", help="form of the report")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report to a file")
    parser.add_argument(
        "--fail-on",
        choices=[str(severity) for severity in Severity],
        default=str(Severity.ERROR),
        help="exit with 1 when a finding of this severity or a worse one stands (default: error)",
    )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour of the text"
    )


def write_report(report: Report, args: argparse.Namespace) -> int:
    """Write a report as the arguments say.

    Returns:
        The exit code: 0 without findings of the ``--fail-on`` severity, 1 with.

    Raises:
        OSError: the file cannot be written.
    """
    from generator.checks.output import Context, renderer
    from generator.cli.main import version
    from generator.cli.terminal import colour_wanted

    color = args.color == "always" or (
        args.color == "auto" and args.output is None and colour_wanted(sys.stdout)
    )
    parts = renderer(args.format)(report, Context(color, version()))
    if args.output is not None:
        with args.output.open("w", encoding="utf-8") as target:
            target.writelines(parts)
    else:
        sys.stdout.writelines(parts)
        sys.stdout.flush()
    return EXIT_FINDINGS if report.fails(Severity(args.fail_on)) else EXIT_FINE


def answered(
    command: str,
    work: Callable[[argparse.Namespace], int],
    args: argparse.Namespace,
    refusals: tuple[type[Exception], ...],
) -> int:
    """Do a command's work, with one line instead of a traceback for what it refuses.

    Args:
        command: the command's name, to begin the line with.
        work: does the work and returns the exit code.
        args: the command's arguments.
        refusals: errors whose text is meant for people.

    Returns:
        What ``work`` returned, or 2 where it could not be done.
    """
    try:
        return work(args)
    except refusals as error:
        print(f"stowplan {command}: {error}", file=sys.stderr)
    except BrokenPipeError:
        discard_output()  # the reader went away, as `head` does, having seen what it wanted
    except OSError as error:
        discard_output()
        print(f"stowplan {command}: {failed_io(error)}", file=sys.stderr)
    return EXIT_USAGE
