"""The report as SARIF 2.1.0, which code scanning reads.

Source: OASIS SARIF 2.1.0; GitHub documentation, "SARIF support for code scanning".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from generator.checks.output import Context
from generator.checks.report import Report
from generator.checks.rules import all_rules
from generator.findings import Finding, Location, Severity, path_text

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _uri(file: str) -> str:
    """A file's path as a relative reference; ``<stdin>`` and odd characters are escaped."""
    return quote(PurePosixPath(file.replace("\\", "/")).as_posix().removeprefix("./"))


def _result(finding: Finding, rule_index: dict[str, int]) -> dict[str, Any]:
    text = finding.message + (f". Fix: {finding.fix}" if finding.fix else "")
    identity = "|".join(
        (finding.cluster, finding.resource, finding.rule, path_text(finding.path), finding.message)
    )
    out: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index[finding.rule],
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        # Stays the same when lines move, so that an alert is not opened again.
        "partialFingerprints": {"stowplan/v1": hashlib.sha256(identity.encode()).hexdigest()},
    }
    if finding.where is not None:
        out["locations"] = [_location(finding.where)]
    if finding.inventory is not None and finding.manifest is not None:
        out["relatedLocations"] = [_location(finding.manifest)]
    return out


def _location(place: Location) -> dict[str, Any]:
    region = {"startLine": place.line or 1}
    if place.column:
        region["startColumn"] = place.column
    artifact = {"uri": _uri(place.file)}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def render(report: Report, context: Context) -> Iterator[str]:
    """Yield the report as one SARIF log."""
    findings = [*report.findings, *(item.finding for item in report.waived)]
    used = sorted({finding.rule for finding in findings})
    known = all_rules()
    rules = [
        {
            "id": name,
            "shortDescription": {"text": known[name].title},
            "fullDescription": {"text": known[name].why},
            "help": {"text": f"{known[name].fix} Reference: {known[name].reference}"},
            "defaultConfiguration": {"level": _LEVELS[known[name].severity]},
        }
        for name in used
    ]
    driver = {"name": "stowplan", "version": context.version, "rules": rules}
    index = {name: number for number, name in enumerate(used)}
    yield (
        f'{{"$schema": "{_SCHEMA}", "version": "2.1.0", "runs": [{{"tool": '
        f'{json.dumps({"driver": driver})}, "columnKind": "unicodeCodePoints", "results": ['
    )
    separator = "\n"
    for finding in report.findings:
        yield separator + json.dumps(_result(finding, index))
        separator = ",\n"
    for item in report.waived:
        result = _result(item.finding, index)
        waiver = item.waiver
        result["suppressions"] = [
            {
                "kind": "external",
                "justification": f"{waiver.reason} ({waiver.owner}, until {waiver.expires})",
            }
        ]
        yield separator + json.dumps(result)
        separator = ",\n"
    yield "\n]}]}\n"
