"""Impact rows: Kueue and priorities."""

from __future__ import annotations

from generator.diff.impact_rows.row import COMES, IS_RECREATED, Row
from generator.diff.model import Impact, Verb

_CQ = ("kueue.x-k8s.io", "ClusterQueue")
_LQ = ("kueue.x-k8s.io", "LocalQueue")
_RF = ("kueue.x-k8s.io", "ResourceFlavor")
_COHORT = ("kueue.x-k8s.io", "Cohort")
_TOPOLOGY = ("kueue.x-k8s.io", "Topology")
_CHECK = ("kueue.x-k8s.io", "AdmissionCheck")
_WPC = ("kueue.x-k8s.io", "WorkloadPriorityClass")
_PC = ("scheduling.k8s.io", "PriorityClass")
_CQ_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/clusterqueue_types.go"
_CQ_DOC = "kueue.sigs.k8s.io/docs/concepts/cluster_queue"
_LQ_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/localqueue_types.go"
_RF_DOC = "kueue.sigs.k8s.io/docs/concepts/resource_flavor"
_FINALIZER = "kubernetes-sigs/kueue finalizer kueue.x-k8s.io/resource-in-use"
_WPC_TYPES = "kubernetes-sigs/kueue apis/kueue/v1beta2/workloadpriorityclass_types.go"
_K8S_PRIORITY = "kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption"

QUEUE_ROWS = (
    Row(*_CQ, "", Impact.LIVE, "workloads may be admitted through it", _CQ_DOC, COMES),
    Row(
        *_CQ,
        "",
        Impact.REQUEUE,
        "what waits in it stays pending for ever; the object itself goes only when nothing it "
        "admitted runs",
        _FINALIZER,
        (Verb.DELETE, *IS_RECREATED),
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
    Row(*_LQ, "", Impact.LIVE, "workloads may be sent to it", _LQ_TYPES, COMES),
    Row(
        *_LQ,
        "",
        Impact.REQUEUE,
        "what waits in it is no longer admitted",
        _LQ_TYPES,
        (Verb.DELETE, *IS_RECREATED),
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
        COMES,
    ),
    Row(
        *_COHORT,
        "",
        Impact.REQUEUE,
        "its own quota and its parent are gone",
        "kueue.sigs.k8s.io/docs/concepts/cohort",
        (Verb.DELETE, *IS_RECREATED),
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
FLAVOR_ROWS = (
    Row(*_RF, "", Impact.LIVE, "queues may use it", _RF_DOC, COMES),
    Row(
        *_RF,
        "",
        Impact.REQUEUE,
        "queues that still name it become inactive; the object goes only when nothing uses it",
        _FINALIZER,
        (Verb.DELETE, *IS_RECREATED),
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
        COMES,
    ),
    Row(
        *_TOPOLOGY,
        "",
        Impact.REQUEUE,
        "queues whose flavors still name it become inactive",
        "kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling",
        (Verb.DELETE, *IS_RECREATED),
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
        COMES,
    ),
    Row(
        *_CHECK,
        "",
        Impact.REQUEUE,
        "queues that still name it become inactive",
        "kueue.sigs.k8s.io/docs/concepts/admission_check",
        (Verb.DELETE, *IS_RECREATED),
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
PRIORITY_ROWS = (
    Row(*_WPC, "", Impact.LIVE, "JobSets may name it", _WPC_TYPES, COMES),
    Row(
        *_WPC,
        "",
        Impact.REQUEUE,
        "a JobSet that names it gets no Workload and never starts",
        _WPC_TYPES,
        (Verb.DELETE, *IS_RECREATED),
    ),
    Row(
        *_WPC,
        "value",
        Impact.LIVE,
        "counts for workloads created later; existing ones keep their priority",
        _WPC_TYPES,
    ),
    Row(*_WPC, "description", Impact.COSMETIC, "for people", _WPC_TYPES),
    Row(*_PC, "", Impact.LIVE, "pods may name it", _K8S_PRIORITY, COMES),
    Row(
        *_PC,
        "",
        Impact.LIVE,
        "existing pods keep their priority; new pods that name it are refused",
        _K8S_PRIORITY,
        (Verb.DELETE, *IS_RECREATED),
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
