"""Sub-command `demo`: lose nodes of a small cluster on this machine and watch it recover."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from replicator.agent_cli import parse_size
from replicator.arguments import given_path
from replicator.content import ShardContent, read_content
from replicator.demo.cluster import DemoCluster, DemoError, finish_save, prepare_save
from replicator.errors import ReplicatorError

FILES = 4
STEPS = 3
"""Checkpoints saved before and after the loss."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `demo`."""
    text = "run real agents on loopback, lose nodes, and show the recovery"
    parser = subparsers.add_parser("demo", help=text, description=text)
    parser.add_argument("--nodes", type=int, default=4, metavar="COUNT")
    parser.add_argument("--size", type=parse_size, default=64 * 2**20, metavar="SIZE")
    parser.add_argument("--kill", type=int, default=1, metavar="COUNT", help="nodes to lose")
    parser.add_argument(
        "--dir", type=given_path, metavar="DIR", help="where to work (needs the room)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the directory and its logs")
    parser.set_defaults(run=_demo)


class _Table:
    """What happened, a line each, as it happens."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        print(f"{'time':>8}  {'event':44} {'took':>9}")

    def row(self, event: str, took: float | None = None) -> None:
        """Print a line."""
        now = time.monotonic() - self._began
        shown = "" if took is None else f"{took * 1000:6.0f} ms"
        print(f"{now:7.2f}s  {event:44} {shown:>9}", flush=True)


def _demo(arguments: argparse.Namespace) -> int:
    if not 2 <= arguments.nodes <= 16 or not 0 <= arguments.kill <= arguments.nodes:
        print("error: expected 2 to 16 nodes, and no more to kill than there are", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # agents end with us
    place = _place(arguments)
    try:
        _check_room(arguments, place)
        root = Path(tempfile.mkdtemp(prefix="stowplan-demo-", dir=place))
    except DemoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {place}: {error.strerror or error}", file=sys.stderr)
        return 1
    keep = bool(arguments.keep)
    try:
        with DemoCluster(root, arguments.nodes) as cluster:
            _play(cluster, arguments.size, arguments.kill)
    except (ReplicatorError, OSError) as error:
        print(f"error: {error}\nlogs are in {root}", file=sys.stderr)
        keep = True
        return 1
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
    if keep:
        print(f"everything is in {root}")
    return 0


def _place(arguments: argparse.Namespace) -> Path:
    """Memory where there is enough of it, as on a real node; else the usual temporary place."""
    if arguments.dir is not None:
        return Path(arguments.dir)
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > _needed(arguments):
        return memory
    return Path(tempfile.gettempdir())


def _needed(arguments: argparse.Namespace) -> int:
    """Bytes at most: six steps of each node, its own and its peer's, and the backups of all."""
    return int(arguments.nodes * arguments.size * 2 * STEPS * 2)


def _check_room(arguments: argparse.Namespace, place: Path) -> None:
    """Raise DemoError where the disk would fill up."""
    free, needed = shutil.disk_usage(place).free, _needed(arguments)
    if free < needed:
        raise DemoError(
            f"{arguments.nodes} nodes of {arguments.size:,} bytes need {needed:,} bytes, but "
            f"{place} has {free:,}; expected a smaller --size or a --dir with more room"
        )


def _play(cluster: DemoCluster, size: int, kill: int) -> None:
    table = _Table()
    cluster.start_all()
    table.row(f"{cluster.size} agents run, one peer each")
    began = time.monotonic()
    _begin(cluster)
    cluster.wait_restored()
    table.row("training starts from nothing", time.monotonic() - began)
    saved = _train(cluster, table, 1, size)
    if kill == 0:
        return
    if kill > 1:  # two neighbours may hold the only copies of one another
        began = time.monotonic()
        cluster.wait_for(lambda: _backups(cluster), 300, "a backup")
        table.row("a backup is complete", time.monotonic() - began)
    lost = list(range(cluster.size - kill, cluster.size))
    for index in lost:
        cluster.kill(index)
        cluster.wipe(index)
    table.row(f"node {', '.join(map(str, lost))} lost: killed, memory gone")
    began = time.monotonic()
    for index in lost:
        cluster.start(index)
    _begin(cluster)
    step = cluster.wait_restored()
    took = time.monotonic() - began
    if step is None:
        raise DemoError("nothing was restored")
    restored = time.monotonic()
    table.row(f"replaced; all {cluster.size} nodes restored step {step}", took)
    for node in cluster.nodes:
        found = cluster.restored(node.index)
        if found is None or read_content(found[1].resolve()) != saved[step][node.index]:
            raise DemoError(f"node {node.index}: restored data differs from what was saved")
    table.row("every byte compared: equal to what was saved")
    cluster.wait_replicated(step)
    table.row(f"step {step} redundant again (since the restore)", time.monotonic() - restored)
    _train(cluster, table, step + 1, size)
    print(f"recovery from the loss of {kill} of {cluster.size} nodes took {took:.2f} s")


def _begin(cluster: DemoCluster) -> None:
    cluster.begin(backup_interval_steps=1, backup_interval_minutes=None)


def _train(
    cluster: DemoCluster, table: _Table, first: int, size: int
) -> dict[int, dict[int, ShardContent]]:
    """Save some steps; returns the hashes of what each node saved, by step."""
    saved: dict[int, dict[int, ShardContent]] = {}
    for step in range(first, first + STEPS):
        saved[step] = {}
        for node in cluster.nodes:
            prepare_save(node.local, node.index, step, size, FILES)
            saved[step][node.index] = read_content(node.local / f"{step}.tmp")
        began = time.monotonic()
        for node in cluster.nodes:
            finish_save(node.local, step)
        cluster.wait_replicated(step)
        text = f"step {step} saved ({size / 2**20:.0f} MiB a node), replicated"
        table.row(text, time.monotonic() - began)
    return saved


def _backups(cluster: DemoCluster) -> list[Path]:
    return list((cluster.root / "backup" / cluster.job).glob("*/backup.seal"))
