"""``stowplan bootstrap``: what a cluster needs before its first manifest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generator.cli.terminal import print_findings
from generator.fleet import Fleet
from generator.inventory import InventoryError, discover

FORMATS = ("gcloud", "terraform", "kcc")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("cluster", help="a cluster of the inventory")
    parser.add_argument(
        "--format", choices=FORMATS, default="gcloud",
        help="gcloud commands (default), Terraform, or Config Connector objects (roles only)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="DIR",
        help="write the files below DIR instead of to standard output; stowplan compile writes "
        "all formats to compiled/CLUSTER/bootstrap/",
    )  # fmt: skip
    parser.add_argument("-C", "--directory", default=".", metavar="DIR", help="default: here")


def run(arguments: argparse.Namespace) -> int:
    """Print or write one cluster's bootstrap."""
    from generator.compile import Options, fleets, select

    try:
        tree = discover(Path(arguments.directory).absolute())
        names = select(tree, Options(tree.root, targets=(arguments.cluster,)))
    except InventoryError as error:
        print_findings(error.findings)
        return 2
    if len(names) != 1:
        print(
            f"error: {arguments.cluster!r} matches {len(names)} clusters; name one", file=sys.stderr
        )
        return 2
    ((name, fleet, findings),) = fleets(tree, names)
    print_findings(findings)
    if fleet is None:
        return 1
    return _answer(arguments, name, fleet)


def _answer(arguments: argparse.Namespace, name: str, fleet: Fleet) -> int:
    from generator.build.bootstrap import FORMATS as RENDERERS
    from generator.build.bootstrap import controllers, kcc, plan, problems

    found = problems(fleet)
    for problem in found:
        place = ".".join(str(part) for part in problem.path)
        print(f"error {problem.rule}: {place}: {problem.message}", file=sys.stderr)
        print(f"    fix: {problem.fix}", file=sys.stderr)
    if found:
        return 1
    whole = plan(fleet)
    files = RENDERERS[arguments.format](whole)
    if arguments.format == "kcc":
        for note in kcc.refusal_notes():
            print(f"refused: {note}", file=sys.stderr)
    else:
        print(f"note: controllers.sh beside it installs JobSet and Kueue; stowplan compile writes "
              f"both to compiled/{name}/bootstrap/", file=sys.stderr)  # fmt: skip
    if arguments.output is None:
        sys.stdout.write(_joined(files, arguments.format))
        return 0
    if arguments.format != "kcc":
        files = {**files, **controllers.files(whole)}
    return _write(Path(arguments.output), files)


def _joined(files: dict[str, str], form: str) -> str:
    between = "---\n" if form == "kcc" else "\n"
    return between.join(files.values())


def _write(folder: Path, files: dict[str, str]) -> int:
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(target)
    except OSError as error:
        print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0
