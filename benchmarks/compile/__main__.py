"""Time ``stowplan compile`` against ``kapitan compile`` on the same synthetic fleets, in one run.

    python -m benchmarks.compile [--clusters 10,100,1000] [--repeat 3]

Both are whole processes with default settings, interleaved; the table shows medians of wall time
and their ratio. Kapitan compiles through stowplan's own kadet component, so both write the same
bytes; stowplan's times include validation of every value. Trees lie in memory (``/dev/shm``) where
there is one, since the disk would be most of what is measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.compile.synthetic_fleet import write

BIN = Path(sys.executable).parent


def _timed(command: list[str], folder: Path) -> float:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RUST_")}
    environment["TMPDIR"] = str(folder.parent)
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    taken = time.perf_counter() - begun
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return taken


def _cold(folder: Path, command: list[str]) -> float:
    shutil.rmtree(folder / "compiled", ignore_errors=True)
    shutil.rmtree(folder / ".stowplan", ignore_errors=True)
    return _timed(command, folder)


def _one_changed(folder: Path, command: list[str], turn: int) -> float:
    target = sorted((folder / "inventory" / "targets").glob("*.yml"))[turn]
    text = target.read_text()
    target.write_text(text + f"  vars:\n    turn: {turn}\n" if "vars:" not in text else text)
    model = target.read_text()
    target.write_text(model.replace("kueue: 0.19.2", "kueue: 0.19.1").replace("0.17.0", "0.17.1"))
    return _timed(command, folder)


def _medians(repeat: int, *measures: Callable[[int], float]) -> list[float]:
    """Medians of several measures, taken in turn."""
    times: list[list[float]] = [[] for _ in measures]
    for turn in range(repeat):
        for own, measure in zip(times, measures, strict=True):
            own.append(measure(turn))
    return [statistics.median(own) for own in times]


def _row(what: str, ours: float, theirs: float) -> str:
    return f"| {what} | {ours:.2f} s | {theirs:.2f} s | {theirs / ours:.1f}x |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", default="10,100,1000")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    stowplan, kapitan = str(BIN / "stowplan"), str(BIN / "kapitan")
    home = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    print(f"{os.cpu_count()} cores, medians of {arguments.repeat}, wall time of whole processes\n")
    print("| | stowplan | kapitan | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        for count in map(int, arguments.clusters.split(",")):
            ours, theirs = Path(scratch) / f"stowplan-{count}", Path(scratch) / f"kapitan-{count}"
            for folder in (ours, theirs):
                write(folder, count)
            cold = _medians(
                arguments.repeat,
                lambda _, f=ours: _cold(f, [stowplan, "compile"]),
                lambda _, f=theirs: _cold(f, [kapitan, "compile"]),
            )
            print(_row(f"{count} clusters, cold", *cold), flush=True)
            changed = _medians(
                arguments.repeat,
                lambda turn, f=ours: _one_changed(f, [stowplan, "compile"], turn),
                lambda turn, f=theirs: _one_changed(f, [kapitan, "compile"], turn),
            )
            print(_row(f"{count} clusters, one changed", *changed), flush=True)
        help_times = _medians(
            arguments.repeat,
            lambda _: _timed([stowplan, "--help"], Path(scratch)),
            lambda _: _timed([kapitan, "--help"], Path(scratch)),
        )
        print(_row("--help", *help_times))


if __name__ == "__main__":
    main()
