"""Workloads that wait, and for what: which resource, which flavor, how much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import (
    Object,
    condition,
    full_name,
    is_going,
    is_true,
    labels_of,
    name_of,
    namespace_of,
    some,
)
from generator.doctor.reservations import Reservations
from generator.findings import Finding, Severity
from schemas.quantity import QuantityError, parse_quantity

_E, _N = Severity.ERROR, Severity.NOTE
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
_SILENT_S = 60

# Texts of Kueue 0.15 to 0.19, pkg/scheduler/flavorassigner/flavorassigner.go.
UNUSED = re.compile(
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>[^\s,]+), "
    r"(?P<more>[^\s,]+) more needed"
)
NEVER = re.compile(
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>[^\s,]+), previously "
    r"considered podsets requests \((?P<before>[^)]*)\) \+ current podset request "
    r"\((?P<request>[^)]*)\) > maximum capacity \((?P<capacity>[^)]*)\)"
)

CAUSES: tuple[tuple[re.Pattern[str], Severity, str], ...] = (
    (
        re.compile(r"resource (?P<what>\S+) unavailable in ClusterQueue"),
        _E,
        "cover the resource in the queue's group, or do not request it",
    ),
    (
        re.compile(r"doesn't match ClusterQueue selector"),
        _E,
        "let the ClusterQueue's namespaceSelector match the namespace (none matches nothing)",
    ),
    (
        re.compile(r"(?:LocalQueue|ClusterQueue) \S+ doesn't exist"),
        _E,
        "apply the queue; a JobSet's queue label must name a LocalQueue of its own namespace",
    ),
    (
        re.compile(r"untolerated taint"),
        _E,
        "give the flavor the toleration of its taint: GKE adds a pod's own after Kueue has looked",
    ),
    (
        re.compile(r"doesn't match node affinity"),
        _E,
        "the pod's nodeSelector contradicts the flavor's nodeLabels: make them agree",
    ),
    (
        re.compile(r"topology .* doesn't allow to fit"),
        _N,
        "a whole domain (node pool) has to be free; quota alone does not help",
    ),
    (re.compile(r"is inactive|is stopped"), _N, "findings DOC020 and DOC021 say why"),
    (
        re.compile(r"[Pp]reemption|no longer fits|PodsReady"),
        _N,
        "it is in work: Kueue frees room, or waits until admitted jobs are ready",
    ),
)
"""Pattern of Kueue's message → severity and what to do, tried in order."""


def pending(look: Look) -> Iterator[Finding]:
    """Workloads that hold no quota, each with its cause."""
    reservations = Reservations(look, owner_text)
    for workload in look.snapshot.items("workloads"):
        if is_true(workload, "Finished") or is_going(workload):
            continue
        if is_true(workload, "QuotaReserved"):
            if not is_true(workload, "Admitted"):
                yield from _checks(look, workload)
            continue
        yield from _waits(look, workload, reservations)


def owner_text(workload: Object) -> str:
    """The job that a workload belongs to: ``JobSet team-a/llama``."""
    owners = dig(dict(workload), "metadata", "ownerReferences") or []
    if not owners:
        return f"Workload {full_name(workload)}"
    return f"{owners[0]['kind']} {namespace_of(workload)}/{owners[0]['name']}"


def _waits(
    look: Look, workload: Mapping[str, Any], reservations: Reservations
) -> Iterator[Finding]:
    resource = owner_text(workload)
    if dig(dict(workload), "spec", "active") is False:
        yield look.finding(
            "DOC023",
            _N,
            resource,
            f"Workload {full_name(workload)} is deactivated (spec.active: false): Kueue leaves it "
            "alone",
            "set spec.active: true when it may run",
        )
        return
    reserved = condition(workload, "QuotaReserved")
    message = str(reserved.get("message", ""))
    shortages = _shortages(look, workload, message, reservations)
    if shortages:
        yield from shortages
    elif message:
        severity, fix = _cause(message)
        rule = "DOC022" if severity is _E else "DOC023"
        yield look.finding(rule, severity, resource, f"it waits in its queue: {message}", fix)
    elif look.snapshot.age_s(dig(dict(workload), "metadata", "creationTimestamp")) > _SILENT_S:
        yield look.finding(
            "DOC022",
            _E,
            resource,
            f"Kueue has said nothing about Workload {full_name(workload)}: its controller does not "
            "run, or does not manage the namespace",
            look.kubectl("-n", "kueue-system", "get", "pods"),
        )


