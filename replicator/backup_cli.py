"""Sub-commands on backups: `backups ls`, `backups verify`, `restore-from`, `prune`.

`add_commands` hangs them into a parser; each sets `run`, a function from the parsed arguments to
the exit status: 0 = done and all well, 1 = not all well (said on stderr or in the output), 2 =
unusable arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import sys
from collections.abc import Awaitable, Callable, Sized
from typing import Any, Final

from replicator.arguments import whole_number
from replicator.backup_index import BackupIndex
from replicator.backups import BackupNotFoundError, JobBackups
from replicator.credentials import Credentials, StorageConfigError
from replicator.errors import ProtocolError, ReplicatorError
from replicator.retention import RetentionError, RetentionPolicy, parse_count, prune
from replicator.storage import ObjectStorage

MOST_NODES: Final = 1_000_000
_RULES: Final = ("hourly", "daily", "weekly", "monthly", "yearly")
_Command = Callable[[argparse.Namespace, JobBackups], Awaitable[int]]


def add_backup_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The options that say where backups are and who reads them."""
    parser.add_argument(
        "--backup",
        required=required,
        metavar="URL",
        help="where the backups are: file:///path, gs://bucket/dir, s3://bucket/dir, az://box/dir",
    )
    parser.add_argument(
        "--backup-credentials",
        metavar="FILE",
        help="a JSON key file, 'anonymous', or 'platform' for the machine's own identity "
        "(never searched for unless asked for)",
    )


def open_storage(arguments: argparse.Namespace, **options: Any) -> ObjectStorage:
    """The storage that `add_backup_arguments` describes.

    Raises:
        StorageConfigError: it cannot be used as given.
    """
    option = arguments.backup_credentials
    credentials = None if option is None else Credentials.from_option(option)
    return ObjectStorage.open(arguments.backup, credentials, **options)


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `backups`, `restore-from` and `prune`."""
    backups = subparsers.add_parser("backups", help="list or verify a job's backups")
    actions = backups.add_subparsers(required=True, metavar="ACTION")
    ls = _command(actions, "ls", _list, "list a job's backups, newest first")
    ls.add_argument("--format", choices=("text", "json"), default="text")
    verify = _command(actions, "verify", _verify, "read a backup and compare it with its manifests")
    verify.add_argument(
        "name", metavar="BACKUP", help="its name, or 'latest' for the newest complete"
    )
    _add_world(verify)
    restore = _command(
        subparsers, "restore-from", _restore_from, "make the job's next start restore this backup"
    )
    restore.add_argument("name", metavar="BACKUP")
    restore.add_argument(
        "--verify", action="store_true", help="read all of it first, not only names and sizes"
    )
    _add_world(restore)
    pruning = _command(
        subparsers,
        "prune",
        _prune,
        "delete backups that no rule keeps (says only which, by default)",
    )
    for rule in _RULES:
        pruning.add_argument(
            f"--{rule}",
            type=_count,
            default=0,
            metavar="COUNT",
            help="how many of the newest such periods keep a backup, or 'always'",
        )
    pruning.add_argument(
        "--prefer-recent", action="store_true", help="keep a period's newest backup, not its oldest"
    )
    pruning.add_argument("--delete", action="store_true", help="really delete")


def _count(text: str) -> int:
    try:
        return parse_count(text)
    except RetentionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: _Command,
    text: str,
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=text, description=text)
    add_backup_arguments(parser)
    parser.add_argument("--job", required=True, metavar="NAME", help="the job-name of its config")
    parser.set_defaults(run=lambda arguments: _run(arguments, command))
    return parser


def _add_world(parser: argparse.ArgumentParser) -> None:
    for option, text in (("--nodes", "nodes"), ("--workers-per-node", "workers of each node")):
        parser.add_argument(
            option,
            type=whole_number(1, MOST_NODES),
            metavar="COUNT",
            help=f"the job's {text}; backups of the public reference do not say it themselves",
        )


def _run(arguments: argparse.Namespace, command: _Command) -> int:
    try:
        backups = JobBackups(open_storage(arguments, create=False), arguments.job)
        return asyncio.run(_awaited(command(arguments, backups)))
    except (StorageConfigError, RetentionError, ProtocolError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ReplicatorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename is None:
            raise  # our own output was not taken, which is the caller's to say
        print(f"error: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 1


async def _awaited(result: Awaitable[int]) -> int:
    return await result


async def _list(arguments: argparse.Namespace, backups: JobBackups) -> int:
    try:
        forced: str | None = await backups.read_restore_version()
        warning = None
    except ProtocolError as error:
        forced, warning = None, str(error)
    rows = []
    for name in await backups.names():
        try:
            rows.append(_row(await backups.index(name), forced))
        except BackupNotFoundError:
            continue  # pruned since the listing
    if arguments.format == "json":
        print(json.dumps({"job": backups.job_name, "backups": rows, "warning": warning}, indent=2))
    else:
        _print_rows(rows)
    _say_if_none(backups, rows)
    if warning is not None:
        print(f"warning: {warning}", file=sys.stderr)
    missing = forced is not None and forced not in {row["name"] for row in rows}
    if missing:
        print(f"warning: restore.version names {forced}, which is not there", file=sys.stderr)
    return 1 if missing or warning is not None else 0


def _say_if_none(backups: JobBackups, found: Sized) -> None:
    """A job's name with a mistake in it must not look like a job without work to do."""
    if not found:
        print(f"there are no backups of job {backups.job_name}", file=sys.stderr)


