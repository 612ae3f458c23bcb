"""Labels and annotations that every object carries."""

from __future__ import annotations

from schemas.manifests.base import ObjectMeta

MANAGED_BY = {"app.kubernetes.io/managed-by": "stowplan"}

# Argo CD applies in the order of these waves and prunes in the reverse one. Nothing waits on a
# JobSet: a queued one would hold up every later wave.
SYNC_WAVES: dict[str, int] = {
    "Namespace": -30,
    "PriorityClass": -30,
    "WorkloadPriorityClass": -30,
    "Topology": -20,
    "ResourceFlavor": -20,
    "AdmissionCheck": -20,
    "Cohort": -15,
    "ClusterQueue": -10,
    "LocalQueue": -5,
    "PersistentVolume": -3,
    "PersistentVolumeClaim": -2,
    "Role": -2,
    "RoleBinding": -1,
    "NetworkPolicy": -1,
    "Service": -1,
    "CheckpointConfiguration": 0,
    "ServiceAccount": 0,
    "DaemonSet": 1,
    "CronJob": 5,
    "JobSet": 10,
}

# Deleting these stops jobs or empties RAM disks, so a person confirms it. Replace and Force are
# never set: with them Argo CD re-creates a running JobSet at every sync.
SYNC_OPTIONS: dict[str, str] = {
    "Namespace": "Prune=confirm,Delete=confirm",
    "ResourceFlavor": "Prune=confirm,Delete=confirm",
    "ClusterQueue": "Prune=confirm,Delete=confirm",
    "CheckpointConfiguration": "Prune=confirm",
    "DaemonSet": "Prune=confirm",
    "PersistentVolume": "Prune=confirm",
    "PersistentVolumeClaim": "Prune=confirm",
    "JobSet": "Prune=confirm",
}


def metadata(
    kind: str,
    name: str,
    namespace: str | None = None,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> ObjectMeta:
    """The metadata of one object, keys sorted."""
    notes = dict(annotations or {})
    if kind in SYNC_OPTIONS:
        notes["argocd.argoproj.io/sync-options"] = SYNC_OPTIONS[kind]
    if kind in SYNC_WAVES:
        notes["argocd.argoproj.io/sync-wave"] = str(SYNC_WAVES[kind])
    return ObjectMeta(
        name=name,
        namespace=namespace,
        labels=dict(sorted({**MANAGED_BY, **(labels or {})}.items())),
        annotations=dict(sorted(notes.items())),
    )
