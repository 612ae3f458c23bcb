"""Who holds the quota of a flavor: numbers of Kueue's own status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import Object, is_true, name_of
from schemas.quantity import QuantityError, format_quantity, parse_quantity


def _sum(values: Iterable[Any], binary: bool) -> str:
    total = Decimal(0)
    for value in values:
        try:
            total += parse_quantity(str(value))
        except QuantityError:
            continue
    return format_quantity(total, binary=binary)


def _nominal(queue: Mapping[str, Any], flavor: str, resource: str) -> list[Any]:
    return [
        entry.get("nominalQuota")
        for group in dig(dict(queue), "spec", "resourceGroups") or []
        for listed in group.get("flavors") or []
        if listed.get("name") == flavor
        for entry in listed.get("resources") or []
        if entry.get("name") == resource
    ]


def _reserved(queue: Mapping[str, Any], flavor: str, resource: str) -> list[Any]:
    return [
        entry.get("total", 0)
        for listed in dig(dict(queue), "status", "flavorsReservation") or []
        if listed.get("name") == flavor
        for entry in listed.get("resources") or []
        if entry.get("name") == resource
    ]


def cohort_of(queue: Mapping[str, Any]) -> str:
    """The cohort, under the name of either API version; empty without one."""
    spec = dig(dict(queue), "spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _peers(look: Look, name: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The queue itself, and every queue of its cohort."""
    queues = look.snapshot.items("clusterqueues")
    own = [queue for queue in queues if name_of(queue) == name]
    cohort = cohort_of(own[0]) if own else ""
    return list(own), [queue for queue in queues if cohort and cohort_of(queue) == cohort]


def quota_text(look: Look, name: str, flavor: str, resource: str) -> str:
    """``64 of 64 are reserved in ClusterQueue research (cohort training: 96 of 128)``."""
    own, cohort = _peers(look, name)
    binary = resource == "memory"

    def used(queues: list[Mapping[str, Any]]) -> str:
        reserved = _sum((v for q in queues for v in _reserved(q, flavor, resource)), binary)
        nominal = _sum((v for q in queues for v in _nominal(q, flavor, resource)), binary)
        return f"{reserved} of {nominal}"

    text = f"{used(own)} are reserved in ClusterQueue {name or '(unknown)'}"
    if len(cohort) > 1:
        text += f" (cohort {cohort_of(own[0])}: {used(cohort)})"
    return text


def holders(
    look: Look, name: str, flavor: str, resource: str, title: Callable[[Object], str]
) -> list[str]:
    """The workloads that hold a resource of a flavor in a queue or its cohort, with how much."""
    own, cohort = _peers(look, name)
    queues = {name_of(queue) for queue in [*own, *cohort]}
    found = []
    for workload in look.snapshot.items("workloads"):
        admission = dig(workload, "status", "admission") or {}
        if admission.get("clusterQueue") not in queues or is_true(workload, "Finished"):
            continue
        held = [
            dig(sets, "resourceUsage", resource)
            for sets in admission.get("podSetAssignments") or []
            if dig(sets, "flavors", resource) == flavor
        ]
        if held:
            priority = dig(workload, "spec", "priority") or 0
            amount = _sum(held, resource == "memory")
            found.append(f"{title(workload)} ({amount}, priority {priority})")
    return found
