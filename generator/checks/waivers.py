"""Waivers: findings that a team has decided to live with, for a while and on record.

A waiver names a rule, a resource glob, a reason, an owner and an expiry date. It is inventory
data (a cluster's ``waivers``) or a file given with ``--waivers``. What it hides is still listed in
every report; one that has expired, or that hides nothing, is itself an error, so that the list
stays true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from generator.findings import Finding, Location, Severity

FIELDS = ("rule", "resource", "reason", "owner", "expires")
NOT_WAIVABLE = ("INV", "SCH", "YML", "WVR")
"""Families that no waiver hides: the API server would refuse the object all the same."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """One decision to live with a finding.

    Attributes:
        rule: the rule's id.
        resource: a glob over ``Kind namespace/name`` or ``Kind name``.
        reason: why.
        owner: who answers for it.
        expires: the last day on which it holds.
        cluster: the cluster that it belongs to, empty for every cluster.
        where: where it was written.
    """

    rule: str
    resource: str
    reason: str
    owner: str
    expires: date
    cluster: str = ""
    where: Location | None = None

    def covers(self, finding: Finding) -> bool:
        """Whether it hides a finding."""
        return (
            finding.rule == self.rule
            and (not self.cluster or finding.cluster == self.cluster)
            and fnmatchcase(finding.resource, self.resource)
        )


@dataclass(frozen=True, slots=True)
class Waived:
    """A finding and the waiver that hides it."""

    finding: Finding
    waiver: Waiver


def parse_waivers(
    entries: Any, known_rules: Iterable[str], *, cluster: str = "", where: Location | None = None
) -> tuple[list[Waiver], list[Finding]]:
    """Read waivers; what is wrong with one becomes a finding and the waiver is left out."""
    if entries is None:
        return [], []
    if not isinstance(entries, list):
        return [], [_fault("waivers is no list", "write a list of waivers", cluster, where)]
    known = set(known_rules)
    waivers, findings = [], []
    for number, entry in enumerate(entries):
        problem, fix = _problem(entry, known)
        if problem:
            findings.append(_fault(f"waivers[{number}] {problem}", fix, cluster, where))
            continue
        expires = entry["expires"]
        waivers.append(
            Waiver(
                rule=entry["rule"],
                resource=entry["resource"],
                reason=entry["reason"],
                owner=entry["owner"],
                expires=expires if isinstance(expires, date) else date.fromisoformat(expires),
                cluster=cluster,
                where=where,
            )
        )
    return waivers, findings


def _problem(entry: Any, known: set[str]) -> tuple[str, str]:
    if not isinstance(entry, Mapping):
        return "is no mapping", f"write {', '.join(FIELDS)}"
    for field in FIELDS:
        value = entry.get(field)
        if not value or not isinstance(value, (str, date)):
            return f"has no {field}", f"a waiver needs {', '.join(FIELDS)}"
    extra = sorted(set(entry) - set(FIELDS))
    if extra:
        return f"has an unknown field {extra[0]!r}", f"a waiver has {', '.join(FIELDS)}"
    rule = str(entry["rule"])
    if rule not in known:
        near = get_close_matches(rule, known, 1, 0.5)
        return f"names the unknown rule {rule}", f"write {near[0]}" if near else "see docs/rules"
    if rule.startswith(NOT_WAIVABLE):
        return f"names {rule}, which cannot be waived: a cluster would refuse it", "mend it instead"
    if not isinstance(entry["expires"], date):
        try:
            date.fromisoformat(str(entry["expires"]))
        except ValueError:
            return f"expires {entry['expires']!r} is no date", "write it as 2027-03-31"
    return "", ""


def _fault(message: str, fix: str, cluster: str, where: Location | None) -> Finding:
    return Finding(
        "WVR001", Severity.ERROR, message, fix, cluster=cluster, inventory=where, path=("waivers",)
    )


def apply_waivers(
    findings: Iterable[Finding], waivers: list[Waiver], today: date
) -> tuple[list[Finding], list[Waived]]:
    """Split findings into those that stand and those that a waiver hides.

    Args:
        findings: everything found.
        waivers: everything waived.
        today: the day that decides what has expired.
    """
    standing: list[Finding] = []
    waived: list[Waived] = []
    used: set[int] = set()
    by_rule: dict[str, list[Waiver]] = {}
    for waiver in waivers:
        by_rule.setdefault(waiver.rule, []).append(waiver)
    for finding in findings:
        covering = [w for w in by_rule.get(finding.rule, ()) if w.covers(finding)]
        used.update(id(waiver) for waiver in covering)
        valid = [waiver for waiver in covering if waiver.expires >= today]
        if valid:
            waived.append(Waived(finding, valid[0]))
        else:
            standing.append(finding)
    for waiver in waivers:
        subject = f"the waiver of {waiver.rule} for {waiver.resource!r} ({waiver.owner})"
        if waiver.expires < today:
            standing.append(
                _of(waiver, "WVR002", f"{subject} expired on {waiver.expires}", "mend the finding")
            )
        elif id(waiver) not in used:
            standing.append(_of(waiver, "WVR003", f"{subject} hides nothing", "remove it"))
    return standing, waived


def _of(waiver: Waiver, rule: str, message: str, fix: str) -> Finding:
    return Finding(
        rule, Severity.ERROR, message, fix, cluster=waiver.cluster, inventory=waiver.where
    )
