"""Whether any vendored release of a kind knows a field: the API refuses one that it does not."""

from __future__ import annotations

from typing import Any

from generator.diff.model import ImmutableRule
from schemas.kinds.store import KindRef, read_kind, releases_of

REFUSED = ImmutableRule(
    "the API server knows no such field and refuses the object",
    "write it as the kind's schema does: `stowplan check` says what is known there",
    "kubernetes-sigs/structured-merge-diff typed/parser.go: field not declared in schema "
    "(server-side apply, as Argo CD and Flux do it)",
)


def is_refused(body: Any, path: tuple[str, ...], value: Any) -> bool:
    """Whether an object has a field that no vendored release of its kind knows.

    Args:
        body: the object, of which ``apiVersion`` and ``kind`` are read.
        path: the path to the value, list entries left out.
        value: the value there; its own keys are looked at too.

    Returns:
        False for a kind that is not vendored: nothing is known of it.
    """
    if not isinstance(body, dict):
        return False
    releases = releases_of(str(body.get("apiVersion")), str(body.get("kind")))
    # Newest first: it knows nearly everything.
    return bool(releases) and all(_is_unknown(ref, path, value) for ref in reversed(releases))


def _is_unknown(ref: KindRef, path: tuple[str, ...], value: Any) -> bool:
    root = read_kind(ref)["schema"]
    node: Any = root
    for key in path:
        node = _child(root, node, key)
        if node is _ANYTHING or node is None:
            return node is None
    return _holds_unknown(root, node, value)


def _holds_unknown(root: Any, node: Any, value: Any) -> bool:
    """Whether a value has a key, at any depth, that its schema does not know."""
    if isinstance(value, list):
        return any(_holds_unknown(root, node, item) for item in value)
    if not isinstance(value, dict):
        return False
    for key, item in value.items():
        below = _child(root, node, str(key))
        if below is None or (below is not _ANYTHING and _holds_unknown(root, below, item)):
            return True
    return False


_ANYTHING = object()


def _child(root: Any, node: Any, key: str) -> Any:
    """The schema of a key, through references and list entries; None where it is unknown."""
    node = _resolved(root, node)
    while isinstance(node.get("items"), dict) and "properties" not in node:
        node = _resolved(root, node["items"])
    if key in node.get("properties", {}):
        return node["properties"][key]
    rest = node.get("additionalProperties", True)
    if isinstance(rest, dict):
        return rest
    return _ANYTHING if rest else None


def _resolved(root: Any, node: Any) -> Any:
    while "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    return node
