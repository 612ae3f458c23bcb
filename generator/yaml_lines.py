"""What the lines of a YAML text show without a parser: literal blocks, and a template's actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"(?:[:-]|^) *[|>][-+0-9]*\s*(?:#.*)?$")
_ACTION = re.compile(
    r"""^[ \t]*(?:-\ +)*
        (?:(?:"[^"]*"|'[^']*'|[^\s'"\#][^'"\#]*):\ +)?
        (?:\[\ *)?
        (?P<action>\{[{%].*)$""",
    re.X,
)
"""An action in a key's place, as a list's entry or as a value; not one in the midst of a text."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class TemplateAction:
    """What a template engine puts something in place of: ``{{ .Values.name }}``, ``{% if … %}``.

    Attributes:
        text: the action, cut where it is long.
        line: its line, from 1.
        column: its column, from 1.
    """

    text: str
    line: int
    column: int


def lines_outside_blocks(text: str) -> Iterator[tuple[int, str]]:
    """The lines, with their numbers from 1, that are no part of a literal block."""
    block: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        if block is not None and (not line.strip() or indent > block):
            continue
        block = indent if _BLOCK.search(line) else None
        yield number, line


def first_action(text: str) -> TemplateAction | None:
    """The first action where YAML has a value or a line of its own, None if there is none.

    Helm, Go and Jinja templates hold such actions, and YAML that loads does not: unquoted, two
    braces are a mapping as a mapping's key, and a brace and a percent sign are nothing at all.
    """
    if "{{" not in text and "{%" not in text:
        return None
    for number, line in lines_outside_blocks(text):
        match = _ACTION.match(line)
        if match:
            shown = match["action"].strip()[:_SHOWN]
            return TemplateAction(shown, number, match.start("action") + 1)
    return None
