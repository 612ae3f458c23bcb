"""Priority classes: one list from which PriorityClass and WorkloadPriorityClass both come."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from schemas.inventory.base import InventoryModel, Text, fault

HIGHEST_USER_PRIORITY = 1_000_000_000
"""Values above are Kubernetes' own (k8s.io/kubernetes pkg/apis/scheduling/types.go)."""

LOWEST_PRIORITY = -(2**31)


def _value(value: int) -> int:
    if value > HIGHEST_USER_PRIORITY:
        raise fault(
            f"{value} is reserved for system classes", f"write at most {HIGHEST_USER_PRIORITY}"
        )
    if value < LOWEST_PRIORITY:
        raise fault(f"{value} is below the lowest priority", f"write at least {LOWEST_PRIORITY}")
    return value


Priority = Annotated[int, AfterValidator(_value)]


class PriorityClass(InventoryModel):
    """A rung of the ladder: who is evicted for whom (pods), and who is admitted first (queues)."""

    value: Priority
    """The pods' priority: Hotswap evicts lower for higher."""
    workload_value: Priority | None = None
    """The queue's priority where it differs; the same value unless given."""
    description: Text = ""
    """What the class is for."""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    """Whether pods of the class evict lower ones."""
    global_default: bool = False
    """Whether pods without a class get this one; true for one class at most."""
