"""Kueue: topologies, flavors, admission checks, cohorts, cluster queues, local queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from generator.build.metadata import metadata
from generator.fleet import Fleet
from generator.manifest import Manifest
from generator.quotas import covered_resources, quota
from schemas.inventory.base import Taint as TaintSpec
from schemas.inventory.base import Toleration as TolerationSpec
from schemas.inventory.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FairSharing,
    Flavor,
    LocalQueue,
    Topology,
)
from schemas.manifests import kueue
from schemas.manifests.base import (
    KubernetesObject,
    LabelSelector,
    ManifestModel,
    Taint,
    Toleration,
)


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
    queueing, made = fleet.spec.queueing, partial(_made, fleet)
    for name, topology in queueing.topologies.items():
        yield made("topologies", kueue.Topology, name, _topology(topology))
    for name, flavor in queueing.flavors.items():
        yield made("flavors", kueue.ResourceFlavor, name, _flavor(fleet, flavor))
    for name, check in queueing.admission_checks.items():
        yield made("admissionChecks", kueue.AdmissionCheck, name, _admission_check(check))
    for name, cohort in queueing.cohorts.items():
        yield made("cohorts", kueue.Cohort, name, _cohort(cohort))
    for name, queue in queueing.cluster_queues.items():
        yield made("clusterQueues", kueue.ClusterQueue, name, _cluster_queue(fleet, name, queue))
    for name, local in queueing.local_queues.items():
        for namespace in local.namespaces:
            yield made("localQueues", kueue.LocalQueue, name, _local_queue(local), namespace)


def _made(
    fleet: Fleet,
    section: str,
    kind: type[KubernetesObject],
    name: str,
    spec: ManifestModel,
    namespace: str | None = None,
) -> Manifest:
    """An object of a kind, from an entry of a section of the inventory."""
    make: Callable[..., KubernetesObject] = kind  # each kind has a spec of its own type
    named = metadata(kind.__name__, name, namespace)
    body = make(api_version=fleet.kueue_api, metadata=named, spec=spec)
    return Manifest("queueing", body.to_dict(), ("queueing", section, name))


def _topology(topology: Topology) -> kueue.TopologySpec:
    levels = [kueue.TopologyLevel(node_label=level) for level in topology.levels]
    return kueue.TopologySpec(levels=levels)


def flavor_labels(fleet: Fleet, flavor: Flavor) -> dict[str, str] | None:
    """The node labels of a flavor; its pool's selector, so that Kueue adds nothing to a
    template."""
    if flavor.node_pool is not None:
        return fleet.pools[flavor.node_pool].selector
    return dict(sorted(flavor.node_labels.items())) if flavor.node_labels else None


def _flavor(fleet: Fleet, flavor: Flavor) -> kueue.ResourceFlavorSpec:
    # The accelerator's own taint is left out: GKE tolerates it for every pod that asks for the
    # accelerator, and a taint here would keep out jobs whose template does not say so.
    taints = [Taint(key=t.key, value=t.value, effect=t.effect) for t in flavor.node_taints]
    return kueue.ResourceFlavorSpec(
        node_labels=flavor_labels(fleet, flavor),
        node_taints=taints or None,
        tolerations=[toleration(t) for t in flavor.tolerations] or None,
        topology_name=flavor.topology,
    )


def _admission_check(check: AdmissionCheck) -> kueue.AdmissionCheckSpec:
    given = check.parameters
    parameters = (
        kueue.CheckParameters(api_group=given.api_group, kind=given.kind, name=given.name)
        if given
        else None
    )
    return kueue.AdmissionCheckSpec(controller_name=check.controller_name, parameters=parameters)


def _cohort(cohort: Cohort) -> kueue.CohortSpec:
    return kueue.CohortSpec(
        parent_name=cohort.parent, fair_sharing=_fair_sharing(cohort.fair_sharing)
    )


def _fair_sharing(spec: FairSharing | None) -> kueue.FairSharing | None:
    return kueue.FairSharing(weight=spec.weight) if spec else None


def _cluster_queue(fleet: Fleet, name: str, queue: ClusterQueue) -> kueue.ClusterQueueSpec:
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


def _resource_group(fleet: Fleet, queue: ClusterQueue) -> kueue.ResourceGroup:
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


def _namespace_selector(fleet: Fleet, name: str, queue: ClusterQueue) -> LabelSelector:
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


def _local_queue(queue: LocalQueue) -> kueue.LocalQueueSpec:
    return kueue.LocalQueueSpec(cluster_queue=queue.cluster_queue, stop_policy=queue.stop_policy)
