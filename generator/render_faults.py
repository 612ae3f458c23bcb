"""Say why reclass refuses a target, with the places that reclass-rs does not give."""

from __future__ import annotations

import re
from dataclasses import replace

import yaml

from generator.findings import Finding, Location, Severity
from generator.inventory import (
    Classes,
    Tree,
    missing_class,
    outline,
    structure,
    yaml_finding,
)
from generator.provenance import REFERENCE, Provenance
from generator.spelling import nearest
from generator.yaml_load import YamlError, load_documents

_MERGE = re.compile(r"In (?P<path>\S+): Can't merge (?P<message>.*)")
_LOOP = re.compile(r"reference loop with reference paths \[(?P<paths>[^\]]*)\]")
_LOOKUP = re.compile(r"reference '(?P<reference>\$\{[^']*\})' in parameter '(?P<parameter>[^']*)'")
_UNPARSED = re.compile(r"Error parsing reference '(?P<text>.*)'", re.DOTALL)
_OWN = {
    "_reclass_": ("name", "environment"),
    "_reclass_:name": ("full", "parts", "path", "short"),
}
"""What reclass itself defines of a target."""
_PREFIX = re.compile(r"^Error while rendering [^:]*: ")
_DESERIALIZING = re.compile(
    r"Deserializing (?P<file>\S+): (?P<what>.*) at line (?P<line>\d+) column (?P<column>\d+)"
)


def explain(tree: Tree, classes: Classes, name: str, text: str, message: str) -> list[Finding]:
    """Return findings for everything that is wrong; at least one, reclass' own words at worst."""
    path = tree.targets[name]
    shown = tree.shown(path)
    try:
        documents = load_documents(text, shown)
        if len(documents) > 1:
            return [_fault(name, "INV008", "more than one YAML document", Location(shown))]
        uses = outline(text, shown, name, path)
    except YamlError as error:
        return [yaml_finding(error, name)]
    found = [replace(finding, cluster=name) for finding in structure(text, shown)]
    found += [
        missing_class(used, where, tree, name)
        for used, where in uses
        if used not in tree.classes and "${" not in used
    ]
    if found:
        return found
    files = (*(tree.classes[used] for used in classes.closure(used for used, _ in uses)), path)
    provenance = Provenance(tree, files)
    return (
        _merge_conflict(name, message, provenance)
        or _loops(name, message, provenance)
        or _unparsed(name, message, provenance)
        or _unresolved(name, provenance)
        or _overridden(name, message, provenance)
        or [_reclass(name, message, tree)]
    )


def _fault(cluster: str, rule: str, message: str, where: Location, fix: str = "") -> Finding:
    return Finding(rule, Severity.ERROR, message, fix, cluster=cluster, inventory=where)


def _reclass(cluster: str, message: str, tree: Tree) -> Finding:
    """What reclass-rs says, at the place that it names, if it names one."""
    match = _DESERIALIZING.search(message)
    if match is None:
        shown = tree.shown(tree.targets[cluster])
        return _fault(cluster, "INV009", _PREFIX.sub("", message), Location(shown))
    file = tree.classes.get(match["file"], tree.targets[cluster])
    where = Location(tree.shown(file), int(match["line"]), int(match["column"]))
    return _fault(cluster, "INV009", f"reclass cannot read this: {match['what']}", where)


def _merge_conflict(cluster: str, message: str, provenance: Provenance) -> list[Finding]:
    match = _MERGE.search(message)
    if match is None:
        return []
    path = tuple(match["path"].split("."))
    places = provenance.definitions(path)
    if not places:
        return []
    shapes = {
        yaml.MappingNode: "a mapping",
        yaml.SequenceNode: "a list",
        yaml.ScalarNode: "a single value",
    }
    where, node = places[-1]
    others = [
        f"{shapes[type(other)]} at {place}"
        for place, other in places[:-1]
        if type(other) is not type(node)
    ]
    text = (
        f"{'.'.join(path)} is {shapes[type(node)]} here, but {', '.join(others) or 'not elsewhere'}"
    )
    return [
        _fault(cluster, "INV009", text, where, "make them alike, or override with ~ before the key")
    ]


def _loops(cluster: str, message: str, provenance: Provenance) -> list[Finding]:
    match = _LOOP.search(message)
    if match is None:
        return []
    paths = re.findall(r'"([^"]+)"', match["paths"])
    loop = " → ".join([*paths, paths[0]]) if paths else "itself"
    place = provenance.find(tuple(re.split(r"[:.]", paths[0]))) if paths else None
    where = place.where if place else provenance.fallback
    return [
        _fault(cluster, "INV009", f"references go round in a circle: {loop}", where, "break it")
    ]


def _unparsed(cluster: str, message: str, provenance: Provenance) -> list[Finding]:
    """Texts with a reference that is empty or does not end."""
    match = _UNPARSED.search(message)
    if match is None:
        return []
    fix = "write ${section:key}, or \\${ for a plain ${"
    return [
        _fault(cluster, "INV009", f"{match['text']!r} holds no whole reference", where, fix)
        for where in (
            Location(file, node.start_mark.line + 1, node.start_mark.column + 1)
            for file, node in provenance.scalars()
            if node.value == match["text"]
        )
    ]


def _unresolved(cluster: str, provenance: Provenance) -> list[Finding]:
    """References to what no file of the target defines."""
    found: list[Finding] = []
    for file, node in provenance.scalars():
        if "${" not in node.value:
            continue
        for match in REFERENCE.finditer(node.value):
            path = tuple(match[1].split(":"))
            if path[0] == "_reclass_":
                depth = next((n for n in (1, 2) if _lacks(path, n)), 0)
                if not depth:
                    continue
                known = list(_OWN[":".join(path[:depth])])
            elif provenance.exists(path):
                continue
            else:
                depth = provenance.find(path).depth
                known = provenance.keys(path[:depth])
            missing = path[depth]
            near = nearest(missing, known)
            quoted = 1 if node.style in ("'", '"') else 0
            column = node.start_mark.column + 1 + quoted + match.start()
            where = Location(file, node.start_mark.line + 1, column)
            parent = ":".join(path[:depth]) or "parameters"
            found.append(
                _fault(
                    cluster,
                    "INV009",
                    f"{match[0]} refers to nothing: {parent} has no {missing!r}",
                    where,
                    f"did you mean ${{{':'.join((*path[:depth], near, *path[depth + 1 :]))}}}?"
                    if near
                    else "define it, or correct the reference",
                )
            )
    return found


def _lacks(path: tuple[str, ...], depth: int) -> bool:
    """Whether reclass' own part of a path has no such key."""
    return len(path) > depth and path[depth] not in _OWN.get(":".join(path[:depth]), path[depth:])


def _overridden(cluster: str, message: str, provenance: Provenance) -> list[Finding]:
    """A reference to what a file defines, but another overrides by a key without a value."""
    match = _LOOKUP.search(message)
    if match is None:
        return []
    place = provenance.find(tuple(match["parameter"].split("."))).where
    path = tuple(match["reference"][2:-1].split(":"))
    fix = "define it, or correct the reference"
    for depth in range(1, len(path)):
        empty = [
            where
            for where, node in provenance.definitions(path[:depth])
            if isinstance(node, yaml.ScalarNode)
        ]
        if empty:
            fix = f"{':'.join(path[:depth])} has no keys at {empty[-1]}; remove it there"
            break
    text = f"{match['reference']} refers to nothing"
    return [_fault(cluster, "INV009", text, place, fix)]
