"""Two objects beside each other, for the HTML page."""

from __future__ import annotations

import difflib
import html

from generator.diff.model import Change
from generator.diff.render.values import body_text
from generator.spelling import plural

CONTEXT = 3
"""Unchanged lines around a change."""
MAX_LINES = 2_000
"""Lines of one view; what is beyond is left out."""


def escaped(text: str) -> str:
    """Escape for text and for quoted attributes."""
    return html.escape(text, quote=True)


def side_by_side(change: Change) -> str:
    """Write both objects beside each other as YAML, unchanged stretches folded; one alone where
    there is only one."""
    old, new = body_text(change.old_body), body_text(change.new_body)
    if not old or not new:
        text = (old or new).splitlines()[:MAX_LINES]
        side = "new" if new else "old"
        body = "".join(f'<span class="l {side}">{escaped(line)}\n</span>' for line in text)
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
    before, after = (escaped(left), escaped(right)) if op == "equal" else _marked(left, right)
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
        return escaped(left), escaped(right)
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
        return (
            f"{escaped(text[:start])}<mark>{escaped(middle)}</mark>{escaped(tail)}"
            if middle
            else escaped(text)
        )

    return mark(left), mark(right)
