"""The target file as a person would have written it: block style, with where things came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.emit_yaml import dump, dump_list, scalar

SECTION_WORDS: dict[str, str] = {
    "nodePools": "What the nodes are; quotas and checks are measured against it.",
    "checkpointing": "RAM disks, backups and their retention.",
    "priorities": "One list for pods (who is evicted) and queues (who is admitted first).",
    "queueing": "Kueue.",
    "workloads": "Training jobs.",
    "waivers": "Findings that are accepted for a while.",
}
_NESTED = frozenset({"queueing"})
"""Sections whose entries lie one level deeper."""


def escaped(value: Any) -> Any:
    """Values in which reclass sees no reference: ``${`` is written with a backslash."""
    if isinstance(value, str):
        return value.replace("${", "\\${").replace("$[", "\\$[")
    if isinstance(value, Mapping):
        return {escaped(key): escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(item) for item in value]
    return value


def target_text(
    parameters: dict[str, Any],
    origins: Mapping[tuple[str, ...], list[str]],
    head: list[str],
    classes: tuple[str, ...] = (),
) -> str:
    """The file's text.

    Args:
        parameters: the target's parameters.
        origins: inventory entry → the objects and places that it came from.
        head: comment lines at the top.
        classes: classes that the target names.
    """
    lines = [f"# {line}" for line in head]
    if classes:
        lines += ["classes:", *(f"  - {scalar(name)}" for name in classes)]
    lines.append("parameters:")
    for section, value in parameters.items():
        if section in SECTION_WORDS:
            lines.append(f"  # {SECTION_WORDS[section]}")
        lines += _section(section, escaped(value), origins)
    return "\n".join(lines) + "\n"


def _section(
    section: str, value: Any, origins: Mapping[tuple[str, ...], list[str]]
) -> Iterator[str]:
    yield f"  {section}:"
    if isinstance(value, list):
        text = dump(value[0]) if not value else dump_list(value)
        yield from _indented(text, 4)
    elif section in _NESTED:
        for part, inner in value.items():
            yield f"    {part}:"
            yield from _entries((section, part), inner, origins, 6)
    elif section in SECTION_WORDS:
        yield from _entries((section,), value, origins, 4)
    else:
        yield from _indented(dump(value), 4)


def _entries(
    path: tuple[str, ...],
    value: dict[str, Any],
    origins: Mapping[tuple[str, ...], list[str]],
    indent: int,
) -> Iterator[str]:
    for name, entry in value.items():
        for origin in origins.get((*path, name), ()):
            yield f"{' ' * indent}# {origin}"
        yield from _indented(dump({name: entry}), indent)


def _indented(text: str, indent: int) -> Iterator[str]:
    for line in text.splitlines():
        yield f"{' ' * indent}{line}" if line else ""
