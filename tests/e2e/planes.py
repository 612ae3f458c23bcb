"""Control planes for the tests: one alive at a time in each test process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from .controlplane import build
from .controlplane.client import ApiError
from .controlplane.emptying import Stored, emptied, stored
from .controlplane.plane import KUBECONFIG_VARIABLE, Cluster, existing, plane
from .controlplane.processes import ProcessError

#: Scenarios play on the newest pinned versions.
SCENARIO_KUEUE = "v0.19.2"
SCENARIO_JOBSET = "v0.12.0"
#: Emptying takes seconds; a plane that needs longer is thrown away.
EMPTYING_S = 30.0

_Key = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class _Reusable:
    """A plane that runs, and what was in it when it was new."""

    key: _Key
    cluster: Cluster
    original: dict[str, Stored]


class Planes:
    """Control planes by version and settings, one alive at a time."""

    def __init__(self, kubeconfig: Path | None, logs: Path, report: Callable[[str], None]) -> None:
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._report = report
        self._running = ExitStack()
        self._cluster: Cluster | None = None
        self._reusable: _Reusable | None = None

    def fresh(self, kueue: str, jobset: str, **settings: Any) -> Cluster:
        """A new plane, for a test that leaves traces in it; the previous one is stopped.

        On an existing cluster there is no such thing, and the test is skipped.
        """
        if self._kubeconfig is not None:
            pytest.skip(f"needs an empty cluster of its own, {KUBECONFIG_VARIABLE} names another")
        return self.enter(plane(kueue, jobset, settings, self._report, self._logs))

    def empty(self, kueue: str, jobset: str, **settings: Any) -> Cluster:
        """A plane with nothing in it: the last one emptied, where that is the same, or a new one.

        On an existing cluster there is no such thing, and the test is skipped.
        """
        key = (kueue, jobset, settings)
        last = self._reusable
        if last is not None and last.key == key and _empties(last):
            return last.cluster
        cluster = self.fresh(kueue, jobset, **settings)
        self._reusable = _Reusable(key, cluster, stored(cluster.client))
        return cluster

    def for_validation(self, kueue: str, jobset: str) -> Cluster:
        """A plane with these versions, or the existing cluster, to ask for verdicts."""
        if self._kubeconfig is None:
            return self.empty(kueue, jobset)
        return self._cluster or self.enter(existing(self._kubeconfig))

    def crash(self) -> str:
        """Which part of the running plane has died, with the end of its log; else empty."""
        try:
            if self._cluster is not None:
                self._cluster.check()
        except ProcessError as error:
            return str(error)
        return ""

    def stop(self) -> None:
        self._cluster = self._reusable = None
        self._running.close()

    def enter(self, context: AbstractContextManager[Cluster]) -> Cluster:
        """Make a cluster the running one; the previous one is stopped."""
        self.stop()
        try:
            cluster = self._running.enter_context(context)
        except (build.BuildError, ProcessError) as error:
            pytest.fail(str(error), pytrace=False)
        self._cluster = cluster
        return cluster


def _empties(last: _Reusable) -> bool:
    """Whether the plane still runs as a whole and is as it was when it was new."""
    try:
        last.cluster.check()
        last.cluster.created_namespaces.clear()
        return emptied(last.cluster.client, last.original, EMPTYING_S)
    except (ApiError, ProcessError, urllib3.exceptions.HTTPError):
        return False
