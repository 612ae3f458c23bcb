"""Say why reclass refuses a target, with the places that reclass-rs does not give."""

from __future__ import annotations

import re

import yaml

from generator.findings import Finding, Location, Severity
from generator.inventory import Classes, Tree, missing_class, outline, yaml_finding
from generator.provenance import REFERENCE, Provenance
from generator.spelling import nearest
from generator.yaml_load import YamlError, iter_nodes, load_documents

_MERGE = re.compile(r"In (?P<path>\S+): Can't merge (?P<message>.*)")
_LOOP = re.compile(r"reference loop with reference paths \[(?P<paths>[^\]]*)\]")
_STRUCTURE = {"parameters": "a mapping", "classes": "a list", "applications": "a list"}
_PREFIX = re.compile(r"^Error while rendering [^:]*: ")


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
    found = _structure(name, text, shown)
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
        or _unresolved(name, provenance)
        or [_fault(name, "INV009", _PREFIX.sub("", message), Location(shown))]
    )


def _fault(cluster: str, rule: str, message: str, where: Location, fix: str = "") -> Finding:
    return Finding(rule, Severity.ERROR, message, fix, cluster=cluster, inventory=where)


def _structure(cluster: str, text: str, shown: str) -> list[Finding]:
    """Sections that are not of the shape that reclass reads."""
    found: list[Finding] = []
    for root in iter_nodes(text, shown):
        if not isinstance(root, yaml.MappingNode):
            message = "an inventory file is a mapping with classes: and parameters:"
            return [_fault(cluster, "INV009", message, Location(shown, 1, 1))]
        for key, value in root.value:
            wanted = _STRUCTURE.get(str(key.value))
            kind = yaml.MappingNode if wanted == "a mapping" else yaml.SequenceNode
            if wanted is not None and not isinstance(value, kind):
                mark = value.start_mark
                where = Location(shown, mark.line + 1, mark.column + 1)
                message = f"{key.value} is not {wanted}"
                found.append(_fault(cluster, "INV009", message, where, f"write {wanted}"))
    return found


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


def _unresolved(cluster: str, provenance: Provenance) -> list[Finding]:
    """References to what no file of the target defines."""
    found: list[Finding] = []
    for file, node in provenance.scalars():
        if "${" not in node.value:
            continue
        for match in REFERENCE.finditer(node.value):
            path = tuple(match[1].split(":"))
            if path[0] == "_reclass_" or provenance.exists(path):
                continue
            depth = provenance.find(path).depth
            missing = path[depth]
            known = provenance.keys(path[:depth])
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
