"""What is left between an object as it was read and as compile makes it.

Values that the source states and compile does not make go into the overlay. Values that compile
makes and the source does not state are listed, unless the API server would fill in the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from schemas.quantity import QuantityError, parse_quantity

Step = str | tuple[str, str]
"""A key of a mapping, or (key, value) of the list entry that is meant."""
Path = tuple[Step, ...]

LIST_KEYS = ("name", "mountPath")
"""Keys by which entries of a list are told apart, tried in this order."""

ATOMIC = frozenset({"securityContext"})
"""Mappings that mean something only as a whole."""

_REPLICATED: Path = ("spec", "replicatedJobs", "*")
_JOB: Path = (*_REPLICATED, "template", "spec")

# kind → path → what the API server, a CRD or a webhook fills in.
# Sources: the CRDs of Kueue 0.15 to 0.19 and JobSet 0.8 to 0.12, JobSet's mutating webhook,
# kubernetes pkg/apis/scheduling/v1/defaults.go.
DEFAULTS: dict[str, dict[Path, Any]] = {
    "JobSet": {
        ("spec", "network", "enableDNSHostnames"): True,
        ("spec", "network", "publishNotReadyAddresses"): True,
        ("spec", "successPolicy", "operator"): "All",
        ("spec", "startupPolicy", "startupPolicyOrder"): "AnyOrder",
        ("spec", "failurePolicy", "maxRestarts"): 0,
        ("spec", "failurePolicy", "restartStrategy"): "Recreate",
        (*_REPLICATED, "groupName"): "default",
        (*_REPLICATED, "replicas"): 1,
        (*_JOB, "completionMode"): "Indexed",
        (*_JOB, "parallelism"): 1,
        (*_JOB, "completions"): 1,
        (*_JOB, "backoffLimit"): 6,
        (*_JOB, "template", "spec", "dnsPolicy"): "ClusterFirst",
        (*_JOB, "template", "spec", "schedulerName"): "default-scheduler",
    },
    "ClusterQueue": {
        ("spec", "queueingStrategy"): "BestEffortFIFO",
        ("spec", "stopPolicy"): "None",
        ("spec", "preemption", "reclaimWithinCohort"): "Never",
        ("spec", "preemption", "withinClusterQueue"): "Never",
        ("spec", "preemption", "borrowWithinCohort", "policy"): "Never",
        ("spec", "flavorFungibility", "whenCanBorrow"): "MayStopSearch",
        ("spec", "flavorFungibility", "whenCanPreempt"): "TryNextFlavor",
    },
    "LocalQueue": {("spec", "stopPolicy"): "None"},
    "PriorityClass": {
        ("globalDefault",): False,
        ("preemptionPolicy",): "PreemptLowerPriority",
        ("description",): "",
    },
    "WorkloadPriorityClass": {("description",): ""},
    "CheckpointConfiguration": {
        ("spec", "enableExternalJaxProcessIds"): False,
        ("spec", "gcsFuseMountOptions"): [],
    },
    "ServiceAccount": {("automountServiceAccountToken",): True},
}
ANYWHERE: dict[Step, Any] = {"apiVersion": "v1", "operator": "Equal"}
"""Defaults of a reference's apiVersion and of a toleration's operator, wherever they stand."""

OWN_METADATA = ("argocd.argoproj.io/", "stowplan.dev/", "app.kubernetes.io/managed-by")
"""Labels and annotations that compile writes itself."""
_QUANTITIES = frozenset({"limits", "requests", "hard"})
_QUANTITY_KEYS = frozenset(
    "nominalQuota borrowingLimit lendingLimit weight sizeLimit csiEphemeralLimit storage".split()
)


@dataclass
class Residue:
    """What is left of one object.

    Attributes:
        patches: path → value that the source states and compile does not make.
        added: paths that compile makes beyond the source, with values.
        ours: paths of metadata where compile writes its own value over the source's.
    """

    patches: list[tuple[Path, Any]] = field(default_factory=list)
    added: list[tuple[Path, Any]] = field(default_factory=list)
    ours: list[Path] = field(default_factory=list)


def compare(kind: str, source: dict[str, Any], built: dict[str, Any]) -> Residue:
    """Compare an object as read with one as built; name and API version are not looked at."""
    residue = Residue()
    _mapping(kind, _without_identity(source), _without_identity(built), (), residue)
    return residue


def _without_identity(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        k: v for k, v in (body.get("metadata") or {}).items() if k not in ("name", "namespace")
    }
    return {
        **{k: v for k, v in body.items() if k not in ("apiVersion", "kind")},
        "metadata": metadata,
    }


def _mapping(
    kind: str, source: dict[str, Any], built: dict[str, Any], path: Path, residue: Residue
) -> None:
    for key in dict.fromkeys([*source, *built]):
        _value(kind, source.get(key), built.get(key), (*path, key), residue)


def _value(kind: str, source: Any, built: Any, path: Path, residue: Residue) -> None:
    if isinstance(source, dict) and isinstance(built, dict):
        if path and path[-1] == "resources":
            source = _with_defaulted_requests(source, built)
        if path and path[-1] in ATOMIC:
            # Half of one and half of another could be a combination that is refused.
            if _canonical(source, path) != _canonical(built, path):
                residue.patches.append((path, source))
            return
        _mapping(kind, source, built, path, residue)
        return
    key = _list_key(source, built)
    if key is not None:
        _entries(kind, source, built, key, path, residue)
        return
    if source is None:
        if not _is_default(kind, built, path):
            residue.added.append((path, built))
    elif built is None:
        if _is_own(path):
            residue.ours.append(path)
        elif not _is_default(kind, source, path):
            residue.patches.append((path, source))
    elif _canonical(source, path) != _canonical(built, path):
        if _is_own(path):
            residue.ours.append(path)
        elif path[-1] == "tolerations" and (more := _beyond(source, built, path)) is not None:
            residue.added.append((path, more))
        else:
            residue.patches.append((path, source))


def _beyond(source: Any, built: Any, path: Path) -> list[Any] | None:
    """The tolerations that were added to the source's, None if one of those is missing."""
    known = {_canonical(entry, path) for entry in source}
    if not known <= {_canonical(entry, path) for entry in built}:
        return None
    return [entry for entry in built if _canonical(entry, path) not in known]


