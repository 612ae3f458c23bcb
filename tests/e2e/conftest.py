"""Fixtures of the tests that need a control plane; they start only when such a test runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .controlplane.plane import KUBECONFIG_VARIABLE
from .documents import CLUSTER, fleet
from .fleets import example_cluster
from .page import OUTPUT, TIMELINES, save, write_page
from .patient import Patient, apply, faults, healthy_fleet, told
from .planes import SCENARIO_JOBSET, SCENARIO_KUEUE, Planes
from .scenario import Scenario, play
from .schedule import OnePlaneEach, place_of

Stage = Callable[..., Scenario]
PLANES = pytest.StashKey[Planes]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Building and starting take longer than a unit test may; the longest tests come first."""
    for item in items:
        if item.get_closest_marker("e2e") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
    items.sort(key=lambda item: place_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of ``python -m tests.e2e``; other runs have xdist's own."""
    return OnePlaneEach(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Whatever a test stumbled over: where a part of the plane has died, that is the reason."""
    found = yield
    holder = item.config.stash.get(PLANES, None)
    crash = holder.crash() if found.failed and holder is not None else ""
    if crash:
        found.sections.append(("control plane", crash))
    return found


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
    pytestconfig: pytest.Config,
) -> Iterator[Planes]:
    """Control planes for this test process."""
    holder = Planes(existing_kubeconfig, OUTPUT / "logs" / worker_id, report)
    pytestconfig.stash[PLANES] = holder
    try:
        yield holder
    finally:
        holder.stop()


@pytest.fixture
def stage(planes: Planes) -> Iterator[Stage]:
    """Start a scenario on an empty plane: ``stage(title, story, **kueue_settings)``.

    Its time line is kept whether the test passes or not.
    """
    played: list[Scenario] = []
    with ExitStack() as recording:

        def start(title: str, story: str, **settings: Any) -> Scenario:
            cluster = planes.empty(SCENARIO_KUEUE, SCENARIO_JOBSET, **settings)
            played.append(recording.enter_context(play(cluster, title, story)))
            return played[-1]

        yield start
    for scenario in played:
        save(scenario.recorder.timeline, TIMELINES)
    if played:
        write_page()


@pytest.fixture(scope="module")
def plane(planes: Planes, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """The documents' fleet in the versions that it asks for, healthy, with its drivers."""
    compiled = example_cluster(CLUSTER)
    cluster = planes.fresh(compiled.kueue, compiled.jobset)
    return healthy_fleet(cluster, tmp_path_factory.mktemp("doctor"))


@pytest.fixture
def patient(plane: Patient) -> Iterator[Patient]:
    """The same, made healthy again after each test."""
    yield plane
    apply(plane.cluster, [m for m in fleet() if m["kind"] != "CheckpointConfiguration"])
    try:
        plane.cluster.wait(lambda: not faults(plane.findings()), 90, "a healthy plane")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {told(plane.findings())}") from None
