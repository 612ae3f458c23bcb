"""What each change does to a running cluster: a table with a source per row.

Rows are tried in order; the first that fits a field gives its class. A row with an empty path
speaks of the resource as a whole when it is added, deleted or replaced. A field that no row covers
is ``unknown``, never silently fine.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.diff.model import Impact, Verb

ANY = "*"


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        group: API group, or :data:`ANY`.
        kind: kind, or :data:`ANY`.
        path: pattern of the field's path (see :mod:`generator.diff.patterns`); empty for the whole.
        impact: the class.
        why: one sentence for the reviewer, without a full stop.
        source: where it is written.
        verbs: the verbs that it speaks of; for a field, of the resource's verb; empty for any.
        when: a condition of :mod:`generator.diff.conditions`.
    """

    group: str
    kind: str
    path: str
    impact: Impact
    why: str
    source: str
    verbs: tuple[Verb, ...] = ()
    when: str = ""


_JOBSET = ("jobset.x-k8s.io", "JobSet")
_CPC = ("checkpointing.gke.io", "CheckpointConfiguration")
_CQ = ("kueue.x-k8s.io", "ClusterQueue")
_LQ = ("kueue.x-k8s.io", "LocalQueue")
_RF = ("kueue.x-k8s.io", "ResourceFlavor")
_COHORT = ("kueue.x-k8s.io", "Cohort")
_TOPOLOGY = ("kueue.x-k8s.io", "Topology")
_CHECK = ("kueue.x-k8s.io", "AdmissionCheck")
_WPC = ("kueue.x-k8s.io", "WorkloadPriorityClass")
_PC = ("scheduling.k8s.io", "PriorityClass")
_FACTS = ("stowplan.dev", "Cluster")

_JOBSET_DOC = "jobset.sigs.k8s.io/docs/concepts"
_JOBSET_TYPES = "kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go"
_JOBSET_WEBHOOK = "kubernetes-sigs/jobset pkg/webhooks/jobset_webhook.go (ValidateUpdate)"
_CQ_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/clusterqueue_types.go"
_CQ_DOC = "kueue.sigs.k8s.io/docs/concepts/cluster_queue"
_LQ_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/localqueue_types.go"
_RF_DOC = "kueue.sigs.k8s.io/docs/concepts/resource_flavor"
_FINALIZER = "kubernetes-sigs/kueue finalizer kueue.x-k8s.io/resource-in-use"
_WPC_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/workloadpriorityclass_types.go"
_MTC_DOC = (
    "docs.cloud.google.com/kubernetes-engine/docs/how-to/machine-learning/training/"
    "multi-tier-checkpointing"
)
_CPC_CONTROLLER = (
    "GoogleCloudPlatform/high-scale-checkpointing-controller pkg/multitier-controller/controller.go"
)
_K8S_PRIORITY = "kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption"
_K8S_WORKLOADS = "kubernetes.io/docs/concepts/workloads/controllers"
_K8S_NAMESPACE = "kubernetes.io/docs/concepts/overview/working-with-objects/namespaces"
_K8S_STORAGE = "kubernetes.io/docs/concepts/storage/persistent-volumes"
_K8S_META = "kubernetes.io/docs/concepts/overview/working-with-objects"
_ARGO_WAVES = "argo-cd.readthedocs.io/en/stable/user-guide/sync-waves"
_ARGO_OPTIONS = "argo-cd.readthedocs.io/en/stable/user-guide/sync-options"
_ARGO_DELETE = "argo-cd.readthedocs.io/en/stable/user-guide/app_deletion"
_KUEUE_JOBS = "kubernetes-sigs/kueue pkg/controller/jobframework/validation.go"
_LOCAL = "stowplan: cluster.yaml and annotations of stowplan.dev are read by people and checks"

_NEW_OR_GONE = (Verb.ADD, Verb.DELETE)
_ADD = (Verb.ADD,)
_DELETE = (Verb.DELETE,)
_RECREATE = (Verb.REPLACE, Verb.MOVE)

