"""Write the tables of the diff as a page, ``docs/impact.md``.

python -m generator.diff.reference > docs/impact.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from generator.diff import immutable
from generator.diff.conditions import CONDITIONS
from generator.diff.impact_rows.row import ANY
from generator.diff.impact_table import TABLE
from generator.diff.known_fields import REFUSED
from generator.diff.list_keys import BY_FIELD, BY_KIND, ListRule
from generator.diff.model import MEANING, Impact

_HEAD = """# What `stowplan diff` knows

Generated from the tables in `generator/diff/` by `make codegen`; a test holds it to them. Each row
names the document or the upstream file that says so.

## Impact classes

Gravest first. A change has the class of its gravest field, or of what happens to the resource as a
whole. A field or kind that no row covers is `unknown`: the diff says so instead of calling it fine.

"""


class _Line(NamedTuple):
    """What rows are gathered by, so that a page shows one line for several kinds."""

    impact: str
    what: str
    why: str
    source: str


def reference() -> str:
    """Return the page."""
    parts = [_HEAD, _table(("class", "meaning"), [(f"`{i}`", MEANING[i]) for i in Impact])]
    parts += [
        "\n## What each change does\n\nA field that comes and that no vendored release of its kind "
        f"knows is `blocked`: {REFUSED.rule} ({REFUSED.source}). Else the first row that fits "
        "counts.\n\n",
        _impacts(),
    ]
    parts += ["\n## Fields that cannot be changed in place\n\n", _immutable()]
    parts += [
        "\n## How list entries are told apart\n\nLists that are not named here are matched by "
        "`name` where every entry has one of its own, else aligned as text is.\n\n",
        _lists(),
    ]
    return "".join(parts)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _kind(group: str, kind: str) -> str:
    if group == ANY:
        return "any kind"
    name = "any kind" if kind == ANY else kind
    return f"{name} ({group})" if kind == ANY else name


def _impacts() -> str:
    gathered: dict[_Line, list[str]] = {}
    for row in TABLE:
        verbs = ", ".join(verb.value for verb in row.verbs)
        field = f"`{row.path}`" if row.path else "as a whole"
        what = field + (f" on {verbs}" if verbs else "") + _condition(row.when)
        line = _Line(row.impact.value, what, row.why, row.source)
        gathered.setdefault(line, []).append(_kind(row.group, row.kind))
    rows = [
        (", ".join(dict.fromkeys(kinds)), line.what, f"`{line.impact}`", line.why, line.source)
        for line, kinds in gathered.items()
    ]
    return _table(("kind", "field", "class", "because", "source"), rows)


def _condition(name: str) -> str:
    return f", if {CONDITIONS[name].words}" if name else ""


def _immutable() -> str:
    rows = [
        (row.kind, f"`{row.path}`{_condition(row.when)}", row.rule, row.remedy, row.source)
        for row in immutable.ROWS
    ]
    return _table(("kind", "field", "rule", "remedy", "source"), rows)


def _lists() -> str:
    def how(rule: ListRule) -> str:
        keys = " + ".join(f"`{key}`" for key in rule.keys) or rule.scalars
        return f"{keys}, in order" if rule.ordered else keys

    rows = [
        (kind, f"`{path}`", how(rule), rule.source) for (_, kind, path), rule in BY_KIND.items()
    ]
    rows += [("any kind", f"`{name}`", how(rule), rule.source) for name, rule in BY_FIELD.items()]
    return _table(("kind", "list", "matched by", "source"), rows)


if __name__ == "__main__":
    sys.stdout.write(reference())
