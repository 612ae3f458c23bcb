"""Show what is the same once: a change of a class reaches a hundred clusters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from generator.diff.compare import fingerprint
from generator.diff.match import display_key, name_stem
from generator.diff.model import (
    IMPACT_RANK,
    MISSING,
    Change,
    FieldChange,
    Group,
    Path,
    Resource,
    Verb,
    show_path,
)

VARIES_FROM = 4
"""Groups that differ in values only are merged from this number on."""


def group_changes(changes: Iterable[Change], lone_clusters: dict[str, Verb]) -> tuple[Group, ...]:
    """Group changes and order the groups: gravest first, then cluster, kind, name.

    Args:
        changes: all changes.
        lone_clusters: clusters that came or went as a whole; theirs stay together.
    """
    whole: dict[str, list[Change]] = {}
    same: dict[Any, list[Change]] = {}
    for change in changes:
        cluster = change.resource.cluster
        if lone_clusters.get(cluster) is change.verb:
            whole.setdefault(cluster, []).append(change)
        else:
            same.setdefault(_same_key(change), []).append(change)
    groups = [Group(_sorted(members), whole_cluster=True) for members in whole.values()]
    groups += _merge_varying([Group(_sorted(members)) for members in same.values()])
    return tuple(sorted(groups, key=_group_order))


def _sorted(changes: list[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda c: (IMPACT_RANK[c.impact], *display_key(c.resource))))


def _group_order(group: Group) -> tuple[Any, ...]:
    verb = list(Verb).index(group.first.verb)
    return (IMPACT_RANK[group.impact], *display_key(group.first.resource), verb)


def _same_key(change: Change) -> tuple[Any, ...]:
    """What must agree for two changes to be shown as one."""
    part = change.resource
    head = (change.verb, change.impact, part.group, part.kind)
    if change.verb in (Verb.ADD, Verb.DELETE):
        return (*head, part.namespace, name_stem(part.name))
    fields = tuple(_field_key(field) for field in change.fields if not field.follows)
    return (*head, *_route(change), fields)


def _route(change: Change) -> tuple[Any, ...]:
    """From where to where something moved; the same way in another cluster is the same move."""
    was, now = change.previous, change.resource
    if change.verb is not Verb.MOVE or was is None:
        return ()
    ends = (was.namespace, was.name, now.namespace, now.name)
    return ends if was.cluster == now.cluster else (*ends, was.cluster, now.cluster)


def _field_key(field: FieldChange) -> tuple[str, str, str, str]:
    return (show_path(field.path), field.op, value_key(field.old), value_key(field.new))


def value_key(value: Any) -> str:
    """Return a text that is equal for equal values, and its own for a missing one."""
    return "" if value is MISSING else fingerprint(value)


def _merge_varying(groups: list[Group]) -> list[Group]:
    """Merge groups whose members change the same fields of one kind to various values."""
    alike: dict[Any, list[Group]] = {}
    for group in groups:
        alike.setdefault(_shape(group.first), []).append(group)
    merged = []
    for members in alike.values():
        if len(members) < VARIES_FROM or members[0].first.verb not in (Verb.CHANGE, Verb.REPLACE):
            merged += members
        else:
            every = [change for group in members for change in group.changes]
            merged.append(Group(_sorted(every), varies=True))
    return merged


def _shape(change: Change) -> tuple[Any, ...]:
    part = change.resource
    fields = tuple(sorted({(show_path(f.path), f.op) for f in change.fields if not f.follows}))
    apart = (part, change.previous) if change.verb not in (Verb.CHANGE, Verb.REPLACE) else ()
    return (change.verb, change.impact, part.group, part.kind, fields, apart)


def value_variants(group: Group, path: Path) -> list[tuple[Any, Any, int]]:
    """Return the pairs of old and new value that a field has in a group, most frequent first; none
    where all members have the same."""
    name = show_path(path)
    counts: dict[tuple[str, str], list[Any]] = {}
    for change in group.changes if group.varies else ():
        for field in change.fields:
            if show_path(field.path) == name:
                key = (value_key(field.old), value_key(field.new))
                counts.setdefault(key, [*field.sides, 0])[2] += 1
    pairs = [(old, new, count) for old, new, count in counts.values()]
    return sorted(pairs, key=lambda pair: -pair[2]) if len(pairs) > 1 else []


def places(group: Group) -> list[tuple[str, list[Resource]]]:
    """Return the members by cluster, in order."""
    found: dict[str, list[Resource]] = {}
    for change in group.changes:
        found.setdefault(change.resource.cluster, []).append(change.resource)
    return list(found.items())


def same_name_everywhere(group: Group) -> bool:
    """Whether all members have one namespace and name, so that a list of clusters says it all."""
    return len({(c.resource.namespace, c.resource.name) for c in group.changes}) == 1