_JOBSET_ROWS = (
    Row(*_JOBSET, "", Impact.LIVE, "the job is queued at the next sync", _JOBSET_DOC, _ADD),
    Row(*_JOBSET, "", Impact.RESTART, "the job and its pods are deleted", _JOBSET_DOC, _DELETE),
    Row(
        *_JOBSET,
        "",
        Impact.RESTART,
        "the old run is deleted, a running job stops, and the new run is queued",
        _JOBSET_WEBHOOK,
        _RECREATE,
    ),
    Row(
        *_JOBSET,
        "spec suspend",
        Impact.RESTART,
        "suspending deletes the running pods",
        _JOBSET_TYPES,
        when="suspends",
    ),
    Row(*_JOBSET, "spec suspend", Impact.LIVE, "the job may start", _JOBSET_TYPES),
    Row(
        *_JOBSET,
        "spec ttlSecondsAfterFinished",
        Impact.LIVE,
        "a finished JobSet is deleted after this time; Argo CD then creates it again and the "
        "training runs anew",
        "argoproj/argo-cd#8586",
    ),
    *(
        Row(
            *_JOBSET,
            f"spec {block} **",
            Impact.LIVE,
            "adding or removing the whole block is accepted on a live JobSet",
            f"{_JOBSET_TYPES}: the CEL rule compares old and new only where both are set",
            when="block-moved",
        )
        for block in (
            "network",
            "successPolicy",
            "failurePolicy",
            "startupPolicy",
            "volumeClaimPolicies",
        )
    ),
    Row(
        *_JOBSET,
        "spec coordinator **",
        Impact.LIVE,
        "child Jobs and pods get the label at the next restart",
        _JOBSET_TYPES,
    ),
    Row(
        *_JOBSET,
        "metadata labels kueue.x-k8s.io/priority-class",
        Impact.REQUEUE,
        "Kueue gives the workload the new priority",
        _KUEUE_JOBS,
        when="value-only",
    ),
    Row(
        *_JOBSET,
        "metadata labels kueue.x-k8s.io/priority-class",
        Impact.BLOCKED,
        "the label cannot be removed, nor added to a running job",
        _KUEUE_JOBS,
    ),
    Row(
        *_JOBSET,
        "metadata annotations alpha.jobset.sigs.k8s.io/exclusive-topology",
        Impact.LIVE,
        "read when child Jobs are created: nothing moves before the next restart",
        "kubernetes-sigs/jobset pkg/webhooks",
    ),
)

_CPC_ROWS = (
    Row(
        *_CPC,
        "",
        Impact.LIVE,
        "a driver starts on each node and takes its RAM disk",
        _CPC_CONTROLLER,
        _ADD,
    ),
    Row(
        *_CPC,
        "",
        Impact.RAMDISK_LOSS,
        "the driver is removed and the RAM disks are freed",
        _MTC_DOC,
        _DELETE,
    ),
    Row(
        *_CPC,
        "",
        Impact.RAMDISK_LOSS,
        "the controller acts only when the object is created, so it is replaced: RAM disks are "
        "emptied and the next restore reads the backup",
        _CPC_CONTROLLER,
        _RECREATE,
    ),
    Row(
        *_CPC,
        "spec cloudStorageBucketName",
        Impact.DATA_LOSS,
        "backups in the old place are no longer found while the RAM disks are emptied: jobs start "
        "from step 0 unless the backups are copied first",
        _MTC_DOC,
        _RECREATE,
    ),
)

