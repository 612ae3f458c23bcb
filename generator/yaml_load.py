"""Read YAML as Kubernetes tools read it: files, documents, places.

Every parser fault becomes a :class:`YamlError` with a place. What scalars mean is in
``generator/yaml_go.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generator.findings import Location
from generator.yaml_go import GoLoader
from generator.yaml_lines import first_action

MAX_FILE_BYTES = 8 * 1024 * 1024
"""A file beyond this is refused; the largest rendered manifest seen is under 100 kB."""

TOO_DEEP = "is nested too deeply"
"""The message for nesting that no reader follows."""

MAX_ALIAS_NODES = 100_000
"""Nodes that a document may reach through aliases, an alias bomb's cheap detector."""


class YamlError(Exception):
    """A file that is not acceptable YAML. Carries the place and a fix."""

    def __init__(self, message: str, where: Location, fix: str = "") -> None:
        super().__init__(f"{where}: {message}")
        self.message = message
        self.where = where
        self.fix = fix


class TemplateError(YamlError):
    """A template, which becomes YAML once it is rendered. The place is its first action."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document of a file.

    Attributes:
        value: the loaded value, None for an empty document.
        file: the name to show.
        index: its number in the file, from 0.
        text: the text of the whole stream, kept so that places can be looked up when a finding
            needs one.
    """

    value: Any
    file: str
    index: int
    text: str


def read_text(path: Path, shown: str | None = None) -> str:
    """Read a UTF-8 file, refusing what other readers would misread.

    A byte-order mark is dropped. CRLF is kept; YAML treats it as a line break.

    Raises:
        YamlError: unreadable, too large, or not UTF-8 (with the offset's line and column).
    """
    name = shown or str(path)
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise YamlError(
                    f"the file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read",
                    Location(name),
                    "split it; an inventory or manifest file of this size is a mistake",
                )
            data = file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise YamlError(
            f"cannot be read: {reason}", Location(name), "check the path and its permissions"
        ) from None
    return decode(data, name)


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8 bytes, dropping a byte-order mark.

    Raises:
        YamlError: the bytes are not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise YamlError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            Location(name, line, column),
            "save the file as UTF-8",
        ) from None


def _mark_location(name: str, mark: Any) -> Location:
    return Location(name, mark.line + 1, mark.column + 1) if mark is not None else Location(name)


_PARSER_FIXES = {
    "mapping values are not allowed": (
        "check the indentation of this line and the one above, or quote the value if it holds ': '"
    ),
    "could not find expected ':'": (
        "a key needs ': ' behind it; check this line and the one above"
    ),
    "did not find expected": "check the indentation of this line against the lines above",
    "cannot start any token": "quote the text that begins with this character",
    "undefined alias": "a text that begins with * is an alias; quote it, or define its anchor",
    "block sequence entries are not allowed": (
        "begin the list on a line of its own, or quote the text if it is none"
    ),
    "constructor for the tag": "remove the tag, or quote the text",
    "unexpected end of stream": "close the quote or bracket that is open here",
}
"""Words of libyaml's messages → what usually mends it."""


def _yaml_fault(error: yaml.YAMLError, name: str, text: str) -> YamlError:
    """Turn a parser's fault into one sentence with a place and, for the usual ones, a fix."""
    action = first_action(text)
    if action is not None:
        return TemplateError(
            f"this is a template, not YAML yet: {action.text}",
            Location(name, action.line, action.column),
            "render it first, such as helm template CHART",
        )
    if isinstance(error, yaml.reader.ReaderError):
        position = int(getattr(error, "position", 0) or 0)
        line = text.count("\n", 0, position) + 1
        return YamlError(
            "a control character that YAML does not allow",
            Location(name, line),
            "remove it or write it as an escape",
        )
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = _mark_location(name, mark)
    fix = ""
    if mark is not None:
        lines = text.splitlines()
        source = lines[mark.line] if mark.line < len(lines) else ""
        if "\t" in source[: len(source) - len(source.lstrip())] or "'\\t'" in problem:
            problem, fix = "a tab in the indentation", "YAML indents with spaces; replace the tab"
        elif "stands twice" in problem:
            fix = "merge the two or remove one; YAML readers disagree on which would win"
        elif "nesting depth" in problem:
            problem, fix = TOO_DEEP, "flatten it"
        else:
            fix = next((fix for words, fix in _PARSER_FIXES.items() if words in problem), "")
    return YamlError(problem, where, fix)


