"""Objects that are not as ``compiled/`` says.

What Git writes must stand live as it is. What Git leaves out may be filled in by the API server
(defaults) and by controllers; it is a difference only where somebody else wrote it, which
``managedFields`` tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.subject import Subject
from generator.diff.compare import compare
from generator.diff.conditions import dig
from generator.diff.model import MISSING, FieldChange, Path, plain_path, show_path
from generator.diff.resources import group_of
from generator.doctor.look import Look
from generator.doctor.objects import count, is_going, labels_of, name_of, namespace_of, some
from generator.doctor.ownership import MANAGED_BY, appliers, writers
from generator.doctor.reads import BY_KIND
from generator.doctor.snapshot import redacted
from generator.doctor.wanted import place_in
from generator.findings import Finding, Location, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

WRITTEN_BY_CONTROLLERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "JobSet": (
        ("spec", "suspend"),
        ("spec", "replicatedJobs", "template", "spec", "template", "metadata"),
        ("spec", "replicatedJobs", "template", "spec", "template", "spec", "nodeSelector"),
        ("spec", "replicatedJobs", "template", "spec", "template", "spec", "tolerations"),
        ("spec", "replicatedJobs", "template", "spec", "template", "spec", "schedulingGates"),
        ("spec", "replicatedJobs", "template", "metadata"),
    ),
    "Namespace": (("spec", "finalizers"), ("metadata", "labels", "kubernetes.io/metadata.name")),
    "ServiceAccount": (("secrets",), ("imagePullSecrets",)),
    "CronJob": (("spec", "suspend"),),
}
"""Kind → fields that controllers (Kueue above all) or people in an emergency add to it."""

_METADATA = frozenset({"labels", "annotations"})
_NOT_COMPARED = (("status",), ("apiVersion",))
_MOST_FIELDS = 6


def drifted(look: Look) -> Iterator[Finding]:
    """Objects of the compiled cluster that are missing or differ."""
    if look.wanted is None:
        return
    for subject in look.wanted.subjects:
        key = place_in(subject)
        if not look.snapshot.has(key):
            continue
        live = _find(look, key, subject)
        if live is None:
            yield _missing(look, subject)
            continue
        changes = differences(subject.body, live)
        if changes:
            yield _differs(look, subject, live, changes)


def _find(look: Look, key: str, subject: Subject) -> dict[str, Any] | None:
    for item in look.snapshot.items(key):
        if name_of(item) == subject.name and namespace_of(item) in ("", subject.namespace):
            return item
    return None


def differences(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> list[FieldChange]:
    """The fields in which a live object is not what the manifest says, in the manifest's order."""
    kind = str(wanted.get("kind", ""))
    group = group_of(str(wanted.get("apiVersion", "")))
    known = appliers(live)
    return [
        change
        for change in compare(redacted(wanted), {"kind": kind, **live}, group, kind)
        if _counts(change, kind, live, known)
    ]


def _counts(change: FieldChange, kind: str, live: Mapping[str, Any], known: set[str]) -> bool:
    plain = plain_path(change.path)
    if any(plain[: len(path)] == path for path in _NOT_COMPARED):
        return False
    if change.op == "remove":
        return not _is_zero(change.old)
    if change.op != "add":
        return True
    if plain[0] == "metadata" and (len(plain) < 2 or plain[1] not in _METADATA):
        return False
    if any(plain[: len(path)] == path for path in WRITTEN_BY_CONTROLLERS.get(kind, ())):
        return False
    if plain[0] == "metadata" and _of_a_tool(plain[-1]):
        return False
    hands = {manager for manager, _ in writers(live, change.path)}
    return bool(hands) and not hands & known


def _of_a_tool(key: str) -> bool:
    """Whether a label or annotation is some tool's own; those do not change what Git says."""
    return "/" in key


def _is_zero(value: Any) -> bool:
    """Whether the API server leaves a value out: false, 0, empty."""
    return value is MISSING or value in (False, 0, "", None) or value in ([], {})


def _missing(look: Look, subject: Subject) -> Finding:
    done = subject.kind == "JobSet" and "ttlSecondsAfterFinished" in subject.spec
    return Finding(
        "DOC050",
        _N if done else _E,
        "it is in compiled/ and not in the cluster"
        + (", perhaps since it has finished and its time is over" if done else ""),
        "let Argo CD sync, or apply the file",
        look.cluster,
        subject.resource,
        manifest=Location(subject.file),
    )


def _differs(
    look: Look, subject: Subject, live: Mapping[str, Any], changes: list[FieldChange]
) -> Finding:
    told = [_text(change, live) for change in changes[:_MOST_FIELDS]]
    more = len(changes) - len(told)
    return Finding(
        "DOC051",
        _W,
        f"the live object differs from compiled/: {'; '.join(told)}"
        + (f"; and {count(more, 'more field')}" if more > 0 else ""),
        "put the change into the inventory and compile, or let Argo CD undo it",
        look.cluster,
        subject.resource,
        manifest=Location(subject.file),
    )


def _text(change: FieldChange, live: Mapping[str, Any]) -> str:
    where = show_path(change.path)
    if change.op == "order":
        text = f"{where} is in another order"
    elif change.op == "add":
        text = f"{where} is {_short(change.new)}, and Git has none"
    elif change.op == "remove":
        text = f"{where} is gone, and Git has {_short(change.old)}"
    else:
        text = f"{where} is {_short(change.new)}, and Git has {_short(change.old)}"
    return text + _by(live, change.path, appliers(live))


def _by(live: Mapping[str, Any], path: Path, known: set[str]) -> str:
    """Who wrote it, where it was not the one who applies."""
    found = [(manager, time) for manager, time in writers(live, path) if manager not in known]
    if not found:
        return ""
    manager, time = max(found, key=lambda pair: pair[1])
    return f" (written by {manager}{f' at {time}' if time else ''})"


def _short(value: Any) -> str:
    text = str(value)
    if "sha256:" in text and "@sha256:" not in text:
        return "another value"
    return repr(value) if len(text) <= 60 else f"{text[:57]!r}…"


def leftover(look: Look) -> Iterator[Finding]:
    """Objects that stowplan has written once and that are not in ``compiled/`` any more."""
    if look.wanted is None:
        return
    wanted = {(s.kind, s.namespace, s.name) for s in look.wanted.subjects}
    for read in BY_KIND.values():
        left = [
            f"{namespace_of(item)}/{name_of(item)}" if namespace_of(item) else name_of(item)
            for item in look.snapshot.items(read.key)
            if labels_of(item).get(MANAGED_BY) == "stowplan"
            and not is_going(item)
            and not dig(item, "metadata", "ownerReferences")
            and (read.kind, namespace_of(item), name_of(item)) not in wanted
        ]
        if left:
            yield look.finding(
                "DOC052",
                _N,
                f"{read.kind} {sorted(left)[0]}",
                f"{count(len(left), 'object')} with the label {MANAGED_BY}: stowplan, not in "
                f"compiled/ ({some(left)}): renamed runs, or not pruned yet",
                "confirm the pruning in Argo CD, or delete them when their jobs have ended",
            )
