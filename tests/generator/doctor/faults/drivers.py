"""Checkpoint drivers: missing on nodes, not whole, without their bucket, two of them."""

from __future__ import annotations

import json

from generator.doctor.snapshot import Snapshot

from .. import fleet
from .plant import WARNING, Case, first, mount_event

DENIED = (
    'MountVolume.SetUp failed for volume "gcs" : rpc error: code = PermissionDenied desc = failed '
    'to get GCS bucket "checkpointing-test-bucket": googleapi: Error 403: Caller does not have '
    "storage.objects.list access to the Google Cloud Storage bucket."
)
GRANT = (
    "gcloud storage buckets add-iam-policy-binding gs://checkpointing-test-bucket --member "
    '"principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/'
    "acme-training.svc.id.goog/subject/ns/gke-managed-checkpointing/sa/"
    'gke-checkpointing-multitier-node" --role "roles/storage.objectUser"'
)


def unready(snapshot: Snapshot) -> None:
    snapshot.objects["driverpods"][0] = fleet.driver("pool-a-0", ready=0)


def denied(snapshot: Snapshot) -> None:
    unready(snapshot)
    pod_name = snapshot.objects["driverpods"][0]["metadata"]["name"]
    event = mount_event(pod_name, "gke-managed-checkpointing", DENIED)
    snapshot.objects["mountevents"].append(event)


def untold_bucket(snapshot: Snapshot) -> None:
    denied(snapshot)
    snapshot.objects["mountevents"][0]["message"] = "rpc error: code = PermissionDenied desc = no"


def no_driver(snapshot: Snapshot) -> None:
    waiting = snapshot.objects["jobpods"][0]
    text = "driver name multitier-checkpoint.csi.storage.gke.io not found in the list of registered CSI drivers"
    snapshot.objects["mountevents"].append(
        mount_event(waiting["metadata"]["name"], "default", text)
    )


def second_config(snapshot: Snapshot) -> None:
    other = json.loads(json.dumps(first(snapshot, "checkpointconfigurations")))
    other["metadata"] |= {"name": "by-hand", "uid": "other"}
    snapshot.objects["checkpointconfigurations"].append(other)


def refused_config(snapshot: Snapshot) -> None:
    snapshot.objects["daemonsets"].clear()
    snapshot.objects["driverpods"].clear()


def leaving_config(snapshot: Snapshot) -> None:
    first(snapshot, "checkpointconfigurations")["metadata"]["deletionTimestamp"] = fleet.LATELY


def conflict(snapshot: Snapshot) -> None:
    refused_config(snapshot)
    name = first(snapshot, "checkpointconfigurations")["metadata"]["name"]
    event = mount_event(name, "default", "nodes have a driver") | {"reason": "Conflict"}
    snapshot.objects["configevents"].append(event)


CASES = (
    Case(
        "DOC010",
        lambda s: s.objects["driverpods"].pop(),
        ("no driver pod on 1 of its 16 accelerator nodes (pool-d-3)",),
    ),
    Case(
        "DOC010",
        lambda s: s.objects["nodes"].append(
            {
                **fleet.node("pool-e", 0),
                "spec": {"taints": [{"key": "odd", "effect": "NoSchedule"}]},
            }
        ),
        ("pool-e-0", "odd:NoSchedule is not tolerated"),
    ),
    Case("DOC011", unready, ("1 driver 0/5 (5 × PodInitializing) on pool-a-0",)),
    Case(
        "DOC012",
        denied,
        ("checkpointing-test-bucket", "storage.objects.list denied", "roles/storage.objectUser"),
        fix=GRANT,
    ),
    Case("DOC013", no_driver, ("cannot be mounted", "not found in the list")),
    Case("DOC014", second_config, ("select the same 16 nodes",)),
    Case("DOC015", refused_config, ("has no driver DaemonSet",)),
    Case("DOC015", leaving_config, ("waits for its driver pods",), severity=WARNING),
    Case("DOC015", conflict, ("Conflict: nodes have a driver",)),
    Case(
        "DOC012", untold_bucket, ("access denied",), fix="gs://acme-training-checkpoints --member"
    ),
)
