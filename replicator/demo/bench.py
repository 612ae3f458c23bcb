"""Sub-command `bench`: real agents against plain copies of the same bytes in the same run.

Every number is a median over the rounds. "socket copy" moves the same bytes over as many loopback
connections at once (sendfile, recv_into, write to memory), "hashed" hashes them with BLAKE3 on
arrival as well, as a restore must, and "verified" at both ends, as the replication of a new save
must; none has a protocol, receipts or an agreement, and processes and connections are there before
the clock starts. "file copy" is shutil.copyfile of the same files, as many at once, to
where backups go. Pages are warmed before anything is timed: the first touch of fresh memory costs
several times as much as its reuse on virtual machines.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from replicator.agent_cli import parse_size
from replicator.arguments import path, whole_number
from replicator.demo.cluster import DemoCluster, finish_save, prepare_save
from replicator.demo.plain_copies import CHUNK, PLAIN, hash_only, timed_copies
from replicator.ending import end_in_order
from replicator.errors import ReplicatorError

FILES = 4


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds that count, steps before them, and where backups go."""

    rounds: int
    warm_up: int = 2
    backup_dir: Path | None = None


def measure(nodes: int, size: int, effort: Effort, root: Path) -> dict[str, float]:
    """One row of the table, in seconds."""
    row: dict[str, float] = {}
    with DemoCluster(root, nodes) as cluster:
        sources = []
        for node in cluster.nodes:
            prepare_save(node.local, node.index, 0, size, FILES)
            sources.append((node.local / "0.tmp").rename(root / f"source{node.index}"))
        for name, copy in PLAIN.items():
            place = effort.backup_dir if name == "file" and effort.backup_dir else root
            row[name] = timed_copies([copy] * nodes, sources, place, effort.rounds)
        for source in sources:
            shutil.rmtree(source)
        if effort.backup_dir is not None:
            cluster.backup_dir = Path(tempfile.mkdtemp(dir=effort.backup_dir, prefix="bench-"))
        try:
            _measure_agents(cluster, size, effort, row)
        finally:
            shutil.rmtree(cluster.backup_dir, ignore_errors=True)
    return row


