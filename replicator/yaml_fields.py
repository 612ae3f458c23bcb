"""A flat YAML mapping from an untrusted file, as positions and text.

Reads only what `replicator.yaml` and `replicator.prerestore` can hold: one mapping of keys to
single values or lists of single values. Anchors, aliases, tags, nesting and second documents are
refused while the events stream by, so that no input costs more than its own length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from replicator.errors import Problem

MAX_BYTES: Final = 256 * 1024
"""Largest file that is read; a peer list for 10,000 nodes takes under 70 KiB."""
MAX_KEYS: Final = 64


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it stands in the file; line and column count from 1."""

    text: str
    plain: bool
    line: int
    column: int

    @property
    def is_null(self) -> bool:
        """Whether YAML reads this as null."""
        return self.plain and self.text in {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class Field:
    """A key with its single value, or with its list of values."""

    key: Scalar
    value: Scalar | tuple[Scalar, ...]

    @property
    def is_null(self) -> bool:
        """Whether the value is YAML's null."""
        return isinstance(self.value, Scalar) and self.value.is_null

    @property
    def where(self) -> Scalar:
        """What to point at in an error: the value if it is a single one, else the key."""
        return self.value if isinstance(self.value, Scalar) else self.key


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _NotReadableError(Exception):
    """Stops the walk over the events; the problem says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_fields(content: bytes, problems: list[Problem]) -> dict[str, Field]:
    """The file's keys in their order; what cannot be read is added to `problems`."""
    if len(content) > MAX_BYTES:
        problems.append(Problem(1, 1, f"larger than the limit of {MAX_BYTES} bytes"))
        return {}
    if not content.strip():
        problems.append(Problem(1, 1, "the file is empty; expected a mapping of keys to values"))
        return {}
    try:
        # libyaml wants text: for bytes it would also accept UTF-16.
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problems.append(Problem(before.count(b"\n") + 1, column, "not UTF-8 text"))
        return {}
    try:
        return _read_mapping(_EventWalk(text), problems)
    except _NotReadableError as stop:
        problems.append(stop.problem)
    except yaml.YAMLError as error:
        problems.append(problem_of(error))
    return {}


def problem_of(error: yaml.YAMLError) -> Problem:
    """What the YAML library says against a file, and where."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(1, 1, f"not valid YAML: {str(error).splitlines()[0]}")
    mark = error.problem_mark or error.context_mark
    what = error.problem or error.context or "cannot be read"
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return Problem(line, column, f"not valid YAML: {what}")


class _EventWalk:
    """The YAML events of a text, refusing at once whatever this file has no use for."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))

    def next(self) -> Any:
        event = next(self._events)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _NotReadableError(Problem(line, column, "anchors and aliases are not accepted"))
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise _NotReadableError(Problem(line, column, f"tag {show(tag)} is not accepted"))
        return event


def _scalar(event: Any) -> Scalar:
    mark = event.start_mark
    return Scalar(event.value, bool(event.implicit[0]), mark.line + 1, mark.column + 1)


def _unexpected(event: Any, wanted: str) -> _NotReadableError:
    found = {
        yaml.MappingStartEvent: "a mapping",
        yaml.SequenceStartEvent: "a list",
        yaml.ScalarEvent: "a single value",
        yaml.StreamEndEvent: "nothing",
    }.get(type(event), "something else")
    mark = event.start_mark
    return _NotReadableError(
        Problem(mark.line + 1, mark.column + 1, f"expected {wanted}, found {found}")
    )


def _read_mapping(walk: _EventWalk, problems: list[Problem]) -> dict[str, Field]:
    event = walk.next()
    while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
        event = walk.next()
    if not isinstance(event, yaml.MappingStartEvent):
        raise _unexpected(event, "a mapping of keys to values")
    fields: dict[str, Field] = {}
    count = 0
    while not isinstance(event := walk.next(), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            raise _unexpected(event, "a key")
        key = _scalar(event)
        count += 1
        if count > MAX_KEYS:
            raise _NotReadableError(
                Problem(key.line, key.column, f"more than {MAX_KEYS} keys; expected a dozen")
            )
        value = _read_value(walk, key)
        if key.text in fields:
            first = fields[key.text].key.line
            problems.append(
                Problem(
                    key.line, key.column, f"{show(key.text)} is set twice (first in line {first})"
                )
            )
            continue
        fields[key.text] = Field(key, value)
    walk.next()  # end of the document
    if not isinstance(event := walk.next(), yaml.StreamEndEvent):
        raise _NotReadableError(
            Problem(event.start_mark.line + 1, 1, "a second YAML document; expected just one")
        )
    return fields


def _read_value(walk: _EventWalk, key: Scalar) -> Scalar | tuple[Scalar, ...]:
    event = walk.next()
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    if not isinstance(event, yaml.SequenceStartEvent):
        raise _unexpected(event, f"a value or a list for {show(key.text)}")
    entries: list[Scalar] = []
    while not isinstance(event := walk.next(), yaml.SequenceEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            raise _unexpected(event, f"a single value in the list {show(key.text)}")
        entries.append(_scalar(event))
    return tuple(entries)


def show(text: str) -> str:
    """Text from the file for an error: printable and short."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
