"""From files to a report: read, judge, locate, waive.

:func:`check_paths` is what ``stowplan check`` runs; every output format renders its
:class:`Report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from generator.checks.origin import origin
from generator.checks.policy import PolicyEngine
from generator.checks.reading import Group, read_file
from generator.checks.references.world import Pair
from generator.checks.rules import all_rules
from generator.checks.run import combine, judge, versions_of
from generator.checks.subject import Subject
from generator.checks.waivers import Waived, Waiver, apply_waivers, parse_waivers
from generator.findings import SEVERITY_RANK, Finding, Location, Severity
from generator.yaml_load import Document, YamlError, iter_nodes, locate
from schemas.versions import Versions


@dataclass(slots=True)
class Report:
    """What one run of the checks found.

    Attributes:
        findings: what stands, sorted.
        waived: what a waiver hides, and the waiver.
        files: how many files were read.
        objects: how many objects were judged.
        clusters: the names of the clusters among them.
        title: the command that made it.
        scope: what was judged, where that is not files; empty for files.
    """

    findings: list[Finding] = field(default_factory=list)
    waived: list[Waived] = field(default_factory=list)
    files: int = 0
    objects: int = 0
    clusters: list[str] = field(default_factory=list)
    title: str = "stowplan check"
    scope: str = ""

    def count(self, severity: Severity) -> int:
        """How many findings of a severity stand."""
        return sum(finding.severity is severity for finding in self.findings)

    def fails(self, fail_on: Severity) -> bool:
        """Whether a finding of this severity or a worse one stands."""
        limit = SEVERITY_RANK[fail_on]
        return any(SEVERITY_RANK[finding.severity] <= limit for finding in self.findings)


class Locator:
    """Looks up the lines of findings, composing each text once."""

    def __init__(self) -> None:
        self._file = ""
        self._text = ""
        self._nodes: list[Any] = []

    @staticmethod
    def _compose(document: Document) -> list[Any]:
        text = document.text
        if not text:
            # Judged in another process: the text stayed there, so the file is read once more.
            documents, _ = read_file(Path(document.file))
            text = documents[0].text if documents else ""
        try:
            return list(iter_nodes(text, document.file))
        except YamlError:
            return []

    def place(self, document: Document, path: tuple[str | int, ...]) -> Location:
        """The place of a path, or of its nearest parent that exists."""
        if document.file != self._file or (document.text and document.text is not self._text):
            self._file, self._text = document.file, document.text
            self._nodes = self._compose(document)
        if document.index >= len(self._nodes):
            return Location(document.file)
        key, value, depth = locate(self._nodes[document.index], path)
        node = (key if depth == len(path) else None) or key or value
        if node is None:
            return Location(document.file)
        return Location(document.file, node.start_mark.line + 1, node.start_mark.column + 1)


def locate_finding(subject: Subject, finding: Finding, locator: Locator) -> Finding:
    """Give a finding the line of the manifest that it is about, and the inventory's behind it."""
    if finding.manifest is not None:
        return finding
    if finding.inventory is None:
        finding = replace(finding, inventory=origin(subject))
    if subject.document is not None:
        place = locator.place(subject.document, (*subject.base, *finding.path))
        return replace(finding, manifest=place)
    return replace(finding, manifest=Location(subject.file)) if subject.file else finding


def located(pairs: Iterable[Pair]) -> list[Finding]:
    """Give each finding its line, a file at a time."""
    locator = Locator()
    ordered = sorted(pairs, key=lambda pair: pair[0].file)
    return [locate_finding(subject, finding, locator) for subject, finding in ordered]


def check_groups(
    groups: Sequence[Group],
    *,
    versions: Versions,
    engine: PolicyEngine | None,
    extra_waivers: Sequence[Waiver] = (),
    today: date,
) -> Report:
    """Judge every group and apply the waivers of its facts and the extra ones.

    Args:
        groups: what was read.
        versions: the schemas for files that state none.
        engine: the policy engine, None for no policies.
        extra_waivers: waivers that belong to no cluster.
        today: the day that decides which waivers have expired.
    """
    report = Report()
    found: list[Finding] = []
    waivers: list[Waiver] = list(extra_waivers)
    for group in groups:
        chosen, version_findings = versions_of(group.facts, versions)
        found += [
            replace(f, cluster=group.cluster, manifest=Location(group.facts_file))
            for f in version_findings
        ]
        found += [replace(finding, cluster=group.cluster) for finding in group.findings]
        judged = group.judged
        if judged is None:
            judged = judge(group.subjects, chosen, engine)
        found += located(combine(judged, facts=group.facts, cluster=group.cluster))
        own, faults = cluster_waivers(group)
        waivers += own
        found += faults
        report.files += group.files
        report.objects += len(group.subjects)
        if group.cluster:
            report.clusters.append(group.cluster)
    standing, report.waived = apply_waivers(found, waivers, today)
    report.findings = sorted(standing, key=lambda finding: finding.sort_key)
    return report


def cluster_waivers(group: Group) -> tuple[list[Waiver], list[Finding]]:
    """The waivers of a cluster's facts."""
    spec = (group.facts or {}).get("spec")
    entries = spec.get("waivers") if isinstance(spec, Mapping) else None
    if not entries and (entries is None or isinstance(entries, list)):
        return [], []  # without a look at the rules, which a clean fleet never needs
    where = Location(group.facts_file) if group.facts_file else None
    return parse_waivers(entries, all_rules(), cluster=group.cluster, where=where)
