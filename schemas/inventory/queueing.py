"""Kueue: flavors, queues, cohorts and quotas."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from schemas.inventory.base import (
    Annotations,
    InventoryModel,
    Labels,
    Name,
    ObjectName,
    Quantity,
    Taint,
    Toleration,
    fault,
)

WithinClusterQueue = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
ReclaimWithinCohort = Literal["Never", "LowerPriority", "Any"]


class Topology(InventoryModel):
    """A Kueue Topology: node label keys from the widest domain to the narrowest."""

    levels: tuple[str, ...] = Field(min_length=1, max_length=16, strict=False)
    """Node label keys, widest first; ``kubernetes.io/hostname`` only last."""

    @model_validator(mode="after")
    def _hostname_is_last(self) -> Self:
        if len(set(self.levels)) != len(self.levels):
            raise fault("a level stands twice", "each node label key can be one level")
        if "kubernetes.io/hostname" in self.levels[:-1]:
            raise fault("kubernetes.io/hostname is not the last level", "move it to the end")
        return self


class Flavor(InventoryModel):
    """A ResourceFlavor: which nodes a quota stands for."""

    node_pool: Name | None = None
    """The node pool whose labels and taints it takes."""
    node_labels: Labels | None = Field(default=None, max_length=8)
    """The nodes' labels, where they do not follow from a node pool."""
    node_taints: tuple[Taint, ...] = Field(default=(), max_length=8, strict=False)
    """Taints that a workload must tolerate to be given the flavor."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=8, strict=False)
    """Tolerations that Kueue adds to pods of the flavor."""
    topology: Name | None = None
    """The Topology for topology-aware scheduling."""

    @model_validator(mode="after")
    def _has_one_source_of_labels(self) -> Self:
        if self.node_pool is not None and self.node_labels is not None:
            raise fault("nodePool and nodeLabels are both given", "keep one")
        if self.topology is not None and not (self.node_pool or self.node_labels):
            raise fault(
                "a flavor with a topology needs node labels", "write nodePool or nodeLabels"
            )
        return self


class Quota(InventoryModel):
    """A flavor's quota of one resource in one queue."""

    nominal: Quantity
    """What the queue owns."""
    borrowing_limit: Quantity | None = None
    """The most that it may borrow from its cohort; absent means no limit."""
    lending_limit: Quantity | None = None
    """The most that it lends to its cohort; absent means all."""


def _plain_quota(value: Any) -> Any:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return {"nominal": value}
    return value


