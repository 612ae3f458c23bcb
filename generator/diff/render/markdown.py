"""The report as a comment on a pull or merge request.

The hosts cap a comment's length, so the text is written at the fullest level of detail that fits a
budget. A level leaves whole blocks out; nothing is ever cut inside a block.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from generator.diff.grouping import value_variants
from generator.diff.model import (
    IMPACT_RANK,
    MEANING,
    MISSING,
    SIGNS,
    FieldChange,
    Group,
    Impact,
    Report,
    show_path,
)
from generator.diff.render import values
from generator.diff.render.anchors import anchor
from generator.diff.render.numbers import numbers_apart, numbers_beside
from generator.diff.render.text import transition
from generator.spelling import plural

MARKER = "<!-- stowplan-diff:v1 -->"
"""First line of the comment; a later run finds its own comment by it."""

BUDGET = 60_000
"""Characters of a comment. GitHub allows 65,536, GitLab 1,000,000."""

MIN_BUDGET = 2_000
"""Below this not even the totals and the gravest sentences fit."""

BADGE = {
    Impact.BLOCKED: "⛔",
    Impact.DATA_LOSS: "🔴",
    Impact.RAMDISK_LOSS: "🔴",
    Impact.RESTART: "🟠",
    Impact.UNKNOWN: "❔",
    Impact.REQUEUE: "🟡",
    Impact.LIVE: "🟢",
    Impact.COSMETIC: "⚪",
    Impact.NONE: "⚪",
}
_ALARMING = (Impact.BLOCKED, Impact.DATA_LOSS, Impact.RAMDISK_LOSS, Impact.RESTART)
_MAX_SENTENCE = 600
_LONG_PAIR = 80


@dataclass(frozen=True, slots=True)
class Level:
    """How much is written.

    Attributes:
        fields: fields of a change.
        context: unchanged lines around a change in a text.
        places: clusters or names listed for a group.
        detailed: gravity down to which groups get a block of their own (see ``IMPACT_RANK``).
        rows: rows of the table.
        headlines: sentences on top.
        note: what was left out, empty for nothing.
        fill: write as many blocks as the budget has room for, gravest first.
    """

    fields: int
    context: int
    places: int
    detailed: int
    rows: int
    headlines: int
    note: str = ""
    fill: bool = False


_ALL = len(IMPACT_RANK)
LEVELS = (
    Level(200, 2, 100, _ALL, 1000, 20),
    Level(20, 0, 12, _ALL, 400, 20, "long lists are cut"),
    Level(
        12, 0, 6, IMPACT_RANK[Impact.RESTART] + 1, 200, 12,
        "only changes from restart upwards are shown in full",
    ),
    Level(12, 0, 6, _ALL, 120, 8, "only the gravest changes are shown in full", fill=True),
    Level(0, 0, 6, 0, 120, 8, "only the table is shown"),
    Level(0, 0, 3, 0, 25, 6, "only the 25 gravest rows are shown"),
    Level(0, 0, 0, 0, 0, 2, "only totals are shown"),
)  # fmt: skip


def render_markdown(report: Report, *, budget: int = BUDGET, report_url: str = "") -> str:
    """Write the comment at the fullest level that fits the budget.

    Args:
        report: what to write.
        budget: most characters, at least :data:`MIN_BUDGET`.
        report_url: address of the full HTML report; empty for none.
    """
    text = ""
    for level in LEVELS:
        text = _compose(report, level, report_url, budget)
        if len(text) <= budget:
            break
    return text


def _compose(report: Report, level: Level, report_url: str, budget: int) -> str:
    blocks = [MARKER, f"### Rendered manifests: {values.totals(report) or 'no differences'}"]
    blocks += _alerts(report, level)
    if report.groups:
        blocks.append(_counts(report))
        blocks += _table(report, level, report_url)
    details: Iterable[str] = (
        _details(group, level)
        for group in report.groups
        if IMPACT_RANK[group.impact] < level.detailed
    )
    after = [*_warnings(report), _footer(report, level, report_url)]
    if level.fill:
        room = budget - sum(len(block) + 2 for block in (*blocks, *after))
        details = _first_that_fit(details, room)
    blocks += details
    return "\n\n".join(block for block in (*blocks, *after) if block) + "\n"


def _first_that_fit(blocks: Iterable[str], room: int) -> list[str]:
    """Take blocks from the front as long as there is room for them."""
    taken = []
    for block in blocks:
        room -= len(block) + 2
        if room < 0:
            break
        taken.append(block)
    return taken


def escape(text: str) -> str:
    """Make text inert in Markdown: no mark-up, no link, no mention, no reference."""
    text = html.escape(" ".join(text.split()), quote=False)
    text = re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", text)
    return _inert(text)


def _inert(text: str) -> str:
    """Break what a host turns into mentions and links wherever it stands outside of code."""
    return text.replace("@", "@\u200b").replace("://", ":\u200b//")


def code(text: str, *, cell: bool = False) -> str:
    """Write a code span that holds any text on one line; in a table cell pipes are escaped."""
    text = " ".join(text.split()) or " "
    runs = [len(run) for run in re.findall(r"`+", text)]
    ticks = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    if cell:
        text = text.replace("\\|", "|").replace("|", "\\|")
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(lines: Iterable[str], language: str = "diff") -> str:
    """Write a fenced block whose fence is longer than any run of backticks inside."""
    body = "\n".join(line.replace("\r", "") for line in lines)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def _alerts(report: Report, level: Level) -> list[str]:
    """The sentences that must not be missed, as an alert where they are grave."""
    chosen = report.headlines[: level.headlines]
    grave = [_clip(text) for impact, text in chosen if impact in _ALARMING]
    others = [_clip(text) for impact, text in chosen if impact not in _ALARMING]
    blocks = []
    if grave:
        blocks.append("> [!CAUTION]\n" + "\n".join(f"> - {escape(text)}" for text in grave))
    if others:
        blocks.append("> [!NOTE]\n" + "\n".join(f"> - {escape(text)}" for text in others))
    return blocks


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_SENTENCE else text[: _MAX_SENTENCE - 1] + "…"


def _counts(report: Report) -> str:
    classes = " · ".join(
        f"{BADGE[impact]} {impact.value} {count:,}"
        for impact, count in values.impact_totals(report)
    )
    return f"{classes} · {report.unchanged:,} unchanged in {plural(report.clusters, 'cluster')}"


def _table(report: Report, level: Level, report_url: str) -> list[str]:
    if not level.rows:
        return []
    rows = ["| impact | where | resource | change |", "|---|---|---|---|"]
    for group in report.groups[: level.rows]:
        rows.append(f"| {' | '.join(_row(group, report_url))} |")
    rest = len(report.groups) - level.rows
    if rest > 0:
        rows.append(f"| … | | {plural(rest, 'further row')} | |")
    return ["\n".join(rows)]


def _row(group: Group, report_url: str) -> tuple[str, ...]:
    first = group.first
    clusters = group.clusters
    where = escape(clusters[0] or "(top)") if len(clusters) == 1 else f"{len(clusters):,} clusters"
    title = code(_short(values.group_title(group), 110), cell=True)
    if report_url:
        # The address is the pipeline's, the anchor is hex: neither can break out of the link.
        title = f"[{title}]({report_url.replace(')', '%29')}#{anchor(first)})"
    badge = f"{BADGE[group.impact]} {group.impact.value}"
    return badge, where, f"{SIGNS[first.verb]} {title}", _cell(group)


def _cell(group: Group) -> str:
    """The change in one table cell: two fields, then how many more."""
    fields, _ = values.shown_fields(group.first)
    if group.whole_cluster:
        return escape(_short(values.members_by_impact(group)[0], 110))
    if not fields:
        return escape(group.first.why[0]) if group.first.why else ""
    parts = [_cell_field(group, field) for field in fields[:2]]
    if len(fields) > 2:
        parts.append(f"+ {len(fields) - 2} more")
    return "<br>".join(parts)


def _cell_field(group: Group, field: FieldChange) -> str:
    name = show_path(field.path[-2:] if len(field.path) > 2 else field.path) or "text"
    if values.is_long_text(field):
        return f"{code(name, cell=True)} text changed"
    if variants := value_variants(group, field.path):
        return f"{code(name, cell=True)} {len(variants):,} different changes"
    change = code(_short(transition(*_ends(field), field.op), 90), cell=True)
    notes = numbers_beside(group, field)
    note = f" ({escape(_short(notes[0], 90))})" if notes and len(group.changes) == 1 else ""
    return f"{code(name, cell=True)} {change}{note}"


def _ends(field: FieldChange) -> tuple[Any, Any]:
    """Both sides; of two long texts with one beginning, from the word on in which they differ."""
    old, new = field.sides
    if not (isinstance(old, str) and isinstance(new, str)) or len(old) + len(new) <= _LONG_PAIR:
        return old, new
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    start = max(old.rfind(sign, 0, same) + 1 for sign in "/:=, ")
    return (f"…{old[start:]}", f"…{new[start:]}") if start else (old, new)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _details(group: Group, level: Level) -> str:
    first = group.first
    scope = values.group_scope(group) or group.clusters[0]
    summary = f"{BADGE[group.impact]} {SIGNS[first.verb]} {values.group_title(group)} — {scope}"
    body: list[str] = []
    lines = _field_lines(group, level)
    if lines:
        body.append(fence(lines))
    body.append("\n".join(f"- {line}" for line in _notes(group, level)))
    inner = "\n\n".join(part for part in body if part)
    return (
        f"<details><summary>{_inert(html.escape(summary, quote=False))}</summary>\n\n{inner}\n\n"
        "</details>"
    )


def _field_lines(group: Group, level: Level) -> list[str]:
    fields, following = values.shown_fields(group.first)
    lines: list[str] = []
    for field in fields[: level.fields]:
        lines += _one_field(group, field, level)
    if len(fields) > level.fields:
        lines.append(f"  … {plural(len(fields) - level.fields, 'more field')}")
    if following:
        lines.append(f"  … {values.following_text(following)}")
    return lines


def _one_field(group: Group, field: FieldChange, level: Level) -> list[str]:
    path = values.short_path(field.path)
    if values.is_long_text(field):
        return [f"  {path or 'text'}:"] + [
            f"{line[:1]}   {line[2:]}"
            for line in values.line_diff(field.old, field.new, level.context)
        ]
    if variants := value_variants(group, field.path):
        lines = [f"  {path}: {len(variants):,} different changes"]
        for old, new, count in variants[:5]:
            lines += [
                f"-   {values.one_line(old)}",
                f"+   {values.one_line(new)}    (in {count:,})",
            ]
        return lines
    old, new = field.sides
    if field.op == "order":
        return [
            f"- {path} (order): {values.one_line(old)}",
            f"+ {path} (order): {values.one_line(new)}",
        ]
    lines = [] if old is MISSING else [f"- {path}: {values.one_line(old, 400)}"]
    return lines + ([] if new is MISSING else [f"+ {path}: {values.one_line(new, 400)}"])


def _notes(group: Group, level: Level) -> list[str]:
    first = group.first
    if group.whole_cluster:
        return [escape(line) for line in values.members_by_impact(group)]
    fields, _ = values.shown_fields(first)
    notes = [escape(line) for field in fields for line in numbers_beside(group, field)]
    notes += [escape(line) for line in numbers_apart(group, fields)]
    whys = [escape(why) for why in first.why if why]
    notes += [f"**{group.impact.value}**: {why}" for why in whys[:1]] + whys[1:]
    notes += [f"remedy: {escape(remedy)}" for remedy in values.remedies(fields)]
    rules = dict.fromkeys(field.immutable.rule for field in fields if field.immutable)
    for rule in rules if group.impact is not Impact.BLOCKED else ():
        if escape(rule) not in " ".join(notes):
            notes.append(f"immutable ({escape(rule)}), so it is recreated")
    if len(group.changes) > 1:
        if values.stands_for_others(group):
            notes.append(
                f"shown: {code(values.change_title(first))} of {escape(first.resource.cluster)}"
            )
        notes += [f"in {escape(line)}" for line in values.place_lines(group, level.places)]
    return list(dict.fromkeys(notes))


def _warnings(report: Report) -> list[str]:
    if not report.findings:
        return []
    lines = [
        f"- {code(str(finding.where))} {escape(finding.message)}"
        for finding in report.findings[:10]
    ]
    rest = len(report.findings) - 10
    return ["**Warnings**\n\n" + "\n".join(lines + ([f"- and {rest:,} more"] if rest > 0 else []))]


def _footer(report: Report, level: Level, report_url: str) -> str:
    parts = [f"base {escape(report.base)}", f"head {escape(report.head)}", *values.asides(report)]
    if level.note:
        parts.append(f"shortened: {level.note}")
    if report_url:
        parts.append(f"[full report]({report_url.replace(')', '%29')})")
    elif level.note:
        parts.append("full report: stowplan diff -o diff.html")
    present = [impact for impact, _ in values.impact_totals(report)]
    legend = "; ".join(f"{impact.value}: {MEANING[impact]}" for impact in present[:5])
    return f"<sub>{' · '.join(parts)}{f'<br>{legend}' if legend else ''}</sub>"
