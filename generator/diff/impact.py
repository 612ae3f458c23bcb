"""Give every change its impact class from the tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generator.diff.conditions import CONDITIONS, Case
from generator.diff.immutable import immutable_rule
from generator.diff.impact_rows.row import ANY, Row
from generator.diff.impact_table import TABLE
from generator.diff.known_fields import REFUSED, is_refused
from generator.diff.model import IMPACT_RANK, MISSING, FieldChange, Impact, Verb, plain_path
from generator.diff.patterns import matches

_GRAVE = (Verb.REPLACE, Verb.MOVE)
_UNKNOWN_FIELD = "no rule covers this field"
_UNKNOWN_KIND = "no rule covers this kind"


def _rows_of() -> dict[tuple[str, str], list[Row]]:
    rows: dict[tuple[str, str], list[Row]] = {}
    for row in TABLE:
        rows.setdefault((row.group, row.kind), []).append(row)
    return rows


_ROWS = _rows_of()


def _candidates(group: str, kind: str) -> Iterable[Row]:
    """Rows of the kind, then of its group, then those for all."""
    for key in ((group, kind), (group, ANY), (ANY, ANY)):
        yield from _ROWS.get(key, ())


def whole_impact(group: str, kind: str, verb: Verb, case: Case) -> tuple[Impact, str, str]:
    """Return class, sentence and source for a resource that comes, goes or is recreated."""
    for row in _candidates(group, kind):
        if (
            not row.path
            and (not row.verbs or verb in row.verbs)
            and CONDITIONS[row.when].holds(case)
        ):
            return row.impact, row.why, row.source
    return Impact.UNKNOWN, _UNKNOWN_KIND, ""


def field_impact(group: str, kind: str, verb: Verb, case: Case, whole: Impact) -> FieldChange:
    """Return the field's change with its class.

    Args:
        group: the resource's API group.
        kind: the resource's kind.
        verb: what happens to the resource; under a recreation an immutable field is as grave as
            the recreation, not blocked.
        case: the change and what a condition may look at.
        whole: the class of the recreation.
    """
    change = case.change
    if change is None:
        raise ValueError("a field's class needs the field's change")
    path = plain_path(change.path)
    rule = immutable_rule(group, kind, case)
    comes = change.old is MISSING and change.new is not MISSING
    if comes and is_refused(case.new, path, change.new):
        return replace(
            change,
            impact=Impact.BLOCKED,
            why=REFUSED.rule,
            source=REFUSED.source,
            immutable=REFUSED,
        )
    if rule is not None and verb not in _GRAVE:
        return replace(
            change, impact=Impact.BLOCKED, why=rule.rule, source=rule.source, immutable=rule
        )
    for row in _candidates(group, kind):
        fits = row.path and (not row.verbs or verb in row.verbs) and matches(row.path, path)
        if fits and CONDITIONS[row.when].holds(case):
            impact, why, source = row.impact, row.why, row.source
            break
    else:
        if rule is not None:
            impact, why, source = whole, "", rule.source
        elif verb in _GRAVE and path[:1] != ("metadata",):
            impact, why, source = whole, "", ""
        else:
            impact, why, source = Impact.UNKNOWN, _UNKNOWN_FIELD, ""
    return replace(change, impact=impact, why=why, source=source, immutable=rule)


def order_by_impact(fields: list[FieldChange]) -> list[FieldChange]:
    """Sort gravest first, else as in the object."""
    return sorted(fields, key=lambda change: IMPACT_RANK[change.impact])
