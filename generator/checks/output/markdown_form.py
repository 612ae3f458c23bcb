"""The report as Markdown, for a comment on a change: grouped, and within a comment's size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from generator.checks.output import Context, summary
from generator.checks.report import Report
from generator.findings import SEVERITY_RANK, Finding
from generator.visible import visible

MAX_CHARACTERS = 60_000
"""A GitHub comment holds 65,536 characters; the rest is left to the caller's own text."""

MAX_PLACES = 8


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|").replace("<", "&lt;")


def _row(findings: list[Finding]) -> str:
    first = findings[0]
    places = [
        f"`{visible(str(finding.where or finding.resource))}`" for finding in findings[:MAX_PLACES]
    ]
    if len(findings) > MAX_PLACES:
        places.append(f"and {len(findings) - MAX_PLACES} more")
    return (
        f"| {first.severity} | {first.rule} | {_cell(first.message)} | {_cell(first.fix)} "
        f"| {'<br>'.join(places)} |\n"
    )


def render(report: Report, context: Context) -> Iterator[str]:
    """Yield the report as Markdown; equal findings share a row."""
    yield f"### {report.title}\n\n{_cell(summary(report))}\n"
    groups: dict[tuple[int, str, str, str], list[Finding]] = defaultdict(list)
    for finding in report.findings:
        key = (SEVERITY_RANK[finding.severity], finding.rule, finding.message, finding.fix)
        groups[key].append(finding)
    size = 200
    if groups:
        yield "\n| severity | rule | finding | fix | where |\n|---|---|---|---|---|\n"
    for number, key in enumerate(sorted(groups)):
        row = _row(groups[key])
        size += len(row)
        if size > MAX_CHARACTERS:
            yield f"\n{len(groups) - number} more kinds of finding are left out here.\n"
            return
        yield row
    if report.waived:
        yield "\n| waived rule | resource | reason | owner | until |\n|---|---|---|---|---|\n"
        for item in report.waived:
            waiver = item.waiver
            row = (
                f"| {item.finding.rule} | {_cell(item.finding.resource)} | {_cell(waiver.reason)} "
                f"| {_cell(waiver.owner)} | {waiver.expires} |\n"
            )
            size += len(row)
            if size > MAX_CHARACTERS:
                yield "\nMore waived findings are left out here.\n"
                return
            yield row
