"""The report for a terminal: grouped by file, the fix below each finding."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.output import Context, summary
from generator.checks.report import Report
from generator.findings import Finding, Severity
from generator.visible import visible

_COLORS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}


def _paint(text: str, code: str, on: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if on else text


def _lines(finding: Finding, color: bool) -> Iterator[str]:
    place = finding.manifest
    where = ":".join(str(part) for part in (place.line, place.column) if part) if place else ""
    head = _paint(str(finding.severity), _COLORS[finding.severity], color)
    subject = f" {visible(finding.resource)}:" if finding.resource else ""
    message = visible(finding.message)
    yield f"  {where + ' ' if where else ''}{head} {finding.rule}{subject} {message}\n"
    if finding.inventory:
        yield f"      made from {finding.inventory}\n"
    for place_text in finding.via:
        yield f"      via {place_text}\n"
    if finding.fix:
        yield f"      fix: {visible(finding.fix)}\n"


def _line(finding: Finding) -> tuple[int, int]:
    place = finding.manifest or finding.inventory
    return ((place.line or 0, place.column or 0)) if place else (0, 0)


def render(report: Report, context: Context) -> Iterator[str]:
    """Yield the report as text."""
    files: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        place = finding.manifest or finding.inventory
        files.setdefault((finding.cluster, place.file if place else ""), []).append(finding)
    for number, ((cluster, file), findings) in enumerate(sorted(files.items())):
        title = " · ".join(part for part in (file, cluster) if part) or "the whole tree"
        yield ("\n" if number else "") + _paint(visible(title), "1", context.color) + "\n"
        for finding in sorted(findings, key=_line):
            yield from _lines(finding, context.color)
    if report.waived:
        yield "\nwaived\n" if files else "waived\n"
        for item in report.waived:
            waiver = item.waiver
            text = f"{item.finding.resource}: {waiver.reason} ({waiver.owner}, "
            yield f"  {item.finding.rule} {visible(text)}until {waiver.expires})\n"
    yield ("\n" if files or report.waived else "") + summary(report) + "\n"
