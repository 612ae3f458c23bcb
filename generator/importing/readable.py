"""Refuse objects whose values have no meaning: wrong types, missing fields, an entry twice.

Everything else that a schema or a policy has to say is left to compile, which says it of the
result; here it is only made sure that an object can be read at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from generator.checks.schema import check_object
from generator.findings import Severity
from generator.importing.sources import Log, Source
from schemas.versions import KUEUE_VERSIONS, UnknownVersionError, Versions

UNREADABLE = frozenset({"SCH003", "SCH004", "SCH006", "SCH007"})
"""Rules (types, required fields, quantities, keyed lists) without which nothing can be imported."""

_KUEUE = "kueue.x-k8s.io"


def versions_of(kueue: Any, jobset: Any, kubernetes: Any) -> Versions:
    """The schemas to read by: of the given versions, or the newest where one is not known."""
    try:
        return Versions.of(str(kueue or ""), str(jobset or ""), str(kubernetes or ""))
    except UnknownVersionError:
        return Versions.of()


def readable(source: Source, versions: Versions, log: Log) -> bool:
    """Whether an object can be read; if not, the log says what is wrong with it."""
    body = source.body
    if source.group == _KUEUE:
        # Corrections have moved it to the fields of the newest version.
        body = {**body, "apiVersion": KUEUE_VERSIONS[-1].api_version}
    findings, _ = check_object(body, versions)
    bad = [f for f in findings if f.rule in UNREADABLE and f.severity is Severity.ERROR]
    for finding in bad:
        log.findings.append(
            replace(
                finding,
                message=f"{source.resource}: {finding.message}",
                resource=source.resource,
                manifest=log.places.find(source.subject, finding.path),
            )
        )
    return not bad
