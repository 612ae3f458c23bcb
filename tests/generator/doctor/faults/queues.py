"""Queues, what waits in them and for what, and the priority classes that jobs name."""

from __future__ import annotations

from generator.doctor.snapshot import Snapshot

from .. import fleet
from ..fleet import condition, jobset, pending
from .plant import HIGH, LOW, NOTE, Case, Plant, drop, first, patch

QUOTA = (
    "couldn't assign flavors to pod set slice: insufficient unused quota for google.com/tpu in "
    "flavor tpu-v6e-slice, 32 more needed"
)
NEVER = (
    "couldn't assign flavors to pod set slice: insufficient quota for memory in flavor "
    "tpu-v6e-slice, previously considered podsets requests (1Gi) + current podset request (20Gi) "
    "> maximum capacity (16Gi)"
)


def waits(message: str) -> Plant:
    def plant(snapshot: Snapshot) -> None:
        third = jobset("third")
        snapshot.objects["jobsets"].append(third)
        snapshot.objects["workloads"].append(pending(third, message))

    return plant


def inactive(snapshot: Snapshot) -> None:
    queue = first(snapshot, "clusterqueues")
    message = "Can't admit new workloads: references missing ResourceFlavor(s): tpu-v6e-slice."
    queue["status"]["conditions"] = [condition("Active", "False", "FlavorNotFound", message)]
    queue["status"]["pendingWorkloads"] = 3
    snapshot.objects["resourceflavors"].clear()


def stopped_queue(snapshot: Snapshot) -> None:
    found = condition("Active", "False", "Stopped", "LocalQueue is stopped")
    first(snapshot, "localqueues")["status"] = {"conditions": [found]}


def urgent(snapshot: Snapshot) -> None:
    snapshot.objects["jobsets"].append(
        jobset("hasty", **{"kueue.x-k8s.io/priority-class": "urgent"})
    )


def checks_wait(snapshot: Snapshot) -> None:
    third = jobset("third")
    item = fleet.workload(third, "16")
    item["status"] |= {
        "conditions": [condition("QuotaReserved")],
        "admissionChecks": [{"name": "dws", "state": "Pending", "message": "no capacity yet"}],
    }
    snapshot.objects["jobsets"].append(third)
    snapshot.objects["workloads"].append(item)


def deactivated(snapshot: Snapshot) -> None:
    waits("x")(snapshot)
    snapshot.objects["workloads"][-1]["spec"]["active"] = False


CASES = (
    Case(
        "DOC020",
        inactive,
        ("FlavorNotFound", "there is no ResourceFlavor tpu-v6e-slice", "waiting: 3 workloads"),
        "ClusterQueue tpu-training-cq",
    ),
    Case(
        "DOC021",
        patch("localqueues", "spec/clusterQueue", "nowhere"),
        ("ClusterQueue nowhere does not exist",),
        "LocalQueue default/default-queue",
    ),
    Case(
        "DOC022",
        waits(NEVER),
        ("can never be admitted", "20Gi memory", "besides 1Gi", "16Gi at most: 5Gi too many"),
        "JobSet default/third",
    ),
    Case(
        "DOC022",
        waits("couldn't assign flavors: resource cpu unavailable in ClusterQueue"),
        ("resource cpu unavailable",),
        fix="cover the resource",
    ),
    Case("DOC022", waits(""), ("Kueue has said nothing",)),
    Case(
        "DOC023",
        waits(QUOTA),
        (
            "32 more google.com/tpu in flavor tpu-v6e-slice",
            "64 of 64 are reserved in ClusterQueue tpu-training-cq",
            f"JobSet default/{HIGH} (32, priority 1000000)",
        ),
        "JobSet default/third",
        NOTE,
    ),
    Case(
        "DOC023",
        waits('topology "gke" doesn\'t allow to fit any of 4 pod(s)'),
        ("doesn't allow to fit",),
        severity=NOTE,
        fix="a whole domain",
    ),
    Case("DOC024", urgent, ("WorkloadPriorityClass urgent does not exist",)),
    Case(
        "DOC024",
        lambda s: s.objects["jobsets"].append(jobset("alone")),
        ("Kueue has made no Workload of it: it stays suspended",),
    ),
    Case(
        "DOC040",
        drop("priorityclasses", "high-priority-job"),
        (f"the pods of default/{HIGH} name it",),
        "PriorityClass high-priority-job",
    ),
    Case(
        "DOC040",
        drop("workloadpriorityclasses", "low-priority-job"),
        (f"default/{LOW} name it",),
        "WorkloadPriorityClass low-priority-job",
    ),
    Case("DOC023", checks_wait, ("dws: Pending no capacity yet",), severity=NOTE),
    Case("DOC023", deactivated, ("is deactivated",), severity=NOTE),
    Case("DOC021", stopped_queue, ("inactive (Stopped)",)),
)
