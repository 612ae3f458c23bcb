"""A small healthy cluster as the doctor sees it: the documents' fleet, both jobs running."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from generator.doctor.reads import BY_KIND, READS
from generator.doctor.snapshot import Snapshot, kept, redacted
from generator.doctor.wanted import Wanted, place_in, read_wanted

FOLDER = Path(__file__).parents[3] / "compiled" / "tpu-v6e-docs"
TAKEN = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
BEFORE, LATELY = "2026-08-01T10:00:00Z", "2026-08-01T11:59:50Z"
POOLS = ("pool-a", "pool-b", "pool-c", "pool-d")
UID = "e2b033a7-a4e7-496a-87a3-ffd7fcc2e57b"
GROUPS = {
    "kueue.x-k8s.io": (
        ["v1beta2", "v1beta1"],
        [
            "ClusterQueue",
            "Cohort",
            "LocalQueue",
            "ResourceFlavor",
            "Topology",
            "Workload",
            "WorkloadPriorityClass",
        ],
    ),
    "jobset.x-k8s.io": (["v1alpha2"], ["JobSet"]),
    "checkpointing.gke.io": (["v1"], ["CheckpointConfiguration"]),
}
Object = dict[str, Any]


def wanted() -> Wanted:
    return read_wanted(str(FOLDER))


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason or kind, "message": message}


def node(pool: str, index: int) -> Object:
    labels = {
        "cloud.google.com/gke-nodepool": pool,
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "node.kubernetes.io/instance-type": "ct6e-standard-4t",
    }
    taints = [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]
    return {
        "metadata": {
            "name": f"{pool}-{index}",
            "labels": labels,
            "creationTimestamp": "2026-07-01T00:00:00Z",
        },
        "spec": {"taints": taints},
        "status": {"allocatable": {"google.com/tpu": "4"}, "conditions": [condition("Ready")]},
    }


def driver(node_name: str, ready: int = 5) -> Object:
    statuses = [
        {
            "name": f"part-{index}",
            "ready": index < ready,
            "state": {"running": {}}
            if index < ready
            else {"waiting": {"reason": "PodInitializing"}},
        }
        for index in range(5)
    ]
    return {
        "metadata": {
            "name": f"multitier-driver-{UID}-{node_name[-5:]}",
            "namespace": "gke-managed-checkpointing",
        },
        "spec": {"nodeName": node_name, "containers": [{"name": s["name"]} for s in statuses]},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


def pod(jobset: str, index: int, number: int, node_name: str) -> Object:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": jobset,
        "jobset.sigs.k8s.io/replicatedjob-name": "slice",
        "jobset.sigs.k8s.io/job-index": str(index),
    }
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    return {
        "metadata": {
            "name": f"{jobset}-slice-{index}-{number}-abcde",
            "namespace": "default",
            "labels": labels,
            "annotations": {key: "cloud.google.com/gke-nodepool"},
            "creationTimestamp": BEFORE,
        },
        "spec": {"nodeName": node_name} if node_name else {},
        "status": {"phase": "Running" if node_name else "Pending", "conditions": []},
    }


def workload(jobset: Object, chips: str, queue: str = "tpu-training-cq") -> Object:
    """An admitted workload of a JobSet."""
    metadata = jobset["metadata"]
    owner = {"kind": "JobSet", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": f"jobset-{metadata['name']}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
            "creationTimestamp": BEFORE,
        },
        "spec": {"queueName": "default-queue", "priority": 1000000, "active": True},
        "status": {
            "conditions": [condition("QuotaReserved"), condition("Admitted")],
            "admission": {
                "clusterQueue": queue,
                "podSetAssignments": [
                    {
                        "name": "slice",
                        "flavors": {"google.com/tpu": "tpu-v6e-slice"},
                        "resourceUsage": {"google.com/tpu": chips},
                    }
                ],
            },
        },
    }


def pending(jobset: Object, message: str) -> Object:
    """A workload that waits, with Kueue's message."""
    found = workload(jobset, "32")
    found["status"] = {"conditions": [condition("QuotaReserved", "False", "Pending", message)]}
    return found


