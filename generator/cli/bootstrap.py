"""``stowplan bootstrap``: what a cluster needs before its first manifest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generator.cli.files import write_files
from generator.cli.terminal import print_findings
from generator.findings import Finding
from generator.fleet import Fleet
from generator.inventory import Classes, InventoryError, Tree, discover

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
    from generator.compile import Options, select

    try:
        tree = discover(Path(arguments.directory).absolute())
        names = select(tree, Options(tree.root, targets=(arguments.cluster,)))
    except InventoryError as error:
        print_findings(error.findings)
        return 2
    if len(names) != 1:
        found = f"{arguments.cluster!r} matches {len(names)} clusters"
        print(f"error: {found}; name one", file=sys.stderr)
        return 2
    fleet, findings = _resolved(tree, names[0])
    print_findings(findings)
    return 1 if fleet is None else _answer(arguments, names[0], fleet)


def _resolved(tree: Tree, name: str) -> tuple[Fleet | None, list[Finding]]:
    """A cluster that can be bootstrapped, or the findings that say why it cannot."""
    from generator.build.bootstrap import problems
    from generator.compile import Builder
    from generator.problems import located
    from generator.provenance import Provenance
    from generator.render import resolve

    classes = Classes.read(tree)
    rendered = Builder(tree, classes).render(name)
    if isinstance(rendered, list):
        return None, classes.findings + rendered
    fleet, findings = resolve(tree, rendered)
    if fleet is None:
        return None, classes.findings + findings
    wrong = problems(fleet)
    provenance = Provenance(tree, rendered.files)
    findings += [located(problem, name, provenance) for problem in wrong]
    return (None if wrong else fleet), classes.findings + findings


def _answer(arguments: argparse.Namespace, name: str, fleet: Fleet) -> int:
    from generator.build.bootstrap import FORMATS as RENDERERS
    from generator.build.bootstrap import controllers, kcc, plan

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
    if not write_files(folder, files):
        return 2
    print(*(folder / path for path in files), sep="\n")
    return 0
