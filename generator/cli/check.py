"""``stowplan check``: judge manifests, rendered or written by hand."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.cli.reporting import add_report_arguments, answered, write_report

if TYPE_CHECKING:
    from generator.checks.reading import Group
    from schemas.versions import Versions

HELP = "judge manifests: schemas, references and policies"

FORMAT_NAMES = ("text", "json", "sarif", "junit", "github", "markdown")
ENGINE_NAMES = ("embedded", "conftest", "none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files, folders, or - for standard input (default: compiled)",
    )
    add_report_arguments(parser, FORMAT_NAMES)
    parser.add_argument(
        "--engine",
        choices=ENGINE_NAMES,
        default="embedded",
        help="how to run the policies (default: inside the process)",
    )
    parser.add_argument(
        "--policy-data", type=Path, metavar="FILE", help="thresholds, see policies/settings.yaml"
    )
    parser.add_argument(
        "--waivers", type=Path, metavar="FILE", help="waivers besides the clusters'"
    )
    parser.add_argument(
        "--kueue-version", default="", help="for files without a cluster (default: the newest)"
    )
    parser.add_argument("--jobset-version", default="", help="likewise")
    parser.add_argument("--kubernetes-version", default="", help="likewise, or a GKE version")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes (default: one a core, for many files)"
    )


def run(args: argparse.Namespace) -> int:
    """Judge the paths and print the report.

    Returns:
        0 without findings of the ``--fail-on`` severity, 1 with, 2 for wrong usage or input.
    """
    from generator.checks.policy import PolicyError
    from generator.checks.reading import NothingToReadError
    from generator.yaml_load import YamlError
    from schemas.versions import UnknownVersionError

    refusals = (NothingToReadError, UnknownVersionError, PolicyError, YamlError)
    collected = gc.isenabled()
    # Documents hold no cycles, and looking for some in all of them costs a tenth of the time.
    gc.disable()
    try:
        return answered("check", _check, args, refusals)
    finally:
        if collected:
            gc.enable()


def _check(args: argparse.Namespace) -> int:
    from generator.checks.policy import engine_for
    from generator.checks.report import check_groups
    from schemas.versions import Versions

    versions = Versions.of(args.kueue_version, args.jobset_version, args.kubernetes_version)
    data = _yaml_mapping(args.policy_data) if args.policy_data else None
    waivers, faults = _waivers(args.waivers)
    paths: Sequence[str] = args.paths or ["compiled"]
    groups = _groups(args, paths, versions, data)
    # Made only after the workers have gone: a forked engine costs them more than a new one.
    alone = args.engine == "none" or all(group.judged is not None for group in groups)
    report = check_groups(
        groups,
        versions=versions,
        engine=None if alone else engine_for(args.engine, data=data),
        extra_waivers=waivers,
        today=date.today(),
    )
    report.findings[:0] = faults
    return write_report(report, args)


def _groups(
    args: argparse.Namespace, paths: Sequence[str], versions: Versions, data: dict[str, Any] | None
) -> list[Group]:
    """Read the paths, in several processes where that pays."""
    from generator.checks.parallel import processes_for, read_and_judge
    from generator.checks.reading import STDIN, find_files, read_groups

    files = find_files(paths)
    processes = processes_for(files, args.jobs)
    if processes == 1 or STDIN in paths or args.engine == "conftest":
        return read_groups(paths, files)
    return read_and_judge(
        files, versions=versions, engine_name=args.engine, data=data, processes=processes
    )


def _yaml_mapping(path: Path) -> dict[str, Any]:
    from generator.findings import Location
    from generator.yaml_load import YamlError, load_documents, read_text

    documents = load_documents(read_text(path), str(path))
    value = documents[0].value if documents else None
    if not isinstance(value, dict):
        raise YamlError("expected a mapping", Location(str(path)))
    return value


def _waivers(path: Path | None) -> tuple[list[Any], list[Any]]:
    if path is None:
        return [], []
    from generator.checks.rules import all_rules
    from generator.checks.waivers import parse_waivers
    from generator.findings import Location

    return parse_waivers(_yaml_mapping(path).get("waivers"), all_rules(), where=Location(str(path)))
