"""Compare ``stowplan check`` with conftest and kubeconform on one corpus, start-up included.

    python -m benchmarks.checks [--files 10000] [--repeat 3] [--conftest PATH] [--kubeconform PATH]

conftest runs the same policies; kubeconform gets the same CRDs as JSON Schema (strict), which are
written beside the corpus first. Each tool runs ``--repeat`` times, taking turns; the best wall
time, its CPU time and the largest resident memory count. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.checks_corpus import write
from generator.checks.policy import policy_folder
from schemas.kinds.store import kinds_of, read_kind
from schemas.versions import Versions


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    wall: float
    cpu: float
    memory: float


def run(command: list[str]) -> Cost:
    """Run a command and measure it.

    Raises:
        SystemExit: it failed in a way that is no verdict on the manifests.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        sys.exit(f"{command[0]} failed with {code}: {errors.decode()[:500]}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write_schemas(folder: Path) -> None:
    """Write the strict JSON Schemas in the layout that kubeconform looks for."""
    for ref in kinds_of(Versions.of()).values():
        group, _, version = ref.api_version.rpartition("/")
        name = "-".join(part for part in (ref.kind.lower(), group.split(".")[0], version) if part)
        (folder / f"{name}.json").write_text(json.dumps(read_kind(ref)["schema"]), "utf-8")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--conftest", default=shutil.which("conftest"))
    parser.add_argument("--kubeconform", default=shutil.which("kubeconform"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        corpus, schemas = Path(scratch, "corpus"), Path(scratch, "schemas")
        size = write(corpus, args.files)
        schemas.mkdir()
        write_schemas(schemas)
        stowplan = [
            sys.executable,
            "-c",
            "import argparse, sys; from generator.cli import check; "
            "parser = argparse.ArgumentParser(); check.add_arguments(parser); "
            "sys.exit(check.run(parser.parse_args()))",
        ]
        commands = {
            "stowplan check": [*stowplan, str(corpus)],
            "stowplan check, one process": [*stowplan, "--jobs", "1", str(corpus)],
        }
        if args.conftest:
            commands["conftest test"] = [
                args.conftest, "test", "--policy", str(policy_folder()), "--output", "json",
                str(corpus),
            ]  # fmt: skip
        if args.kubeconform:
            location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
            commands["kubeconform"] = [
                args.kubeconform, "-strict", "-schema-location", location, "-output", "json",
                str(corpus),
            ]  # fmt: skip
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(args.repeat):
            for name, command in commands.items():
                costs[name].append(run(command))
    print(
        f"{args.files} files, {size / 1e6:.1f} MB, {os.cpu_count()} cores, best of {args.repeat}\n"
    )
    print("| tool | wall s | CPU s | memory MB |\n|---|---|---|---|")
    for name, runs in costs.items():
        best = min(runs, key=lambda cost: cost.wall)
        memory = max(cost.memory for cost in runs)
        print(f"| {name} | {best.wall:.2f} | {best.cpu:.2f} | {memory:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
