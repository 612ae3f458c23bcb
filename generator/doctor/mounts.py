"""What failed to mount, and for want of which IAM binding."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.drivers import is_ready_driver
from generator.doctor.look import Look
from generator.doctor.objects import Object, count, is_true, name_of, some
from generator.doctor.reads import CHECKPOINTING_NAMESPACE
from generator.findings import Finding, Severity

_E = Severity.ERROR
SERVICE_ACCOUNT = "gke-checkpointing-multitier-node"
ROLE = "roles/storage.objectUser"
"""What multi-tier checkpointing needs on the bucket (GKE documentation)."""

_DENIED = re.compile(r"PermissionDenied|Error 403|does not have storage\.\S+ access")
_BUCKET = re.compile(r'bucket "(?P<name>[^"]+)"')
_PERMISSION = re.compile(r"storage\.[a-z]+\.[a-z]+", re.IGNORECASE)

CAUSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"not found in the list of registered CSI drivers"),
        "the node has no checkpoint driver: let a CheckpointConfiguration select and tolerate it "
        "(findings DOC010 and DOC015 say more)",
    ),
    (
        re.compile(r"bucket.*(?:does not|doesn't) exist|NotFound|Error 404"),
        "create the bucket, with a hierarchical namespace, or mend cloudStorageBucketName",
    ),
    (
        re.compile(r"Workload ?Identity|metadata server|Unauthenticated|Error 401", re.IGNORECASE),
        "enable Workload Identity Federation: gcloud container clusters update CLUSTER_NAME "
        "--workload-pool=PROJECT_ID.svc.id.goog, and on the node pool "
        "--workload-metadata=GKE_METADATA",
    ),
)
"""What other failures mean, tried in order."""


def failed_mounts(look: Look) -> Iterator[Finding]:
    """Mount failures of pods that still wait, by their text."""
    pods = {
        (dig(pod, "metadata", "namespace"), name_of(pod)): pod
        for key in ("driverpods", "jobpods")
        for pod in look.snapshot.items(key)
    }
    denied: dict[str, list[tuple[str, str]]] = defaultdict(list)
    other: dict[str, list[str]] = defaultdict(list)
    for event in look.snapshot.items("mountevents"):
        involved = event.get("involvedObject") or {}
        key = (involved.get("namespace"), str(involved.get("name")))
        pod = pods.get(key)
        if pod is None or not _still_waits(pod):
            continue
        text = str(event.get("message", ""))
        if _DENIED.search(text) and key[0] == CHECKPOINTING_NAMESPACE:
            denied[_bucket(look, pod, text)].append((key[1], text))
        else:
            other[text].append(f"{key[0]}/{key[1]}")
    for bucket, failures in sorted(denied.items()):
        yield _missing_binding(look, bucket, failures)
    for text, names in sorted(other.items()):
        fix = next((advice for pattern, advice in CAUSES if pattern.search(text)), "")
        yield look.finding(
            "DOC013",
            _E,
            f"Pod {sorted(set(names))[0]}",
            f"a volume of {some(set(names), 2)} cannot be mounted: {text}",
            fix,
        )


def _still_waits(pod: Mapping[str, Any]) -> bool:
    """Whether the failure still matters; events outlive what they tell of by an hour."""
    if dig(dict(pod), "metadata", "namespace") == CHECKPOINTING_NAMESPACE:
        return not is_ready_driver(pod)
    return not is_true(pod, "Ready")


def _bucket(look: Look, pod: Object, text: str) -> str:
    """The bucket that the message names, else the one of the pod's configuration."""
    named = _BUCKET.search(text)
    if named:
        return named["name"]
    for config in look.snapshot.items("checkpointconfigurations"):
        if str(dig(config, "metadata", "uid")) in name_of(pod):
            return str(dig(config, "spec", "cloudStorageBucketName") or "").partition("/")[0]
    return "GCS_BUCKET"


def _missing_binding(look: Look, bucket: str, failures: list[tuple[str, str]]) -> Finding:
    names = {name for name, _ in failures}
    permission = next(
        (found[0] for _, text in failures if (found := _PERMISSION.search(text))), "access"
    )
    return look.finding(
        "DOC012",
        _E,
        f"Pod {CHECKPOINTING_NAMESPACE}/{min(names)}",
        f"{count(len(names), 'driver pod')} ({some(names, 2)}) may not use the bucket {bucket} "
        f"({permission} denied): the drivers' service account lacks {ROLE} on it, or there is no "
        "such bucket",
        iam_command(bucket, look.project, look.project_number),
    )


def iam_command(bucket: str, project: str, number: str) -> str:
    """The command that grants the drivers their role on a bucket."""
    member = (
        f"principal://iam.googleapis.com/projects/{number}/locations/global/workloadIdentityPools/"
        f"{project}.svc.id.goog/subject/ns/{CHECKPOINTING_NAMESPACE}/sa/{SERVICE_ACCOUNT}"
    )
    return (
        f"gcloud storage buckets add-iam-policy-binding gs://{bucket} "
        f'--member "{member}" --role "{ROLE}"'
    )