_QUEUE_ROWS = (
    Row(*_CQ, "", Impact.LIVE, "workloads may be admitted through it", _CQ_DOC, _ADD),
    Row(
        *_CQ,
        "",
        Impact.REQUEUE,
        "what waits in it stays pending for ever; the object itself goes only when nothing it "
        "admitted runs",
        _FINALIZER,
        (Verb.DELETE, *_RECREATE),
    ),
    *(
        Row(
            *_CQ,
            f"spec resourceGroups flavors resources {name}",
            Impact.LIVE,
            "counts for the next admission; what runs keeps its share",
            _CQ_DOC,
        )
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit")
    ),
    Row(
        *_CQ,
        "spec resourceGroups **",
        Impact.REQUEUE,
        "waiting workloads are assigned flavors anew",
        _CQ_TYPES,
    ),
    Row(
        *_CQ,
        "spec preemption **",
        Impact.RESTART,
        "a waiting workload may now evict running ones that it could not evict before",
        "kueue.sigs.k8s.io/docs/concepts/preemption",
        when="preempts-more",
    ),
    Row(
        *_CQ,
        "spec preemption **",
        Impact.LIVE,
        "counts for the next admission",
        "kueue.sigs.k8s.io/docs/concepts/preemption",
    ),
    Row(
        *_CQ,
        "spec stopPolicy",
        Impact.RESTART,
        "HoldAndDrain evicts what runs",
        _CQ_TYPES,
        when="drains",
    ),
    Row(
        *_CQ, "spec stopPolicy", Impact.REQUEUE, "nothing new is admitted", _CQ_TYPES, when="holds"
    ),
    Row(*_CQ, "spec stopPolicy", Impact.LIVE, "admission goes on", _CQ_TYPES),
    *(
        Row(*_CQ, f"spec {name} **", Impact.REQUEUE, why, _CQ_TYPES)
        for name, why in (
            ("queueingStrategy", "waiting workloads are tried in another order"),
            ("cohortName", "the quota is shared with other queues from now on"),
            ("cohort", "the quota is shared with other queues from now on"),
            ("namespaceSelector", "workloads of other namespaces become eligible or wait for ever"),
            ("admissionChecksStrategy", "waiting workloads must pass other checks"),
            ("admissionChecks", "waiting workloads must pass other checks"),
        )
    ),
    *(
        Row(*_CQ, f"spec {name} **", Impact.LIVE, "counts for the next admission", _CQ_TYPES)
        for name in ("flavorFungibility", "fairSharing", "admissionScope")
    ),
    Row(*_LQ, "", Impact.LIVE, "workloads may be sent to it", _LQ_TYPES, _ADD),
    Row(
        *_LQ,
        "",
        Impact.REQUEUE,
        "what waits in it is no longer admitted",
        _LQ_TYPES,
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_LQ,
        "spec stopPolicy",
        Impact.RESTART,
        "HoldAndDrain evicts what runs",
        _LQ_TYPES,
        when="drains",
    ),
    Row(
        *_LQ, "spec stopPolicy", Impact.REQUEUE, "nothing new is admitted", _LQ_TYPES, when="holds"
    ),
    Row(*_LQ, "spec stopPolicy", Impact.LIVE, "admission goes on", _LQ_TYPES),
    Row(*_LQ, "spec fairSharing **", Impact.LIVE, "counts for the next admission", _LQ_TYPES),
    Row(
        *_COHORT,
        "",
        Impact.LIVE,
        "queues that name it may lend and borrow",
        "kueue.sigs.k8s.io/docs/concepts/cohort",
        _ADD,
    ),
    Row(
        *_COHORT,
        "",
        Impact.REQUEUE,
        "its own quota and its parent are gone",
        "kueue.sigs.k8s.io/docs/concepts/cohort",
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_COHORT,
        "spec parentName",
        Impact.REQUEUE,
        "the quota is shared in another tree",
        "kueue.sigs.k8s.io/docs/concepts/cohort",
    ),
    Row(
        *_COHORT,
        "spec **",
        Impact.LIVE,
        "counts for the next admission",
        "kueue.sigs.k8s.io/docs/concepts/cohort",
    ),
)

_FLAVOR_ROWS = (
    Row(*_RF, "", Impact.LIVE, "queues may use it", _RF_DOC, _ADD),
    Row(
        *_RF,
        "",
        Impact.REQUEUE,
        "queues that still name it become inactive; the object goes only when nothing uses it",
        _FINALIZER,
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_RF,
        "spec **",
        Impact.REQUEUE,
        "workloads admitted from now on get the new labels, taints and tolerations",
        _RF_DOC,
    ),
    Row(
        *_TOPOLOGY,
        "",
        Impact.LIVE,
        "flavors may use it",
        "kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling",
        _ADD,
    ),
    Row(
        *_TOPOLOGY,
        "",
        Impact.REQUEUE,
        "queues whose flavors still name it become inactive",
        "kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling",
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_TOPOLOGY,
        "spec levels **",
        Impact.REQUEUE,
        "placement is computed anew",
        "kubernetes-sigs/kueue apis/kueue/v1beta2/topology_types.go",
    ),
    Row(
        *_CHECK,
        "",
        Impact.LIVE,
        "queues may use it",
        "kueue.sigs.k8s.io/docs/concepts/admission_check",
        _ADD,
    ),
    Row(
        *_CHECK,
        "",
        Impact.REQUEUE,
        "queues that still name it become inactive",
        "kueue.sigs.k8s.io/docs/concepts/admission_check",
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_CHECK,
        "spec **",
        Impact.REQUEUE,
        "waiting workloads are checked anew",
        "kueue.sigs.k8s.io/docs/concepts/admission_check",
    ),
    Row(
        "kueue.x-k8s.io",
        "ProvisioningRequestConfig",
        "",
        Impact.LIVE,
        "admission checks that name it follow",
        "kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request",
    ),
    Row(
        "kueue.x-k8s.io",
        "ProvisioningRequestConfig",
        "**",
        Impact.LIVE,
        "counts for the next provisioning request",
        "kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request",
    ),
)

