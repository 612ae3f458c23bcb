"""Run every check over the objects of one cluster.

The order is the one in which a cluster would find out: the schema of each object, what its
controller's webhook says, the policies, then what the objects say of each other. All of it is
reported at once.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generator.checks.policy import PolicyEngine, PolicyError, PolicyResult
from generator.checks.policy_metadata import policy_rules
from generator.checks.references import check_references
from generator.checks.references.world import Pair
from generator.checks.schema import check_object, is_local
from generator.checks.structure import Path
from generator.checks.subject import Subject
from generator.findings import Finding, Severity
from schemas.versions import UnknownVersionError, Versions

STDIN_NAME = "<stdin>"
"""How standard input is called in findings."""

GIT_RULES = frozenset({"JOB005", "OPS002"})
"""Rules about what a file in Git holds: a live object has the server's and Kueue's fields."""

TYPE_RULES = frozenset({"SCH003"})
"""Rules whose findings name a value that has no meaning; later checks do not see such a value."""


_REMEMBERED_MAX = 4096


@dataclass(frozen=True, slots=True)
class Judged:
    """What the checks of single objects leave for the checks over all of them.

    Attributes:
        subject: the object as given.
        readable: its body without the values that have no meaning.
        findings: what was found in it alone.
    """

    subject: Subject
    readable: Mapping[str, Any]
    findings: list[Finding]


# What single objects were found to be: the clusters of a fleet have many in common. One is kept
# when it comes the second time; of the others there is a number only.
_remembered: dict[tuple[str | bytes, Versions, PolicyEngine | None], Judged] = {}
_seen_once: set[int] = set()


def _identity(subject: Subject) -> str | bytes:
    """What equal objects have in common and others do not; empty for one that is not remembered."""
    if subject.text:
        return subject.text
    if is_live(subject):
        return b""
    try:
        return marshal.dumps(dict(subject.body), 2)  # version 2 writes equal values alike
    except ValueError:  # a date, or nested too deeply
        return b""


def versions_of(
    facts: Mapping[str, Any] | None, default: Versions
) -> tuple[Versions, list[Finding]]:
    """The versions that a cluster's facts state, or a finding where no schema of them is kept."""
    spec = (facts or {}).get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    stated = spec.get("versions")
    stated = stated if isinstance(stated, Mapping) else {}
    kubernetes = str(spec.get("gkeVersion") or "")
    findings: list[Finding] = []
    chosen = {"kueue": default.kueue, "jobset": default.jobset, "kubernetes": default.kubernetes}
    for component, version in (
        ("kueue", str(stated.get("kueue") or "")),
        ("jobset", str(stated.get("jobset") or "")),
        ("kubernetes", kubernetes),
    ):
        if not version:
            continue
        try:
            chosen[component] = getattr(Versions.of(**{component: version}), component)
        except UnknownVersionError as error:
            findings.append(
                Finding(
                    "SCH015",
                    Severity.WARNING,
                    f"{error}; judged as {component} {chosen[component]}",
                    "state a version that is known",
                    path=("spec", "versions", component),
                )
            )
    return Versions.of(**chosen), findings


def without_values(body: Mapping[str, Any], paths: Iterable[Path]) -> Mapping[str, Any]:
    """A copy without the values at some paths, so that later checks need not expect any type.

    An entry of a list takes the whole list with it: positions of the others must not move.
    """
    out: Any = body
    for path in paths:
        while path and isinstance(path[-1], int):
            path = path[:-1]
        if path:
            out = _without(out, path)
    return out if isinstance(out, Mapping) else {}


def _without(value: Any, path: Path) -> Any:
    key = path[0]
    if isinstance(value, Mapping) and key in value:
        if len(path) == 1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _without(value[key], path[1:])}
    if isinstance(value, list) and isinstance(key, int) and key < len(value) and len(path) > 1:
        return [*value[:key], _without(value[key], path[1:]), *value[key + 1 :]]
    return value


def judge(
    subjects: Sequence[Subject], versions: Versions, engine: PolicyEngine | None
) -> list[Judged]:
    """Judge each object alone: schema, webhooks, policies. Never raises on bad content."""
    out, new = [], []
    kept = []
    for subject in subjects:
        if is_local(subject.body):
            continue
        identity = _identity(subject)
        known = _remembered.get((identity, versions, engine)) if identity else None
        if known is not None:
            readable = subject.body if known.readable is known.subject.body else known.readable
            out.append(Judged(subject, readable, known.findings))
            continue
        findings, readable = check_object(subject.body, versions)
        if findings:
            readable = without_values(readable, [f.path for f in findings if f.rule in TYPE_RULES])
        new.append(Judged(subject, readable, findings))
        out.append(new[-1])
        if identity:
            kept.append((identity, new[-1]))
    if engine is not None:
        _add_policies(new, engine)
    for identity, item in kept:
        key = (identity, versions, engine)
        if hash(key) not in _seen_once:
            _seen_once.add(hash(key))
        elif len(_remembered) < _REMEMBERED_MAX:
            _remembered[key] = item
    return out


