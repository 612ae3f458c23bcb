"""Text of unknown origin on its way to a terminal or a page."""

from __future__ import annotations


def visible(text: str) -> str:
    """Write what cannot be seen as an escape: a name or value must not move the cursor, set
    colours, or turn the direction of the text around it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
