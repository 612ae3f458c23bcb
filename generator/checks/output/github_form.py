"""The report as GitHub workflow commands, shown as annotations in a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.output import Context, summary
from generator.checks.report import Report
from generator.findings import Severity
from generator.visible import visible

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def _data(text: str) -> str:
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render(report: Report, context: Context) -> Iterator[str]:
    """Yield one workflow command a finding, then the summary."""
    for finding in report.findings:
        place = finding.where
        properties = []
        if place is not None:
            properties.append(f"file={_property(place.file)}")
            if place.line:
                properties.append(f"line={place.line}")
            if place.column:
                properties.append(f"col={place.column}")
        title = f"{finding.rule} {finding.resource}".strip()
        properties.append(f"title={_property(title)}")
        text = f"{finding.message}. Fix: {finding.fix}" if finding.fix else finding.message
        yield f"::{_COMMANDS[finding.severity]} {','.join(properties)}::{_data(text)}\n"
    yield summary(report) + "\n"
