"""Say in one sentence what a JSON Schema fault means to the person who wrote the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from generator.checks.structure import Path
from generator.findings import Finding, Severity, path_text
from schemas.kinds.core import QUANTITY_PATTERN
from schemas.quantity import QuantityError, parse_quantity

RENAMED: dict[tuple[str, str], str] = {
    ("ClusterQueue", "cohort"): "write cohortName: v1beta2 renamed it",
    ("Cohort", "parent"): "write parentName: v1beta1 renamed it",
    ("ClusterQueue", "admissionChecks"): (
        "write admissionChecksStrategy.admissionChecks: v1beta2 dropped the short form"
    ),
    ("ClusterQueue", "reclaimOutOfCohort"): (
        "the field never existed; to take quota back from borrowers write "
        "reclaimWithinCohort: LowerPriority or Any, and borrowWithinCohort to preempt while "
        "borrowing"
    ),
    ("CheckpointConfiguration", "mountOptions"): (
        "write gcsFuseMountOptions: the API server drops mountOptions without a word"
    ),
    ("WorkloadPriorityClass", "globalDefault"): (
        "remove it: only a PriorityClass has a global default"
    ),
}
"""Fields that people write from older versions, other tools or memory, and what to write.

Sources: Kueue's v1beta2 migration notes (CHANGELOG-0.15), xpk's template for
CheckpointConfiguration, the history of ``clusterqueue_types.go``.
"""

_TYPE_NAMES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
_SHOWN = 12


def schema_at(root: dict[str, Any], path: list[str | int]) -> dict[str, Any]:
    """Follow a fault's schema path, without its last part, to the schema that complains."""
    node: Any = root
    for part in path[:-1]:
        if part == "$ref":
            node = root["$defs"][node["$ref"].rpartition("/")[2]]
        else:
            node = node[int(part) if isinstance(node, list) else part]
    return node if isinstance(node, dict) else {}


def homes(root: dict[str, Any], name: str, limit: int = 400) -> list[str]:
    """Where else in a kind's schema a field of this name belongs, the shallowest first."""
    found: list[str] = []
    queue: list[tuple[str, dict[str, Any]]] = [("", root)]
    visited = 0
    while queue and visited < limit and len(found) < 2:
        path, node = queue.pop(0)
        visited += 1
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rpartition("/")[2]]
        for child_name, child in node.get("properties", {}).items():
            below = f"{path}.{child_name}" if path else child_name
            if child_name == name:
                found.append(below)
            elif child_name not in {"status", "metadata"} or path:
                queue.append((below, child))
        if isinstance(node.get("items"), dict):
            queue.append((f"{path}[]", node["items"]))
    return found