def _reach(node: yaml.Node, memo: dict[int, int]) -> int:
    """Count the nodes that a document expands to once its aliases are followed."""
    known = memo.get(id(node))
    if known is not None:
        return known
    memo[id(node)] = MAX_ALIAS_NODES + 1  # a node that contains itself is infinite
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_reach(item, memo) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        total += sum(_reach(key, memo) + _reach(value, memo) for key, value in node.value)
    memo[id(node)] = total
    return total


def iter_nodes(text: str, name: str) -> Iterator[yaml.Node | None]:
    """Compose every document of a text without building values; used to look up places.

    Raises:
        YamlError: the text is not YAML, or an alias bomb.
    """
    loader = GoLoader(text)
    aliases = "*" in text
    try:
        while loader.check_node():
            node = loader.get_node()
            if aliases and node is not None and _reach(node, {}) > MAX_ALIAS_NODES:
                raise YamlError(
                    f"its aliases expand to more than {MAX_ALIAS_NODES:,} values",
                    Location(name),
                    "write the values out, or share them through a class",
                )
            yield node
    except yaml.YAMLError as error:
        raise _yaml_fault(error, name, text) from None
    except RecursionError:
        raise YamlError(TOO_DEEP, Location(name), "flatten it") from None
    finally:
        loader.dispose()


def mapping_items(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """The key and value nodes of a mapping; none for anything else."""
    return list(node.value) if isinstance(node, yaml.MappingNode) else []


def load_documents(text: str, name: str) -> list[Document]:
    """Load every document of a YAML stream.

    Raises:
        YamlError: the text is not YAML, a key stands twice, or aliases expand without bound.
    """
    aliases = "*" in text
    if aliases:
        for _ in iter_nodes(text, name):
            pass
    loader = GoLoader(text)
    loader.plain = not aliases and "!" not in text
    documents: list[Document] = []
    try:
        while loader.check_data():  # type: ignore[no-untyped-call]
            documents.append(Document(loader.get_data(), name, len(documents), text))
    except yaml.YAMLError as error:
        raise _yaml_fault(error, name, text) from None
    except RecursionError:
        raise YamlError(TOO_DEEP, Location(name), "flatten it") from None
    except (ValueError, OverflowError) as error:
        raise YamlError(f"holds a value that cannot be read: {error}", Location(name)) from None
    finally:
        loader.dispose()
    return documents


def locate(
    node: yaml.Node | None, path: tuple[str | int, ...]
) -> tuple[yaml.Node | None, yaml.Node | None, int]:
    """Follow a path through composed nodes.

    Returns:
        The key node and the value node of the deepest part of the path that exists, and how many
        parts were followed.
    """
    key: yaml.Node | None = None
    depth = 0
    for part in path:
        step = _step(node, part)
        if step is None:
            break
        key, node = step
        depth += 1
    return key, node, depth


def _step(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key, value
    elif (
        isinstance(node, yaml.SequenceNode)
        and isinstance(part, int)
        and 0 <= part < len(node.value)
    ):
        return None, node.value[part]
    return None


def place_of(document: Document, path: tuple[str | int, ...], *, key: bool = False) -> Location:
    """Return the place of a path in a loaded document, or of its nearest parent that exists."""
    for index, node in enumerate(iter_nodes(document.text, document.file)):
        if index == document.index:
            key_node, value_node, _ = locate(node, path)
            found = (key_node if key else None) or value_node or node
            return _mark_location(document.file, found.start_mark if found is not None else None)
    return Location(document.file)
