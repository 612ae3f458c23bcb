"""Read the inventory: find targets and classes, render one target's parameters with reclass.

The format is Kapitan's: ``inventory/targets/<cluster>.yml`` names classes of
``inventory/classes/**.yml``; parameters merge in reclass' order and ``${a:b}`` refers to other
parameters. Rendering is done by reclass-rs, which Kapitan uses as well.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from generator.findings import Finding, Location, Severity
from generator.spelling import nearest
from generator.yaml_load import (
    YamlError,
    iter_nodes,
    load_documents,
    mapping_items,
    read_text,
)

SUFFIXES = (".yml", ".yaml")
FILE_KEYS = ("applications", "classes", "environment", "exports", "parameters")
"""Keys that reclass reads at the top of an inventory file; it ignores any other without a word."""

_TOP_LEVEL_KEY = re.compile(r"^([^\s#'\"\-{\[%&*!|>@`][^:\n]*?)\s*:(?=\s|$)", re.MULTILINE)
_TAG = re.compile(r"(?:^|[\s\[{,:\-])!(?:[A-Za-z!<]|\s|$)", re.MULTILINE)


class InventoryError(Exception):
    """The inventory as a whole cannot be used. Carries the findings that say why."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


@dataclass(frozen=True)
class Tree:
    """The files of an inventory, nothing read yet.

    Attributes:
        root: the folder that holds ``inventory/``; shown paths are relative to it.
        targets: target name → file.
        classes: class name → file.
    """

    root: Path
    targets: dict[str, Path]
    classes: dict[str, Path]
    _shown: dict[Path, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """The inventory's own folder."""
        return self.root / "inventory"

    def shown(self, path: Path) -> str:
        """A path as messages show it."""
        text = self._shown.get(path)
        if text is None:
            text = self._shown[path] = path.relative_to(self.root).as_posix()
        return text


@dataclass(frozen=True)
class Rendered:
    """One target after rendering.

    Attributes:
        name: the target's name.
        parameters: its merged parameters, references resolved.
        files: the files that made it, lowest precedence first, the target's own last.
    """

    name: str
    parameters: dict[str, Any]
    files: tuple[Path, ...]


def _yaml_files(folder: Path) -> Iterator[Path]:
    found = [
        os.path.join(base, name)  # noqa: PTH118 - a large tree has thousands
        for base, _, names in os.walk(folder)
        for name in names
        if os.path.splitext(name)[1] in SUFFIXES  # noqa: PTH122
    ]
    for path in sorted(found, key=lambda path: path.split(os.sep)):  # noqa: PTH206
        if os.path.isfile(path):  # noqa: PTH113
            yield Path(path)


def _fault(rule: str, message: str, where: Location, fix: str = "", cluster: str = "") -> Finding:
    return Finding(rule, Severity.ERROR, message, fix, cluster=cluster, inventory=where)


def class_name(path: Path, folder: Path) -> str:
    """The name by which ``classes:`` lists a file: dots for folders, ``init`` for the folder
    itself."""
    parts = list(path.relative_to(folder).with_suffix("").parts)
    if len(parts) > 1 and parts[-1] == "init":
        parts.pop()
    return ".".join(parts)


FLEET_TARGETS = frozenset({"argocd"})
"""Targets of Kapitan that stand for the whole fleet: no cluster bears such a name."""


def discover(root: Path) -> Tree:
    """Find the targets and classes below ``root/inventory``.

    Raises:
        InventoryError: there is no inventory, or two files stand for one name.
    """
    folder = root / "inventory"
    if not (folder / "targets").is_dir():
        raise InventoryError(
            [
                _fault(
                    "INV001",
                    "there is no inventory/targets here",
                    Location(str(root)),
                    "run stowplan in the folder that holds inventory/; stowplan init makes one",
                )
            ]
        )
    findings: list[Finding] = []
    names: list[dict[str, Path]] = []
    for what, singular, name_of in (
        ("targets", "cluster", lambda p, _: p.stem),
        ("classes", "class", class_name),
    ):
        found: dict[str, Path] = {}
        for path in _yaml_files(folder / what):
            name = name_of(path, folder / what)
            if name in found:
                findings.append(
                    _fault(
                        "INV002",
                        f"{singular} {name!r} stands in two files; "
                        f"the other is {found[name].relative_to(root)}",
                        Location(path.relative_to(root).as_posix()),
                        "rename or remove one of them",
                    )
                )
            found[name] = path
        names.append(found)
    if findings:
        raise InventoryError(findings)
    targets = {name: path for name, path in names[0].items() if name not in FLEET_TARGETS}
    return Tree(root, targets, names[1])


def lint_text(text: str, shown: str) -> list[Finding]:
    """Find what reclass would ignore or choke on, without building values where that can be
    avoided.

    Raises:
        YamlError: the text is no YAML at all, or an alias bomb.
    """
    findings: list[Finding] = []
    if not text.strip():
        return [
            _fault("INV003", "the file is empty", Location(shown), "write classes: and parameters:")
        ]
    if "*" in text and "&" in text:
        for _ in iter_nodes(text, shown):
            pass
    for match in _TAG.finditer(text):
        line, column = _line_column(text, match.start() + match[0].index("!"))
        source = text.splitlines()[line - 1][: column - 1]
        if "#" in source or source.count('"') % 2 or source.count("'") % 2:
            continue
        findings.append(
            _fault(
                "INV004",
                "a YAML tag (!…); the inventory takes plain values only",
                Location(shown, line, column),
                "remove the tag, or quote the text",
            )
        )
    for match in _TOP_LEVEL_KEY.finditer(text):
        if match[1] not in FILE_KEYS:
            line, column = _line_column(text, match.start())
            near = nearest(match[1], FILE_KEYS)
            findings.append(
                _fault(
                    "INV005",
                    f"unknown key {match[1]!r} at the top of the file, which reclass ignores",
                    Location(shown, line, column),
                    f"write {near}" if near else f"the keys here are {', '.join(FILE_KEYS)}",
                )
            )
    return findings


_NULL = "tag:yaml.org,2002:null"
_SHAPES: dict[str, tuple[str, type[yaml.Node]]] = {
    "parameters": ("a mapping", yaml.MappingNode),
    "classes": ("a list", yaml.SequenceNode),
    "applications": ("a list", yaml.SequenceNode),
}


def structure(text: str, shown: str) -> list[Finding]:
    """Find sections that are not of the shape that reclass reads."""
    found: list[Finding] = []
    for root in iter_nodes(text, shown):
        if not isinstance(root, yaml.MappingNode):
            message = "an inventory file is a mapping with classes: and parameters:"
            return [_fault("INV009", message, Location(shown, 1, 1), "write these two keys")]
        for key, value in root.value:
            wanted, shape = _SHAPES.get(str(key.value), ("", yaml.Node))
            if not isinstance(value, shape) and value.tag != _NULL:
                mark = value.start_mark
                where = Location(shown, mark.line + 1, mark.column + 1)
                found.append(
                    _fault("INV009", f"{key.value} is not {wanted}", where, f"write {wanted}")
                )
    return found


def _line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@dataclass
class Classes:
    """Every class file of a tree, read and linted once."""

    tree: Tree
    uses: dict[str, list[tuple[str, Location]]] = field(default_factory=dict)
    sections: dict[Path, frozenset[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    faulty: frozenset[str] = frozenset()

    @classmethod
    def read(cls, tree: Tree) -> Classes:
        """Read all class files; faults become findings."""
        classes = cls(tree)
        for name, path in tree.classes.items():
            shown = tree.shown(path)
            try:
                text = read_text(path, shown)
                found = lint_text(text, shown)
                load_documents(text, shown)
                found += structure(text, shown)
                uses, sections = _outline(text, shown, name, path)
                classes.uses[name], classes.sections[path] = uses, sections
            except YamlError as error:
                found = [yaml_finding(error)]
            classes.findings += found
        classes.findings += classes._missing() + classes._loops()
        files = {finding.inventory.file for finding in classes.findings if finding.inventory}
        classes.faulty = frozenset(
            name for name, path in tree.classes.items() if tree.shown(path) in files
        )
        return classes

    def closure(self, names: Iterable[str]) -> list[str]:
        """Classes and those that they include, in reclass' merge order: what is included first."""
        order: list[str] = []
        begun: set[str] = set()

        def visit(name: str) -> None:
            if name in begun or name not in self.tree.classes:
                return
            begun.add(name)
            for used, _ in self.uses.get(name, ()):
                visit(used)
            order.append(name)

        for name in names:
            visit(name)
        return order

    def _missing(self) -> list[Finding]:
        return [
            missing_class(used, where, self.tree)
            for uses in self.uses.values()
            for used, where in uses
            if used not in self.tree.classes and "${" not in used
        ]

    def _loops(self) -> list[Finding]:
        """Report each loop once, at the use that closes it."""
        findings: list[Finding] = []
        done: set[str] = set()

        def visit(name: str, trail: list[str]) -> None:
            for used, where in self.uses.get(name, ()):
                if used in trail:
                    loop = " → ".join([*trail[trail.index(used) :], used])
                    findings.append(
                        _fault(
                            "INV007",
                            f"classes include each other in a loop: {loop}",
                            where,
                            "remove one of the inclusions",
                        )
                    )
                elif used not in done:
                    visit(used, [*trail, used])
            done.add(name)

        for name in self.uses:
            if name not in done:
                visit(name, [name])
        return findings


def missing_class(name: str, where: Location, tree: Tree, cluster: str = "") -> Finding:
    """The finding for a class that no file stands for."""
    near = nearest(name, tree.classes)
    return _fault(
        "INV006",
        f"class {name!r} does not exist: no inventory/classes/{name.replace('.', '/')}.yml",
        where,
        f"did you mean {near}?" if near else "create the file or correct the name",
        cluster,
    )


def yaml_finding(error: YamlError, cluster: str = "") -> Finding:
    """A parser's fault as a finding."""
    return _fault("INV008", error.message, error.where, error.fix, cluster)


def _outline(
    text: str, shown: str, name: str, path: Path
) -> tuple[list[tuple[str, Location]], frozenset[str]]:
    """Which classes a file includes, with places, and which parameter sections it defines."""
    uses: list[tuple[str, Location]] = []
    sections: set[str] = set()
    base = name.split(".") if path.stem == "init" else name.split(".")[:-1]
    for root in iter_nodes(text, shown):
        for key, value in mapping_items(root):
            if key.value == "classes" and isinstance(value.value, list):
                for item in value.value:
                    mark = item.start_mark
                    used = absolute_class(str(item.value), base)
                    uses.append((used, Location(shown, mark.line + 1, mark.column + 1)))
            elif key.value == "parameters" and isinstance(value.value, list):
                sections.update(str(k.value).lstrip("~=") for k, _ in value.value)
    return uses, frozenset(sections)


def absolute_class(name: str, base: list[str]) -> str:
    """Resolve a relative class name (``.sibling``, ``..cousin``) as reclass does."""
    if not name.startswith("."):
        return name
    dots = len(name) - len(name.lstrip("."))
    kept = base[: len(base) - (dots - 1)] if dots > 1 else base
    return ".".join([*kept, name[dots:]])


def outline(text: str, shown: str, name: str, path: Path) -> list[tuple[str, Location]]:
    """The classes that an inventory file includes, with their places."""
    return _outline(text, shown, name, path)[0]


class Renderer:
    """Renders single targets; one per process, since reclass-rs reads the tree's listing once."""

    def __init__(self, tree: Tree) -> None:
        # Rendering fails and recovers inside reclass-rs all the time; where RUST_BACKTRACE is set,
        # each such error would record a stack, which makes rendering three times slower.
        os.environ["RUST_LIB_BACKTRACE"] = "0"
        import reclass_rs

        self.tree = tree
        # reclass-rs lists the classes here and now, and fails where there is no such folder.
        with tempfile.TemporaryDirectory(prefix="stowplan-") as nothing:
            classes = tree.folder / "classes"
            config = reclass_rs.Config.from_dict(
                str(tree.folder),
                {
                    "nodes_uri": "targets",
                    "classes_uri": "classes" if classes.is_dir() else nothing,
                    "compose_node_name": False,
                },
            )
            self._reclass = reclass_rs.Reclass.from_config(config)

    def render(self, name: str) -> Rendered:
        """Render one target.

        Raises:
            ValueError: reclass refuses it; the message is reclass-rs' own and names no file.
        """
        info = self._reclass.nodeinfo(name)
        files = [self.tree.classes[used] for used in info.classes]
        return Rendered(name, info.parameters, (*files, self.tree.targets[name]))
