"""Where derived numbers are shown, and what is said of them when many changes are shown as one."""

from __future__ import annotations

from collections.abc import Iterable

from generator.diff.model import Derived, FieldChange, Group, plain_path
from generator.spelling import plural

_SIZES = ("job-size", "nodes")
"""Numbers that add up over a group."""


def numbers_beside(group: Group, field: FieldChange) -> list[str]:
    """Return the numbers that belong beside a field."""
    return [_said(group, line) for line in group.first.derived if _belongs(line, field)]


def numbers_apart(group: Group, fields: Iterable[FieldChange]) -> list[str]:
    """Return the numbers that no shown field carries; of several members, their sizes as a sum."""
    shown = list(fields)
    lines = [
        line for line in group.first.derived if not any(_belongs(line, field) for field in shown)
    ]
    if len(group.changes) == 1 or group.whole_cluster:
        return [line.text for line in lines]
    # Of many, only numbers that the change moves: the others would be the first one's alone.
    moved = [line for line in lines if line.name not in _SIZES and line.old != line.new]
    return [_said(group, line) for line in moved] + _together(group)


def _belongs(line: Derived, field: FieldChange) -> bool:
    """Whether a number is about a field: the same keys, and the list entries that it names."""
    if not line.path or ".".join(plain_path(field.path)) != _without_items(line.path):
        return False
    names = [part.split("]")[0] for part in line.path.split("[")[1:]]
    keys = [part.key for part in field.path if not isinstance(part, str)]
    return keys[len(keys) - len(names) :] == names


def _without_items(path: str) -> str:
    out, depth = [], 0
    for char in path:
        depth += (char == "[") - (char == "]")
        if depth == 0 and char != "]":
            out.append(char)
    return "".join(out)


def _said(group: Group, line: Derived) -> str:
    """Return a number's text; where it differs over a group, that it is the first one's."""
    members = [
        other
        for change in group.changes
        for other in change.derived
        if (other.name, other.path) == (line.name, line.path)
    ]
    if len({other.text for other in members}) <= 1:
        return line.text
    beyond = sum(other.exceeded for other in members)
    warning = f", out of bounds in {beyond:,} of {len(members):,} places" if beyond else ""
    return f"in {group.first.resource.cluster}: {line.text} (differs by place{warning})"


def _together(group: Group) -> list[str]:
    """Nodes or pods, and chips, of all members; each node pool once."""
    if any(change.chips is None for change in group.changes):
        return []
    if group.first.pools:
        pools = {
            (change.resource.cluster, name): (nodes, chips)
            for change in group.changes
            for name, nodes, chips in change.pools
        }
        nodes, chips = (sum(sizes) for sizes in zip(*pools.values(), strict=True))
        return [f"together {plural(nodes, 'node')}, {plural(chips, 'chip')}"]
    pods = sum(change.nodes or 0 for change in group.changes)
    chips = sum(change.chips or 0 for change in group.changes)
    return [f"together {plural(pods, 'pod')}, {plural(chips, 'chip')}"]
