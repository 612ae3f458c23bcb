"""What a cluster, a controller or a tool wrote into an object and nobody should keep in Git."""

from __future__ import annotations

from typing import Any

from generator.build.namespaces import BUILT_IN
from generator.importing.sources import Log, Source, entries, mapping

SERVER_METADATA = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "generation", "managedFields", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
"""Fields of metadata that the API server and controllers fill in."""

TOOL_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/installation-id",
    "kapp.k14s.io/",
    "meta.helm.sh/",
    "deployment.kubernetes.io/",
)
TOOL_LABELS = (
    "app.kubernetes.io/instance",
    "argocd.argoproj.io/instance",
    "kubernetes.io/metadata.name",
    "kustomize.toolkit.fluxcd.io/",
    "helm.sh/chart",
)
POD_LABELS = ("jobset.sigs.k8s.io/", "batch.kubernetes.io/", "controller-uid", "job-name")
"""Labels of a pod template that JobSet and the job controller write."""

SYSTEM_NAMESPACES = frozenset(
    "kube-system kube-public kube-node-lease kueue-system jobset-system gke-managed-checkpointing "
    "gke-managed-system gmp-system gmp-public gke-managed-cim argocd flux-system".split()
)

# kind → why objects of the kind are no part of an inventory.
LEFT_OUT: dict[str, str] = {
    "Secret": "a secret's values do not belong in Git; workloads refer to it by name",
    "Workload": "Kueue makes it for each job",
    "Pod": "its job makes it",
    "Event": "it is a record of what happened",
    "Node": "node pools stand in the inventory, single nodes do not",
    "CustomResourceDefinition": "it comes with the controller's installation",
    "DaemonSet": "the checkpointing controller and GKE make those of training nodes",
    "Endpoints": "its Service makes it",
    "EndpointSlice": "its Service makes it",
    "ControllerRevision": "its controller makes it",
}

# API group (its end) → why its objects are no part of a cluster's inventory.
LEFT_OUT_GROUPS: dict[str, str] = {
    "cnrm.cloud.google.com": "infrastructure is made from the inventory's cluster and node pools",
    "argoproj.io": "Argo CD's objects are made from the inventory's gitops section",
    "fluxcd.io": "Flux' objects are made from the inventory's gitops section",
    "kustomize.config.k8s.io": "it is kustomize's, not a cluster's",
}


def kept(source: Source, log: Log) -> bool:
    """Whether an object is imported; if not, the log says why."""
    reason = _reason(source)
    if reason:
        log.dropped(source, f"left out: {reason}", loud=source.kind == "Secret")
    return not reason


def _reason(source: Source) -> str:
    if reason := LEFT_OUT.get(source.kind):
        return reason
    for group, reason in LEFT_OUT_GROUPS.items():
        if source.group == group or source.group.endswith(f".{group}"):
            return reason
    if source.namespace in SYSTEM_NAMESPACES:
        return f"namespace {source.namespace} belongs to an installation"
    if source.kind == "Namespace" and source.name in BUILT_IN | SYSTEM_NAMESPACES:
        return "every cluster has it"
    if source.kind == "PriorityClass" and source.name.startswith("system-"):
        return "every cluster has it"
    if source.kind == "ServiceAccount" and source.name == "default":
        return "every namespace has it"
    if source.kind == "ConfigMap" and source.name == "kube-root-ca.crt":
        return "every namespace has it"
    owner = next((o for o in entries(source.metadata.get("ownerReferences"))), None)
    if owner is not None:
        return f"{owner.get('kind')} {owner.get('name')} makes it"
    return ""


def clean(source: Source, log: Log) -> None:
    """Take away what was written by machines; the log names it in one line."""
    gone: list[str] = []
    metadata = source.metadata
    for key in SERVER_METADATA:
        if key in metadata:
            del metadata[key]
            gone.append(f"metadata.{key}")
    if "status" in source.body:
        del source.body["status"]
        gone.append("status")
    gone += _prune_keys(metadata, "annotations", TOOL_ANNOTATIONS)
    gone += _prune_keys(metadata, "labels", TOOL_LABELS)
    if source.kind == "JobSet":
        _drop_suspend(source, log)
        gone += _clean_jobset(source)
    if source.kind == "Namespace" and source.spec.get("finalizers") is not None:
        gone.append("spec.finalizers")
        source.spec.pop("finalizers")
    if source.kind in {"PriorityClass", "WorkloadPriorityClass", "Namespace"} and not source.spec:
        source.body.pop("spec", None)
    _drop_empty(source.body)
    if gone:
        log.dropped(source, f"{', '.join(gone)}: written by the cluster or by tools")


def _drop_suspend(source: Source, log: Log) -> None:
    """Kueue sets and clears it; in Git it would stop a running job at the next sync."""
    suspended = source.spec.pop("suspend", None)
    queued = any(
        "kueue.x-k8s.io/queue-name" in mapping(source.metadata.get(part))
        for part in ("labels", "annotations")
    )
    if suspended is not None and queued:
        log.dropped(source, "spec.suspend: Kueue sets it", path=("spec", "suspend"))
    elif suspended:
        log.dropped(
            source,
            "spec.suspend is left out and no queue holds the job: it starts once it is applied",
            "give it a queue, or leave it out of the import",
            ("spec", "suspend"),
            loud=True,
        )


def _clean_jobset(source: Source) -> list[str]:
    gone: list[str] = []
    for job in entries(source.spec.get("replicatedJobs")):
        template = mapping(mapping(job.get("template")).get("spec"))
        pods = mapping(template.get("template"))
        metadata = mapping(pods.get("metadata"))
        for holder in (mapping(mapping(job.get("template")).get("metadata")), metadata):
            if "creationTimestamp" in holder:
                del holder["creationTimestamp"]
        gone += _prune_keys(metadata, "labels", POD_LABELS)
        gone += _prune_keys(metadata, "annotations", POD_LABELS)
    return gone


def _prune_keys(holder: dict[str, Any], key: str, prefixes: tuple[str, ...]) -> list[str]:
    values = mapping(holder.get(key))
    found = [name for name in values if str(name).startswith(prefixes)]
    for name in found:
        del values[name]
    if key in holder and not values:
        del holder[key]
    return found


def _drop_empty(value: Any) -> None:
    """Take away nulls, which mean the same as an absent key to the API server."""
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _drop_empty(item)
    elif isinstance(value, list):
        for item in value:
            _drop_empty(item)
