"""Sub-command `demo`: lose nodes of a small cluster on this machine and watch it recover."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from replicator.agent_cli import parse_size
from replicator.demo.cluster import DemoCluster
from replicator.digest import read_content
from replicator.errors import ReplicatorError

STEPS = 3
"""Checkpoints saved before and after the loss."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `demo`."""
    text = "run real agents on loopback, lose nodes, and show the recovery"
    parser = subparsers.add_parser("demo", help=text, description=text)
    parser.add_argument("--nodes", type=int, default=4, metavar="COUNT")
    parser.add_argument("--size", type=parse_size, default=64 * 2**20, metavar="SIZE")
    parser.add_argument("--kill", type=int, default=1, metavar="COUNT", help="nodes to lose")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where to work (needs the room)")
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
    root = Path(tempfile.mkdtemp(prefix="stowplan-demo-", dir=_place(arguments)))
    try:
        with DemoCluster(root, arguments.nodes) as cluster:
            _play(cluster, arguments.size, arguments.kill)
    except (ReplicatorError, OSError) as error:
        print(f"error: {error}\nlogs are in {root}", file=sys.stderr)
        return 1
    if arguments.keep:
        print(f"everything is in {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    return 0


def _place(arguments: argparse.Namespace) -> Path | None:
    """Memory where there is enough of it, as on a real node; else the usual temporary place."""
    if arguments.dir is not None:
        return Path(arguments.dir)
    memory = Path("/dev/shm")
    needed = arguments.nodes * arguments.size * 6 * 2
    if memory.is_dir() and shutil.disk_usage(memory).free > needed:
        return memory
    return None


def _play(cluster: DemoCluster, size: int, kill: int) -> None:
    table = _Table()
    shown = f"{size / 2**20:.0f} MiB"
    cluster.start_all()
    table.row(f"{cluster.size} agents run, one peer each")
    began = time.monotonic()
    cluster.begin(backup_interval_steps=1, backup_interval_minutes=None)
    cluster.wait_restored()
    table.row("training starts from nothing", time.monotonic() - began)
    _train(cluster, table, 1, shown, size)
    if kill == 0:
        return
    lost = list(range(cluster.size - kill, cluster.size))
    names = ", ".join(map(str, lost))
    before = {node.index: _contents(cluster, node.index) for node in cluster.nodes}
    for index in lost:
        cluster.kill(index)
        cluster.wipe(index)
    table.row(f"node {names} lost: killed, memory gone")
    began = time.monotonic()
    for index in lost:
        cluster.start(index)
    cluster.begin(backup_interval_steps=1, backup_interval_minutes=None)
    step = cluster.wait_restored()
    took = time.monotonic() - began
    if step is None:
        raise ReplicatorError("nothing was restored")
    table.row(f"replaced; all {cluster.size} nodes restored step {step}", took)
    restored = time.monotonic()
    after = {node.index: _contents(cluster, node.index) for node in cluster.nodes}
    if step == STEPS and any(before[i] != after[i] for i in after):
        raise ReplicatorError("restored data differs from what was saved")
    table.row("every byte compared: equal to what was saved")
    cluster.wait_replicated(step)
    table.row(f"step {step} redundant again (since the restore)", time.monotonic() - restored)
    _train(cluster, table, step + 1, shown, size)
    print(f"recovery from the loss of {kill} of {cluster.size} nodes took {took:.2f} s")


def _train(cluster: DemoCluster, table: _Table, first: int, shown: str, size: int) -> None:
    for step in range(first, first + STEPS):
        cluster.save(step, size)
        began = time.monotonic()
        cluster.wait_replicated(step)
        table.row(f"step {step} saved ({shown} a node), replicated", time.monotonic() - began)


def _contents(cluster: DemoCluster, index: int) -> object:
    """What the node holds of its own newest step (by its link after a restore)."""
    local = cluster.nodes[index].local
    restored = cluster.restored(index)
    if restored is not None and restored[0] is not None:
        return read_content((local / restored[1].name).resolve())
    names = sorted(local.glob(f"{cluster.job}-s{STEPS}-n{index}-w0.meta"))
    return read_content(local / f"{names[0].read_text()}.data") if names else None
