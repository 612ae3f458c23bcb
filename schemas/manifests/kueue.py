"""Kueue's kinds, in v1beta1 and v1beta2.

Source: kubernetes-sigs/kueue ``apis/kueue/v1beta2`` and the CRDs' defaults of 0.15.0 to 0.19.2,
which are the same in both versions for every field written here; ``cohort`` became ``cohortName``.
"""

from __future__ import annotations

from typing import Literal

from schemas.manifests.base import (
    KubernetesObject,
    LabelSelector,
    ManifestModel,
    Taint,
    Toleration,
)


class ResourceFlavorSpec(ManifestModel):
    """Which nodes a flavor stands for."""

    node_labels: dict[str, str] | None = None
    node_taints: list[Taint] | None = None
    tolerations: list[Toleration] | None = None
    topology_name: str | None = None


class ResourceFlavor(KubernetesObject):
    """A flavor."""

    kind: Literal["ResourceFlavor"] = "ResourceFlavor"
    spec: ResourceFlavorSpec


class TopologyLevel(ManifestModel):
    """One level."""

    node_label: str


class TopologySpec(ManifestModel):
    """Levels, widest first."""

    levels: list[TopologyLevel]


class Topology(KubernetesObject):
    """A topology."""

    kind: Literal["Topology"] = "Topology"
    spec: TopologySpec


class FairSharing(ManifestModel):
    """A weight."""

    weight: str = "1"


class ResourceQuota(ManifestModel):
    """A quota of one resource."""

    name: str
    nominal_quota: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None


class FlavorQuotas(ManifestModel):
    """Quotas of one flavor."""

    name: str
    resources: list[ResourceQuota]


class ResourceGroup(ManifestModel):
    """Resources that are always given from one flavor together."""

    covered_resources: list[str]
    flavors: list[FlavorQuotas]


class BorrowWithinCohort(ManifestModel):
    """Preemption while borrowing."""

    policy: str = "Never"
    max_priority_threshold: int | None = None


class Preemption(ManifestModel):
    """Whom a queue's workloads may preempt."""

    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    within_cluster_queue: str = "Never"


class FlavorFungibility(ManifestModel):
    """When the next flavor is tried."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"


class CheckRule(ManifestModel):
    """An admission check of a queue."""

    name: str


class AdmissionChecksStrategy(ManifestModel):
    """The admission checks of a queue."""

    admission_checks: list[CheckRule]


class ClusterQueueSpec(ManifestModel):
    """A queue's quotas and rules."""

    cohort: str | None = None
    cohort_name: str | None = None
    namespace_selector: LabelSelector
    queueing_strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    resource_groups: list[ResourceGroup]
    preemption: Preemption = Preemption()
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    fair_sharing: FairSharing | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None


class ClusterQueue(KubernetesObject):
    """A cluster queue."""

    kind: Literal["ClusterQueue"] = "ClusterQueue"
    spec: ClusterQueueSpec


class CohortSpec(ManifestModel):
    """A cohort's parent and weight."""

    parent_name: str | None = None
    fair_sharing: FairSharing | None = None


class Cohort(KubernetesObject):
    """A cohort."""

    kind: Literal["Cohort"] = "Cohort"
    spec: CohortSpec


class LocalQueueSpec(ManifestModel):
    """The queue behind a local queue."""

    cluster_queue: str
    stop_policy: str = "None"


class LocalQueue(KubernetesObject):
    """A local queue."""

    kind: Literal["LocalQueue"] = "LocalQueue"
    spec: LocalQueueSpec


class CheckParameters(ManifestModel):
    """The object that configures a check."""

    api_group: str
    kind: str
    name: str


class AdmissionCheckSpec(ManifestModel):
    """Who answers a check."""

    controller_name: str
    parameters: CheckParameters | None = None


class AdmissionCheck(KubernetesObject):
    """An admission check."""

    kind: Literal["AdmissionCheck"] = "AdmissionCheck"
    spec: AdmissionCheckSpec
