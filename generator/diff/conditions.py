"""The few questions about values and versions that a row of the tables may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from generator.diff.model import MISSING, FieldChange


@dataclass(frozen=True, slots=True)
class Case:
    """What a condition may look at.

    Attributes:
        change: the field's change, None when the resource as a whole is asked about.
        old: the base's object.
        new: the head's object.
        versions: component → version of the cluster, such as ``{"kueue": "0.17.0"}``.
        name: the resource's name.
    """

    change: FieldChange | None
    old: Any
    new: Any
    versions: dict[str, str]
    name: str = ""


def dig(value: Any, *keys: str) -> Any:
    """Follow keys through nested maps; None where one is missing."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def entries(value: Any, *keys: str) -> list[Any]:
    """Follow keys to a list; empty where there is none."""
    found = dig(value, *keys)
    return found if isinstance(found, list) else []


def mapping(value: Any, *keys: str) -> dict[str, Any]:
    """Follow keys to a map; empty where there is none."""
    found = dig(value, *keys)
    return found if isinstance(found, dict) else {}


def _at_most(version: str | None, limit: tuple[int, int]) -> bool:
    """Whether a version is at most major.minor; an unknown one counts as such, to be careful."""
    try:
        major, minor = (int(part) for part in (version or "").lstrip("v").split(".")[:2])
    except ValueError:
        return True
    return (major, minor) <= limit


def _block_kept(case: Case) -> bool:
    """The spec block stands on both sides: CEL compares old and new only then."""
    return case.change is not None and case.change.depth >= 2


def _block_moved(case: Case) -> bool:
    return not _block_kept(case)


def _with_topology(case: Case) -> bool:
    return bool(dig(case.old, "spec", "topologyName"))


def _frozen_flavor(case: Case) -> bool:
    return _with_topology(case) and _at_most(case.versions.get("kueue"), (0, 19))


def _wholly_frozen_flavor(case: Case) -> bool:
    return _with_topology(case) and _at_most(case.versions.get("kueue"), (0, 16))


def _hostname_lowest(body: Any) -> bool:
    levels = dig(body, "spec", "levels")
    last = levels[-1] if isinstance(levels, list) and levels else None
    return bool(dig(last, "nodeLabel") == "kubernetes.io/hostname")


def _fixed_levels(case: Case) -> bool:
    return not (_hostname_lowest(case.old) and _hostname_lowest(case.new))


_WIDTH = {
    "Never": 0,
    "LowerPriority": 1,
    "LowerOrNewerEqualPriority": 2,
    "Any": 2,
}


def _preempts_more(case: Case) -> bool:
    """The new policy lets a waiting workload evict what the old one did not."""
    if case.change is None:
        return False
    old = case.change.old if isinstance(case.change.old, str) else "Never"
    new = case.change.new if isinstance(case.change.new, str) else "Never"
    return _WIDTH.get(new, 2) > _WIDTH.get(old, 0)


def _drains(case: Case) -> bool:
    return case.change is not None and bool(case.change.new == "HoldAndDrain")


def _holds(case: Case) -> bool:
    return case.change is not None and bool(case.change.new == "Hold")


def _suspends(case: Case) -> bool:
    return case.change is not None and case.change.new is True


def _value_only(case: Case) -> bool:
    change = case.change
    return change is not None and change.old is not MISSING and change.new is not MISSING


def _sealed(case: Case) -> bool:
    return dig(case.old, "immutable") is True


def _names_backups(case: Case) -> bool:
    """An argument that tells the replicator the job's name, under which backups are filed."""
    if case.change is None:
        return False
    values = [v for v in (case.change.old, case.change.new) if isinstance(v, str)]
    key = getattr(case.change.path[-1], "key", "")
    return key in ("run_name", "--job-name") or any(
        value.startswith(("run_name=", "--job-name=")) for value in values
    )


def _keeps_fewer(case: Case) -> bool:
    """A retention job that deletes backups which it kept before."""
    change = case.change
    if change is None or not case.name.startswith("retention-"):
        return False
    if change.new == "--delete":
        return True
    counts = [_kept(value) for value in (change.old, change.new)]
    return None not in counts and counts[1] < counts[0]  # type: ignore[operator]


def _kept(value: Any) -> float | None:
    if value == "always":
        return float("inf")
    return int(value) if isinstance(value, str) and value.isdecimal() else None


def _controllers(case: Case) -> bool:
    return case.name.startswith("controllers/")


def _bootstrap(case: Case) -> bool:
    return case.name.startswith("bootstrap/")


class Condition(NamedTuple):
    """A question, in words and as a function."""

    words: str
    holds: Callable[[Case], bool]


CONDITIONS: dict[str, Condition] = {
    "": Condition("", lambda _: True),
    "block-kept": Condition("the block stands on both sides", _block_kept),
    "block-moved": Condition("the whole block comes or goes", _block_moved),
    "topology-set": Condition("topologyName is set", _with_topology),
    "frozen-flavor": Condition("topologyName is set and Kueue is at most 0.19", _frozen_flavor),
    "wholly-frozen-flavor": Condition(
        "topologyName is set and Kueue is at most 0.16", _wholly_frozen_flavor
    ),
    "fixed-levels": Condition(
        "kubernetes.io/hostname is not the lowest level on both sides", _fixed_levels
    ),
    "preempts-more": Condition("the new policy evicts what the old one spared", _preempts_more),
    "drains": Condition("the new value is HoldAndDrain", _drains),
    "holds": Condition("the new value is Hold", _holds),
    "suspends": Condition("the new value is true", _suspends),
    "value-only": Condition("both sides have a value", _value_only),
    "sealed": Condition("the object says immutable: true", _sealed),
    "bootstrap": Condition("the file lies in bootstrap/", _bootstrap),
    "controllers": Condition("the file lies in controllers/", _controllers),
    "names-backups": Condition("it names the job for the replicator", _names_backups),
    "keeps-fewer": Condition("a retention job would keep fewer backups", _keeps_fewer),
}
"""Name in a table → question."""
