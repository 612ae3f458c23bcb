"""Fixtures of the tests that need a control plane; they start only when such a test runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .controlplane.plane import KUBECONFIG_VARIABLE
from .page import OUTPUT, TIMELINES, save, write_page
from .planes import SCENARIO_JOBSET, SCENARIO_KUEUE, Planes
from .scenario import Scenario, play

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


@pytest.fixture(scope="session")
def planes(
    existing_kubeconfig: Path | None,
    report: Callable[[str], None],
    worker_id: str,
) -> Iterator[Planes]:
    """Control planes for this test process."""
    holder = Planes(existing_kubeconfig, OUTPUT / "logs" / worker_id, report)
    try:
        yield holder
    finally:
        holder.stop()


@pytest.fixture
def stage(planes: Planes) -> Iterator[Stage]:
    """Start a scenario on a fresh plane: ``stage(title, story, **kueue_settings)``.

    Its time line is kept whether the test passes or not.
    """
    played: list[Scenario] = []
    with ExitStack() as recording:

        def start(title: str, story: str, **settings: Any) -> Scenario:
            cluster = planes.fresh(SCENARIO_KUEUE, SCENARIO_JOBSET, **settings)
            played.append(recording.enter_context(play(cluster, title, story)))
            return played[-1]

        yield start
    for scenario in played:
        save(scenario.recorder.timeline, TIMELINES)
    if played:
        write_page()
