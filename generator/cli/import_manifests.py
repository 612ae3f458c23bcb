"""``stowplan import``: from the YAML that people have to an inventory that makes it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from generator.checks.reading import NothingToReadError
from generator.cli.files import write_files
from generator.cli.terminal import print_findings
from generator.findings import Severity
from generator.importing.options import Options, parse_node_pool, parsed_pairs
from generator.importing.run import Import, import_manifests
from generator.spelling import plural
from schemas.names import dns_label_problem

HELP = "bring existing YAML into the inventory"

_SETTINGS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("--project", ("project", "id"), "the Google Cloud project's id"),
    ("--project-number", ("project", "number"), "the project's number"),
    ("--location", ("location",), "region or zone of the control plane"),
    ("--gke-version", ("gkeVersion",), "the control plane's version, such as 1.33.4-gke.1245000"),
    ("--kueue-version", ("versions", "kueue"), "Kueue's version, such as 0.17.0"),
    ("--jobset-version", ("versions", "jobset"), "JobSet's version, such as 0.11.1"),
    ("--environment", ("environment",), "the environment, such as prod"),
)


_REPEATED = (
    ("--node-location", "ZONE", "zone of the nodes"),
    (
        "--node-pool",
        "NAME=MACHINE[:TOPOLOGY]:COUNT",
        "a node pool: slices of a topology (TPU) or nodes",
    ),
    ("--priority-class", "NAME=VALUE", "a priority class that is in none of the files"),
    ("--ram-disk", "CONFIG=SIZE", "inMemoryVolumeSize of a configuration"),
    (
        "--local-checkpoint-size",
        "CONFIG=SIZE",
        "what one node saves, so that the RAM disk is derived and checked",
    ),
    (
        "--set",
        "NAME=VALUE",
        "what a placeholder of the documents, or ${NAME} in a recipe, stands for",
    ),
)
"""Option, form of its value, meaning."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help="manifests: files, folders, or - for standard input (kubectl get … -o yaml)",
    )  # fmt: skip
    parser.add_argument("--cluster", required=True, metavar="NAME", help="the cluster's name")
    parser.add_argument(
        "-o", "--output", default="inventory", metavar="DIR",
        help="the inventory to write into (default: inventory)",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="print the files instead of writing them"
    )
    facts = parser.add_argument_group("what no manifest holds")
    for flag, path, words in _SETTINGS:
        facts.add_argument(flag, metavar="VALUE", help=words, dest="_".join(path))
    for flag, form, words in _REPEATED:
        facts.add_argument(
            flag, action="append", default=[], metavar=form, help=f"{words}; may be repeated"
        )
    facts.add_argument(
        "--hierarchical-namespace", choices=("yes", "no"),
        help="whether the buckets of backups have a hierarchical namespace",
    )  # fmt: skip
    facts.add_argument(
        "--backup-interval-minutes", type=int, metavar="N", help="minutes between backups"
    )
    facts.add_argument(
        "--checkpoint-period", type=int, metavar="STEPS", help="steps between local checkpoints"
    )
    parser.add_argument(
        "--class", action="append", default=[], dest="classes", metavar="CLASS",
        help="an inventory class that the target shall name; may be repeated",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Import and report."""
    output = Path(os.path.abspath(arguments.output))  # noqa: PTH100 - links stay as given
    try:
        options = _options(arguments, output)
        result = import_manifests(arguments.files, options, output)
    except (ValueError, NothingToReadError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print_findings(result.findings)
    if result.incomplete:
        count = sum(f.severity is Severity.ERROR for f in result.findings)
        print(f"{plural(count, 'error')}; nothing was written", file=sys.stderr)
        return 1
    if arguments.dry_run:
        for path, text in result.files.items():
            print(f"# {output.name}/{path}")
            print(text)
    elif not _write(result, output, Path(arguments.output)):
        return 2
    return _report(result, options.cluster)


def _options(arguments: argparse.Namespace, output: Path) -> Options:
    """The options, checked; ValueError says what is wrong with one."""
    problem = dns_label_problem(arguments.cluster)
    if problem:
        raise ValueError(f"--cluster {arguments.cluster!r} {problem}")
    if output.name != "inventory":
        raise ValueError(
            f"-o {arguments.output}: an inventory is a folder of the name inventory, such as "
            f"{arguments.output.rstrip('/')}/inventory"
        )
    settings = {
        path: value
        for _, path, _ in _SETTINGS
        if (value := getattr(arguments, "_".join(path))) is not None
    }
    if arguments.node_location:
        settings[("nodeLocations",)] = arguments.node_location
    hierarchical = arguments.hierarchical_namespace
    for name in ("backup_interval_minutes", "checkpoint_period"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value} is less than 1")
    return Options(
        cluster=arguments.cluster,
        settings=settings,
        node_pools=dict(parse_node_pool(text) for text in arguments.node_pool),
        placeholders=parsed_pairs(arguments.set, "--set"),
        priorities=parsed_pairs(arguments.priority_class, "--priority-class", int),
        ram_disks=parsed_pairs(arguments.ram_disk, "--ram-disk"),
        checkpoint_sizes=parsed_pairs(arguments.local_checkpoint_size, "--local-checkpoint-size"),
        hierarchical_namespace=None if hierarchical is None else hierarchical == "yes",
        backup_minutes=arguments.backup_interval_minutes,
        period_steps=arguments.checkpoint_period,
        classes=tuple(arguments.classes),
    )


def _write(result: Import, output: Path, shown: Path) -> bool:
    """Write the files unless one of them is there already; paths are shown as they were given."""
    taken = [path for path in result.files if (output / path).exists()]
    for path in taken:
        print(f"error: {shown / path} exists already", file=sys.stderr)
    if taken:
        print("nothing was written; move it away, or choose another --cluster", file=sys.stderr)
        return False
    if not write_files(output, result.files):
        return False
    for path in result.files:
        print(f"wrote {shown / path}")
    return True


def _report(result: Import, cluster: str) -> int:
    errors = sum(f.severity is Severity.ERROR for f in result.findings)
    print(f"{cluster}: {plural(result.objects, 'object')} imported")
    if errors:
        print(
            f"stowplan compile will refuse {cluster} until "
            f"{plural(errors, 'error is', 'errors are')} mended (see above)",
            file=sys.stderr,
        )
        return 1
    return 0