def _row(index: BackupIndex, forced: str | None) -> dict[str, Any]:
    step = index.newest_complete or next(iter(index.steps), None)
    writer = "stowplan-replicator" if index.ours else "checkpoint-replicator"
    return {
        "name": index.name,
        "complete": index.complete,
        "step": step.step if step else None,
        "nodes": step.nodes if step else None,
        "bytes": step.size if step else 0,
        "writer": None if index.unreadable else writer,
        "restore-version": index.name == forced,
        "problems": list(index.problems) if not index.complete else [],
    }


def _print_rows(rows: list[dict[str, Any]]) -> None:
    print(f"{'BACKUP':16}  {'STATE':10}  {'STEP':>10}  {'NODES':>6}  {'BYTES':>16}")
    for row in rows:
        state = "complete" if row["complete"] else "INCOMPLETE"
        mark = "  <- restore.version" if row["restore-version"] else ""
        step = "-" if row["step"] is None else row["step"]
        nodes = "-" if row["nodes"] is None else row["nodes"]
        print(f"{row['name']:16}  {state:10}  {step:>10}  {nodes:>6}  {row['bytes']:>16,}{mark}")
        for problem in row["problems"]:
            print(f"{'':18}{problem}")


async def _verify(arguments: argparse.Namespace, backups: JobBackups) -> int:
    world = {"nodes": arguments.nodes, "workers_per_node": arguments.workers_per_node}
    if arguments.name == "latest":
        found = await backups.newest_complete(**world)
        if found is None:
            raise BackupNotFoundError(f"job {backups.job_name} has no complete backup")
        index = found[0]
    else:
        index = await backups.index(arguments.name, **world)
    problems = list(index.problems) if not index.complete else []
    if (step := index.newest_complete) is not None:
        problems = list(await backups.verify(index.name, step))
    for problem in problems:
        print(f"{index.name}: {problem}")
    if problems or step is None:
        return 1
    covered = "" if index.ours else " (file names not covered: no manifests)"
    print(f"{index.name}: step {step.step}, {step.size:,} bytes as saved{covered}")
    return 0


async def _restore_from(arguments: argparse.Namespace, backups: JobBackups) -> int:
    world = {"nodes": arguments.nodes, "workers_per_node": arguments.workers_per_node}
    index = await backups.index(arguments.name, **world)
    if problem := _saved_by_others(index, arguments):
        print(f"error: {arguments.name}: {problem}", file=sys.stderr)
        return 1
    if arguments.verify:
        step = index.newest_complete
        problems = await backups.verify(arguments.name, step) if step is not None else ()
        for problem in problems:
            print(f"{arguments.name}: {problem}", file=sys.stderr)
        if problems:
            return 1
    step = await backups.force_restore(arguments.name, **world)
    print(
        f"the next start of {backups.job_name} restores step {step.step} from {arguments.name} on "
        f"all {step.nodes} nodes; restore.version goes after the first save that follows"
    )
    return 0


def _saved_by_others(index: BackupIndex, arguments: argparse.Namespace) -> str:
    """Why a job of the size that was told could not start from this backup; empty if it can."""
    step = index.newest_complete
    if step is None:
        return ""
    found = (step.nodes, step.workers_per_node)
    told = (arguments.nodes or found[0], arguments.workers_per_node or found[1])
    if told == found:
        return ""
    return (
        f"step {step.step} was saved by {found[0]} nodes of {found[1]} workers, and a job of "
        f"{told[0]} nodes of {told[1]} workers could not restore it"
    )


async def _prune(arguments: argparse.Namespace, backups: JobBackups) -> int:
    policy = RetentionPolicy(
        **{rule: getattr(arguments, rule) for rule in _RULES},
        prefer_recent=arguments.prefer_recent,
    )
    now = datetime.datetime.now(datetime.UTC)
    result = await prune(backups, policy, now=now, dry_run=not arguments.delete)
    for decision in result.decisions:
        print(f"{'keep' if decision.keep else 'delete':6}  {decision.name}  {decision.reason}")
    _say_if_none(backups, result.decisions)
    doomed = sum(not decision.keep for decision in result.decisions)
    if doomed and not arguments.delete:
        print(f"nothing deleted; add --delete to delete {doomed} of {len(result.decisions)}")
    return 0
