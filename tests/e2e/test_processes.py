"""Starting, watching and stopping processes; building; all without a control plane."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .controlplane import build, processes, versions
from .controlplane.processes import Part, ProcessError, Processes, free_port, listens
from .fleets import example_clusters

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


def test_a_free_port_has_no_listener() -> None:
    assert not listens(free_port())


def test_without_go_the_build_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with pytest.raises(build.NoGoToolchainError, match=r"no Go toolchain.*etcd.*KUBECONFIG"):
        build.build([versions.etcd()], said.append)
    assert said == []


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
