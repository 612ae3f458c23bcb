"""Compare ``stowplan check`` with conftest and kubeconform on one corpus, start-up included.

    python -m benchmarks.checks [--files 10000] [--repeat 3] [--conftest PATH] [--kubeconform PATH]

conftest runs the same policies; kubeconform gets the same CRDs as JSON Schema (strict), which are
written beside the corpus first. Each tool runs ``--repeat`` times in turn; the medians of wall
and CPU time count. Memory is taken in a run of its own: the largest resident size of one process,
and the most that all processes of the command held together at one time, pages that they share
counted once (PSS). Prints Markdown tables: the comparison, the cost by the number of files, and the
report of a corpus in which every file is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.checks_corpus import write, write_broken
from generator.checks.policy import policy_folder
from schemas.kinds.store import kinds_of, read_kind
from schemas.versions import Versions

STOWPLAN = [
    sys.executable,
    "-c",
    "import sys; from generator.cli.main import main; sys.exit(main(['check', *sys.argv[1:]]))",
]
SAMPLE_S = 0.02


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    wall: float
    cpu: float


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], command: list[str]) -> resource.struct_rusage:
    """Wait for a command.

    Raises:
        SystemExit: it failed in a way that is no verdict on the manifests.
    """
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1) or b"Traceback" in errors:
        sys.exit(f"{command[0]} failed with {code}: {errors.decode()[:500]}")
    return usage


def run(command: list[str]) -> Cost:
    """Run a command and measure its time."""
    begun = time.perf_counter()
    usage = finish(start(command), command)
    return Cost(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime)


def memory(command: list[str]) -> tuple[float, float]:
    """Megabytes of a command's largest process, and of all its processes at one time."""
    process = start(command)
    most = 0.0
    while not Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1].startswith("Z"):
        most = max(most, sum(proportional(pid) for pid in family(process.pid)))
        time.sleep(SAMPLE_S)
    usage = finish(process, command)
    return usage.ru_maxrss / 1024, most


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in family(int(child)))]


def proportional(pid: int) -> float:
    """Megabytes that a process holds, a page that n processes share counted as its nth part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0  # it has just ended
    return next((int(x.split()[1]) / 1024 for x in text.splitlines() if x.startswith("Pss:")), 0.0)


def write_schemas(folder: Path) -> None:
    """Write the strict JSON Schemas in the layout that kubeconform looks for."""
    for ref in kinds_of(Versions.of()).values():
        group, _, version = ref.api_version.rpartition("/")
        name = "-".join(part for part in (ref.kind.lower(), group.split(".")[0], version) if part)
        (folder / f"{name}.json").write_text(json.dumps(read_kind(ref)["schema"]), "utf-8")


def compare(folder: Path, args: argparse.Namespace) -> None:
    """Print the table of all tools on one corpus."""
    corpus, schemas = folder / "corpus", folder / "schemas"
    size = write(corpus, args.files)
    schemas.mkdir()
    write_schemas(schemas)
    commands = {
        "stowplan check": [*STOWPLAN, str(corpus)],
        "stowplan check --jobs 1": [*STOWPLAN, "--jobs", "1", str(corpus)],
    }
    if args.conftest:
        commands["conftest test"] = [
            args.conftest, "test", "--policy", str(policy_folder()), "--output", "json",
            str(corpus),
        ]  # fmt: skip
    if args.kubeconform:
        location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        commands["kubeconform -strict"] = [
            args.kubeconform, "-strict", "-schema-location", location, "-output", "json",
            str(corpus),
        ]  # fmt: skip
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(args.repeat):
        for name, command in commands.items():
            costs[name].append(run(command))
    print(f"{args.files} files, {size / 1e6:.1f} MB, {os.cpu_count()} cores, ", end="")
    print(f"medians of {args.repeat}\n")
    print("| tool | wall s | CPU s | MB, largest process | MB, all processes |")
    print("|---|---|---|---|---|")
    for name, runs in costs.items():
        wall = statistics.median(cost.wall for cost in runs)
        cpu = statistics.median(cost.cpu for cost in runs)
        largest, together = memory(commands[name])
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {largest:.0f} | {together:.0f} |")
    peers = [costs[name] for name in commands if not name.startswith("stowplan")]
    if len(peers) == len(commands) - 2 == 2:
        wall, cpu = (
            sum(statistics.median(getattr(cost, part) for cost in runs) for runs in peers)
            for part in ("wall", "cpu")
        )
        print(f"| the two one after the other | {wall:.2f} | {cpu:.2f} | | |")


def growth(folder: Path, files: int) -> None:
    """Print the cost for half, all and twice the files: twice as many take twice as long."""
    print("\n| files | CPU s of `--jobs 1` | µs a file |\n|---|---|---|")
    for count in (files // 2, files, files * 2):
        corpus = folder / f"corpus-{count}"
        write(corpus, count)
        cpu = min(run([*STOWPLAN, "--jobs", "1", str(corpus)]).cpu for _ in range(2))
        print(f"| {count} | {cpu:.2f} | {cpu / count * 1e6:.0f} |")
        shutil.rmtree(corpus)


def broken(folder: Path, files: int) -> None:
    """Print what a report of very many findings costs."""
    corpus, report = folder / "broken", folder / "report.json"
    write_broken(corpus, files)
    print("\n| report | findings | wall s | MB, largest process | MB, all processes |")
    print("|---|---|---|---|---|")
    for form in ("json", "text"):
        command = [*STOWPLAN, "--format", form, "--output", str(report), str(corpus)]
        cost = run(command)
        if form == "json":
            found = len(json.loads(report.read_text())["findings"])
        largest, together = memory(command)
        print(f"| {form} | {found} | {cost.wall:.1f} | {largest:.0f} | {together:.0f} |")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--conftest", default=shutil.which("conftest"))
    parser.add_argument("--kubeconform", default=shutil.which("kubeconform"))
    args = parser.parse_args()
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        compare(Path(scratch), args)
        growth(Path(scratch), args.files)
        broken(Path(scratch), max(1, args.files * 3 // 5))
    return 0


if __name__ == "__main__":
    sys.exit(main())
