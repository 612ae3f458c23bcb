"""Say once what is true of many objects: a dump of a cluster has hundreds of them."""

from __future__ import annotations

import re
from dataclasses import replace

from generator.findings import Finding, Severity
from generator.spelling import plural

FOLD_FROM = 4
"""So many notes of one text are shown as one."""

_NEW_NAME = re.compile(r"compile calls it \S+, so")


def folded(findings: list[Finding]) -> list[Finding]:
    """The findings with equal notes on several objects as one, at the first one's place.

    Warnings and errors are never folded: each is a place to mend.
    """
    groups: dict[tuple[str, str, str], list[int]] = {}
    for position, finding in enumerate(findings):
        if finding.severity is Severity.NOTE and finding.resource:
            groups.setdefault((finding.rule, _text(finding), finding.fix), []).append(position)
    shown = list(findings)
    hidden: set[int] = set()
    for positions in groups.values():
        if len(positions) < FOLD_FROM:
            continue
        first, *rest = positions
        message = f"{findings[first].message} (and the same of {plural(len(rest), 'more object')})"
        shown[first] = replace(findings[first], message=message)
        hidden.update(rest)
    return [finding for position, finding in enumerate(shown) if position not in hidden]


def _text(finding: Finding) -> str:
    """What is said, without the object of which it is said."""
    text = finding.message.removeprefix(f"{finding.resource}: ")
    return _NEW_NAME.sub("compile calls it otherwise, so", text)
