"""Pods that are where they must not be, or nowhere, and settings of Kueue that lead there."""

from __future__ import annotations

from generator.doctor.snapshot import Snapshot

from .. import fleet
from ..fleet import condition, pod
from .plant import HIGH, LOW, WARNING, Case, drop, first, patch


def wounded(snapshot: Snapshot) -> None:
    """Pool a has lost a node; three pods of a slice run there and one waits."""
    drop("nodes", "pool-a-1")(snapshot)
    drop("driverpods", f"multitier-driver-{fleet.UID}-l-a-1")(snapshot)
    pods = snapshot.objects["jobpods"]
    place = next(i for i, p in enumerate(pods) if p["spec"].get("nodeName") == "pool-a-1")
    waiting = pod(HIGH, 0, 1, "")
    waiting["spec"]["nodeSelector"] = {"cloud.google.com/gke-nodepool": "pool-a"}
    pods[place] = waiting


def spread(snapshot: Snapshot) -> None:
    pods = snapshot.objects["jobpods"]
    pods[0]["spec"]["nodeName"], pods[4]["spec"]["nodeName"] = "pool-b-0", "pool-a-0"


def homeless(snapshot: Snapshot) -> None:
    """A whole slice waits for nodes: no wounded pool, but quota without nodes."""
    for number in range(4):
        waiting = pod(LOW, 1, number, "")
        message = "0/16 nodes are available: 16 Insufficient google.com/tpu."
        waiting["status"]["conditions"] = [
            condition("PodScheduled", "False", "Unschedulable", message)
        ]
        snapshot.objects["jobpods"][12 + number] = waiting


def gated(snapshot: Snapshot) -> None:
    homeless(snapshot)
    for item in snapshot.objects["jobpods"][12:]:
        item["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]


def lost_pool(snapshot: Snapshot) -> None:
    for item in snapshot.objects["nodes"]:
        if item["metadata"]["name"].startswith("pool-a-"):
            item["status"]["conditions"] = [condition("Ready", "Unknown")]


def mixing(snapshot: Snapshot) -> None:
    flavor = first(snapshot, "resourceflavors")
    flavor["spec"]["topologyName"] = "gke"
    job = first(snapshot, "jobsets")["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-slice-size": "4"}
    }
    data = {"controller_manager_config.yaml": "kind: Configuration\nwaitForPodsReady: {}\n"}
    snapshot.objects["kueueconfig"] = [{"metadata": {"name": "c"}, "data": data}]


CASES = (
    Case(
        "DOC025",
        homeless,
        ("4 pods of slice slice-1 without a node", "16 Insufficient google.com/tpu"),
        f"JobSet default/{LOW}",
    ),
    Case(
        "DOC026",
        patch("nodes", "status/conditions", [condition("Ready", "Unknown")]),
        ("1 node of pool pool-a not ready (pool-a-0), with 1 pod of jobs",),
        "Node pool-a-0",
        WARNING,
    ),
    Case(
        "DOC026",
        lost_pool,
        ("4 nodes of pool pool-a not ready (pool-a-0, pool-a-1, ", "with 4 pods of jobs"),
        "Node pool-a-0",
        WARNING,
        fix="delete node pool-a-0 pool-a-1 pool-a-2 pool-a-3",
    ),
    Case(
        "DOC030",
        wounded,
        ("stuck in the wounded pool pool-a: 3 of its 4 pods run there", "that has 3 usable nodes"),
        f"JobSet default/{HIGH}",
        fix="cordon -l cloud.google.com/gke-nodepool=pool-a",
    ),
    Case(
        "DOC031",
        spread,
        ("slice slice-0 is spread over 2 node pools (3 in pool-a, 1 in pool-b)",),
        f"JobSet default/{HIGH}",
        fix="""patch workloads.kueue.x-k8s.io jobset-high-jax-trillium-7ca82b14 --type=merge """
        """'--patch={"spec":{"active":false}}'""",
    ),
    Case(
        "DOC032",
        mixing,
        ("TASFailedNodeReplacement is on", "no recoveryTimeout"),
        severity=WARNING,
    ),
    Case("DOC025", gated, ("scheduling gate kueue.x-k8s.io/topology",)),
)
