"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Callable

from generator.diff.grouping import value_variants
from generator.diff.model import (
    IMPACT_RANK,
    MISSING,
    QUIET,
    SIGNS,
    Change,
    FieldChange,
    Group,
    Impact,
    Report,
    Verb,
    show_path,
)
from generator.diff.render import values
from generator.diff.render.numbers import numbers_apart, numbers_beside
from generator.spelling import plural

MAX_FIELDS = 40
"""Fields shown of one change."""
MAX_PLACES = 12
"""Places listed of one group."""
MAX_WIDTH = 110
"""Columns up to which a number stands on the line of its field."""
MAX_VARIANTS = 5
"""Pairs of values listed of one field."""

_RESET = "\x1b[0m"
_BOLD = "1"
_DIM = "2"
_COLOUR = {
    Impact.BLOCKED: "1;35",
    Impact.DATA_LOSS: "1;31",
    Impact.RAMDISK_LOSS: "1;31",
    Impact.RESTART: "33",
    Impact.UNKNOWN: "35",
    Impact.REQUEUE: "36",
    Impact.LIVE: "32",
    Impact.COSMETIC: _DIM,
    Impact.NONE: _DIM,
}
_SIGN_COLOUR = {
    Verb.ADD: "32",
    Verb.CHANGE: "33",
    Verb.REPLACE: "1;31",
    Verb.DELETE: "31",
    Verb.MOVE: "36",
}

Paint = Callable[[str, str], str]


def render_text(report: Report, *, colour: bool = False, unfold: bool = False) -> str:
    """Write the report.

    Args:
        report: what to write.
        colour: use ANSI colours.
        unfold: show cosmetic changes and facts in full instead of counting them.
    """

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}{_RESET}" if colour and text else text

    out = [f"{report.base} → {report.head}   {plural(report.clusters, 'cluster')}", ""]
    for finding in report.findings:
        out += [f"  {paint('warning', '33')} {finding.where}: {finding.message}"]
    if report.findings:
        out.append("")
    if not report.groups:
        out += [f"  no differences, {report.unchanged:,} resources"]
        return _finish(out, report, paint)
    out.append(f"  {values.signed_totals(report)}")
    counts = "   ".join(
        paint(f"{i.value} {n:,}", _COLOUR[i]) for i, n in values.impact_totals(report)
    )
    out += [f"  impact: {counts}", ""]
    for impact, sentence in report.headlines:
        out.append(f"  {paint('!', _COLOUR[impact])} {paint(sentence, _BOLD)}")
    if report.headlines:
        out.append("")
    folded: list[Group] = []
    place = ""
    for group in report.groups:
        if group.impact in QUIET and not unfold:
            folded.append(group)
            continue
        heading = _heading(group)
        if heading != place:
            out += ([""] if place else []) + [paint(heading, _BOLD)]
            place = heading
        out += _group(group, paint, unfold=unfold)
    if folded:
        out += ([""] if place else []) + _fold(folded, paint)
    return _finish(out, report, paint)


def _finish(out: list[str], report: Report, paint: Paint) -> str:
    notes = values.asides(report)
    if notes:
        out += ["", *(paint(f"  {note}", _DIM) for note in notes)]
    if report.groups:
        out += ["", f"  {values.signed_totals(report)}"]
    return "\n".join(out).rstrip("\n") + "\n"


def _heading(group: Group) -> str:
    clusters = group.clusters
    scope = values.group_scope(group)
    if len(clusters) == 1:
        return clusters[0] or "(top of the tree)"
    shown = ", ".join(clusters[:3]) + (
        f" and {len(clusters) - 3:,} more" if len(clusters) > 3 else ""
    )
    return f"{shown}   {scope}"


def _group(group: Group, paint: Paint, *, unfold: bool) -> list[str]:
    first = group.first
    sign = paint(SIGNS[first.verb], _SIGN_COLOUR[first.verb])
    badge = paint(group.impact.value, _COLOUR[group.impact])
    title = values.group_title(group)
    pad = " " * max(2, 74 - len(title))
    out = [f"  {sign} {title}{pad}{badge}"]
    if group.whole_cluster:
        return out + [f"      {line}" for line in values.members_by_impact(group)]
    if first.fields and values.stands_for_others(group):
        out.append(
            paint(f"      first: {values.change_title(first)} ({first.resource.cluster})", _DIM)
        )
    out += _fields(group, paint, unfold=unfold)
    shown, _ = values.shown_fields(first)
    out += [f"      {line}" for line in numbers_apart(group, shown)]
    out += [f"      {_label(group)}: {why}" for why in first.why[:3] if why]
    out += [f"      remedy: {remedy}" for remedy in values.remedies(shown)]
    if len(group.changes) > 1:
        lines = values.place_lines(group, MAX_PLACES)
        out += [
            paint(f"      {'in' if n == 0 else '  '} {line}", _DIM) for n, line in enumerate(lines)
        ]
    return out


