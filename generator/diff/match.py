"""Find which resource of the base became which of the head.

Identity first; then the names that people know, behind hashed ones; then the same name with another
hash; then content. Objects are only ever matched with objects of their own kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from generator.diff.compare import fingerprint
from generator.diff.model import Resource, Verb
from generator.diff.resources import FILE_KIND, Loaded

STABLE_NAME = {
    ("checkpointing.gke.io", "CheckpointConfiguration"): "stowplan.dev/config",
    ("jobset.x-k8s.io", "JobSet"): "stowplan.dev/workload",
}
"""(group, kind) → the annotation that holds the inventory's name behind a hashed one."""

SIMILAR = 0.6
"""Share of equal fields from which an object under another name counts as the same, renamed."""

MAX_PAIRS = 40_000
"""Comparisons of content per kind and cluster; beyond it only identical contents are matched."""

_HASH = re.compile(r"-(?=[0-9a-f]*[0-9])[0-9a-f]{8,10}(?=-|$)|-r\d+$")
"""What a generated name carries: a hash of 8 to 10 hex digits, or a run number at the end."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One resource on both sides, or on one.

    Attributes:
        verb: move where the object is the same under another name or in another place, replace
            where the new name carries a recreation.
        old: the base's, None for an addition.
        new: the head's, None for a deletion.
    """

    verb: Verb
    old: Loaded | None
    new: Loaded | None


def name_stem(name: str) -> str:
    """Return a name without what was generated: ``mtc-1a2b3c4d-configuration`` → ``mtc-
    configuration``, ``llama-r12`` → ``llama``."""
    return _HASH.sub("", name)


def match(
    old: Iterable[Loaded], new: Iterable[Loaded], lone_clusters: Container[str] = ()
) -> list[Pair]:
    """Pair the resources of the files that differ; each ends up in exactly one pair.

    Args:
        old: the base's.
        new: the head's.
        lone_clusters: clusters that only one side has; they come or go as a whole, and nothing of
            them is taken for moved.
    """
    matcher = _Matcher(list(old), list(new))
    matcher.by_key(Verb.CHANGE, lambda item: (item.resource, 0))
    matcher.by_key(Verb.REPLACE, _stable_key)
    matcher.by_key(Verb.REPLACE, _stem_key)
    matcher.by_content()
    matcher.across_clusters(lone_clusters)
    return matcher.finish()


def _stable_key(item: Loaded) -> tuple[Any, ...] | None:
    annotation = STABLE_NAME.get((item.resource.group, item.resource.kind))
    name = item.annotation(annotation) if annotation else ""
    part = item.resource
    return (part.cluster, part.group, part.kind, part.namespace, name) if name else None


def _stem_key(item: Loaded) -> tuple[Any, ...] | None:
    part = item.resource
    stem = name_stem(part.name)
    if stem == part.name or part.kind == FILE_KIND:
        return None
    return (part.cluster, part.group, part.kind, part.namespace, stem)


