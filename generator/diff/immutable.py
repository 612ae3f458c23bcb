"""Fields that cannot be changed in place: a table of the rule, the remedy and the source.

In place, such a change is blocked. Where the resource gets a new name instead, the row says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.diff.conditions import CONDITIONS, Case
from generator.diff.model import ImmutableRule, plain_path
from generator.diff.patterns import matches

_JOBSET_TYPES = "kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go (XValidation)"
_JOBSET_WEBHOOK = "kubernetes-sigs/jobset pkg/webhooks/jobset_webhook.go (ValidateUpdate)"
_JOB_LABELS = "kubernetes-sigs/kueue pkg/controller/jobframework/validation.go"
_NEW_RUN = "give the run a new name (stowplan does, from a hash of these fields)"
_APPS = "k8s.io/kubernetes pkg/apis/apps/validation/validation.go"
_RECREATE = "give it a new name, or delete it and create it again"
_TEMPLATE = "spec replicatedJobs template spec template"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it holds, when, and what it says."""

    group: str
    kind: str
    path: str
    rule: str
    remedy: str
    source: str
    when: str = ""


def _jobset_block(name: str) -> Row:
    return Row(
        "jobset.x-k8s.io",
        "JobSet",
        f"spec {name} **",
        "JobSet CEL: Value is immutable",
        _NEW_RUN,
        _JOBSET_TYPES,
        "block-kept",
    )


def _jobset_unlocked(path: str) -> Row:
    return Row(
        "jobset.x-k8s.io",
        "JobSet",
        f"{_TEMPLATE} {path} **",
        "JobSet webhook: accepted only while the JobSet is suspended",
        _NEW_RUN,
        _JOBSET_WEBHOOK,
    )


