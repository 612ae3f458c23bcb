"""The report as JSON, for programs. ``schemaVersion`` changes when a field changes its meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from generator.checks.output import Context
from generator.checks.report import Report
from generator.findings import Finding, Location, Severity

SCHEMA_VERSION = 1


def _place(place: Location | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"file": place.file, "line": place.line, "column": place.column}


def finding_value(finding: Finding) -> dict[str, Any]:
    """One finding as plain values."""
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "message": finding.message,
        "fix": finding.fix,
        "cluster": finding.cluster,
        "resource": finding.resource,
        "path": list(finding.path),
        "inventory": _place(finding.inventory),
        "manifest": _place(finding.manifest),
        "via": list(finding.via),
    }


def render(report: Report, context: Context) -> Iterator[str]:
    """Yield the report as one JSON document, a finding a line."""
    head = {
        "schemaVersion": SCHEMA_VERSION,
        "tool": {"name": "stowplan", "version": context.version},
        "files": report.files,
        "objects": report.objects,
        "clusters": report.clusters,
        "counts": {str(s): report.count(s) for s in Severity},
    }
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "findings": ['
    for number, finding in enumerate(report.findings):
        yield (",\n" if number else "\n") + json.dumps(finding_value(finding), ensure_ascii=False)
    yield '\n], "waived": ['
    for number, item in enumerate(report.waived):
        waiver = item.waiver
        value = finding_value(item.finding) | {
            "waiver": {
                "reason": waiver.reason,
                "owner": waiver.owner,
                "expires": waiver.expires.isoformat(),
            }
        }
        yield (",\n" if number else "\n") + json.dumps(value, ensure_ascii=False)
    yield "\n]}\n"
