"""Fixtures of the tests that need a control plane; they start only when such a test runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .controlplane import build, versions
from .controlplane.plane import KUBECONFIG_VARIABLE, Cluster, existing, plane
from .controlplane.processes import ProcessError
from .fleets import ROOT
from .page import load, render, save
from .scenario import Scenario, play

OUTPUT = ROOT / ".stowplan" / "e2e"
TIMELINES = OUTPUT / "timelines"
PAGE = OUTPUT / "scenarios.html"

#: Scenarios play on the newest pinned versions.
SCENARIO_KUEUE = "v0.19.2"
SCENARIO_JOBSET = "v0.12.0"

#: Waiting for pods to be ready is on by default from Kueue 0.19, with half an hour; scenarios
#: that are not about it say nothing else.
Stage = Callable[..., Scenario]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Building and starting take longer than a unit test may."""
    for item in items:
        if item.get_closest_marker("e2e") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def existing_kubeconfig() -> Path | None:
    """The kubeconfig of a cluster to use instead of a plane of our own."""
    named = os.environ.get(KUBECONFIG_VARIABLE)
    if not named:
        return None
    path = Path(named)
    if not path.is_file():
        pytest.fail(f"{KUBECONFIG_VARIABLE} names no file: {named}", pytrace=False)
    return path


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Print past pytest's capture: a person waits for what takes minutes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def write(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)

    return write


class Planes:
    """Control planes by version and settings, one alive at a time."""

    def __init__(self, kubeconfig: Path | None, report: Callable[[str], None]) -> None:
        self._kubeconfig = kubeconfig
        self._report = report
        self._running = ExitStack()

    def fresh(self, kueue: str, jobset: str, **settings: Any) -> Cluster:
        """A new, empty plane; the previous one is stopped.

        On an existing cluster there is no such thing, and the test is skipped.
        """
        if self._kubeconfig is not None:
            pytest.skip(f"needs an empty cluster of its own, {KUBECONFIG_VARIABLE} names another")
        return self._enter(plane(kueue, jobset, settings, self._report, OUTPUT / "logs"))

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


@pytest.fixture(scope="session")
def planes(existing_kubeconfig: Path | None, report: Callable[[str], None]) -> Iterator[Planes]:
    holder = Planes(existing_kubeconfig, report)
    try:
        yield holder
    finally:
        holder.stop()


@pytest.fixture
def stage(planes: Planes) -> Iterator[Stage]:
    """Start a scenario on a fresh plane: ``stage(title, story, **kueue_settings)``.

    Its time line is kept whether the test passes or not.
    """
    with ExitStack() as played:

        def start(title: str, story: str, **settings: Any) -> Scenario:
            cluster = planes.fresh(SCENARIO_KUEUE, SCENARIO_JOBSET, **settings)
            scenario = played.enter_context(play(cluster, title, story))
            recorder = scenario.recorder
            finished.callback(lambda: save(recorder.timeline, TIMELINES))
            return scenario

        with ExitStack() as finished:
            yield start
            played.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Make one page of all recorded scenarios."""
    recorded = sorted(TIMELINES.glob("*.json"))
    if recorded and any(item.get_closest_marker("e2e") for item in session.items):
        parts = (
            f"Kubernetes {versions.KUBERNETES}, Kueue {SCENARIO_KUEUE}, JobSet {SCENARIO_JOBSET}."
        )
        PAGE.write_text(render((load(path) for path in recorded), parts))
