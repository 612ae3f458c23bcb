"""``stowplan doctor``: examine a live cluster through the Kubernetes API, without writing to it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from generator.findings import Severity

if TYPE_CHECKING:
    from generator.checks.report import Report
    from generator.doctor.kubectl import Kubectl
    from generator.doctor.snapshot import Snapshot
    from generator.doctor.wanted import Wanted

HELP = "say what is wrong in a live cluster; reads only"

EXIT_FINE, EXIT_FINDINGS, EXIT_USAGE = 0, 1, 2
FORMAT_NAMES = ("text", "json", "markdown")
DEFAULT_SUBJECT = "Group:stowplan-doctor"
TIMEOUT_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="the cluster's folder, such as compiled/NAME, to compare with and for its facts",
    )
    parser.add_argument("--context", default="", help="default: the kubeconfig's current one")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="default: kubectl's own")
    parser.add_argument("--kubectl", default="kubectl", metavar="PROGRAM", help="the binary to use")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="for each request (default: %(default)g)",
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep what was read, to send it")
    parser.add_argument(
        "--from", dest="replay", type=Path, metavar="FILE", help="judge a saved one"
    )
    parser.add_argument(
        "--rbac", action="store_true", help="print the roles that it needs, and end"
    )
    parser.add_argument(
        "--subject",
        default=DEFAULT_SUBJECT,
        help="whom --rbac binds: Group:NAME, User:NAME or ServiceAccount:NAMESPACE/NAME "
        "(default: %(default)s)",
    )
    parser.add_argument("--format", choices=FORMAT_NAMES, default="text", help="form of the report")
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


def _seconds(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 to 3600 seconds")
    return value


def run(args: argparse.Namespace) -> int:
    """Examine the cluster and print the report.

    Returns:
        0 without findings of the ``--fail-on`` severity, 1 with, 2 where there is no cluster to
        ask, or for wrong usage.
    """
    from generator.checks.reading import NothingToReadError
    from generator.doctor.kubectl import NoClusterError, RefusedError
    from generator.doctor.snapshot import SnapshotError
    from generator.doctor.wanted import WantedError
    from generator.yaml_load import YamlError

    try:
        return _doctor(args)
    except NoClusterError as error:
        print(f"stowplan doctor: {error}; nothing was judged", file=sys.stderr)
    except (
        RefusedError,
        SnapshotError,
        WantedError,
        NothingToReadError,
        YamlError,
        ValueError,
    ) as error:
        print(f"stowplan doctor: {error}", file=sys.stderr)
    except BrokenPipeError:
        # The reader went away, as `head` does; what it wanted to see it has seen.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"stowplan doctor: {error.filename}: {error.strerror}", file=sys.stderr)
    return EXIT_USAGE


def _doctor(args: argparse.Namespace) -> int:
    from generator.doctor.diagnose import diagnose
    from generator.doctor.snapshot import SnapshotError
    from generator.doctor.wanted import read_wanted

    wanted = read_wanted(args.folder) if args.folder else None
    if args.rbac:
        from generator.doctor import rbac

        singles = wanted.singles() if wanted else ()
        sys.stdout.write(rbac.text(singles, rbac.subject_of(args.subject)))
        return EXIT_FINE
    if args.replay:
        from generator.doctor.snapshot import load

        snapshot = load(args.replay)
    else:
        snapshot = _look(args, wanted)
    try:
        report = diagnose(snapshot, wanted)
    except (AttributeError, KeyError, TypeError) as error:
        if not args.replay:
            raise
        raise SnapshotError(f"{args.replay}: a damaged snapshot ({error!r})") from None
    _write(report, args)
    return EXIT_FINDINGS if report.fails(Severity(args.fail_on)) else EXIT_FINE


def _look(args: argparse.Namespace, wanted: Wanted | None) -> Snapshot:
    from generator.cli.terminal import ProgressLine
    from generator.doctor.collect import collect
    from generator.doctor.kubectl import Kubectl
    from generator.doctor.snapshot import dump

    client = Kubectl(args.context, args.kubeconfig, args.kubectl, args.timeout).bound()
    _announce(client, chosen=bool(args.context))
    progress = ProgressLine("reading")
    try:
        snapshot = collect(
            client,
            wanted.singles() if wanted else (),
            wanted.api_versions if wanted else None,
            progress,
        )
    finally:
        progress.clear()
    if args.save:
        # Names of jobs, nodes and projects are nobody else's business.
        args.save.touch(mode=0o600)
        args.save.write_text(dump(snapshot), "utf-8")
    return snapshot


def _announce(client: Kubectl, chosen: bool) -> None:
    """Say which cluster is about to be read, before anything is."""
    how = "" if chosen else " (the kubeconfig's current one)"
    print(
        f"stowplan doctor: reading context {client.context}{how} at {client.server()}",
        file=sys.stderr,
    )


def _write(report: Report, args: argparse.Namespace) -> None:
    from generator.checks.output import Context, renderer
    from generator.cli.check import tool_version
    from generator.cli.terminal import colour_wanted

    color = args.color == "always" or (
        args.color == "auto" and args.output is None and colour_wanted(sys.stdout)
    )
    parts = renderer(args.format)(report, Context(color, tool_version()))
    if args.output:
        with args.output.open("w", encoding="utf-8") as target:
            target.writelines(parts)
    else:
        sys.stdout.writelines(parts)
        sys.stdout.flush()