ROWS: tuple[Row, ...] = (
    *(
        _jobset_block(name)
        for name in (
            "network",
            "successPolicy",
            "failurePolicy",
            "startupPolicy",
            "volumeClaimPolicies",
        )
    ),
    *(
        _jobset_unlocked(path)
        for path in (
            "metadata labels",
            "metadata annotations",
            "spec nodeSelector",
            "spec tolerations",
            "spec schedulingGates",
        )
    ),
    Row(
        "jobset.x-k8s.io",
        "JobSet",
        "spec replicatedJobs **",
        "JobSet webhook: spec.replicatedJobs is immutable",
        _NEW_RUN,
        _JOBSET_WEBHOOK,
    ),
    Row(
        "jobset.x-k8s.io",
        "JobSet",
        "spec managedBy",
        "JobSet webhook: spec.managedBy is immutable",
        _NEW_RUN,
        _JOBSET_WEBHOOK,
    ),
    Row(
        "jobset.x-k8s.io",
        "JobSet",
        "metadata labels kueue.x-k8s.io/queue-name",
        "Kueue webhook: the queue label is immutable while the JobSet is not suspended",
        "give the workload another `run` (the hash in its name does not cover the label), or wait "
        "until the job is over",
        _JOB_LABELS,
    ),
    Row(
        "kueue.x-k8s.io",
        "LocalQueue",
        "spec clusterQueue",
        "Kueue CEL: spec.clusterQueue is immutable",
        "add a LocalQueue under a new name, point the workloads at it, then delete this one",
        "kubernetes-sigs/kueue apis/kueue/v1beta2/localqueue_types.go (XValidation)",
    ),
    Row(
        "kueue.x-k8s.io",
        "ClusterQueue",
        "spec concurrentAdmissionPolicy **",
        "Kueue CEL: concurrentAdmissionPolicy is immutable",
        _RECREATE,
        "kubernetes-sigs/kueue apis/kueue/v1beta2/clusterqueue_types.go (XValidation)",
    ),
    Row(
        "kueue.x-k8s.io",
        "ResourceFlavor",
        "spec topologyName",
        "Kueue CEL: topologyName cannot change or go once it is set",
        "add a flavor under a new name and move the quota to it",
        "kubernetes-sigs/kueue apis/kueue/v1beta2/resourceflavor_types.go (XValidation)",
        "topology-set",
    ),
    *(
        Row(
            "kueue.x-k8s.io",
            "ResourceFlavor",
            f"spec {name} **",
            "Kueue CEL, up to 0.19: fixed once topologyName is set",
            "add a flavor under a new name and move the quota to it",
            "kubernetes-sigs/kueue apis/kueue/v1beta2/resourceflavor_types.go (XValidation)",
            "frozen-flavor",
        )
        for name in ("nodeLabels", "tolerations")
    ),
    Row(
        "kueue.x-k8s.io",
        "ResourceFlavor",
        "spec **",
        "Kueue CEL, up to 0.16: the whole spec is fixed once topologyName is set",
        "add a flavor under a new name and move the quota to it",
        "kubernetes-sigs/kueue apis/kueue/v1beta1/resourceflavor_types.go (XValidation)",
        "wholly-frozen-flavor",
    ),
    Row(
        "kueue.x-k8s.io",
        "Topology",
        "spec levels **",
        "Kueue CEL: levels are fixed unless kubernetes.io/hostname is the lowest before and after",
        "add a Topology under a new name and a flavor that uses it",
        "kubernetes-sigs/kueue apis/kueue/v1beta2/topology_types.go (XValidation)",
        "fixed-levels",
    ),
    Row(
        "kueue.x-k8s.io",
        "AdmissionCheck",
        "spec controllerName",
        "Kueue CEL: controllerName is immutable",
        _RECREATE,
        "kubernetes-sigs/kueue apis/kueue/v1beta2/admissioncheck_types.go (XValidation)",
    ),
    Row(
        "checkpointing.gke.io",
        "CheckpointConfiguration",
        "spec **",
        "the controller reads a CheckpointConfiguration only when it is created",
        "give it a new name (stowplan does, from a hash of the spec and driverEpoch)",
        "GoogleCloudPlatform/high-scale-checkpointing-controller "
        "pkg/multitier-controller/controller.go (Reconcile)",
    ),
    *(
        Row(
            "scheduling.k8s.io",
            "PriorityClass",
            name,
            f"Kubernetes: {name} of a PriorityClass is immutable",
            "add a PriorityClass under a new name, or delete it and create it again",
            "k8s.io/kubernetes pkg/apis/scheduling/validation (ValidatePriorityClassUpdate)",
        )
        for name in ("value", "preemptionPolicy")
    ),
    *(
        Row("apps", kind, "spec selector **", f"Kubernetes: {kind} selector is immutable",
            _RECREATE, _APPS)
        for kind in ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")
    ),
    *(
        Row("apps", "StatefulSet", f"spec {name} **", f"Kubernetes: {name} is immutable",
            _RECREATE, _APPS)
        for name in ("serviceName", "volumeClaimTemplates", "podManagementPolicy")
    ),
    *(
        Row("batch", "Job", f"spec {name} **", f"Kubernetes: {name} of a Job is immutable",
            _RECREATE, "k8s.io/kubernetes pkg/apis/batch/validation/validation.go")
        for name in ("template", "selector", "completionMode")
    ),
    *(
        Row("rbac.authorization.k8s.io", kind, "roleRef **", "Kubernetes: roleRef is immutable",
            _RECREATE, "k8s.io/kubernetes pkg/apis/rbac/validation/validation.go")
        for kind in ("RoleBinding", "ClusterRoleBinding")
    ),
    *(
        Row("", kind, f"{name} **", f"Kubernetes: this {kind} says immutable: true", _RECREATE,
            "k8s.io/kubernetes pkg/apis/core/validation/validation.go", "sealed")
        for kind in ("ConfigMap", "Secret")
        for name in ("data", "binaryData", "stringData", "immutable")
    ),
    *(
        Row("storage.k8s.io", "StorageClass", f"{name} **",
            "Kubernetes: parameters of a StorageClass are immutable", _RECREATE,
            "k8s.io/kubernetes pkg/apis/storage/validation/validation.go")
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    ),
    *(
        Row("", "PersistentVolumeClaim", f"spec {name} **",
            "Kubernetes: spec of a bound claim is immutable", _RECREATE,
            "k8s.io/kubernetes pkg/apis/core/validation/validation.go")
        for name in ("accessModes", "storageClassName", "volumeName", "selector", "dataSource")
    ),
    Row("", "PersistentVolume", "spec hostPath **",
        "Kubernetes: the source of a volume is immutable", _RECREATE,
        "k8s.io/kubernetes pkg/apis/core/validation/validation.go"),
)  # fmt: skip


def immutable_rule(group: str, kind: str, case: Case) -> ImmutableRule | None:
    """Return the rule that forbids a field's change in place, None where it is allowed."""
    if case.change is None:
        return None
    path = plain_path(case.change.path)
    for row in _BY_KIND.get((group, kind), ()):
        if matches(row.path, path) and CONDITIONS[row.when].holds(case):
            return ImmutableRule(row.rule, row.remedy, row.source)
    return None


_BY_KIND: dict[tuple[str, str], list[Row]] = {}
for _row in ROWS:
    _BY_KIND.setdefault((_row.group, _row.kind), []).append(_row)
