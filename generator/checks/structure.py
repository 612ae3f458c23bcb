"""What the API server does to an object around its schema: prune nulls, fill defaults, compare the
entries of keyed lists.

Each function walks one of the sparse trees of :mod:`schemas.kinds.convert`, so that it visits only
the places that have something to say. None changes its argument.

Source: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema`` (``defaulting``, ``listtype``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]
Tree = dict[str, Any]


def as_json(value: Any) -> Any:
    """Turn what only YAML can say into JSON, as ``sigs.k8s.io/yaml`` does before the API server.

    Keys become strings (``1``, ``true``), binary becomes its text, a set the mapping that it is
    written as, a date its text.
    """
    if isinstance(value, dict):
        return {_key(key): as_json(child) for key, child in value.items()}
    if isinstance(value, list):
        return [as_json(child) for child in value]
    if isinstance(value, set):
        return {_key(key): None for key in sorted(value, key=str)}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return str(value)


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return "null" if key is None else str(key)


def prune_nulls(value: Any, nullable: Tree) -> Any:
    """Drop mapping entries whose value is null, except where the schema allows a null.

    Nulls inside lists stay: the API server judges those by the item's type.
    """
    if isinstance(value, dict):
        properties, extra = nullable.get("p", {}), nullable.get("a", {})
        out = {}
        for key, child in value.items():
            below = properties.get(key, extra)
            if child is not None or below.get("n"):
                out[key] = prune_nulls(child, below)
        return out
    if isinstance(value, list):
        below = nullable.get("i", {})
        return [prune_nulls(child, below) for child in value]
    return value


def with_defaults(value: Any, tree: Tree) -> Any:
    """Return the value with its defaults filled in; what needs none is shared, not copied."""
    if isinstance(value, dict):
        out = value
        for key, below in tree.get("p", {}).items():
            if value.get(key) is None:
                if "d" not in below:
                    continue
                filled = with_defaults(below["d"], below)
            else:
                filled = with_defaults(value[key], below)
                if filled is value[key]:
                    continue
            out = dict(value) if out is value else out
            out[key] = filled
        if "a" in tree:
            named = tree.get("p", {})
            changed = {
                key: filled
                for key, child in value.items()
                if key not in named and (filled := with_defaults(child, tree["a"])) is not child
            }
            if changed:
                out = {**out, **changed}
        return out
    if isinstance(value, list) and "i" in tree:
        items = [with_defaults(child, tree["i"]) for child in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def duplicates(value: Any, tree: Tree, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the entries of keyed lists and sets that stand twice.

    Yields:
        The path of the second entry, and its key fields (``{"": item}`` for a set).
    """
    if isinstance(value, dict):
        for key, below in tree.get("p", {}).items():
            child = value.get(key)
            if child:
                yield from duplicates(child, below, (*path, key))
        if "a" in tree:
            for key, child in value.items():
                yield from duplicates(child, tree["a"], (*path, key))
    elif isinstance(value, list):
        if len(value) > 1:
            keys = tree.get("k")
            if keys:
                yield from _repeated_keys(value, keys, tree.get("d", {}), path)
            elif "set" in tree:
                yield from _repeated_items(value, path)
        if "i" in tree:
            for position, child in enumerate(value):
                yield from duplicates(child, tree["i"], (*path, position))


def _repeated_keys(
    items: list[Any], keys: list[str], defaults: dict[str, Any], path: Path
) -> Iterator[tuple[Path, dict[str, Any]]]:
    seen = set()
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        entry = {key: item.get(key, defaults.get(key)) for key in keys}
        identity = repr(entry)
        if identity in seen:
            yield (*path, position), entry
        seen.add(identity)


def _repeated_items(items: list[Any], path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    seen = set()
    for position, item in enumerate(items):
        identity = repr(item)
        if identity in seen:
            yield (*path, position), {"": item}
        seen.add(identity)
