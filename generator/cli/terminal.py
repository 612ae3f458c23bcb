"""What a terminal shows: colour where it is wanted, findings as lines, progress where it is
long."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from generator.findings import Finding, Severity

_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}
_PROGRESS_AFTER_S = 1.0
_SHOWN_DETOURS = 3


def colour_wanted(stream: TextIO) -> bool:
    """Whether a stream shows colours: a terminal, and neither NO_COLOR nor TERM=dumb says no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def painted(text: str, code: str, wanted: bool) -> str:
    """A text in a colour, or as it is."""
    return f"\x1b[{code}m{text}\x1b[0m" if wanted else text


def finding_lines(finding: Finding, via: Sequence[str], colour: bool) -> list[str]:
    """A finding as ``file:line:col: severity RULE: message``, with its detours and fix below."""
    place = finding.where
    head = f"{place}: " if place else ""
    severity = painted(finding.severity.value, _COLOURS[finding.severity], colour)
    lines = [f"{head}{severity} {finding.rule}: {finding.message}"]
    lines += [f"    {note}" for note in via[:_SHOWN_DETOURS]]
    if len(via) > _SHOWN_DETOURS:
        lines.append(f"    … and {len(via) - _SHOWN_DETOURS} more ways")
    if finding.fix:
        lines.append(f"    fix: {finding.fix}")
    return lines


@dataclass
class Group:
    """Findings that say the same of the same place."""

    finding: Finding
    clusters: list[str]
    via: list[str]


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Findings that differ only in their cluster, path or detour, as one, in order."""
    groups: dict[Finding, Group] = {}
    for finding in findings:
        shared = replace(finding, cluster="", via=(), path=() if finding.where else finding.path)
        group = groups.setdefault(shared, Group(finding, [], []))
        if finding.cluster and finding.cluster not in group.clusters:
            group.clusters.append(finding.cluster)
        group.via += [note for note in finding.via if note not in group.via]
    return list(groups.values())


def print_findings(findings: Iterable[Finding], stream: TextIO | None = None) -> None:
    """Print findings; one that several clusters share is printed once."""
    out = stream or sys.stderr
    colour = colour_wanted(out)
    for group in grouped(findings):
        where = ""
        if group.clusters:
            more = len(group.clusters) - 1
            where = f"[{group.clusters[0]}{f' and {more} more' if more else ''}] "
        first, *rest = finding_lines(group.finding, group.via, colour)
        print(where + first, *rest, sep="\n", file=out)


class ProgressLine:
    """A line that counts clusters on a terminal, once a run is seen to be long; else nothing."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._shown = 0.0
        self._wanted = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, ten times a second at most."""
        now = time.monotonic()
        if not self._wanted or now - self._begun < _PROGRESS_AFTER_S or now - self._shown < 0.1:
            return
        self._shown = now
        print(f"\r{self._what} {done}/{total}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
