"""Build what is missing, then run the end-to-end tests: ``python -m tests.e2e [pytest options]``.

Building comes first and in one process, so that the tests can then run side by side.
"""

from __future__ import annotations

import os
import sys
import time

import pytest

from .controlplane import build, versions
from .controlplane.plane import KUBECONFIG_VARIABLE, programs
from .fleets import ROOT, example_clusters
from .page import PAGE, TIMELINES, forget_timelines, write_page
from .planes import SCENARIO_JOBSET, SCENARIO_KUEUE

#: Planes at once. Each needs about 1 GB of memory and waits most of the time.
WORKERS = 6


def main(arguments: list[str]) -> int:
    """Run everything and say where the page is; the exit status is pytest's, or 2."""
    started = time.monotonic()
    on_existing = KUBECONFIG_VARIABLE in os.environ
    if not on_existing:
        try:
            build.require_go(everything())
            build.build(everything())
        except build.BuildError as error:
            print(f"make e2e: {error}", file=sys.stderr)
            return 2
    forget_timelines()
    status = pytest.main(
        [
            "-m",
            "e2e",
            "-n",
            # One after the other where namespaces are shared.
            str(1 if on_existing else WORKERS),
            "--dist=loadscope",  # schedule.py says what a scope is, and its order
            "--no-loadscope-reorder",
            str(ROOT / "tests/e2e"),
            *arguments,
        ]
    )
    if any(TIMELINES.glob("*.json")):
        write_page()
        print(f"scenarios: {PAGE}")
    print(f"end-to-end tests: {(time.monotonic() - started) / 60:.1f} minutes")
    return int(status)


def everything() -> list[versions.GoProgram]:
    """All programs of all tests, in build order."""
    pairs = {(cluster.kueue, cluster.jobset) for cluster in example_clusters()}
    pairs.add((SCENARIO_KUEUE, SCENARIO_JOBSET))
    wanted = [part for pair in sorted(pairs) for part in programs(*pair)]
    return list(dict.fromkeys([*wanted, versions.argo_cd(), *versions.flux()]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