def _list_key(source: Any, built: Any) -> str | None:
    """The key that tells the entries of both lists apart, None where there is none."""
    if not isinstance(source, list) or not isinstance(built, list):
        return None
    for key in LIST_KEYS:
        if all(
            all(isinstance(entry, dict) and isinstance(entry.get(key), str) for entry in side)
            and len({entry[key] for entry in side}) == len(side)
            for side in (source, built)
        ):
            return key
    return None


def _with_defaulted_requests(source: dict[str, Any], built: dict[str, Any]) -> dict[str, Any]:
    """A request that is not stated is the limit (kubernetes pkg/apis/core/v1/defaults.go).

    Written out where compile writes one, so that a limit of the source never meets a request of
    compile's.
    """
    limits, made = source.get("limits") or {}, built.get("requests") or {}
    implied = {key: value for key, value in limits.items() if key in made}
    return {**source, "requests": {**implied, **(source.get("requests") or {})}}


def _entries(
    kind: str, source: list[Any], built: list[Any], key: str, path: Path, residue: Residue
) -> None:
    left = {entry[key]: entry for entry in source}
    right = {entry[key]: entry for entry in built}
    for name in dict.fromkeys([*left, *right]):
        step = (*path, (key, name))
        _value(kind, left.get(name), right.get(name), step, residue)


def _is_own(path: Path) -> bool:
    last = path[-1]
    return (
        path[0] == "metadata"
        and len(path) == 3
        and isinstance(last, str)
        and last.startswith(OWN_METADATA)
    )


def _is_default(kind: str, value: Any, path: Path) -> bool:
    """Whether a value, or everything in it, is what an absent one means."""
    if isinstance(value, dict) and value:
        return all(_is_default(kind, item, (*path, key)) for key, item in value.items())
    pattern = tuple("*" if isinstance(step, tuple) else step for step in path)
    table = DEFAULTS.get(kind, {})
    if pattern in table:
        return bool(table[pattern] == value)
    return value in ({}, []) or (
        len(path) > 2 and isinstance(path[-1], str) and ANYWHERE.get(path[-1]) == value
    )


def _canonical(value: Any, path: Path) -> str:
    """A value in a form that is equal for values that mean the same."""
    return json.dumps(_plain(value, path), sort_keys=True)


def _plain(value: Any, path: Path) -> Any:
    if isinstance(value, dict):
        plain = {key: _plain(item, (*path, key)) for key, item in value.items()}
        return {k: v for k, v in plain.items() if ANYWHERE.get(k) != v}
    if isinstance(value, list):
        items = [_plain(item, path) for item in value]
        if path and path[-1] in ("tolerations", "matchExpressions"):
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        return items
    if _is_quantity(path) and not isinstance(value, bool):
        try:
            return str(parse_quantity(str(value)).normalize())
        except QuantityError:
            return str(value)
    return value


def _is_quantity(path: Path) -> bool:
    return bool(path) and (
        path[-1] in _QUANTITY_KEYS or (len(path) > 1 and path[-2] in _QUANTITIES)
    )


def shown(path: Path) -> str:
    """A path as people read it: ``spec.containers[name=main].image``."""
    text = ""
    for step in path:
        if isinstance(step, tuple):
            text += f"[{step[1]}]"
        elif all(c.isalnum() or c in "_-" for c in step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every scalar of a value with its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path, value
