"""The report as one self-contained page: no network, no outside file, works without scripts.

A content security policy allows exactly the page's own style and script, by hash, so that nothing
in a manifest could run even if it slipped through the escaping.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import html
from importlib import resources

from generator.diff.grouping import value_variants
from generator.diff.model import (
    IMPACT_RANK,
    MEANING,
    MISSING,
    PAST,
    SIGNS,
    Change,
    FieldChange,
    Group,
    Impact,
    Report,
    Verb,
    gravest,
    show_path,
)
from generator.diff.render.anchors import anchor
from generator.diff.render.values import (
    asides,
    body_text,
    change_title,
    derived_apart,
    derived_for,
    following_text,
    group_scope,
    group_title,
    impact_totals,
    is_long_text,
    line_diff,
    one_line,
    place_lines,
    plural,
    shown_fields,
    totals,
)

CONTEXT = 3
"""Unchanged lines around a change in the side-by-side view."""
MAX_LINES = 2_000
"""Lines of one side-by-side view; the rest is counted."""
MAX_VALUE = 600
"""Characters of one value in the table of fields."""

_QUIET = (Impact.COSMETIC, Impact.NONE)


def render_html(report: Report) -> str:
    """Write the page."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    clusters = sorted({change.resource.cluster for change in report.changes})
    numbers = {cluster: number for number, cluster in enumerate(clusters)}
    cards = "\n".join(_card(group, numbers) for group in report.groups)
    empty = "" if report.groups else '<p class="empty">The two trees mean the same.</p>'
    title = f"{totals(report) or 'no differences'} · stowplan diff"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_e(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{_header(report)}\n{_filters(report)}\n"
        f'<div class="page">\n{_tree(report, numbers)}\n<main id="changes">{empty}{cards}\n'
        '<p class="empty" id="nothing" hidden>No change fits the filters.</p></main>\n</div>\n'
        f"{_footer(report)}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _e(text: str) -> str:
    """Escape for text and for quoted attributes."""
    return html.escape(text, quote=True)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _badge(impact: Impact) -> str:
    return (
        f'<span class="badge i-{impact.value}" title="{_e(MEANING[impact])}">{impact.value}</span>'
    )


def _header(report: Report) -> str:
    counts = "".join(
        f'<span class="count v-{verb.value}"><b>{SIGNS[verb]} {report.verbs[verb]:,}</b> '
        f"{PAST[verb]}</span>"
        for verb in Verb
        if report.verbs.get(verb)
    )
    counts += f'<span class="count"><b>{report.unchanged:,}</b> unchanged</span>'
    counts += f'<span class="count"><b>{report.clusters:,}</b> clusters</span>'
    lines = "".join(
        f'<li class="i-{impact.value}">{_e(text)}</li>' for impact, text in report.headlines
    )
    warnings = "".join(
        f"<li><code>{_e(str(finding.where))}</code> {_e(finding.message)}</li>"
        for finding in report.findings
    )
    return (
        f"<header>\n<h1>Rendered manifests</h1>\n"
        f'<p class="sides"><code>{_e(report.base)}</code> → <code>{_e(report.head)}</code></p>\n'
        f'<p class="counts">{counts}</p>\n'
        + (f'<ul class="headlines">{lines}</ul>\n' if lines else "")
        + (f'<ul class="warnings">{warnings}</ul>\n' if warnings else "")
        + "</header>"
    )


def _filters(report: Report) -> str:
    impacts = "".join(
        f'<label class="toggle"><input type="checkbox" data-impact="{impact.value}" checked>'
        f"{_badge(impact)}<span>{count:,}</span></label>"
        for impact, count in impact_totals(report)
    )
    kinds = sorted({change.resource.kind for change in report.changes})
    options = "".join(f'<option value="{_e(kind)}">{_e(kind)}</option>' for kind in kinds)
    return (
        '<form class="filters" id="filters" aria-label="Filters">'
        f'<span class="impacts">{impacts}</span>'
        '<label>kind <select id="kind"><option value="">all</option>'
        f"{options}</select></label>"
        '<label>find <input id="find" type="search" placeholder="name, field or value"></label>'
        '<button type="button" id="quiet">hide cosmetic</button>'
        '<button type="button" id="reset">reset</button>'
        '<output id="shown"></output></form>'
    )


def _tree(report: Report, numbers: dict[str, int]) -> str:
    """The clusters with the gravest class and the number of changes of each."""
    found: dict[str, list[Change]] = {}
    for change in report.changes:
        found.setdefault(change.resource.cluster, []).append(change)
    order = sorted(
        found, key=lambda name: (IMPACT_RANK[gravest([c.impact for c in found[name]])], name)
    )
    items = "".join(
        f'<li><button type="button" data-cluster="{numbers[name]}">'
        f'<span class="name">{_e(name or "(top)")}</span>'
        f'<span class="dot i-{(g := gravest([c.impact for c in found[name]])).value}" '
        f'title="{g.value}"></span><span class="n">{len(found[name]):,}</span></button></li>'
        for name in order
    )
    return (
        '<nav aria-label="Clusters"><details open id="clusters"><summary>'
        f"{plural(len(order), 'cluster')} with changes</summary>"
        '<input id="cluster-find" type="search" placeholder="find a cluster" '
        'aria-label="find a cluster">'
        f"<ul>{items}</ul></details></nav>"
    )


def _card(group: Group, numbers: dict[str, int]) -> str:
    first = group.first
    clusters = " ".join(str(numbers[cluster]) for cluster in group.clusters)
    scope = group_scope(group) or (
        "" if group.whole_cluster else f"{first.resource.cluster or '(top)'}"
    )
    file = first.new_file or first.old_file
    others = "".join(f'<span id="{anchor(change)}"></span>' for change in group.changes[1:])
    parts = [
        f'<article class="card b-{group.impact.value}" id="{anchor(first)}" '
        f'data-impact="{group.impact.value}" data-kind="{_e(first.resource.kind)}" '
        f'data-clusters="{clusters}">{others}',
        f'<h2><span class="sign v-{first.verb.value}" title="{PAST[first.verb]}">'
        f"{SIGNS[first.verb]}</span> <span>{_e(group_title(group))}</span> "
        f'<a class="link" href="#{anchor(first)}" aria-label="link to this change">#</a>'
        f"{_badge(group.impact)}</h2>",
        f'<p class="scope">{_e(scope)}'
        + (f" · <code>{_e(file)}</code>" if not group.whole_cluster else "")
        + "</p>",
        _fields(group),
        _notes(group),
        _places(group),
    ]
    if group.whole_cluster:
        parts.append(_members(group))
    else:
        parts.append(_side_by_side(first))
    return "\n".join(part for part in parts if part) + "\n</article>"


def _fields(group: Group) -> str:
    fields, following = shown_fields(group.first)
    rows = "".join(_field_row(group, field) for field in fields)
    if following:
        rows += f'<tr class="quiet"><td colspan="3">{following_text(following)}</td></tr>'
    if not rows:
        return ""
    return (
        '<table class="fields"><thead><tr><th>field</th><th>before</th><th>after</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _field_row(group: Group, field: FieldChange) -> str:
    notes = [_e(text) for text in derived_for(group.first, field)]
    if field.immutable is not None and field.impact is not Impact.BLOCKED:
        notes.append(f"immutable: {_e(field.immutable.rule)}")
    if field.impact is not group.impact:
        notes.insert(0, _badge(field.impact))
    note = f'<tr class="note"><td colspan="3">{" · ".join(notes)}</td></tr>' if notes else ""
    quiet = " class=quiet" if field.impact in _QUIET and group.impact not in _QUIET else ""
    path = f"<td><code>{_e(show_path(field.path)) or 'text'}</code></td>"
    if is_long_text(field):
        return f'<tr{quiet}>{path}<td colspan="2">{_text_diff(field)}</td></tr>{note}'
    variants = value_variants(group, field.path) if group.varies else []
    if len(variants) > 1:
        pairs = "".join(
            f"<tr><td>{_value(old, 'old')}</td><td>{_value(new, 'new')}</td>"
            f"<td>×{count:,}</td></tr>"
            for old, new, count in variants[:50]
        )
        more = len(variants) - 50
        rest = f"<tr><td colspan=3>and {more:,} other pairs of values</td></tr>" if more > 0 else ""
        return (
            f'<tr{quiet}>{path}<td colspan="2"><table class="variants">{pairs}{rest}</table></td>'
            f"</tr>{note}"
        )
    label = '<span class="order">order</span> ' if field.op == "order" else ""
    return (
        f'<tr{quiet}>{path}<td data-label="before">{label}{_value(field.old, "old")}</td>'
        f'<td data-label="after">{label}{_value(field.new, "new")}</td></tr>{note}'
    )


def _value(value: object, side: str) -> str:
    if value is MISSING:
        return '<span class="none">none</span>'
    return f'<code class="{side}">{_e(one_line(value, MAX_VALUE))}</code>'


def _text_diff(field: FieldChange) -> str:
    kinds = {"+": "new", "-": "old"}
    lines = "".join(
        f'<span class="l {kinds.get(line[0], "ctx")}">{_e(line)}\n</span>'
        for line in line_diff(field.old, field.new, CONTEXT)[:MAX_LINES]
    )
    return f'<pre class="lines">{lines}</pre>'


def _notes(group: Group) -> str:
    first = group.first
    fields, _ = shown_fields(first)
    lines = [f"<li>{_e(text)}</li>" for text in derived_apart(group, fields)]
    lines += [f"<li>{_badge(group.impact)} {_e(why)}</li>" for why in first.why if why]
    remedies = dict.fromkeys(
        field.immutable.remedy
        for field in fields
        if field.immutable is not None and field.impact is Impact.BLOCKED
    )
    lines += [f'<li class="remedy">remedy: {_e(remedy)}</li>' for remedy in remedies]
    sources = dict.fromkeys(
        source
        for source in [first.source, *(f.source for f in fields if f.impact is group.impact)]
        if source
    )
    if sources:
        lines.append(f'<li class="source">source: {_e("; ".join(sources))}</li>')
    return f'<ul class="notes">{"".join(lines)}</ul>' if lines else ""


def _places(group: Group) -> str:
    if len(group.changes) == 1 or group.whole_cluster:
        return ""
    lines = "".join(f"<li>{_e(line)}</li>" for line in place_lines(group, 2_000))
    shown = (
        f"; shown: {_e(change_title(group.first))} of {_e(group.first.resource.cluster)}"
        if group_title(group) != change_title(group.first)
        else ""
    )
    return (
        f'<details class="places"><summary>{plural(len(group.changes), "place")}{shown}</summary>'
        f"<ul>{lines}</ul></details>"
    )


def _members(group: Group) -> str:
    items = "".join(
        f"<li>{_badge(change.impact)} {_e(change.resource.title)} "
        f"<code>{_e(change.new_file or change.old_file)}</code></li>"
        for change in group.changes
    )
    return (
        f'<details class="places"><summary>{plural(len(group.changes), "resource")}</summary>'
        f"<ul>{items}</ul></details>"
    )


def _side_by_side(change: Change) -> str:
    old, new = body_text(change.old_body), body_text(change.new_body)
    if not old or not new:
        text = (old or new).splitlines()[:MAX_LINES]
        side = "new" if new else "old"
        body = "".join(f'<span class="l {side}">{_e(line)}\n</span>' for line in text)
        return (
            f'<details class="yaml"><summary>object</summary><pre class="lines">{body}</pre>'
            "</details>"
        )
    rows = _rows(old.splitlines(), new.splitlines())
    if not rows:
        return ""
    return (
        '<details class="yaml"><summary>side by side</summary><div class="scroll">'
        '<table class="sbs"><colgroup><col class="no"><col><col class="no"><col></colgroup>'
        f"<tbody>{''.join(rows[:MAX_LINES])}</tbody></table></div></details>"
    )


def _rows(old: list[str], new: list[str]) -> list[str]:
    rows: list[str] = []
    place = 0
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 2000)
    for block in matcher.get_grouped_opcodes(CONTEXT):
        if block[0][1] > place:
            rows.append(_gap(block[0][1] - place))
        for op, i1, i2, j1, j2 in block:
            for k in range(max(i2 - i1, j2 - j1)):
                i = i1 + k if i1 + k < i2 else None
                j = j1 + k if j1 + k < j2 else None
                rows.append(_row(op, i, j, old, new))
        place = block[-1][2]
    if rows and place < len(old):
        rows.append(_gap(len(old) - place))
    return rows


def _gap(count: int) -> str:
    return f'<tr class="gap"><td colspan="4">{plural(count, "line")} unchanged</td></tr>'


def _row(op: str, i: int | None, j: int | None, old: list[str], new: list[str]) -> str:
    left, right = old[i] if i is not None else "", new[j] if j is not None else ""
    before, after = (_e(left), _e(right)) if op == "equal" else _marked(left, right)
    lines = (str(i + 1) if i is not None else "", str(j + 1) if j is not None else "")
    sides = ("", "") if op == "equal" else (
        " old" if i is not None else " void", " new" if j is not None else " void"
    )  # fmt: skip
    return (
        f'<tr><td class="no">{lines[0]}</td><td class="t{sides[0]}">{before}</td>'
        f'<td class="no">{lines[1]}</td><td class="t{sides[1]}">{after}</td></tr>'
    )


def _marked(left: str, right: str) -> tuple[str, str]:
    """Mark the part in which two lines differ, where both are there."""
    if not left or not right:
        return _e(left), _e(right)
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    shortest = min(len(left), len(right)) - start
    while end < shortest and left[len(left) - 1 - end] == right[len(right) - 1 - end]:
        end += 1

    def mark(text: str) -> str:
        middle = text[start : len(text) - end]
        tail = text[len(text) - end :]
        return f"{_e(text[:start])}<mark>{_e(middle)}</mark>{_e(tail)}" if middle else _e(text)

    return mark(left), mark(right)


def _footer(report: Report) -> str:
    legend = "".join(
        f"<dt>{_badge(impact)}</dt><dd>{_e(MEANING[impact])}</dd>" for impact in Impact
    )
    notes = "".join(f"<li>{_e(note)}</li>" for note in asides(report))
    return (
        f"<footer>{f'<ul>{notes}</ul>' if notes else ''}"
        f"<details><summary>what the classes mean</summary><dl>{legend}</dl></details></footer>"
    )
