"""How values and their changes are written, the same in every format for people."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from generator.diff.grouping import places, same_name_everywhere
from generator.diff.impact import order_by_impact
from generator.diff.model import (
    IMPACT_RANK,
    MISSING,
    PAST,
    SIGNS,
    Change,
    FieldChange,
    Group,
    Impact,
    Path,
    Report,
    Verb,
    show_path,
)
from generator.emit_yaml import dump
from generator.spelling import plural
from generator.visible import visible

MAX_VALUE = 120
"""Characters of a value on one line; the rest is cut with an ellipsis."""

CONTEXT = 2
"""Unchanged lines around a change inside a long text."""


def one_line(value: Any, limit: int = MAX_VALUE) -> str:
    """Write a value on one line: a plain scalar, or compact JSON."""
    if value is MISSING:
        return "(none)"
    if isinstance(value, str):
        bare = value and value.strip() == value and value.isprintable()
        text = value if bare else visible(json.dumps(value, ensure_ascii=False))
    elif isinstance(value, dict):
        parts = (f"{visible(str(key))}: {one_line(item, limit)}" for key, item in value.items())
        text = f"{{{', '.join(parts)}}}"
    else:
        text = visible(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def is_long_text(change: FieldChange) -> bool:
    """Whether a change is between texts of several lines, shown as a diff of their lines."""
    return any(isinstance(v, str) and v.count("\n") > 1 for v in (change.old, change.new))


def line_diff(old: Any, new: Any, context: int = CONTEXT) -> list[str]:
    """Return changed lines with ``-`` and ``+`` before them, unchanged ones around with a blank,
    and how many were left out."""
    before = [visible(line) for line in old.splitlines()] if isinstance(old, str) else []
    after = [visible(line) for line in new.splitlines()] if isinstance(new, str) else []
    out: list[str] = []
    place = 0
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) > 2000)
    for block in matcher.get_grouped_opcodes(context):
        first, last = block[0], block[-1]
        if first[1] > place:
            out.append(f"  … {first[1] - place} lines unchanged")
        for op, i1, i2, j1, j2 in block:
            if op == "equal":
                out += [f"  {line}" for line in before[i1:i2]]
            else:
                out += [f"- {line}" for line in before[i1:i2]]
                out += [f"+ {line}" for line in after[j1:j2]]
        place = last[2]
    if out and place < len(before):
        out.append(f"  … {len(before) - place} lines unchanged")
    return out


def body_text(body: Any) -> str:
    """Write an object as YAML, or a file's text as it is."""
    if body is MISSING:
        return ""
    if isinstance(body, str):
        return body
    try:
        return dump(body if isinstance(body, dict) else {"value": body})
    except (TypeError, ValueError):
        return json.dumps(body, indent=2, default=str, ensure_ascii=False) + "\n"


def short_path(path: Path) -> str:
    """Write a path without the levels that only nest pod templates."""
    text = show_path(path)
    for nest in (".template.spec.template.spec.", ".jobTemplate.spec.template.spec."):
        text = text.replace(nest, "…")
    return text


def change_title(change: Change) -> str:
    """Name a change: ``JobSet team-a/llama-r1 → llama-r2``; a move says from where to where."""
    now, was = change.resource, change.previous
    if was is None:
        if change.verb is Verb.MOVE:
            return f"{now.title} ({change.old_file} → {change.new_file})"
        return now.title
    if was.cluster != now.cluster:
        return f"{was.title} ({was.cluster}) → {now.full_name} ({now.cluster})"
    name = now.name if was.namespace == now.namespace else now.full_name
    return f"{was.title} → {name}"


def group_title(group: Group) -> str:
    """Name a group: its one member, or the kind and how many."""
    first = group.first
    if group.whole_cluster:
        what = "new cluster" if first.verb is Verb.ADD else "cluster gone"
        count = plural(len(group.changes), "resource")
        return f"{what} {first.resource.cluster}: {count}"
    if len(group.changes) == 1:
        return change_title(first)
    if same_name_everywhere(group):
        return change_title(first) if first.verb is Verb.MOVE else first.resource.title
    members = plural(len(group.changes), first.resource.kind)
    return members if len(group.clusters) > 1 else f"{members} of {group.clusters[0]}"