class _Matcher:
    """Holds what is not paired yet."""

    def __init__(self, old: list[Loaded], new: list[Loaded]) -> None:
        self._old = old
        self._new = new
        self._pairs: list[Pair] = []

    def _settle(self, pairs: list[tuple[Verb, Loaded, Loaded]]) -> None:
        gone = {id(was) for _, was, _ in pairs}
        come = {id(now) for _, _, now in pairs}
        self._pairs += [Pair(verb, was, now) for verb, was, now in pairs]
        self._old = [item for item in self._old if id(item) not in gone]
        self._new = [item for item in self._new if id(item) not in come]

    def by_key(self, verb: Verb, key: Callable[[Loaded], Any]) -> None:
        """Pair what has the same key; among several, the most similar first."""
        before = _by(self._old, key)
        pairs: list[tuple[Verb, Loaded, Loaded]] = []
        for name, candidates in _by(self._new, key).items():
            others = before.get(name, [])
            for was, now in _best(others, candidates, least=0.0):
                pairs.append((verb, was, now))
        self._settle(pairs)

    def by_content(self) -> None:
        """Pair renamed objects of one kind and cluster."""

        def kind_key(item: Loaded) -> Any:
            part = item.resource
            return (part.cluster, part.group, part.kind)

        before = _by(self._old, kind_key)
        pairs = [
            (Verb.MOVE, was, now)
            for kind, candidates in _by(self._new, kind_key).items()
            for was, now in _best(before.get(kind, []), candidates, least=SIMILAR)
        ]
        self._settle(pairs)

    def across_clusters(self, lone_clusters: Container[str]) -> None:
        """Pair what left one cluster and came to one other under the same name.

        Only where exactly one left and one came: a class that a hundred clusters share and one
        drops was not moved.
        """

        def key(item: Loaded) -> Any:
            part = item.resource
            if part.cluster in lone_clusters:
                return None
            stable = _stable_key(item)
            name = stable[-1] if stable else part.name
            return (part.group, part.kind, part.namespace, name) if part.kind != FILE_KIND else None

        before = _by(self._old, key)
        pairs = []
        for name, come in _by(self._new, key).items():
            gone = before.get(name, [])
            if len(gone) == len(come) == 1 and gone[0].resource.cluster != come[0].resource.cluster:
                pairs += [(Verb.MOVE, was, now) for was, now in _best(gone, come, least=SIMILAR)]
        self._settle(pairs)

    def finish(self) -> list[Pair]:
        """Return all pairs, what is left over as deletions and additions."""
        left = [Pair(Verb.DELETE, item, None) for item in self._old]
        left += [Pair(Verb.ADD, None, item) for item in self._new]
        return self._pairs + left


def _by(items: list[Loaded], key: Callable[[Loaded], Any]) -> dict[Any, list[Loaded]]:
    found: dict[Any, list[Loaded]] = {}
    for item in items:
        name = key(item)
        if name is not None:
            found.setdefault(name, []).append(item)
    return found


def _best(old: list[Loaded], new: list[Loaded], *, least: float) -> Iterator[tuple[Loaded, Loaded]]:
    """Yield the most similar pairs, each side used once, none below the least similarity."""
    if len(old) == len(new) == 1 and least == 0.0:
        yield old[0], new[0]
        return
    if not old or not new:
        return
    if len(old) * len(new) > MAX_PAIRS:
        yield from _identical(old, new)
        return
    left = [_leaves(item) for item in old]
    right = [_leaves(item) for item in new]
    scores = sorted(
        ((-similarity(a, b), i, j) for i, a in enumerate(left) for j, b in enumerate(right)),
    )
    used_old: set[int] = set()
    used_new: set[int] = set()
    for score, i, j in scores:
        if -score >= least and i not in used_old and j not in used_new:
            used_old.add(i)
            used_new.add(j)
            yield old[i], new[j]


def _identical(old: list[Loaded], new: list[Loaded]) -> Iterator[tuple[Loaded, Loaded]]:
    waiting: dict[frozenset[str], list[Loaded]] = {}
    for item in old:
        waiting.setdefault(_leaves(item), []).append(item)
    for item in new:
        candidates = waiting.get(_leaves(item))
        if candidates:
            yield candidates.pop(0), item


def similarity(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the share of leaves that two objects have in common, 0 to 1 (Jaccard)."""
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def _leaves(item: Loaded) -> frozenset[str]:
    """Return an object's leaves as texts, without its name and without order in lists."""
    found: set[str] = set()
    stack: list[tuple[str, Any]] = [("", item.body)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and value:
            stack += [
                (f"{path}/{key}", entry)
                for key, entry in value.items()
                if not (path == "/metadata" and key in ("name", "namespace"))
            ]
        elif isinstance(value, list) and value:
            stack += [(f"{path}/-", entry) for entry in value]
        elif path not in ("/apiVersion", "/kind"):
            found.add(f"{path}={fingerprint(value)}")
    return frozenset(found)


def display_key(resource: Resource) -> tuple[str, str, str, str, str]:
    """Order resources within one impact class: cluster, kind, namespace, name."""
    return (resource.cluster, resource.kind, resource.group, resource.namespace, resource.name)