_PRIORITY_ROWS = (
    Row(*_WPC, "", Impact.LIVE, "JobSets may name it", _WPC_TYPES, _ADD),
    Row(
        *_WPC,
        "",
        Impact.REQUEUE,
        "a JobSet that names it gets no Workload and never starts",
        _WPC_TYPES,
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_WPC,
        "value",
        Impact.LIVE,
        "counts for workloads created later; existing ones keep their priority",
        _WPC_TYPES,
    ),
    Row(*_WPC, "description", Impact.COSMETIC, "for people", _WPC_TYPES),
    Row(*_PC, "", Impact.LIVE, "pods may name it", _K8S_PRIORITY, _ADD),
    Row(
        *_PC,
        "",
        Impact.LIVE,
        "existing pods keep their priority; new pods that name it are refused",
        _K8S_PRIORITY,
        (Verb.DELETE, *_RECREATE),
    ),
    Row(
        *_PC,
        "globalDefault",
        Impact.LIVE,
        "counts for pods created later that name no class",
        _K8S_PRIORITY,
    ),
    Row(*_PC, "description", Impact.COSMETIC, "for people", _K8S_PRIORITY),
)

_STORAGE_ROWS = (
    *(
        Row("", kind, "", Impact.DATA_LOSS, why, source, (Verb.DELETE, *_RECREATE))
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
    Row(
        "storage.cnrm.cloud.google.com",
        "StorageBucket",
        "",
        Impact.DATA_LOSS,
        "Config Connector deletes the bucket with the object",
        "cloud.google.com/config-connector/docs/how-to/managing-deleting-resources",
        (Verb.DELETE, *_RECREATE),
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

_CORE_ROWS = (
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
        Row(group, kind, "", Impact.LIVE, why, source, _NEW_OR_GONE + _RECREATE)
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
                "**",
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
            (
                "rbac.authorization.k8s.io",
                ANY,
                "**",
                "rights change at once",
                "kubernetes.io/docs/reference/access-authn-authz/rbac",
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

_DELIVERY_ROWS = (
    *(
        Row(
            "argoproj.io",
            kind,
            "",
            Impact.RESTART,
            "with the resources finalizer everything that it synced is deleted too",
            _ARGO_DELETE,
            (Verb.DELETE, *_RECREATE),
        )
        for kind in ("Application", "ApplicationSet")
    ),
    Row("argoproj.io", ANY, "", Impact.LIVE, "Argo CD takes it over", _ARGO_OPTIONS),
    Row(
        "argoproj.io",
        ANY,
        "spec **",
        Impact.LIVE,
        "Argo CD takes it over at the next sync",
        _ARGO_OPTIONS,
    ),
    Row(
        "kustomize.toolkit.fluxcd.io",
        ANY,
        "",
        Impact.LIVE,
        "Flux takes it over",
        "fluxcd.io/flux/components/kustomize/kustomizations",
    ),
    Row(
        "kustomize.toolkit.fluxcd.io",
        ANY,
        "spec **",
        Impact.LIVE,
        "Flux takes it over at the next reconciliation",
        "fluxcd.io/flux/components/kustomize/kustomizations",
    ),
    Row(
        "kustomize.config.k8s.io",
        ANY,
        "",
        Impact.LIVE,
        "kustomize builds other objects; the files that it lists are shown on their own",
        "kubectl.docs.kubernetes.io/references/kustomize/kustomization",
    ),
    Row(
        "kustomize.config.k8s.io",
        ANY,
        "**",
        Impact.LIVE,
        "kustomize builds other objects; the files that it lists are shown on their own",
        "kubectl.docs.kubernetes.io/references/kustomize/kustomization",
    ),
    Row(*_FACTS, "", Impact.NONE, "facts for people and checks; not for a cluster", _LOCAL),
    Row(*_FACTS, "**", Impact.NONE, "facts for people and checks; not for a cluster", _LOCAL),
    Row(
        "",
        "File",
        "",
        Impact.NONE,
        "run by a person; nothing follows by itself",
        "stowplan bootstrap",
        when="bootstrap",
    ),
    Row(
        "",
        "File",
        "**",
        Impact.NONE,
        "run by a person; nothing follows by itself",
        "stowplan bootstrap",
        when="bootstrap",
    ),
)

_META_ROWS = (
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

TABLE: tuple[Row, ...] = (
    *_JOBSET_ROWS,
    *_CPC_ROWS,
    *_QUEUE_ROWS,
    *_FLAVOR_ROWS,
    *_PRIORITY_ROWS,
    *_STORAGE_ROWS,
    *_CORE_ROWS,
    *_DELIVERY_ROWS,
    *_META_ROWS,
)  # fmt: skip
"""Every row, in the order in which they are tried."""
