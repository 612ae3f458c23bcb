"""Queues that admit nothing, and why."""

from __future__ import annotations

from collections.abc import Iterator

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import condition, count, full_name, name_of, some
from generator.findings import Finding, Severity

_E = Severity.ERROR

FIXES = {
    "FlavorNotFound": "apply the ResourceFlavor, or take it out of the ClusterQueue",
    "TopologyNotFound": "apply the Topology that the flavor names",
    "AdmissionCheckNotFound": "apply the AdmissionCheck, or take it out of the ClusterQueue",
    "AdmissionCheckInactive": "look at the AdmissionCheck's own conditions: its controller or its "
    "parameters are missing",
    "Stopped": "set spec.stopPolicy: None in the inventory when it may admit again",
    "Terminating": "it is deleted once its workloads are done; it must not be in Git any more",
}
"""Reason of the condition Active (Kueue, apis/kueue/v1beta2) → what mends it."""


def cluster_queues(look: Look) -> Iterator[Finding]:
    """ClusterQueues whose condition Active is not True, with Kueue's reason."""
    flavors = {name_of(item) for item in look.snapshot.items("resourceflavors")}
    for queue in look.snapshot.items("clusterqueues"):
        active = condition(queue, "Active")
        if active.get("status") != "False":
            continue
        reason = str(active.get("reason", ""))
        message = str(active.get("message") or reason)
        missing = sorted(_flavors(queue) - flavors)
        if missing and look.snapshot.has("resourceflavors"):
            message += f" (there is no ResourceFlavor {some(missing)})"
        waiting = dig(queue, "status", "pendingWorkloads") or 0
        yield look.finding(
            "DOC020",
            _E,
            f"ClusterQueue {name_of(queue)}",
            f"the queue is inactive ({reason}): {message}"
            + (f"; waiting: {count(int(waiting), 'workload')}" if waiting else ""),
            FIXES.get(reason, "see the condition's message"),
        )


def _flavors(queue: dict[str, object]) -> set[str]:
    return {
        str(flavor.get("name"))
        for group in dig(queue, "spec", "resourceGroups") or []
        for flavor in group.get("flavors") or []
    }


def local_queues(look: Look) -> Iterator[Finding]:
    """LocalQueues that lead nowhere."""
    there = {name_of(item) for item in look.snapshot.items("clusterqueues")}
    inactive = {
        name_of(item)
        for item in look.snapshot.items("clusterqueues")
        if condition(item, "Active").get("status") == "False"
    }
    for queue in look.snapshot.items("localqueues"):
        target = str(dig(queue, "spec", "clusterQueue") or "")
        resource = f"LocalQueue {full_name(queue)}"
        active = condition(queue, "Active")
        if look.snapshot.has("clusterqueues") and target not in there:
            yield look.finding(
                "DOC021",
                _E,
                resource,
                f"its ClusterQueue {target or '(none)'} does not exist: nothing that is submitted "
                "here is ever admitted",
                "apply the ClusterQueue; a LocalQueue cannot be pointed elsewhere, only re-created",
            )
        elif active.get("status") == "False" and target not in inactive:
            yield look.finding(
                "DOC021",
                _E,
                resource,
                f"the queue is inactive ({active.get('reason')}): {active.get('message')}",
                FIXES.get(str(active.get("reason")), ""),
            )
