"""Starting, watching and stopping processes; building; all without a control plane."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from .__main__ import everything
from .__main__ import main as e2e
from .controlplane import build, processes, versions
from .controlplane.client import Client
from .controlplane.plane import KUBECONFIG_VARIABLE, Cluster, Kubectl
from .controlplane.processes import Part, ProcessError, Processes, free_port, listens
from .fleets import ROOT, example_clusters
from .planes import Planes

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print('up', flush=True); time.sleep(60)"
)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Processes]:
    group = Processes(tmp_path)
    yield group
    group.stop()


def part(name: str, code: str, ready: Callable[[], bool] = lambda: True) -> Part:
    return Part(name, [sys.executable, "-c", code], ready, dict(os.environ))


def test_a_crash_is_reported_with_the_end_of_the_log(running: Processes) -> None:
    running.start(part("scheduler", "print('no such file: stages.yaml'); raise SystemExit(3)"))
    with pytest.raises(ProcessError, match=r"(?s)scheduler exited with status 3.*stages\.yaml"):
        eventually_raises(running.check)


def test_a_part_that_dies_before_it_is_ready_ends_the_start(running: Processes) -> None:
    with pytest.raises(ProcessError, match=r"(?s)webhook exited with status 1.*port in use"):
        running.start(part("webhook", "raise SystemExit('port in use')", ready=lambda: False))


def test_a_part_that_never_gets_ready_is_given_up(
    running: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "READY_DEADLINE_S", 0.5)
    with pytest.raises(ProcessError, match="slow was not ready after"):
        running.start(part("slow", "import time; time.sleep(60)", ready=lambda: False))


def test_stop_kills_what_ignores_it(
    running: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_DEADLINE_S", 0.3)
    running.start(
        part("stubborn", STUBBORN, ready=lambda: "up" in (tmp_path / "stubborn.log").read_text())
    )
    (pid,) = running.pids()
    running.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_failed_test_is_told_which_part_of_its_plane_died(
    running: Processes, tmp_path: Path
) -> None:
    planes = Planes(None, tmp_path, print)
    assert planes.crash() == ""
    cluster = Cluster(no_client(), Kubectl(tmp_path, tmp_path, tmp_path), "", "", True, running)
    assert planes.enter(nullcontext(cluster)) is cluster
    running.start(part("kueue", "import time; time.sleep(60)"))
    assert planes.crash() == ""
    running.kill("kueue")
    assert planes.crash().startswith("kueue exited with status -9; end of its log:")
    planes.stop()
    assert planes.crash() == ""


def no_client() -> Client:
    """A client of nobody, for what makes no request."""
    return Client.over_socket(Path("/nonexistent"))


def test_a_free_port_has_no_listener() -> None:
    assert not listens(free_port())


def test_no_port_is_given_twice_before_anybody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    few = processes.PORTS[-20:]
    monkeypatch.setattr(processes, "PORTS", few)
    drawn = [free_port() for _ in range(5)]
    assert len(set(drawn)) == len(drawn)
    monkeypatch.setattr(processes, "PORTS", range(drawn[0], drawn[0] + 1))
    with pytest.raises(ProcessError, match="no free port"):
        free_port()


def test_a_port_that_another_process_has_drawn_is_not_given(
    running: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys, time; from tests.e2e.controlplane.processes import free_port;"
        " print(free_port(), flush=True); time.sleep(60)"
    )
    running.start(
        Part(
            "other",
            [sys.executable, "-c", code],
            lambda: "\n" in (tmp_path / "other.log").read_text(),
            {**os.environ, "PYTHONPATH": str(ROOT)},
        )
    )
    port = int((tmp_path / "other.log").read_text())
    assert not listens(port)
    monkeypatch.setattr(processes, "PORTS", range(port, port + 1))
    with pytest.raises(ProcessError, match="no free port"):
        free_port()
    running.stop()
    assert free_port() == port


def test_without_go_the_build_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with pytest.raises(build.NoGoToolchainError, match=r"no Go toolchain.*etcd.*KUBECONFIG"):
        build.build([versions.etcd()], said.append)
    assert said == []


@pytest.mark.parametrize("cached", [False, True], ids=["nothing built", "all built"])
def test_make_e2e_without_go_says_so_and_stops(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cached: bool,
) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(KUBECONFIG_VARIABLE, raising=False)
    monkeypatch.setattr(pytest, "main", lambda arguments: pytest.fail("tests were begun"))
    for program in everything() if cached else ():
        binary = build.binary_path(program)
        binary.parent.mkdir(parents=True, exist_ok=True)
        binary.touch()
    assert e2e([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("make e2e: no Go toolchain: the command 'go' is not on PATH, and ")
    assert ("must be built from source" in said.err) is not cached
    assert said.err.endswith("STOWPLAN_E2E_KUBECONFIG.\n")


def test_the_forecast_names_what_is_built_and_for_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    said = build.forecast([versions.jobset("v0.12.0"), versions.kueue("v0.19.2")])
    assert "building 2 of 2 programs (jobset v0.12.0, kueue v0.19.2)" in said
    assert "about 4 minutes" in said


def test_a_cached_program_needs_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    binary = build.binary_path(versions.etcd())
    binary.parent.mkdir(parents=True)
    binary.touch()
    build.build([versions.etcd()], lambda line: None)


def test_binaries_are_keyed_by_version_and_by_what_was_changed_in_the_source() -> None:
    programs = [versions.kueue(version) for version in versions.KUEUE_VERSIONS]
    programs.append(versions.GoProgram("kueue", "sigs.k8s.io/kueue", "v0.19.2", "./cmd/kueue"))
    assert len({build.binary_path(program) for program in programs}) == len(programs)


def test_every_example_cluster_asks_for_versions_that_can_be_built() -> None:
    for cluster in example_clusters():
        assert cluster.kueue in versions.KUEUE_VERSIONS
        assert cluster.jobset in versions.JOBSET_VERSIONS


def eventually_raises(check: Callable[[], None]) -> None:
    """Call ``check`` until it raises, for at most five seconds."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        check()
        time.sleep(0.05)
