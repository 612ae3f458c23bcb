"""How a fault is planted in the healthy cluster, and what the doctor must say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from generator.doctor.diagnose import diagnose
from generator.doctor.snapshot import Snapshot, Unread
from generator.findings import Finding, Severity

from ..fleet import healthy, wanted

Plant = Callable[[Snapshot], Any]
HIGH, LOW = "high-jax-trillium-7ca82b14", "low-jax-trillium-807d7dbe"
WARNING, NOTE = Severity.WARNING, Severity.NOTE


@dataclass(frozen=True)
class Case:
    """A fault, the rule that sees it and what its sentence must hold."""

    rule: str
    plant: Plant
    says: tuple[str, ...]
    resource: str = ""
    severity: Severity = Severity.ERROR
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.says[0][:40]}"


def find(plant: Plant, rule: str) -> list[Finding]:
    snapshot = healthy()
    plant(snapshot)
    return [f for f in diagnose(snapshot, wanted()).findings if f.rule == rule]


def first(snapshot: Snapshot, key: str) -> dict[str, Any]:
    return snapshot.objects[key][0]


def named(snapshot: Snapshot, key: str, name: str) -> dict[str, Any]:
    return next(item for item in snapshot.objects[key] if item["metadata"]["name"] == name)


def drop(key: str, name: str) -> Plant:
    def plant(snapshot: Snapshot) -> None:
        items = snapshot.objects[key]
        snapshot.objects[key] = [i for i in items if i["metadata"]["name"] != name]
        assert len(snapshot.objects[key]) < len(items)

    return plant


def patch(key: str, path: str, value: Any, name: str = "") -> Plant:
    def plant(snapshot: Snapshot) -> None:
        target: Any = named(snapshot, key, name) if name else first(snapshot, key)
        *parents, last = path.split("/")
        for part in parents:
            target = target[int(part)] if part.isdigit() else target[part]
        target[int(last) if last.isdigit() else last] = value

    return plant


def refuse(key: str) -> Plant:
    def plant(snapshot: Snapshot) -> None:
        del snapshot.objects[key]
        snapshot.unread.append(Unread(key, key, "Forbidden", f"{key} is forbidden"))

    return plant


def mount_event(name: str, namespace: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name},
        "reason": "FailedMount",
        "message": message,
    }
