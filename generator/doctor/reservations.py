"""Who holds the quota of a flavor: numbers of Kueue's own status."""

from __future__ import annotations

from collections import defaultdict
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


class Reservations:
    """The quotas and reservations of all queues, looked up often."""

    def __init__(self, look: Look, title: Callable[[Object], str]) -> None:
        """Index the snapshot; ``title`` says how people call a workload."""
        self._queues = {name_of(item): item for item in look.snapshot.items("clusterqueues")}
        self._cohorts: dict[str, list[str]] = defaultdict(list)
        for name, queue in self._queues.items():
            if cohort_of(queue):
                self._cohorts[cohort_of(queue)].append(name)
        self._held: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for workload in look.snapshot.items("workloads"):
            if not is_true(workload, "Finished"):
                self._index(workload, title(workload))

    def _index(self, workload: Object, title: str) -> None:
        admission = dig(dict(workload), "status", "admission") or {}
        held: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
        for sets in admission.get("podSetAssignments") or []:
            for resource, flavor in (dig(sets, "flavors") or {}).items():
                key = (str(admission.get("clusterQueue")), flavor, resource)
                held[key].append(dig(sets, "resourceUsage", resource))
        priority = dig(dict(workload), "spec", "priority") or 0
        for key, amounts in held.items():
            amount = _sum(amounts, key[2] == "memory")
            self._held[key].append(f"{title} ({amount}, priority {priority})")

    def _peers(self, name: str) -> list[str]:
        """The queues of a queue's cohort, itself included; itself alone without one."""
        cohort = cohort_of(self._queues.get(name, {}))
        return self._cohorts[cohort] if cohort else [name]

    def quota_text(self, name: str, flavor: str, resource: str) -> str:
        """``: 64 of 64 are reserved in ClusterQueue research (cohort training: 96 of 128)``.

        Empty where the queue could not be read.
        """
        if name not in self._queues:
            return ""
        peers = self._peers(name)
        text = f": {self._used([name], flavor, resource)} are reserved in ClusterQueue {name}"
        if len(peers) > 1:
            cohort = cohort_of(self._queues[name])
            text += f" (cohort {cohort}: {self._used(peers, flavor, resource)})"
        return text

    def _used(self, names: Iterable[str], flavor: str, resource: str) -> str:
        queues = [self._queues[name] for name in names if name in self._queues]
        binary = resource == "memory"
        reserved = _sum((v for q in queues for v in _reserved(q, flavor, resource)), binary)
        nominal = _sum((v for q in queues for v in _nominal(q, flavor, resource)), binary)
        return f"{reserved} of {nominal}"

    def holders(self, name: str, flavor: str, resource: str) -> list[str]:
        """The workloads that hold a resource of a flavor in a queue or its cohort: how much."""
        return [text for peer in self._peers(name) for text in self._held[peer, flavor, resource]]