def _cause(message: str) -> tuple[Severity, str]:
    for pattern, severity, fix in CAUSES:
        if pattern.search(message):
            return severity, fix
    return _N, ""


def _shortages(
    look: Look, workload: Mapping[str, Any], message: str, reservations: Reservations
) -> list[Finding]:
    """One finding for each resource that is short in a flavor."""
    resource = owner_text(workload)
    queue = queue_of(look, workload)
    found = []
    for match in NEVER.finditer(message):
        found.append(
            look.finding(
                "DOC022",
                _E,
                resource,
                f"it can never be admitted: it asks for {match['request']} "
                f"{match['resource']} in flavor {match['flavor']}"
                + (f" besides {match['before']}" if match["before"] not in ("", "0") else "")
                + f", and the queue can hold {match['capacity']} at most: "
                f"{_excess(match)} too many",
                "raise the quota, allow borrowing, or make the job smaller",
            )
        )
    for match in UNUSED.finditer(message):
        kind, flavor = match["resource"], match["flavor"]
        who = reservations.holders(queue, flavor, kind)
        found.append(
            look.finding(
                "DOC023",
                _N,
                resource,
                f"it waits for {match['more']} more {kind} in flavor {flavor}"
                + reservations.quota_text(queue, flavor, kind)
                + (f", held by {some(who)}" if who else ""),
                "it starts when they end; a higher Kueue priority preempts where "
                "withinClusterQueue allows it",
            )
        )
    return found


def _excess(match: re.Match[str]) -> str:
    try:
        asked = parse_quantity(match["request"]) + parse_quantity(match["before"] or "0")
        excess: Decimal = asked - parse_quantity(match["capacity"])
    except QuantityError:
        return "some"
    from schemas.quantity import format_quantity

    return format_quantity(excess, binary=match["resource"] == "memory")


def queue_of(look: Look, workload: Object) -> str:
    """The ClusterQueue of a workload, empty where its LocalQueue is missing."""
    name = dig(dict(workload), "spec", "queueName")
    for queue in look.snapshot.items("localqueues"):
        if name_of(queue) == name and namespace_of(queue) == namespace_of(workload):
            return str(dig(queue, "spec", "clusterQueue") or "")
    return ""


def _checks(look: Look, workload: Mapping[str, Any]) -> Iterator[Finding]:
    states = dig(dict(workload), "status", "admissionChecks") or []
    waits = [f"{s.get('name')}: {s.get('state')} {s.get('message', '')}".strip() for s in states]
    if waits:
        yield look.finding(
            "DOC023",
            _N,
            owner_text(workload),
            f"it has its quota and waits for admission checks: {some(waits)}",
            "look at the check's own object (for queued provisioning, the ProvisioningRequest)",
        )


def without_workload(look: Look) -> Iterator[Finding]:
    """JobSets that name a queue and of which Kueue has made no Workload."""
    owners = {
        owner.get("uid")
        for workload in look.snapshot.items("workloads")
        for owner in dig(workload, "metadata", "ownerReferences") or []
    }
    classes = {name_of(item) for item in look.snapshot.items("workloadpriorityclasses")}
    for jobset in look.snapshot.items("jobsets"):
        queue = labels_of(jobset).get(QUEUE_LABEL)
        if not queue or is_going(jobset) or dig(jobset, "metadata", "uid") in owners:
            continue
        if is_true(jobset, "Completed") or is_true(jobset, "Failed"):
            continue
        priority = labels_of(jobset).get(PRIORITY_LABEL)
        if priority and look.snapshot.has("workloadpriorityclasses") and priority not in classes:
            yield look.finding(
                "DOC024",
                _E,
                f"JobSet {full_name(jobset)}",
                f"Kueue makes no Workload of it, since its WorkloadPriorityClass {priority} does "
                "not exist: it stays suspended",
                "apply the WorkloadPriorityClass",
            )
        elif look.snapshot.age_s(dig(jobset, "metadata", "creationTimestamp")) > _SILENT_S:
            suspended = dig(jobset, "spec", "suspend") is True
            yield look.finding(
                "DOC024",
                _E,
                f"JobSet {full_name(jobset)}",
                f"it names the queue {queue}, and Kueue has made no Workload of it: "
                + ("it stays suspended" if suspended else "it runs outside the quota"),
                "see that Kueue runs, manages the namespace and has the jobset framework on",
            )
