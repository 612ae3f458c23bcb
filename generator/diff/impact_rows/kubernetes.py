"""Impact rows: Kubernetes itself, storage and monitoring."""

from __future__ import annotations

from generator.diff.impact_rows.row import ANY, COMES, COMES_OR_GOES, IS_RECREATED, Row
from generator.diff.model import Impact, Verb

_CQ_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/clusterqueue_types.go"
_K8S_WORKLOADS = "kubernetes.io/docs/concepts/workloads/controllers"
_K8S_NAMESPACE = "kubernetes.io/docs/concepts/overview/working-with-objects/namespaces"
_K8S_STORAGE = "kubernetes.io/docs/concepts/storage/persistent-volumes"
_K8S_META = "kubernetes.io/docs/concepts/overview/working-with-objects"
_ARGO_WAVES = "argo-cd.readthedocs.io/en/stable/user-guide/sync-waves"
_ARGO_OPTIONS = "argo-cd.readthedocs.io/en/stable/user-guide/sync-options"
_RETENTION = (
    "docs.cloud.google.com/kubernetes-engine/docs/how-to/machine-learning/training/"
    "multi-tier-checkpointing (backup-warden)"
)

STORAGE_ROWS = (
    *(
        Row("", kind, "", Impact.DATA_LOSS, why, source, (Verb.DELETE, *IS_RECREATED))
        for kind, why, source in (
            ("Namespace", "everything in it is deleted", _K8S_NAMESPACE),
            (
                "PersistentVolumeClaim",
                "a volume with reclaim policy Delete goes with it",
                _K8S_STORAGE,
            ),
            ("PersistentVolume", "the volume may be deleted with it", _K8S_STORAGE),
        )
    ),
    *(
        Row("", kind, "", Impact.LIVE, why, _K8S_STORAGE, COMES)
        for kind, why in (
            ("PersistentVolumeClaim", "pods that name it can start once it is bound"),
            ("PersistentVolume", "the claim that it is reserved for can be bound"),
        )
    ),
    Row(
        "storage.cnrm.cloud.google.com",
        "StorageBucket",
        "",
        Impact.DATA_LOSS,
        "Config Connector deletes the bucket with the object",
        "cloud.google.com/config-connector/docs/how-to/managing-deleting-resources",
        (Verb.DELETE, *IS_RECREATED),
    ),
    Row(
        "storage.cnrm.cloud.google.com",
        "StorageBucket",
        "spec lifecycleRule **",
        Impact.DATA_LOSS,
        "objects that the rule selects are deleted",
        "cloud.google.com/storage/docs/lifecycle",
    ),
    Row(
        "storage.cnrm.cloud.google.com",
        "StorageBucket",
        "spec softDeletePolicy **",
        Impact.DATA_LOSS,
        "deleted objects are kept for another time",
        "cloud.google.com/storage/docs/soft-delete",
    ),
    Row(
        "",
        "PersistentVolumeClaim",
        "spec resources **",
        Impact.LIVE,
        "the volume is expanded; shrinking is refused",
        _K8S_STORAGE,
    ),
)
CORE_ROWS = (
    Row(
        "batch",
        "CronJob",
        "spec jobTemplate spec template spec containers args",
        Impact.DATA_LOSS,
        "the next run deletes backups that were kept so far",
        _RETENTION,
        when="keeps-fewer",
    ),
    *(
        Row(
            "apps",
            kind,
            "spec template **",
            Impact.LIVE,
            "its pods are rolled; they are controllers or agents, not training",
            _K8S_WORKLOADS,
        )
        for kind in ("Deployment", "DaemonSet", "StatefulSet")
    ),
    *(
        Row(group, kind, "", Impact.LIVE, why, source, COMES_OR_GOES + IS_RECREATED)
        for group, kind, why, source in (
            ("apps", "Deployment", "its pods start or stop", _K8S_WORKLOADS),
            ("apps", "DaemonSet", "its pods start or stop", _K8S_WORKLOADS),
            ("apps", "StatefulSet", "its pods start or stop", _K8S_WORKLOADS),
            ("batch", "CronJob", "runs begin or end with it", _K8S_WORKLOADS),
            ("batch", "Job", "its pods start or stop", _K8S_WORKLOADS),
            ("", "Namespace", "objects may be created in it", _K8S_NAMESPACE),
            (
                "",
                "ServiceAccount",
                "pods that name it get or lose its rights",
                "kubernetes.io/docs/concepts/security/service-accounts",
            ),
            (
                "",
                "Service",
                "the name begins or ceases to resolve",
                "kubernetes.io/docs/concepts/services-networking/service",
            ),
            (
                "",
                "ConfigMap",
                "pods that mount it see it, or no longer start",
                "kubernetes.io/docs/concepts/configuration/configmap",
            ),
            (
                "rbac.authorization.k8s.io",
                "Role",
                "rights change at once",
                "kubernetes.io/docs/reference/access-authn-authz/rbac",
            ),
            (
                "rbac.authorization.k8s.io",
                "RoleBinding",
                "rights change at once",
                "kubernetes.io/docs/reference/access-authn-authz/rbac",
            ),
            (
                "rbac.authorization.k8s.io",
                "ClusterRole",
                "rights change at once",
                "kubernetes.io/docs/reference/access-authn-authz/rbac",
            ),
            (
                "rbac.authorization.k8s.io",
                "ClusterRoleBinding",
                "rights change at once",
                "kubernetes.io/docs/reference/access-authn-authz/rbac",
            ),
            (
                "networking.k8s.io",
                "NetworkPolicy",
                "traffic is filtered anew at once",
                "kubernetes.io/docs/concepts/services-networking/network-policies",
            ),
            (
                "policy",
                "PodDisruptionBudget",
                "counts for the next eviction",
                "kubernetes.io/docs/tasks/run-application/configure-pdb",
            ),
            (
                "monitoring.googleapis.com",
                "PodMonitoring",
                "metrics are collected or not",
                "docs.cloud.google.com/stackdriver/docs/managed-prometheus",
            ),
            (
                "monitoring.googleapis.com",
                "Rules",
                "alerts are computed or not",
                "docs.cloud.google.com/stackdriver/docs/managed-prometheus",
            ),
            (
                "monitoring.googleapis.com",
                "ClusterRules",
                "alerts are computed or not",
                "docs.cloud.google.com/stackdriver/docs/managed-prometheus",
            ),
            (
                "monitoring.coreos.com",
                "PrometheusRule",
                "alerts are computed or not",
                "prometheus-operator.dev/docs/api-reference/api",
            ),
            (
                "monitoring.coreos.com",
                "PodMonitor",
                "metrics are collected or not",
                "prometheus-operator.dev/docs/api-reference/api",
            ),
            (
                "monitoring.coreos.com",
                "ServiceMonitor",
                "metrics are collected or not",
                "prometheus-operator.dev/docs/api-reference/api",
            ),
        )
    ),
    *(
        Row(group, kind, path, Impact.LIVE, why, source)
        for group, kind, path, why, source in (
            ("batch", "CronJob", "spec **", "counts from the next run on", _K8S_WORKLOADS),
            ("apps", "Deployment", "spec **", "the controller follows", _K8S_WORKLOADS),
            ("apps", "DaemonSet", "spec **", "the controller follows", _K8S_WORKLOADS),
            ("apps", "StatefulSet", "spec **", "the controller follows", _K8S_WORKLOADS),
            (
                "",
                "Service",
                "spec **",
                "routes follow at once",
                "kubernetes.io/docs/concepts/services-networking/service",
            ),
            (
                "",
                "ConfigMap",
                "data **",
                "mounted files follow within a minute; environment variables only in new pods",
                "kubernetes.io/docs/concepts/configuration/configmap",
            ),
            (
                "",
                "Namespace",
                "metadata labels **",
                "selectors of queues and policies follow",
                _CQ_TYPES + " namespaceSelector",
            ),
            *(
                (
                    "rbac.authorization.k8s.io",
                    ANY,
                    f"{path} **",
                    "rights change at once",
                    "kubernetes.io/docs/reference/access-authn-authz/rbac",
                )
                for path in ("rules", "roleRef", "subjects", "aggregationRule")
            ),
            (
                "networking.k8s.io",
                "NetworkPolicy",
                "spec **",
                "traffic is filtered anew at once",
                "kubernetes.io/docs/concepts/services-networking/network-policies",
            ),
            (
                "policy",
                "PodDisruptionBudget",
                "spec **",
                "counts for the next eviction",
                "kubernetes.io/docs/tasks/run-application/configure-pdb",
            ),
            (
                "monitoring.googleapis.com",
                ANY,
                "spec **",
                "monitoring follows",
                "docs.cloud.google.com/stackdriver/docs/managed-prometheus",
            ),
            (
                "monitoring.coreos.com",
                ANY,
                "spec **",
                "monitoring follows",
                "prometheus-operator.dev/docs/api-reference/api",
            ),
        )
    ),
)
META_ROWS = (
    *(
        Row(ANY, ANY, f"metadata annotations argocd.argoproj.io/{name}", Impact.LIVE, why, source)
        for name, why, source in (
            ("sync-wave", "another order at the next sync", _ARGO_WAVES),
            ("sync-options", "another way of syncing and pruning", _ARGO_OPTIONS),
            ("hook", "run by Argo CD as a hook, or no longer", _ARGO_WAVES),
            ("compare-options", "compared in another way", _ARGO_OPTIONS),
        )
    ),
    Row(
        ANY,
        ANY,
        "metadata annotations **",
        Impact.COSMETIC,
        "an annotation that nothing acts on",
        _K8S_META,
    ),
    Row(ANY, ANY, "metadata labels **", Impact.COSMETIC, "a label that nothing selects", _K8S_META),
    Row(
        ANY,
        ANY,
        "apiVersion",
        Impact.LIVE,
        "the API server converts the object",
        "kubernetes.io/docs/reference/using-api",
    ),
    Row(
        ANY,
        ANY,
        "metadata finalizers **",
        Impact.LIVE,
        "deletion waits for other controllers",
        "kubernetes.io/docs/concepts/overview/working-with-objects/finalizers",
    ),
)