def _fraction(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    return value


class FlavorQuotas(InventoryModel):
    """What a queue has of one flavor: its node pool's capacity, a share of it, or given figures."""

    share: Annotated[Decimal, BeforeValidator(_fraction), Field(gt=0, le=1)] | None = None
    """The share of the node pool's capacity, from above 0 to 1; whole slices, rounded down."""
    resources: dict[
        str,
        Annotated[Quota, BeforeValidator(_plain_quota, json_schema_input_type=Quota | str | int)],
    ] = Field(default_factory=dict)
    """Figures by resource name (``google.com/tpu``, ``cpu``, ``memory``); they win over the
    share."""
    borrowing_limit: Annotated[Decimal, BeforeValidator(_fraction), Field(ge=0)] | None = None
    """For derived figures: the most that may be borrowed, as a multiple of the nominal quota."""
    lending_limit: Annotated[Decimal, BeforeValidator(_fraction), Field(ge=0, le=1)] | None = None
    """For derived figures: the share of the nominal quota that is lent at most."""


class BorrowWithinCohort(InventoryModel):
    """Preempting others of the cohort while borrowing."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    """Whether a borrowing workload may preempt lower-priority ones of other queues."""
    max_priority_threshold: int | None = None
    """Only workloads at or below this priority are preempted so."""


class Preemption(InventoryModel):
    """Whom a pending workload may preempt."""

    within_cluster_queue: WithinClusterQueue = "LowerPriority"
    """Inside the queue."""
    reclaim_within_cohort: ReclaimWithinCohort = "Never"
    """In other queues that borrow this queue's quota."""
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    """In other queues while borrowing."""


class FlavorFungibility(InventoryModel):
    """When a workload moves on to the next flavor."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    """When it would fit by borrowing."""
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    """When it would fit by preempting."""


class FairSharing(InventoryModel):
    """Weight of a queue or cohort in fair sharing."""

    weight: Quantity
    """The weight; 0 means that it never borrows ahead of others."""


class NamespaceSelector(InventoryModel):
    """Which namespaces may use a ClusterQueue. An empty selector admits every namespace."""

    match_labels: Labels = Field(default_factory=dict)
    """Labels that the namespace must have."""
    match_expressions: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    """Expressions as in Kubernetes."""


class ClusterQueue(InventoryModel):
    """A ClusterQueue."""

    cohort: Name | None = None
    """The cohort that it shares quota with."""
    flavors: dict[Name, FlavorQuotas] = Field(min_length=1, max_length=64)
    """Quotas by flavor, in the order in which flavors are tried."""
    resources: tuple[str, ...] | None = Field(default=None, strict=False)
    """The covered resources; the accelerator, cpu and memory unless given."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """Whether a workload that does not fit holds up those behind it."""
    preemption: Preemption = Preemption()
    """Whom its workloads may preempt."""
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    """When the next flavor is tried."""
    fair_sharing: FairSharing | None = None
    """Its weight in fair sharing."""
    namespace_selector: NamespaceSelector | None = None
    """Who may use it; the namespaces of its local queues unless given."""
    admission_checks: tuple[Name, ...] = Field(default=(), max_length=64, strict=False)
    """Admission checks that each workload must pass."""
    stop_policy: Literal["None", "Hold", "HoldAndDrain"] = "None"
    """Stop admitting, or drain as well."""


class Cohort(InventoryModel):
    """A Cohort."""

    parent: Name | None = None
    """The cohort above it."""
    fair_sharing: FairSharing | None = None
    """Its weight in fair sharing."""


class LocalQueue(InventoryModel):
    """LocalQueues of one name, one in each namespace."""

    cluster_queue: Name
    """The ClusterQueue behind them."""
    namespaces: tuple[Name, ...] = Field(min_length=1, strict=False)
    """The namespaces that get one."""
    stop_policy: Literal["None", "Hold", "HoldAndDrain"] = "None"
    """Stop admitting, or drain as well."""


class AdmissionCheckParameters(InventoryModel):
    """The object that configures an admission check."""

    api_group: str
    """Its API group."""
    kind: str
    """Its kind."""
    name: ObjectName
    """Its name."""


class AdmissionCheck(InventoryModel):
    """An AdmissionCheck."""

    controller_name: str
    """The controller that answers it."""
    parameters: AdmissionCheckParameters | None = None
    """What configures it."""


class Namespace(InventoryModel):
    """A namespace and its labels."""

    labels: Labels = Field(default_factory=dict)
    """Its labels."""
    annotations: Annotations = Field(default_factory=dict)
    """Its annotations."""


class Queueing(InventoryModel):
    """Everything of Kueue."""

    topologies: dict[Name, Topology] = Field(default_factory=dict)
    """Topologies by name."""
    flavors: dict[Name, Flavor] = Field(default_factory=dict)
    """Flavors by name."""
    cohorts: dict[Name, Cohort] = Field(default_factory=dict)
    """Cohorts by name; a queue may also name one that is not listed."""
    admission_checks: dict[Name, AdmissionCheck] = Field(default_factory=dict)
    """Admission checks by name."""
    cluster_queues: dict[Name, ClusterQueue] = Field(default_factory=dict)
    """ClusterQueues by name."""
    local_queues: dict[Name, LocalQueue] = Field(default_factory=dict)
    """LocalQueues by name."""
    namespaces: dict[Name, Namespace] = Field(default_factory=dict)
    """Namespaces that need labels; others are created as they are used."""