def members_by_impact(group: Group) -> list[str]:
    """Sum up the members of a cluster that came or went: class, then how many of which kind."""
    found: dict[Impact, Counter[str]] = {}
    for change in group.changes:
        found.setdefault(change.impact, Counter())[change.resource.kind] += 1
    return [
        f"{impact.value}: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}"
        for impact, kinds in sorted(found.items(), key=lambda item: IMPACT_RANK[item[0]])
    ]


def group_scope(group: Group) -> str:
    """Say how often a group's change occurs; empty for a single one."""
    count = len(group.changes)
    if count == 1 or group.whole_cluster:
        return ""
    same = "same fields, values vary" if group.varies else "same change"
    if group.first.verb in (Verb.ADD, Verb.DELETE):
        same = "same"
    clusters = len(group.clusters)
    if clusters == count:
        return f"{same} in {plural(clusters, 'cluster')}"
    return f"{same} in {plural(count, 'resource')} of {plural(clusters, 'cluster')}"


def place_lines(group: Group, limit: int) -> list[str]:
    """List a group's members: clusters alone where the name is one everywhere."""
    if same_name_everywhere(group):
        clusters = [cluster or "(top)" for cluster in group.clusters]
        rest = len(clusters) - limit
        shown = ", ".join(clusters[:limit])
        return [f"{shown} and {rest:,} more" if rest > 0 else shown]
    lines = []
    found = places(group)
    for cluster, members in found[:limit]:
        names = [member.full_name for member in members]
        rest = len(names) - limit
        shown = ", ".join(names[:limit]) + (f" and {rest:,} more" if rest > 0 else "")
        lines.append(f"{cluster or '(top)'}: {shown}")
    if len(found) > limit:
        lines.append(f"and {plural(len(found) - limit, 'more cluster')}")
    return lines


def totals(report: Report) -> str:
    """``1 added, 3 changed, 2 replaced``; empty when nothing changed."""
    return ", ".join(
        f"{report.verbs[verb]:,} {PAST[verb]}" for verb in Verb if report.verbs.get(verb)
    )


def signed_totals(report: Report) -> str:
    """``+ 1 added   ~ 3 changed   35 unchanged``."""
    parts = [
        f"{SIGNS[verb]} {report.verbs[verb]:,} {PAST[verb]}"
        for verb in Verb
        if report.verbs.get(verb)
    ]
    return "   ".join([*parts, f"{report.unchanged:,} unchanged"])


def impact_totals(report: Report) -> list[tuple[Impact, int]]:
    """Return the classes that occur, gravest first, with how many changes have them."""
    return [(impact, report.impacts[impact]) for impact in Impact if report.impacts.get(impact)]


def asides(report: Report) -> list[str]:
    """Return what was counted but not shown."""
    lines = []
    if report.respelled:
        files = plural(report.respelled, "object differs", "objects differ")
        lines.append(
            f"{files} only in comments, order, spelling of quantities or written-out nulls"
        )
    if report.documents:
        lines.append(f"{plural(report.documents, 'page')} for people changed (README and the like)")
    return lines


def shown_fields(change: Change) -> tuple[list[FieldChange], int]:
    """Return the fields to show, gravest first, and how many only carry a new name along."""
    fields = order_by_impact([field for field in change.fields if not field.follows])
    return fields, len(change.fields) - len(fields)


def remedies(fields: Iterable[FieldChange]) -> list[str]:
    """Return what to do instead of the changes that are blocked, each once."""
    found = dict.fromkeys(
        field.immutable.remedy
        for field in fields
        if field.immutable is not None and field.impact is Impact.BLOCKED
    )
    return list(found)


def stands_for_others(group: Group) -> bool:
    """Whether what is shown is one member's, under a title that is another's as well."""
    return len(group.changes) > 1 and group_title(group) != change_title(group.first)


def following_text(count: int) -> str:
    """Say how many fields only carry a resource's new name."""
    return f"and {plural(count, 'field')} with the new name in {'it' if count == 1 else 'them'}"
