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
WORKERS = 4


def main(arguments: list[str]) -> int:
    """Run everything and say where the page is; the exit status is pytest's, or 2."""
    started = time.monotonic()
    pairs = {(cluster.kueue, cluster.jobset) for cluster in example_clusters()}
    pairs.add((SCENARIO_KUEUE, SCENARIO_JOBSET))
    if KUBECONFIG_VARIABLE not in os.environ:
        wanted = [part for pair in sorted(pairs) for part in programs(*pair)]
        try:
            build.build(list(dict.fromkeys([*wanted, versions.argo_cd(), *versions.flux()])))
        except build.BuildError as error:
            print(f"make e2e: {error}", file=sys.stderr)
            return 2
    forget_timelines()
    status = pytest.main(
        [
            "-m",
            "e2e",
            "-n",
            str(WORKERS),
            "--dist",
            "worksteal",
            str(ROOT / "tests/e2e"),
            *arguments,
        ]
    )
    if any(TIMELINES.glob("*.json")):
        write_page()
        print(f"scenarios: {PAGE}")
    print(f"end-to-end tests: {(time.monotonic() - started) / 60:.1f} minutes")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
