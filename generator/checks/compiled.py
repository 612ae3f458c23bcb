"""The checks inside ``stowplan compile``: the same as ``stowplan check``, nothing parsed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from generator.checks.policy import engine_for
from generator.checks.rules import all_rules
from generator.checks.run import check_cluster, versions_of
from generator.checks.subject import Subject
from generator.checks.waivers import apply_waivers, parse_waivers
from generator.findings import Finding, Location, Severity
from generator.manifest import Manifest
from schemas.versions import Versions

Locate = Callable[[tuple[str, ...]], Location | None]


def check_manifests(
    facts: Mapping[str, Any],
    manifests: Sequence[Manifest],
    texts: Mapping[str, str],
    locate: Locate,
    today: date,
) -> list[Finding]:
    """Judge one cluster's manifests; notes are left to ``stowplan check``.

    Args:
        facts: the cluster's facts, as in ``cluster.yaml``.
        manifests: its objects.
        texts: the text of each, by its path.
        locate: finds where a section of the inventory was written; called for findings only.
        today: the day that decides which waivers have expired.
    """
    cluster = str(facts["metadata"]["name"])
    versions, findings = versions_of(facts, Versions.of())
    subjects = [
        Subject(
            body=manifest.body,
            file=f"compiled/{cluster}/{manifest.path}",
            text=texts[manifest.path],
        )
        for manifest in manifests
    ]
    sections = {
        id(subject): manifest.section for subject, manifest in zip(subjects, manifests, strict=True)
    }
    pairs = check_cluster(
        subjects, facts=facts, versions=versions, engine=engine_for(), cluster=cluster
    )
    findings += [
        replace(
            finding,
            inventory=finding.inventory or locate(sections[id(subject)]),
            manifest=Location(subject.file),
        )
        for subject, finding in pairs
        if finding.severity is not Severity.NOTE
    ]
    entries = facts["spec"]["waivers"]
    if not entries:
        return findings
    waivers, faults = parse_waivers(
        entries, all_rules(), cluster=cluster, where=locate(("waivers",))
    )
    standing, _ = apply_waivers(findings, waivers, today)
    return [*standing, *faults]
