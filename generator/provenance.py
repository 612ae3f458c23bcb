"""Find where in the inventory a rendered value was written.

Used only when something is wrong, so that the good path pays nothing: the files of the target are
composed again with places, and the path is followed through them in reclass' merge order, through
list concatenation, ``~key`` overrides and ``${references}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from generator.findings import Location
from generator.inventory import Tree
from generator.yaml_load import YamlError, iter_nodes, mapping_items, read_text

_WHOLE_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_MAX_REFERENCE_DEPTH = 32

ValuePath = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """Where a value stands.

    Attributes:
        where: the value's place; its key's, if asked for.
        depth: how many parts of the path were found; fewer than asked means that it is absent.
        via: further places that it came through, in words.
    """

    where: Location
    depth: int
    via: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    file: str
    key: yaml.Node | None
    node: yaml.Node
    through: tuple[str, ...] = ()


class Provenance:
    """Looks up places in the files of one target."""

    def __init__(self, tree: Tree, files: tuple[Path, ...]) -> None:
        self._roots: list[_Candidate] = []
        self.fallback = Location(tree.shown(files[-1])) if files else Location("inventory")
        for path in files:
            shown = tree.shown(path)
            root = _parameters(path, shown)
            if root is not None:
                self._roots.append(_Candidate(shown, None, root))

    def find(self, path: ValuePath, *, key: bool = False) -> Place:
        """Return the place of a path, or of the deepest part of it that exists."""
        candidates, depth = self._follow(path, 0)
        if not candidates:
            return Place(self.fallback, 0)
        winner = candidates[-1]
        via = list(winner.through)
        node = winner.key if key and winner.key is not None else winner.node
        for reference in _references(winner.node):
            inner = self._reference_place(reference)
            if inner is not None:
                via.append(f"${{{reference}}} is {inner}")
        return Place(_location(winner.file, node), depth, tuple(via))

    def scalars(self) -> Iterator[tuple[str, yaml.ScalarNode]]:
        """Every scalar of the target's files, with its file."""
        for root in self._roots:
            stack: list[yaml.Node] = [root.node]
            while stack:
                node = stack.pop()
                if isinstance(node, yaml.ScalarNode):
                    yield root.file, node
                elif isinstance(node, yaml.MappingNode):
                    stack.extend(value for _, value in reversed(node.value))
                elif isinstance(node, yaml.SequenceNode):
                    stack.extend(reversed(node.value))

    def exists(self, path: ValuePath) -> bool:
        """Whether any file of the target defines the path."""
        candidates, depth = self._follow(path, 0)
        return bool(candidates) and depth == len(path)

    def keys(self, path: ValuePath) -> list[str]:
        """The keys that the files of the target define below a path."""
        candidates, depth = self._follow(path, 0)
        if depth < len(path):
            return []
        return [
            str(key.value).lstrip("~=")
            for candidate in candidates
            if isinstance(candidate.node, yaml.MappingNode)
            for key, _ in candidate.node.value
        ]

    def definitions(self, path: ValuePath) -> list[tuple[Location, yaml.Node]]:
        """Every place that defines a path, lowest precedence first."""
        candidates, depth = self._follow(path, 0)
        if depth < len(path):
            return []
        return [(_location(c.file, c.key or c.node), c.node) for c in candidates]

    def _reference_place(self, reference: str) -> Location | None:
        path = tuple(reference.split(":"))
        candidates, depth = self._follow(path, 1)
        if depth < len(path):
            return None
        return _location(candidates[-1].file, candidates[-1].node)

    def _follow(self, path: ValuePath, nesting: int) -> tuple[list[_Candidate], int]:
        candidates, depth = list(self._roots), 0
        for part in path:
            step = _step(candidates, part)
            if not step:
                break
            candidates, depth = self._through(step, nesting), depth + 1
        return candidates, depth

    def _through(self, candidates: list[_Candidate], nesting: int) -> list[_Candidate]:
        """Replace each value that is nothing but a reference by what it refers to.

        A referenced mapping merges with what other files say of the same path, so all stay.
        """
        expanded: list[_Candidate] = []
        for candidate in candidates:
            text = candidate.node.value if isinstance(candidate.node, yaml.ScalarNode) else ""
            match = _WHOLE_REFERENCE.fullmatch(text) if "${" in text else None
            path = tuple(match[1].split(":")) if match else ()
            target: list[_Candidate] = []
            if path and nesting < _MAX_REFERENCE_DEPTH:
                target, depth = self._follow(path, nesting + 1)
                if depth < len(path):
                    target = []
            step = f"through {text} at {_location(candidate.file, candidate.node)}"
            expanded += [replace(c, through=(step, *c.through)) for c in target] or [candidate]
        return expanded


def _references(node: yaml.Node) -> list[str]:
    if isinstance(node, yaml.ScalarNode) and "${" in node.value:
        return REFERENCE.findall(node.value)
    return []


def _step(candidates: list[_Candidate], part: str | int) -> list[_Candidate]:
    if isinstance(part, int):
        return _list_step(candidates, part)
    found: list[_Candidate] = []
    for candidate in candidates:
        if not isinstance(candidate.node, yaml.MappingNode):
            continue
        for key, value in candidate.node.value:
            text = str(key.value)
            if text.lstrip("~=") == part or text == part:
                if text.startswith("~"):
                    found.clear()
                found.append(_Candidate(candidate.file, key, value, candidate.through))
    return found


def _list_step(candidates: list[_Candidate], index: int) -> list[_Candidate]:
    """reclass appends lists, so an index counts through the files."""
    for candidate in candidates:
        if not isinstance(candidate.node, yaml.SequenceNode):
            continue
        items = candidate.node.value
        if index < len(items):
            return [_Candidate(candidate.file, None, items[index], candidate.through)]
        index -= len(items)
    return []


def _parameters(path: Path, shown: str) -> yaml.Node | None:
    try:
        for root in iter_nodes(read_text(path, shown), shown):
            for key, value in mapping_items(root):
                if key.value == "parameters":
                    return value
    except YamlError:
        return None
    return None


def _location(file: str, node: yaml.Node) -> Location:
    return Location(file, node.start_mark.line + 1, node.start_mark.column + 1)