def _label(group: Group) -> str:
    return {Impact.BLOCKED: "why", Impact.UNKNOWN: "note"}.get(group.impact, "effect")


def _fields(group: Group, paint: Paint, *, unfold: bool) -> list[str]:
    first = group.first
    fields, following = values.shown_fields(first)
    quiet = [f for f in fields if f.impact is Impact.COSMETIC]
    if len(quiet) < len(fields) and not unfold:
        fields = [f for f in fields if f.impact is not Impact.COSMETIC]
    else:
        quiet = []
    width = min(56, max((len(values.short_path(f.path)) for f in fields), default=0))
    out: list[str] = []
    for field in fields[:MAX_FIELDS]:
        out += _field(group, first, field, width, paint)
    if len(fields) > MAX_FIELDS:
        out.append(f"      … {len(fields) - MAX_FIELDS} more fields")
    if quiet:
        out.append(paint(f"      and {len(quiet)} cosmetic (labels, annotations)", _DIM))
    if following:
        out.append(paint(f"      {values.following_text(following)}", _DIM))
    return out


def _field(group: Group, change: Change, field: FieldChange, width: int, paint: Paint) -> list[str]:
    path = values.short_path(field.path)
    if values.is_long_text(field):
        lines = [f"      {path or 'text'}"]
        for line in values.line_diff(field.old, field.new):
            code = {"+": "32", "-": "31"}.get(line[0], _DIM)
            lines.append(paint(f"        {line}", code))
        return lines
    notes = numbers_beside(group, field)
    if field.immutable and field.impact is not Impact.BLOCKED:
        notes.append(f"immutable ({field.immutable.rule})")
    elif IMPACT_RANK[field.impact] > IMPACT_RANK[change.impact] and field.impact in (
        Impact.LIVE, Impact.REQUEUE, Impact.RESTART, Impact.UNKNOWN,
    ):  # fmt: skip
        notes.append(field.impact.value)
    if variants := value_variants(group, field.path):
        shown = [
            f"        {transition(old, new, field.op)}   in {count:,}"
            for old, new, count in variants[:MAX_VARIANTS]
        ]
        rest = len(variants) - MAX_VARIANTS
        more = [f"        … and {rest:,} other pairs of values"] if rest > 0 else []
        return [f"      {path:<{width}}", *shown, *more]
    old, new = field.sides
    line = f"      {path:<{width}}   {transition(old, new, field.op)}"
    if len(line) > MAX_WIDTH and field.op == "change":
        lines = [f"      {path}"]
        both = transition(old, new, field.op)
        if len(both) <= MAX_WIDTH // 2:
            lines.append(f"        {both}")
        else:
            lines.append(paint(f"        - {values.one_line(old)}", "31"))
            lines.append(paint(f"        + {values.one_line(new)}", "32"))
        return lines + [paint(f"        {note}", _DIM) for note in notes]
    room = MAX_WIDTH - len(line) - 3
    tail = notes.pop(0) if notes and len(notes[0]) <= room else ""
    lines = [f"{line}   {paint(tail, _DIM)}" if tail else line]
    return lines + [paint(f"        {note}", _DIM) for note in notes]


def transition(old: object, new: object, op: str) -> str:
    """``50Gi → 60Gi``, ``+ value``, ``- value``, or the new order."""
    if op == "order":
        return f"order: {values.one_line(old)} → {values.one_line(new)}"
    if old is MISSING:
        return f"+ {values.one_line(new)}"
    if new is MISSING:
        return f"- {values.one_line(old)}"
    return f"{values.one_line(old)} → {values.one_line(new)}"


def _fold(groups: list[Group], paint: Paint) -> list[str]:
    """Count what is folded, a line per group."""
    out = [paint("folded (open with --all)", _BOLD)]
    for group in groups[:20]:
        first = group.first
        names = sorted({show_path(field.path) for field in first.fields if not field.follows})
        what = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        scope = values.group_scope(group) or group.clusters[0]
        title = f"{SIGNS[first.verb]} {values.group_title(group)}"
        line = f"  {title}   {what}   {scope}   {group.impact.value}"
        out.append(paint(line, _DIM))
    if len(groups) > 20:
        out.append(paint(f"  … and {len(groups) - 20:,} more", _DIM))
    return out
