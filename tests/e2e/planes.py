"""Control planes for the tests: one alive at a time in each test process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .controlplane import build
from .controlplane.plane import KUBECONFIG_VARIABLE, Cluster, existing, plane
from .controlplane.processes import ProcessError

#: Scenarios play on the newest pinned versions.
SCENARIO_KUEUE = "v0.19.2"
SCENARIO_JOBSET = "v0.12.0"


class Planes:
    """Control planes by version and settings, one alive at a time."""

    def __init__(self, kubeconfig: Path | None, logs: Path, report: Callable[[str], None]) -> None:
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._report = report
        self._running = ExitStack()

    def fresh(self, kueue: str, jobset: str, **settings: Any) -> Cluster:
        """A new, empty plane; the previous one is stopped.

        On an existing cluster there is no such thing, and the test is skipped.
        """
        if self._kubeconfig is not None:
            pytest.skip(f"needs an empty cluster of its own, {KUBECONFIG_VARIABLE} names another")
        return self._enter(plane(kueue, jobset, settings, self._report, self._logs))

    def for_validation(self, kueue: str, jobset: str) -> Cluster:
        """A plane with these versions, or the existing cluster, to ask for verdicts."""
        if self._kubeconfig is not None:
            return self._enter(existing(self._kubeconfig))
        return self.fresh(kueue, jobset)

    def stop(self) -> None:
        self._running.close()

    def _enter(self, context: Any) -> Cluster:
        self.stop()
        try:
            cluster: Cluster = self._running.enter_context(context)
        except (build.BuildError, ProcessError) as error:
            pytest.fail(str(error), pytrace=False)
        return cluster
