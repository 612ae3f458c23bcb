"""Time ``stowplan compile`` with its checks and without, in turns, on the same synthetic fleet.

    python -m benchmarks.compile.with_checks [--clusters 100,1000] [--repeat 3]

Both are whole processes that compile the whole tree from nothing. The one without is the same
command with its step of checks taken out, which is no option of the command: a benchmark may skip
what a user may not.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.compile.synthetic_fleet import REPOSITORY, write

COMPILE = "from generator.cli.main import main; import sys; sys.exit(main(['compile', '--quiet']))"
COMMANDS = {
    "with the checks": COMPILE,
    "without": f"from generator import render; render._checked = lambda *given: []; {COMPILE}",
}


def compiled(folder: Path, code: str) -> tuple[float, float]:
    """Compile a tree from nothing; returns wall and CPU seconds, workers included."""
    for name in ("compiled", ".stowplan"):
        shutil.rmtree(folder / name, ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder.parent)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"compile failed:\n{done.stdout}{done.stderr}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", default="100,1000")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    home = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    print(f"{os.cpu_count()} cores, medians of {args.repeat}\n")
    print("| clusters | objects | | wall s | CPU s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        for count in map(int, args.clusters.split(",")):
            folder = Path(scratch) / str(count)
            folder.mkdir()
            write(folder, count)
            costs: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
            for _ in range(args.repeat):
                for name, code in COMMANDS.items():
                    costs[name].append(compiled(folder, code))
            objects = sum(1 for _ in (folder / "compiled").rglob("*.yaml"))
            medians = {
                name: [statistics.median(column) for column in zip(*runs, strict=True)]
                for name, runs in costs.items()
            }
            for name, (wall, spent) in medians.items():
                print(f"| {count} | {objects} | {name} | {wall:.2f} | {spent:.2f} |")
            ratios = [a / b for a, b in zip(*medians.values(), strict=True)]
            print(f"| {count} | {objects} | ratio | {ratios[0]:.2f} | {ratios[1]:.2f} |")
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