def _measure_agents(cluster: DemoCluster, size: int, effort: Effort, row: dict[str, float]) -> None:
    cluster.start_all()
    cluster.begin(backup_interval_minutes=0)
    cluster.wait_restored()
    seals = cluster.backup_dir / cluster.job
    replicate, backup = [], []
    for step in range(1, effort.warm_up + effort.rounds + 1):
        for node in cluster.nodes:
            prepare_save(node.local, node.index, step, size, FILES)
        _warm_pages(cluster.root, cluster.size * size)
        began = time.perf_counter()
        for node in cluster.nodes:
            finish_save(node.local, step)
        cluster.wait_replicated(step, 300)
        done = time.perf_counter()
        cluster.wait_for(lambda: _seals(seals) >= step, 300, "the backup")  # noqa: B023
        if step > effort.warm_up:
            replicate.append(done - began)
            backup.append(time.perf_counter() - done)
        for old in sorted(seals.iterdir())[:-1]:
            for file in old.rglob("*.distcp"):
                os.truncate(file, 0)  # room for the next; only the newest is needed
    row["replicate"] = statistics.median(replicate)
    row["backup"] = statistics.median(backup)
    everyone = list(range(cluster.size))
    alone, beside, restored = [], [], []
    for _ in range(effort.rounds):  # in turn: the machine is not always equally fast
        sources = [_newest_data(node.local) for node in cluster.nodes]
        one, others = [PLAIN["hashed"]], [hash_only] * (cluster.size - 1)
        alone.append(timed_copies(one, sources[:1], cluster.root, 1))
        beside.append(timed_copies([*one, *others], sources, cluster.root, 1))
        restored.append(_restore(cluster, everyone[-1:], size))
    row["one"], row["one of all"] = statistics.median(alone), statistics.median(beside)
    row["restore one"] = statistics.median(restored)
    times = [_restore(cluster, everyone, size) for _ in range(max(effort.rounds // 2, 1))]
    row["restore all"] = statistics.median(times)


def _newest_data(local: Path) -> Path:
    """One of the shards that a node holds; all are of one size."""
    return max(local.glob("*.data"), key=lambda path: path.stat().st_mtime)


def _warm_pages(root: Path, size: int) -> None:
    """Touch as much memory as the copies will take, and give it back.

    What an earlier step gave back is with the host again: plain copies follow one another faster.
    """
    filler, block = root / "filler", bytes(CHUNK)
    with filler.open("wb", buffering=0) as file:
        for _ in range(size // CHUNK):
            file.write(block)
    filler.unlink()


def _seals(path: Path) -> int:
    return len(list(path.glob("*/backup.seal"))) if path.exists() else 0


def _restore(cluster: DemoCluster, lost: list[int], size: int) -> float:
    """Seconds from the job's start until all have their data, after these nodes lost theirs."""
    for index in lost:
        cluster.kill(index)
        cluster.wipe(index)
    for index in lost:
        cluster.start(index)
    for index in lost:
        cluster.wait_ready(index)
    _warm_pages(cluster.root, len(lost) * size)
    began = time.perf_counter()
    cluster.begin(backup_interval_minutes=0)
    cluster.wait_restored(300)
    took = time.perf_counter() - began
    time.sleep(2)  # redundancy is rebuilt
    return took


def idle(nodes: int, root: Path, seconds: float) -> tuple[float, float]:
    """CPU of a core (percent) and unique memory (MiB) of one idle agent in a running job."""
    with DemoCluster(root, nodes) as cluster:
        cluster.start_all()
        cluster.begin()
        cluster.wait_restored()
        cluster.save(1, 64 * 2**20)
        cluster.wait_replicated(1)
        time.sleep(3)
        processes = [node.process.pid for node in cluster.nodes if node.process is not None]
        before = [_cpu_seconds(pid) for pid in processes]
        time.sleep(seconds)
        used = [_cpu_seconds(pid) - old for pid, old in zip(processes, before, strict=True)]
        unique = [_unique_bytes(pid) for pid in processes]
    return max(used) / seconds * 100, max(unique) / 2**20


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _unique_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    private = [line.split() for line in text.splitlines() if line.startswith("Private_")]
    return sum(int(fields[1]) * 1024 for fields in private)


COLUMNS = (
    "nodes x size",
    "socket copy s",
    "hashed s",
    "verified s",
    "file copy s",
    "replicate s",
    "ratio to verified",
    "backup s",
    "ratio to file",
    "restore one s",
    "ratio to one hashed copy",
    "the same while the others hash",
    "restore all from backup s",
    "ratio to file",
)


def show(nodes: int, size: int, row: dict[str, float]) -> None:
    """One line of the table: seconds, and rates as ratios to the plain copies."""
    cells = (
        f"{nodes} x {size // 2**20} MiB",
        f"{row['socket']:.3f}",
        f"{row['hashed']:.3f}",
        f"{row['verified']:.3f}",
        f"{row['file']:.3f}",
        f"{row['replicate']:.3f}",
        f"{row['verified'] / row['replicate']:.2f}",
        f"{row['backup']:.3f}",
        f"{row['file'] / row['backup']:.2f}",
        f"{row['restore one']:.3f}",
        f"{row['one'] / row['restore one']:.2f}",
        f"{row['one of all'] / row['restore one']:.2f}",
        f"{row['restore all']:.3f}",
        f"{row['file'] / row['restore all']:.2f}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bench`."""
    text = "measure replication, backup and restore against plain copies in the same run"
    parser = subparsers.add_parser("bench", help=text, description=text)
    parser.add_argument(
        "--nodes", type=whole_number(2, 64), nargs="+", default=[2, 4], metavar="COUNT"
    )
    parser.add_argument(
        "--sizes", type=parse_size, nargs="+", default=[64 * 2**20, 512 * 2**20], metavar="SIZE"
    )
    parser.add_argument("--rounds", type=whole_number(1, 1000), default=5, metavar="COUNT")
    parser.add_argument(
        "--warm-up",
        type=whole_number(0, 1000),
        default=2,
        metavar="COUNT",
        help="steps before those that count; with 0 and --rounds 1 only one step is ever held",
    )
    parser.add_argument(
        "--dir", type=path, default=Path("/dev/shm"), metavar="DIR", help="needs 7 x all data"
    )
    parser.add_argument("--backup-dir", type=path, metavar="DIR", help="elsewhere than in --dir")
    parser.add_argument(
        "--idle-seconds", type=whole_number(0, 86_400), default=30, metavar="SECONDS"
    )
    parser.add_argument("--json", type=path, metavar="FILE", help="write the seconds there too")
    parser.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    end_in_order()
    for directory in (arguments.dir, arguments.backup_dir):
        if directory is not None and not directory.is_dir():
            print(f"error: {directory}: expected a directory that is there", file=sys.stderr)
            return 2
    try:
        with contextlib.ExitStack() as files:  # before what takes minutes: it may not be writable
            out = files.enter_context(arguments.json.open("w")) if arguments.json else None
            rows = _measure_all(arguments)
            if out is not None:
                json.dump(rows, out, indent=1)
    except ReplicatorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _measure_all(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    rows = {}
    effort = Effort(arguments.rounds, arguments.warm_up, arguments.backup_dir)
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for nodes in arguments.nodes:
        for size in arguments.sizes:
            with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as root:
                row = measure(nodes, size, effort, Path(root))
            rows[f"{nodes}x{size // 2**20}"] = row
            show(nodes, size, row)
    if not arguments.idle_seconds:
        return rows
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as root:
        floor = measure(2, 4096 * FILES, Effort(5), Path(root))
    print(
        f"\nlatency floor (16 KiB, 2 nodes): replicate {floor['replicate'] * 1000:.0f} ms", end=""
    )
    print(f", restore {floor['restore one'] * 1000:.0f} ms")
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as root:
        cpu, memory = idle(2, Path(root), arguments.idle_seconds)
    print(f"idle agent: {cpu:.2f} % of a core, {memory:.0f} MiB unique memory")
    return rows
