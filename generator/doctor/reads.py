"""Everything that the doctor reads, as a table: the requests and the RBAC both come from it.

Secrets are not in it, and ConfigMaps only by name (Kueue's own configuration).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CHECKPOINTING_NAMESPACE = "gke-managed-checkpointing"
KUEUE_NAMESPACE, JOBSET_NAMESPACE = "kueue-system", "jobset-system"
KUEUE_CONFIG = "kueue-manager-config"
"""ConfigMap of Kueue's Configuration in the released manifests and the Helm chart."""

KUEUE, JOBSET, CHECKPOINTING = "kueue.x-k8s.io", "jobset.x-k8s.io", "checkpointing.gke.io"


@dataclass(frozen=True, slots=True)
class Read:
    """One list, or one object by name.

    Attributes:
        key: what the snapshot calls it.
        group: API group, empty for the core.
        versions: versions that the doctor understands, the preferred first; the first of them that
            the server serves is read.
        kind: the kind of the objects.
        plural: the resource's name in paths and RBAC.
        namespace: the only namespace that is read; empty for all (or a cluster-scoped kind).
        name: the only object that is read; empty for a list.
        query: selectors that keep the list small.
        optional: the server may lack the kind, or the object, and nothing is wrong.
    """

    key: str
    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespace: str = ""
    name: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False

    @property
    def title(self) -> str:
        """How people are told what was not read: ``pods in gke-managed-checkpointing``."""
        group = f".{self.group}" if self.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.plural}{group}{name}{where}"

    def path(self, version: str) -> str:
        """The request's path without its query."""
        base = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        if self.namespace:
            base += f"/namespaces/{self.namespace}"
        return f"{base}/{self.plural}" + (f"/{self.name}" if self.name else "")


_CORE = ("v1",)
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_DRIVERS = {"namespace": CHECKPOINTING_NAMESPACE}
_WEBHOOK_GROUP = "admissionregistration.k8s.io"


def _kueue(key: str, kind: str, versions: tuple[str, ...] = _KUEUE_VERSIONS) -> Read:
    return Read(key, KUEUE, versions, kind, key)


READS: tuple[Read, ...] = (
    Read("nodes", "", _CORE, "Node", "nodes"),
    Read("namespaces", "", _CORE, "Namespace", "namespaces"),
    Read("priorityclasses", "scheduling.k8s.io", _CORE, "PriorityClass", "priorityclasses"),
    Read("csidrivers", "storage.k8s.io", _CORE, "CSIDriver", "csidrivers"),
    Read(
        "jobpods",
        "",
        _CORE,
        "Pod",
        "pods",
        query={"labelSelector": "jobset.sigs.k8s.io/jobset-name"},
    ),
    Read("driverpods", "", _CORE, "Pod", "pods", CHECKPOINTING_NAMESPACE),
    Read("daemonsets", "apps", _CORE, "DaemonSet", "daemonsets", CHECKPOINTING_NAMESPACE),
    Read(
        "mountevents",
        "",
        _CORE,
        "Event",
        "events",
        query={"fieldSelector": "reason=FailedMount,type=Warning"},
    ),
    Read(
        "configevents",
        "",
        _CORE,
        "Event",
        "events",
        query={"fieldSelector": "involvedObject.kind=CheckpointConfiguration,type=Warning"},
    ),
    Read("kueuedeployments", "apps", _CORE, "Deployment", "deployments", KUEUE_NAMESPACE),
    Read("jobsetdeployments", "apps", _CORE, "Deployment", "deployments", JOBSET_NAMESPACE),
    Read(
        "kueueendpoints",
        "discovery.k8s.io",
        _CORE,
        "EndpointSlice",
        "endpointslices",
        KUEUE_NAMESPACE,
    ),
    Read(
        "jobsetendpoints",
        "discovery.k8s.io",
        _CORE,
        "EndpointSlice",
        "endpointslices",
        JOBSET_NAMESPACE,
    ),
    Read(
        "mutatingwebhooks",
        _WEBHOOK_GROUP,
        _CORE,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    Read(
        "validatingwebhooks",
        _WEBHOOK_GROUP,
        _CORE,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    Read(
        "kueueconfig",
        "",
        _CORE,
        "ConfigMap",
        "configmaps",
        KUEUE_NAMESPACE,
        KUEUE_CONFIG,
        optional=True,
    ),
    _kueue("clusterqueues", "ClusterQueue"),
    _kueue("localqueues", "LocalQueue"),
    _kueue("resourceflavors", "ResourceFlavor"),
    _kueue("workloads", "Workload"),
    _kueue("workloadpriorityclasses", "WorkloadPriorityClass"),
    _kueue("cohorts", "Cohort"),
    _kueue("topologies", "Topology"),
    Read("jobsets", JOBSET, ("v1alpha2",), "JobSet", "jobsets"),
    Read(
        "checkpointconfigurations",
        CHECKPOINTING,
        ("v1",),
        "CheckpointConfiguration",
        "checkpointconfigurations",
    ),
)

BY_KIND: dict[tuple[str, str], Read] = {
    (read.group, read.kind): read
    for read in READS
    if not (read.namespace or read.name or read.query)
}
"""(group, kind) → the list that holds every object of the kind."""

PLURALS: dict[tuple[str, str], str] = {
    ("", "ServiceAccount"): "serviceaccounts",
    ("", "ConfigMap"): "configmaps",
    ("", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("", "Service"): "services",
    ("", "ResourceQuota"): "resourcequotas",
    ("", "LimitRange"): "limitranges",
    ("batch", "CronJob"): "cronjobs",
    ("batch", "Job"): "jobs",
    ("apps", "Deployment"): "deployments",
    ("networking.k8s.io", "NetworkPolicy"): "networkpolicies",
    ("rbac.authorization.k8s.io", "Role"): "roles",
    ("rbac.authorization.k8s.io", "RoleBinding"): "rolebindings",
    ("rbac.authorization.k8s.io", "ClusterRole"): "clusterroles",
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): "clusterrolebindings",
    ("kueue.x-k8s.io", "AdmissionCheck"): "admissionchecks",
    ("kueue.x-k8s.io", "ProvisioningRequestConfig"): "provisioningrequestconfigs",
}
"""Kinds that are read object by object, where a compiled cluster has them. Not Secrets."""


def single(group: str, version: str, kind: str, namespace: str, name: str) -> Read | None:
    """The read of one object of a compiled cluster, None for a kind that is not read."""
    plural = PLURALS.get((group, kind))
    if plural is None:
        return None
    key = object_key(group, kind, namespace, name)
    return Read(key, group, (version,), kind, plural, namespace, name, optional=True)


def object_key(group: str, kind: str, namespace: str, name: str) -> str:
    """The snapshot's key of one object that is read by name."""
    return f"object:{group}/{kind}/{namespace}/{name}"