def jobset(name: str, **labels: str) -> Object:
    """A queued JobSet, suspended."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"kueue.x-k8s.io/queue-name": "default-queue", **labels},
            "creationTimestamp": BEFORE,
        },
        "spec": {"suspend": True, "replicatedJobs": []},
    }


def deployment(namespace: str, name: str, image: str) -> Object:
    limits = {"limits": {"memory": "2Gi"}}
    container = {"name": "manager", "image": image, "resources": limits}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "status": {"availableReplicas": 1},
    }


def endpoints(namespace: str, service: str) -> Object:
    return {
        "metadata": {
            "name": f"{service}-x",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "endpoints": [{"conditions": {"ready": True}}],
    }


def webhooks(group: str, resource: str, namespace: str, service: str) -> Object:
    client = {"service": {"name": service, "namespace": namespace}}
    rule = {"apiGroups": [group], "resources": [resource]}
    hook = {"name": f"m{resource}.kb.io", "clientConfig": client, "rules": [rule]}
    return {"metadata": {"name": f"{namespace}-mutating"}, "webhooks": [hook]}


def live_objects(of: Wanted) -> dict[str, list[Object]]:
    """The compiled objects as a cluster holds them: applied server-side, with statuses."""
    found: dict[str, list[Object]] = {read.key: [] for read in READS}
    for subject in of.subjects:
        body = copy.deepcopy(dict(redacted(subject.body)))
        body["metadata"]["uid"] = f"uid-{subject.name}"
        body["metadata"]["creationTimestamp"] = BEFORE
        owned = {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}}
        body["metadata"]["managedFields"] = [
            {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": owned}
        ]
        found.setdefault(place_in(subject), []).append(body)
    return found


def healthy() -> Snapshot:
    """The whole snapshot; tests plant a fault in it."""
    objects = live_objects(wanted())
    objects["namespaces"].append({"metadata": {"name": "default"}})
    objects["nodes"] = [node(pool, index) for pool in POOLS for index in range(4)]
    objects["driverpods"] = [driver(item["metadata"]["name"]) for item in objects["nodes"]]
    (config,) = objects["checkpointconfigurations"]
    config["metadata"]["uid"] = UID
    objects["daemonsets"] = [{"metadata": {"name": f"multitier-driver-{UID}"}}]
    objects["csidrivers"] = [{"metadata": {"name": "gcsfuse.csi.storage.gke.io"}}]
    objects["kueuedeployments"] = [
        deployment("kueue-system", "kueue-controller-manager", "registry.test/kueue:v0.17.0")
    ]
    objects["jobsetdeployments"] = [
        deployment("jobset-system", "jobset-controller-manager", "registry.test/jobset:v0.11.1")
    ]
    objects["kueueendpoints"] = [endpoints("kueue-system", "kueue-webhook-service")]
    objects["jobsetendpoints"] = [endpoints("jobset-system", "jobset-webhook-service")]
    objects["mutatingwebhooks"] = [
        webhooks("kueue.x-k8s.io", "workloads", "kueue-system", "kueue-webhook-service"),
        webhooks("jobset.x-k8s.io", "jobsets", "jobset-system", "jobset-webhook-service"),
    ]
    (queue,) = objects["clusterqueues"]
    reserved = [{"name": "google.com/tpu", "total": "64"}]
    queue["status"] = {
        "conditions": [condition("Active")],
        "flavorsReservation": [{"name": "tpu-v6e-slice", "resources": reserved}],
    }
    for place, item in enumerate(objects["jobsets"]):
        name = item["metadata"]["name"]
        item["status"] = {"conditions": []}
        objects["workloads"].append(workload(item, "32"))
        for index in range(2):
            pool = POOLS[2 * place + index]
            objects["jobpods"] += [pod(name, index, n, f"{pool}-{n}") for n in range(4)]
    return Snapshot(
        "gke_acme-training_us-east5_train-1",
        TAKEN,
        "v1.33.4-gke.1245000",
        {"": ["v1"], "scheduling.k8s.io": ["v1"], "batch": ["v1"]}
        | {group: list(versions) for group, (versions, _) in GROUPS.items()},
        {
            f"{group}/{version}": list(kinds)
            for group, (versions, kinds) in GROUPS.items()
            for version in versions
        },
        {key: [kept(key, item) for item in items] for key, items in objects.items()},
    )


def unserve(snapshot: Snapshot, group: str, *kinds: str) -> None:
    """Take kinds away, as when their CRDs are missing."""
    for version in snapshot.served[group]:
        left = [k for k in snapshot.kinds[f"{group}/{version}"] if k not in kinds]
        snapshot.kinds[f"{group}/{version}"] = left
    for kind in kinds:
        snapshot.objects.pop(BY_KIND[group, kind].key, None)
