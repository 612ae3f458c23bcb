"""The report as one self-contained page: no network, no outside file, works without scripts.

A content security policy allows exactly the page's own style and script, by hash, so that nothing
in a manifest could run even if it slipped through the escaping.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from generator.diff.grouping import value_variants
from generator.diff.model import (
    IMPACT_RANK,
    MEANING,
    MISSING,
    PAST,
    QUIET,
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
from generator.diff.render import values
from generator.diff.render.anchors import anchor
from generator.diff.render.numbers import numbers_apart, numbers_beside
from generator.diff.render.side_by_side import MAX_LINES, escaped, side_by_side
from generator.spelling import plural

CONTEXT = 3
"""Unchanged lines around a change in the side-by-side view."""
MAX_VALUE = 600
"""Characters of one value in the table of fields."""


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
    title = f"{values.totals(report) or 'no differences'} · stowplan diff"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{_header(report)}\n{_filters(report)}\n"
        f'<div class="page">\n{_tree(report, numbers)}\n<main id="changes">{empty}{cards}\n'
        '<p class="empty" id="nothing" hidden>No change fits the filters.</p></main>\n</div>\n'
        f"{_footer(report)}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _badge(impact: Impact) -> str:
    name = impact.value
    return f'<span class="badge i-{name}" title="{escaped(MEANING[impact])}">{name}</span>'


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
        f'<li class="i-{impact.value}">{escaped(text)}</li>' for impact, text in report.headlines
    )
    warnings = "".join(
        f"<li><code>{escaped(str(finding.where))}</code> {escaped(finding.message)}</li>"
        for finding in report.findings
    )
    base, head = escaped(report.base), escaped(report.head)
    return (
        f"<header>\n<h1>Rendered manifests</h1>\n"
        f'<p class="sides"><code>{base}</code> → <code>{head}</code></p>\n'
        f'<p class="counts">{counts}</p>\n'
        + (f'<ul class="headlines">{lines}</ul>\n' if lines else "")
        + (f'<ul class="warnings">{warnings}</ul>\n' if warnings else "")
        + "</header>"
    )


def _filters(report: Report) -> str:
    impacts = "".join(
        f'<label class="toggle"><input type="checkbox" data-impact="{impact.value}" checked>'
        f"{_badge(impact)}<span>{count:,}</span></label>"
        for impact, count in values.impact_totals(report)
    )
    kinds = sorted({change.resource.kind for change in report.changes})
    options = "".join(f'<option value="{escaped(kind)}">{escaped(kind)}</option>' for kind in kinds)
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
        f'<span class="name">{escaped(name or "(top)")}</span>'
        f'<span class="dot i-{(g := gravest([c.impact for c in found[name]])).value}" '
        f'title="{g.value}"></span><span class="n">{len(found[name]):,}</span></button></li>'
        for name in order
    )
    return (
        '<nav aria-label="Clusters"><details open id="clusters"><summary>'
        "changes by cluster</summary>"
        '<input id="cluster-find" type="search" placeholder="find a cluster" '
        'aria-label="find a cluster">'
        f"<ul>{items}</ul></details></nav>"
    )


def _card(group: Group, numbers: dict[str, int]) -> str:
    first = group.first
    clusters = " ".join(str(numbers[cluster]) for cluster in group.clusters)
    scope = values.group_scope(group) or (
        "" if group.whole_cluster else f"{first.resource.cluster or '(top)'}"
    )
    file = first.new_file or first.old_file
    title = escaped(values.group_title(group))
    others = "".join(f'<span id="{anchor(change)}"></span>' for change in group.changes[1:])
    parts = [
        f'<article class="card b-{group.impact.value}" id="{anchor(first)}" '
        f'data-impact="{group.impact.value}" data-kind="{escaped(first.resource.kind)}" '
        f'data-clusters="{clusters}">{others}',
        f'<h2><span class="sign v-{first.verb.value}" title="{PAST[first.verb]}">'
        f'{SIGNS[first.verb]}</span> <span class="title">{title}</span> '
        f'<a class="link" href="#{anchor(first)}" aria-label="link to this change">#</a>'
        f"{_badge(group.impact)}</h2>",
        f'<p class="scope">{escaped(scope)}'
        + (f" · <code>{escaped(file)}</code>" if not group.whole_cluster else "")
        + "</p>",
        _fields(group),
        _notes(group),
        _places(group),
    ]
    if group.whole_cluster:
        parts.append(_members(group))
    else:
        parts.append(side_by_side(first))
    return "\n".join(part for part in parts if part) + "\n</article>"


def _fields(group: Group) -> str:
    fields, following = values.shown_fields(group.first)
    rows = "".join(_field_row(group, field) for field in fields)
    if following:
        rows += f'<tr class="quiet"><td colspan="3">{values.following_text(following)}</td></tr>'
    if not rows:
        return ""
    return (
        '<table class="fields"><thead><tr><th>field</th><th>before</th><th>after</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _field_row(group: Group, field: FieldChange) -> str:
    notes = [escaped(text) for text in numbers_beside(group, field)]
    if field.immutable is not None and field.impact is not Impact.BLOCKED:
        notes.append(f"immutable: {escaped(field.immutable.rule)}")
    if field.impact is not group.impact:
        notes.insert(0, _badge(field.impact))
    note = f'<tr class="note"><td colspan="3">{" · ".join(notes)}</td></tr>' if notes else ""
    quiet = " class=quiet" if field.impact in QUIET and group.impact not in QUIET else ""
    name = values.short_path(field.path) or "text"
    path = f'<td><code title="{escaped(show_path(field.path))}">{escaped(name)}</code></td>'
    if values.is_long_text(field):
        return f'<tr{quiet}>{path}<td colspan="2">{_text_diff(field)}</td></tr>{note}'
    if variants := value_variants(group, field.path):
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
    old, new = field.sides
    label = '<span class="order">order</span> ' if field.op == "order" else ""
    return (
        f'<tr{quiet}>{path}<td data-label="before">{label}{_value(old, "old")}</td>'
        f'<td data-label="after">{label}{_value(new, "new")}</td></tr>{note}'
    )


def _value(value: object, side: str) -> str:
    if value is MISSING:
        return '<span class="none">none</span>'
    return f'<code class="{side}">{escaped(values.one_line(value, MAX_VALUE))}</code>'


def _text_diff(field: FieldChange) -> str:
    kinds = {"+": "new", "-": "old"}
    lines = "".join(
        f'<span class="l {kinds.get(line[0], "ctx")}">{escaped(line)}\n</span>'
        for line in values.line_diff(field.old, field.new, CONTEXT)[:MAX_LINES]
    )
    return f'<pre class="lines">{lines}</pre>'


def _notes(group: Group) -> str:
    first = group.first
    if group.whole_cluster:
        inside = "".join(f"<li>{escaped(line)}</li>" for line in values.members_by_impact(group))
        return f'<ul class="notes">{inside}</ul>'
    fields, _ = values.shown_fields(first)
    lines = [f"<li>{escaped(text)}</li>" for text in numbers_apart(group, fields)]
    whys = [why for why in first.why if why]
    lines += [f"<li>{_badge(group.impact)} {escaped(why)}</li>" for why in whys[:1]]
    lines += [f"<li>{escaped(why)}</li>" for why in whys[1:]]
    lines += [
        f'<li class="remedy">remedy: {escaped(text)}</li>' for text in values.remedies(fields)
    ]
    sources = dict.fromkeys(
        source
        for source in [first.source, *(f.source for f in fields if f.impact is group.impact)]
        if source
    )
    if sources:
        lines.append(f'<li class="source">source: {escaped("; ".join(sources))}</li>')
    return f'<ul class="notes">{"".join(lines)}</ul>' if lines else ""


def _places(group: Group) -> str:
    if len(group.changes) == 1 or group.whole_cluster:
        return ""
    lines = "".join(f"<li>{escaped(line)}</li>" for line in values.place_lines(group, 2_000))
    title, cluster = values.change_title(group.first), group.first.resource.cluster
    others = values.stands_for_others(group)
    shown = f"; shown: {escaped(title)} of {escaped(cluster)}" if others else ""
    return (
        f'<details class="places"><summary>{plural(len(group.changes), "place")}{shown}</summary>'
        f"<ul>{lines}</ul></details>"
    )


def _members(group: Group) -> str:
    items = "".join(
        f"<li>{_badge(change.impact)} {escaped(change.resource.title)} "
        f"<code>{escaped(change.new_file or change.old_file)}</code></li>"
        for change in group.changes
    )
    return (
        f'<details class="places"><summary>{plural(len(group.changes), "resource")}</summary>'
        f"<ul>{items}</ul></details>"
    )


def _footer(report: Report) -> str:
    legend = "".join(
        f"<dt>{_badge(impact)}</dt><dd>{escaped(MEANING[impact])}</dd>" for impact in Impact
    )
    notes = "".join(f"<li>{escaped(note)}</li>" for note in values.asides(report))
    return (
        f"<footer>{f'<ul>{notes}</ul>' if notes else ''}"
        f"<details><summary>what the classes mean</summary><dl>{legend}</dl></details></footer>"
    )
