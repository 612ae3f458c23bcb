"""Who wrote a field: ``metadata.managedFields``, looked up by path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from generator.diff.conditions import dig
from generator.diff.model import Item, Path

MANAGED_BY = "app.kubernetes.io/managed-by"


def appliers(live: Mapping[str, Any]) -> set[str]:
    """Field managers that apply the manifests: they own the label that all of them carry.

    Defaults that the API server and webhooks filled in on a client-side apply are theirs as well.
    """
    path: Path = ("metadata", "labels", MANAGED_BY)
    return {entry["manager"] for entry in _entries(live) if _owns(entry, path, live)}


def writers(live: Mapping[str, Any], path: Path) -> list[tuple[str, str]]:
    """Managers that own what stands at a path, with the time of their last write."""
    return [
        (str(entry["manager"]), str(entry.get("time", "")))
        for entry in _entries(live)
        if _owns(entry, path, live)
    ]


def _entries(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = dig(dict(live), "metadata", "managedFields") or []
    return [
        e for e in found if isinstance(e, dict) and e.get("manager") and not e.get("subresource")
    ]


def _owns(entry: Mapping[str, Any], path: Path, live: Any) -> bool:
    """Whether an entry's tree of fields reaches the path, or ends above it in an atomic value."""
    tree = entry.get("fieldsV1")
    value: Any = live
    for part in path:
        if not isinstance(tree, Mapping):
            return False
        if isinstance(part, Item):
            value = _at(value, part.new)
            branch = _item_branch(tree, value)
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
            branch = tree.get(f"f:{part}")
        if branch is None:
            return False
        if branch == {}:
            return True
        tree = branch
    return isinstance(tree, Mapping) and (not tree or "." in tree)


def _at(value: Any, index: int | None) -> Any:
    if isinstance(value, list) and index is not None and index < len(value):
        return value[index]
    return None


def _item_branch(tree: Mapping[str, Any], value: Any) -> Any:
    """The branch of a list entry: ``k:`` by its keys, ``v:`` by its value."""
    for key, branch in tree.items():
        mark, _, text = str(key).partition(":")
        if mark not in ("k", "v"):
            continue
        try:
            wanted = json.loads(text)
        except ValueError:
            continue
        if mark == "v" and wanted == value:
            return branch
        if mark == "k" and isinstance(value, Mapping) and wanted.items() <= value.items():
            return branch
    return None
