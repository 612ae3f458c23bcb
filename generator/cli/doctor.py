"""``stowplan doctor``: examine a live cluster through the Kubernetes API, without writing to it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from generator.cli.reporting import EXIT_FINE, add_report_arguments, answered, write_report

if TYPE_CHECKING:
    from generator.doctor.kubectl import Kubectl
    from generator.doctor.snapshot import Snapshot
    from generator.doctor.wanted import Wanted

HELP = "say what is wrong in a live cluster; reads only"

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
    add_report_arguments(parser, FORMAT_NAMES)


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

    refusals = (
        NoClusterError,
        RefusedError,
        SnapshotError,
        WantedError,
        NothingToReadError,
        YamlError,
        ValueError,
    )
    return answered("doctor", _examined, args, refusals)


def _examined(args: argparse.Namespace) -> int:
    from generator.doctor.kubectl import NoClusterError

    try:
        return _doctor(args)
    except NoClusterError as error:
        raise NoClusterError(f"{error}; nothing was judged") from None


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
    return write_report(report, args)


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
