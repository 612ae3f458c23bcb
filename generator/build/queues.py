"""Kueue: topologies, flavors, admission checks, cohorts, cluster queues, local queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generator.build.metadata import metadata
from generator.fleet import Fleet
from generator.manifest import Manifest
from generator.quotas import covered_resources, quota
from schemas.inventory.base import Taint as TaintSpec
from schemas.inventory.base import Toleration as TolerationSpec
from schemas.inventory.queueing import ClusterQueue as ClusterQueueInventory
from schemas.inventory.queueing import FairSharing, Flavor
from schemas.manifests import kueue
from schemas.manifests.base import KubernetesObject, LabelSelector, Taint, Toleration


def toleration(spec: TolerationSpec) -> Toleration:
    """A toleration as manifests write it."""
    return Toleration(
        key=spec.key,
        operator=spec.operator,
        value=spec.value,
        effect=spec.effect,
        toleration_seconds=spec.toleration_seconds,
    )


def tolerating(taint: TaintSpec) -> Toleration:
    """The toleration of a taint: its key, whatever its value."""
    return Toleration(key=taint.key, operator="Exists", effect=taint.effect)


def build(fleet: Fleet) -> Iterator[Manifest]:
    """Every Kueue object of the cluster."""
    for section, name, body in (
        *_topologies(fleet),
        *_flavors(fleet),
        *_admission_checks(fleet),
        *_cohorts(fleet),
        *_cluster_queues(fleet),
        *_local_queues(fleet),
    ):
        yield Manifest("queueing", body.to_dict(), ("queueing", section, name))


Built = tuple[str, str, KubernetesObject]


def _topologies(fleet: Fleet) -> Iterator[Built]:
    for name, topology in fleet.spec.queueing.topologies.items():
        levels = [kueue.TopologyLevel(node_label=level) for level in topology.levels]
        yield (
            "topologies",
            name,
            kueue.Topology(
                api_version=fleet.kueue_api,
                metadata=metadata("Topology", name),
                spec=kueue.TopologySpec(levels=levels),
            ),
        )


def flavor_labels(fleet: Fleet, flavor: Flavor) -> dict[str, str] | None:
    """The node labels of a flavor; its pool's selector, so that Kueue adds nothing to a
    template."""
    if flavor.node_pool is not None:
        return fleet.pools[flavor.node_pool].selector
    return dict(sorted(flavor.node_labels.items())) if flavor.node_labels else None


def _flavors(fleet: Fleet) -> Iterator[Built]:
    for name, flavor in fleet.spec.queueing.flavors.items():
        # The accelerator's own taint is left out: GKE tolerates it for every pod that asks for the
        # accelerator, and a taint here would keep out jobs whose template does not say so.
        taints = [Taint(key=t.key, value=t.value, effect=t.effect) for t in flavor.node_taints]
        yield (
            "flavors",
            name,
            kueue.ResourceFlavor(
                api_version=fleet.kueue_api,
                metadata=metadata("ResourceFlavor", name),
                spec=kueue.ResourceFlavorSpec(
                    node_labels=flavor_labels(fleet, flavor),
                    node_taints=taints or None,
                    tolerations=[toleration(t) for t in flavor.tolerations] or None,
                    topology_name=flavor.topology,
                ),
            ),
        )


def _admission_checks(fleet: Fleet) -> Iterator[Built]:
    for name, check in fleet.spec.queueing.admission_checks.items():
        parameters = check.parameters
        yield (
            "admissionChecks",
            name,
            kueue.AdmissionCheck(
                api_version=fleet.kueue_api,
                metadata=metadata("AdmissionCheck", name),
                spec=kueue.AdmissionCheckSpec(
                    controller_name=check.controller_name,
                    parameters=kueue.CheckParameters(
                        api_group=parameters.api_group, kind=parameters.kind, name=parameters.name
                    )
                    if parameters
                    else None,
                ),
            ),
        )


def _cohorts(fleet: Fleet) -> Iterator[Built]:
    for name, cohort in fleet.spec.queueing.cohorts.items():
        yield (
            "cohorts",
            name,
            kueue.Cohort(
                api_version=fleet.kueue_api,
                metadata=metadata("Cohort", name),
                spec=kueue.CohortSpec(
                    parent_name=cohort.parent,
                    fair_sharing=_fair_sharing(cohort.fair_sharing),
                ),
            ),
        )


def _fair_sharing(spec: FairSharing | None) -> kueue.FairSharing | None:
    return kueue.FairSharing(weight=spec.weight) if spec else None


def _cluster_queues(fleet: Fleet) -> Iterator[Built]:
    for name, queue in fleet.spec.queueing.cluster_queues.items():
        spec = _cluster_queue_spec(fleet, name, queue)
        yield (
            "clusterQueues",
            name,
            kueue.ClusterQueue(
                api_version=fleet.kueue_api, metadata=metadata("ClusterQueue", name), spec=spec
            ),
        )


def _cluster_queue_spec(
    fleet: Fleet, name: str, queue: ClusterQueueInventory
) -> kueue.ClusterQueueSpec:
    cohort_key = "cohort" if fleet.kueue_api.endswith("v1beta1") else "cohort_name"
    cohort: dict[str, Any] = {cohort_key: queue.cohort}
    preemption, borrowing = queue.preemption, queue.preemption.borrow_within_cohort
    checks = [kueue.CheckRule(name=check) for check in queue.admission_checks]
    return kueue.ClusterQueueSpec(
        **cohort,
        namespace_selector=_namespace_selector(fleet, name, queue),
        queueing_strategy=queue.queueing_strategy,
        stop_policy=queue.stop_policy,
        resource_groups=[_resource_group(fleet, queue)],
        preemption=kueue.Preemption(
            reclaim_within_cohort=preemption.reclaim_within_cohort,
            borrow_within_cohort=kueue.BorrowWithinCohort(
                policy=borrowing.policy, max_priority_threshold=borrowing.max_priority_threshold
            ),
            within_cluster_queue=preemption.within_cluster_queue,
        ),
        flavor_fungibility=kueue.FlavorFungibility(
            when_can_borrow=queue.flavor_fungibility.when_can_borrow,
            when_can_preempt=queue.flavor_fungibility.when_can_preempt,
        ),
        fair_sharing=_fair_sharing(queue.fair_sharing),
        admission_checks_strategy=kueue.AdmissionChecksStrategy(admission_checks=checks)
        if checks
        else None,
    )


def _resource_group(fleet: Fleet, queue: ClusterQueueInventory) -> kueue.ResourceGroup:
    covered = covered_resources(fleet, queue)
    flavors = []
    for flavor, quotas in queue.flavors.items():
        resources = []
        for resource in covered:
            own = quota(fleet, flavor, quotas, resource)
            assert own is not None  # INV048 came first
            resources.append(
                kueue.ResourceQuota(
                    name=resource,
                    nominal_quota=own.nominal,
                    borrowing_limit=own.borrowing_limit,
                    lending_limit=own.lending_limit,
                )
            )
        flavors.append(kueue.FlavorQuotas(name=flavor, resources=resources))
    return kueue.ResourceGroup(covered_resources=covered, flavors=flavors)


def _namespace_selector(fleet: Fleet, name: str, queue: ClusterQueueInventory) -> LabelSelector:
    """Given, or exactly the namespaces that have a local queue for it.

    Left out it would match nothing (kueue pkg/cache/scheduler/clusterqueue.go), so it never is.
    """
    given = queue.namespace_selector
    if given is not None:
        return LabelSelector(
            match_labels=given.match_labels or None,
            match_expressions=list(given.match_expressions) or None,
        )
    namespaces = sorted(
        {
            namespace
            for local in fleet.spec.queueing.local_queues.values()
            if local.cluster_queue == name
            for namespace in local.namespaces
        }
    )
    expression = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In" if namespaces else "DoesNotExist",
        **({"values": namespaces} if namespaces else {}),
    }
    return LabelSelector(match_expressions=[expression])


def _local_queues(fleet: Fleet) -> Iterator[Built]:
    for name, queue in fleet.spec.queueing.local_queues.items():
        for namespace in queue.namespaces:
            yield (
                "localQueues",
                name,
                kueue.LocalQueue(
                    api_version=fleet.kueue_api,
                    metadata=metadata("LocalQueue", name, namespace),
                    spec=kueue.LocalQueueSpec(
                        cluster_queue=queue.cluster_queue, stop_policy=queue.stop_policy
                    ),
                ),
            )
