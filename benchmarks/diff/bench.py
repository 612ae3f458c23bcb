"""Measure ``stowplan diff`` on a fleet: seconds and characters, a plain unified diff beside it.

    python -m benchmarks.diff.bench [--clusters 1000] [--runs 5] [--update]

The fleet is committed to a Git repository in a temporary folder. Each cluster has two changed
lines: the quota of a ClusterQueue, and the number of restarts of a JobSet under the same name.
Without ``--update`` the table is printed; with it, README.md beside this file gets it too.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generator.cli.main import main
from tests.generator.diff import fleet

MARK = "<!-- figures -->"


def write_fleet(root: Path, clusters: int, quota: int, restarts: int) -> None:
    """Write clusters of 25 files each: ten local queues, ten jobs, and what they need."""
    compiled = root / "compiled"
    for number in range(clusters):
        name = f"tpu-{number:04d}"
        bodies = [fleet.checkpointing(), fleet.flavor(), fleet.cluster_queue(quota)]
        bodies.append(fleet.priority_class())
        for job in range(10):
            bodies.append(fleet.jobset(f"job-{job}-r1", restarts if job == 0 else 10))
            queue = fleet.local_queue()
            queue["metadata"]["name"] = f"team-{job}"
            bodies.append(queue)
        for path, body in fleet.cluster(name, *bodies).items():
            file = compiled / name / path
            body["metadata"].setdefault("labels", {})["cluster"] = name  # no two files are equal
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fleet.HEADER.format(cluster=name) + fleet.dump(body))


def timed(runs: int, *arguments: str) -> tuple[list[float], list[float], str]:
    """Run the command in fresh processes, as CI does; return wall and CPU seconds and output."""
    seconds: list[float] = []
    cpu: list[float] = []
    output = ""
    for _ in range(runs):
        start, used = time.perf_counter(), _cpu_seconds()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.diff.bench", "--run", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path.cwd(),
        )
        seconds.append(time.perf_counter() - start)
        cpu.append(_cpu_seconds() - used)
        if done.returncode != 1:
            raise SystemExit(f"diff exited with {done.returncode}: {done.stderr}")
        output = done.stdout
    return seconds, cpu, output


def _cpu_seconds() -> float:
    """CPU seconds of the processes that have ended, git's among them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_alone(arguments: list[str]) -> int:
    folder, *rest = arguments
    os.chdir(folder)
    return main(["diff", *rest])


def measure(clusters: int, runs: int) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_fleet(root, clusters, 32, 10)
        fleet.git(root, "init", "-q")
        fleet.commit(root)
        write_fleet(root, clusters, 64, 50)
        fleet.commit(root)
        files = sum(1 for _ in (root / "compiled").rglob("*.yaml"))
        plain = fleet.git(root, "diff", "HEAD~1", "HEAD", "--", "compiled")
        rows = [
            f"{clusters:,} clusters, {files:,} files, two changed lines in each cluster; "
            f"{runs} runs, median (least – most). Python {platform.python_version()}, "
            f"{os.cpu_count()} cores.",
            "",
            "| | wall seconds | CPU seconds | characters |",
            "|---|---|---|---|",
            f"| `git diff` (unified) | – | – | {len(plain):,} |",
        ]
        for label, arguments in (
            ("commit against commit, text", ("--base", "HEAD~1", "--head", "HEAD")),
            ("commit against work tree, text", ("--base", "HEAD~1")),
            (
                "markdown comment",
                ("--base", "HEAD~1", "--head", "HEAD", "--format", "markdown"),
            ),
            ("html page", ("--base", "HEAD~1", "--head", "HEAD", "--format", "html")),
            ("json", ("--base", "HEAD~1", "--head", "HEAD", "--format", "json")),
        ):
            seconds, cpu, output = timed(runs, str(root), *arguments)
            rows.append(
                f"| {label} | {statistics.median(seconds):.2f} "
                f"({min(seconds):.2f} – {max(seconds):.2f}) | {statistics.median(cpu):.2f} | "
                f"{len(output):,} |"
            )
    return rows


def update(rows: list[str]) -> None:
    readme = Path(__file__).with_name("README.md")
    before, _, rest = readme.read_text().partition(MARK)
    _, _, after = rest.partition(MARK)
    readme.write_text(before + MARK + "\n" + "\n".join(rows) + "\n" + MARK + after)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        raise SystemExit(run_alone(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    figures = measure(options.clusters, options.runs)
    print("\n".join(figures))
    if options.update:
        update(figures)