def _add_policies(judged: list[Judged], engine: PolicyEngine) -> None:
    named = [item for item in judged if _is_named(item.readable)]
    try:
        answers = engine.judge([item.readable for item in named])
    except PolicyError:
        answers = [_one(item, engine) for item in named]
    for item, results in zip(named, answers, strict=True):
        if not results:
            continue
        rules = policy_rules()  # read only once there is something to say
        # Where a schema judged the object, its own words on the same fault are more exact.
        judged_by_schema = all(f.rule not in ("SCH001", "SCH012") for f in item.findings)
        live = is_live(item.subject)
        for result in results:
            rule = rules.get(result.rule)
            if live and result.rule in GIT_RULES:
                continue
            if not (rule and rule.schema and judged_by_schema):
                item.findings.append(_finding(result))


def is_live(subject: Subject) -> bool:
    """Whether the object comes from a cluster: ``kubectl get`` prints its uid, in a List or to a
    pipe. The same text in a file is an export that somebody committed, which a rule judges.
    """
    return bool(subject.metadata.get("uid")) and (bool(subject.base) or subject.file == STDIN_NAME)


def _is_named(body: Mapping[str, Any]) -> bool:
    """Whether the object says what it is; otherwise one finding says so, and no policy applies."""
    return isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str)


def _one(item: Judged, engine: PolicyEngine) -> list[PolicyResult]:
    try:
        return engine.judge([item.readable])[0]
    except PolicyError as error:
        reason = " ".join(str(error).split())
        item.findings.append(
            Finding(
                "POL001",
                Severity.ERROR,
                f"the policies could not judge this object: {reason}",
                "mend the fields that the other findings name; if there are none, report this",
            )
        )
        return []


def _finding(result: PolicyResult) -> Finding:
    return Finding(result.rule, result.severity, result.message, result.fix, path=result.path)


def check_cluster(
    subjects: Sequence[Subject],
    *,
    facts: Mapping[str, Any] | None,
    versions: Versions,
    engine: PolicyEngine | None,
    cluster: str = "",
    complete: bool | None = None,
) -> list[Pair]:
    """Judge the objects of one cluster, alone and together.

    Args:
        subjects: every object of the cluster.
        facts: the cluster's facts document, or None.
        versions: the vendored schemas to judge by.
        engine: the policy engine, or None for no policies.
        cluster: the cluster's name, put into each finding.
        complete: see :func:`generator.checks.references.check_references`.

    Returns:
        Each finding with the object that it is about, in the order of the objects.
    """
    judged = judge(subjects, versions, engine)
    return combine(judged, facts=facts, cluster=cluster, complete=complete)


def _api_versions(facts: Mapping[str, Any] | None) -> set[Any]:
    """API versions that a cluster states as its choice; their deprecation is known there."""
    spec = (facts or {}).get("spec")
    stated = spec.get("apiVersions") if isinstance(spec, Mapping) else None
    return set(stated.values()) if isinstance(stated, Mapping) else set()


def combine(
    judged: Sequence[Judged],
    *,
    facts: Mapping[str, Any] | None,
    cluster: str = "",
    complete: bool | None = None,
) -> list[Pair]:
    """Add the checks over all objects to those of each, and name cluster and resource."""
    pairs = [(item.subject, finding) for item in judged for finding in item.findings]
    originals = {}
    readable = []
    for item in judged:
        subject = item.subject
        if item.readable is not subject.body:
            subject = replace(subject, body=item.readable)
        originals[id(subject)] = item.subject
        readable.append(subject)
    pairs += [
        (originals[id(subject)], finding)
        for subject, finding in check_references(readable, facts, complete=complete)
    ]
    asked_for = _api_versions(facts)
    pairs = [
        (subject, finding)
        for subject, finding in pairs
        if finding.rule != "SCH009" or subject.body.get("apiVersion") not in asked_for
    ]
    return [
        (
            subject,
            replace(
                finding,
                cluster=cluster,
                resource=subject.resource,
                inventory=finding.inventory or subject.inventory,
            ),
        )
        for subject, finding in pairs
    ]
