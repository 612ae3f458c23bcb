"""The report as JUnit XML: a suite a cluster, a case a finding; notes pass with their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import quoteattr

from generator.checks.output import Context
from generator.checks.report import Report
from generator.findings import Finding, Severity

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))


def _case(finding: Finding) -> str:
    name = f"{finding.rule} {finding.resource}".strip()
    place = finding.where
    where = f' file={_attribute(place.file)} line="{place.line or 1}"' if place else ""
    start = f"  <testcase name={_attribute(name)} classname={_attribute(finding.rule)}{where}>"
    text = f"{finding.message}. Fix: {finding.fix}" if finding.fix else finding.message
    if finding.severity is Severity.NOTE:
        return f"{start}<system-out>{_attribute(text)[1:-1]}</system-out></testcase>\n"
    kind = _attribute(str(finding.severity))
    return f"{start}<failure type={kind} message={_attribute(text)}/></testcase>\n"


def render(report: Report, context: Context) -> Iterator[str]:
    """Yield the report as JUnit XML."""
    failures = report.count(Severity.ERROR) + report.count(Severity.WARNING)
    tests = max(len(report.findings) + len(report.waived), 1)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="stowplan" tests="{tests}" failures="{failures}">\n'
    for cluster, group in groupby(report.findings, key=lambda finding: finding.cluster):
        findings = list(group)
        failed = sum(finding.severity is not Severity.NOTE for finding in findings)
        name = _attribute(cluster or "files")
        yield f' <testsuite name={name} tests="{len(findings)}" failures="{failed}">\n'
        for finding in findings:
            yield _case(finding)
        yield " </testsuite>\n"
    if report.waived:
        count = len(report.waived)
        yield f' <testsuite name="waived" tests="{count}" failures="0" skipped="{count}">\n'
        for item in report.waived:
            name = _attribute(f"{item.finding.rule} {item.finding.resource}")
            reason = _attribute(item.waiver.reason)
            yield f'  <testcase name={name} classname="waived"><skipped message={reason}/>'
            yield "</testcase>\n"
        yield " </testsuite>\n"
    if not report.findings and not report.waived:
        yield ' <testsuite name="stowplan" tests="1" failures="0">\n'
        yield '  <testcase name="no findings" classname="stowplan"/>\n </testsuite>\n'
    yield "</testsuites>\n"
