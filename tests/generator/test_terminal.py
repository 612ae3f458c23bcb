"""The terminal: progress for long runs only, findings grouped."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from generator.cli import terminal
from generator.findings import Finding, Location, Severity


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_a_long_run_shows_how_far_it_is_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = to_a_terminal(monkeypatch)
    clock = iter([0.0, 0.5, 1.5, 1.55, 2.0])
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    progress = terminal.ProgressLine("compiling")
    for done in range(1, 5):
        progress(done, 4)
    assert screen.getvalue() == "\rcompiling 2/4\rcompiling 4/4"
    progress.clear()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_short_run_and_a_pipe_show_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = to_a_terminal(monkeypatch)
    progress = terminal.ProgressLine("compiling")
    progress(1, 2)
    progress.clear()
    assert screen.getvalue() == ""
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(terminal, "_PROGRESS_AFTER_S", 0.0)
    terminal.ProgressLine("compiling")(1, 2)
    assert pipe.getvalue() == ""


def test_findings_of_one_place_are_one_with_all_clusters_and_ways() -> None:
    place = Location("inventory/classes/a.yml", 3, 5)
    findings = [
        Finding("INV010", Severity.ERROR, "m", cluster=c, path=("x", c), inventory=place, via=(v,))
        for c, v in (("a", "one"), ("b", "two"), ("a", "two"))
    ]
    (group,) = terminal.grouped(findings)
    assert group.clusters == ["a", "b"]
    assert group.via == ["one", "two"]


def test_findings_without_a_place_stay_apart_by_their_path() -> None:
    findings = [Finding("X", Severity.NOTE, "m", path=(p,)) for p in "ab"]
    assert len(terminal.grouped(findings)) == 2