def found_text(value: Any) -> str:
    """Show a value in a message: short, typed, never a whole document."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {value[:60]!r}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"the number {value}"


def _unknown(error: Any, path: Path, kind: str, root: dict[str, Any]) -> Iterator[Finding]:
    known = sorted(schema_at(root, error.schema_path).get("properties", {}))
    for name in error.kind.unexpected:
        fix = RENAMED.get((kind, name), "")
        near = get_close_matches(name, known, 1, 0.7) or [
            k for k in known if k.lower() == name.lower()
        ]
        if not fix and near:
            fix = f"write {near[0]}"
        if not fix:
            places = [home for home in homes(root, name) if not path_text(path).endswith(home)]
            if places:
                fix = (
                    f"a field of this name belongs at {' or '.join(places)}; check the indentation"
                )
        if not fix and known:
            shown = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
            fix = f"remove it; known here: {shown}"
        here = path_text((*path, name))
        yield Finding(
            "SCH002",
            Severity.ERROR,
            f"unknown field {here}: strict validation refuses it, otherwise it is dropped "
            "without a word",
            fix or "remove it",
            path=(*path, name),
        )


def _wrong_type(error: Any, path: Path, schema: dict[str, Any]) -> Finding:
    expected = " or ".join(_TYPE_NAMES[name] for name in error.kind.types if name != "null")
    value = error.instance
    fix = ""
    if expected == "a string" and isinstance(value, (bool, int, float)):
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        fix = f'quote it: "{shown}"'
    elif expected == "a whole number" and isinstance(value, str) and value.lstrip("-").isdigit():
        fix = f"remove the quotes: {value}"
    elif expected == "a whole number or a string" and isinstance(value, float):
        fix = f'quote it: "{value}"'
    elif expected == "a list" and not isinstance(value, (dict, list)):
        fix = "write it as a list: '- ' before each entry"
    elif expected == "a list":
        fix = "each entry needs '- ' before it; check the indentation"
    return Finding(
        "SCH003",
        Severity.ERROR,
        f"{path_text(path)} is {found_text(value)}; expected {expected}",
        fix or f"write {expected}",
        path=path,
    )


def _pattern(error: Any, path: Path) -> Finding:
    value = error.instance
    if error.kind.pattern == QUANTITY_PATTERN:
        try:
            parse_quantity(str(value))
            message, fix = f"{value!r} is not a quantity", "such as 64Gi or 500m"
        except QuantityError as problem:
            message, _, fix = str(problem).partition("; ")
        return Finding(
            "SCH006",
            Severity.ERROR,
            f"{path_text(path)}: {message}",
            fix or "write a number with a unit such as 64Gi or 500m",
            path=path,
        )
    return Finding(
        "SCH005",
        Severity.ERROR,
        f"{path_text(path)}: {value!r} does not match {error.kind.pattern}",
        "write a value of that form",
        path=path,
    )


def _enum(error: Any, path: Path) -> Finding:
    options = [str(option) for option in error.kind.options]
    near = get_close_matches(str(error.instance), options, 1, 0.5)
    return Finding(
        "SCH005",
        Severity.ERROR,
        f"{path_text(path)} is {found_text(error.instance)}; expected one of {', '.join(options)}",
        f"write {near[0]}" if near else f"write one of {', '.join(options)}",
        path=path,
    )


_LIMITS = {
    "minimum": "is below the least allowed, {}",
    "maximum": "is above the largest allowed, {}",
    "exclusiveMinimum": "must be above {}",
    "exclusiveMaximum": "must be below {}",
    "minLength": "is shorter than {} characters",
    "maxLength": "is longer than {} characters",
    "minItems": "has fewer than {} entries",
    "maxItems": "has more than {} entries",
    "minProperties": "has fewer than {} entries",
    "maxProperties": "has more than {} entries",
}


def _other(error: Any, path: Path) -> Finding:
    name = error.kind.name
    value = error.instance
    if name in _LIMITS:
        message = _LIMITS[name].format(error.kind.limit)
        shown = "" if isinstance(value, (dict, list)) else f" {value!r}"
        return Finding(
            "SCH005",
            Severity.ERROR,
            f"{path_text(path)}{shown} {message}",
            "stay within the limit",
            path=path,
        )
    return Finding(
        "SCH005",
        Severity.ERROR,
        f"{path_text(path)}: {error.message}",
        "see the field's reference",
        path=path,
    )


def schema_findings(error: Any, kind: str, root: dict[str, Any]) -> Iterator[Finding]:
    """Turn one fault of jsonschema-rs into findings, one for each thing to mend."""
    path: Path = tuple(error.instance_path)
    name = error.kind.name
    if name == "additionalProperties":
        yield from _unknown(error, path, kind, root)
    elif name == "required":
        missing = error.kind.property
        yield Finding(
            "SCH004",
            Severity.ERROR,
            f"{path_text((*path, missing))} is required and missing",
            f"add {missing}",
            path=(*path, missing),
        )
    elif name == "type":
        yield _wrong_type(error, path, root)
    elif name == "pattern":
        yield _pattern(error, path)
    elif name == "enum":
        yield _enum(error, path)
    else:
        yield _other(error, path)
