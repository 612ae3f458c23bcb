"""Kueue's objects as the ``queueing`` section."""

from __future__ import annotations

from typing import Any

from generator.build.metadata import MANAGED_BY
from generator.build.namespaces import BUILT_IN
from generator.findings import Severity
from generator.importing.pools import Pools, node_labels
from generator.importing.sources import Log, Source, by_kind, entries, mapping, texts

CPU_RESOURCES = ("cpu", "memory")


ADD_QUEUES = "add them: kubectl get localqueues,clusterqueues,resourceflavors -A -o yaml"
"""How to get at queues that objects name and no file has."""


def queueing(
    sources: list[Source], inherited: dict[str, Any], pools: Pools, log: Log
) -> dict[str, Any]:
    """The section, empty parts left out; what is named and nowhere to be found is missing.

    Args:
        sources: the objects.
        inherited: the ``queueing`` section that the target's classes give already.
        pools: node pools.
        log: takes what is said.
    """
    _find_references(sources, inherited, log)
    local_queues, elsewhere = _local_queues(sources, log)
    section = {
        "topologies": {
            s.name: {"levels": [level.get("nodeLabel") for level in entries(s.spec.get("levels"))]}
            for s in by_kind(sources, "Topology")
        },
        "flavors": {s.name: _flavor(s, pools) for s in by_kind(sources, "ResourceFlavor")},
        "cohorts": {s.name: _cohort(s) for s in by_kind(sources, "Cohort")},
        "admissionChecks": {s.name: _check(s) for s in by_kind(sources, "AdmissionCheck")},
        "clusterQueues": {
            s.name: _cluster_queue(s, pools, sources, local_queues)
            for s in by_kind(sources, "ClusterQueue")
        },
        "localQueues": local_queues,
        "namespaces": _namespaces(sources, elsewhere),
    }
    return {key: value for key, value in section.items() if value}


def _find_references(sources: list[Source], inherited: dict[str, Any], log: Log) -> None:
    queues = {s.name for s in by_kind(sources, "ClusterQueue")}
    queues |= set(mapping(inherited.get("clusterQueues")))
    flavors = {s.name for s in by_kind(sources, "ResourceFlavor")}
    flavors |= set(mapping(inherited.get("flavors")))
    for source in by_kind(sources, "LocalQueue"):
        name = source.spec.get("clusterQueue")
        if name not in queues:
            text = f"ClusterQueue {name} is in none of the files"
            log.missing(text, ADD_QUEUES, source, ("spec", "clusterQueue"))
    for source in by_kind(sources, "ClusterQueue"):
        groups = entries(source.spec.get("resourceGroups"))
        named = [f.get("name") for group in groups for f in entries(group.get("flavors"))]
        if not named:
            text = "it has no quotas (resourceGroups), so it admits nothing"
            log.missing(text, "write its quotas, or leave the queue out", source, ("spec",))
        for name in dict.fromkeys(named):
            if name not in flavors:
                text = f"ResourceFlavor {name} is in none of the files"
                log.missing(text, ADD_QUEUES, source, ("spec", "resourceGroups"))


def plain_amount(value: Any) -> str | int:
    """A quantity as a person writes it: a whole number bare, anything else as text."""
    text = str(value)
    return int(text) if text.isdigit() and str(int(text)) == text else text


def taint(value: dict[str, Any]) -> dict[str, Any]:
    """A taint as the inventory has it."""
    return {key: value[key] for key in ("key", "value", "effect") if key in value}


def toleration(value: dict[str, Any]) -> dict[str, Any]:
    """A toleration; Kubernetes' default operator, which is not the inventory's, is written out."""
    keys = ("key", "operator", "value", "effect", "tolerationSeconds")
    return {k: v for k in keys if (v := {"operator": "Equal", **value}.get(k)) not in (None, "")}


def _flavor(source: Source, pools: Pools) -> dict[str, Any]:
    spec = source.spec
    labels = node_labels(spec.get("nodeLabels"))
    flavor: dict[str, Any] = {}
    pool = pools.find(labels)
    if pool is not None and pool.selector == labels:
        flavor["nodePool"] = pool.name
    elif labels:
        flavor["nodeLabels"] = labels
    if taints := entries(spec.get("nodeTaints")):
        flavor["nodeTaints"] = [taint(t) for t in taints]
    if tolerations := entries(spec.get("tolerations")):
        flavor["tolerations"] = [toleration(t) for t in tolerations]
    if spec.get("topologyName"):
        flavor["topology"] = spec["topologyName"]
    return flavor


def _fair_sharing(spec: dict[str, Any]) -> dict[str, Any]:
    weight = mapping(spec.get("fairSharing")).get("weight")
    return {} if weight is None else {"fairSharing": {"weight": str(weight)}}


def _cohort(source: Source) -> dict[str, Any]:
    parent = source.spec.get("parentName")
    return {**({"parent": parent} if parent else {}), **_fair_sharing(source.spec)}


def _check(source: Source) -> dict[str, Any]:
    check: dict[str, Any] = {"controllerName": source.spec.get("controllerName")}
    if parameters := mapping(source.spec.get("parameters")):
        check["parameters"] = {k: parameters.get(k) for k in ("apiGroup", "kind", "name")}
    return check


def _cluster_queue(
    source: Source, pools: Pools, sources: list[Source], local_queues: dict[str, Any]
) -> dict[str, Any]:
    spec = source.spec
    queue: dict[str, Any] = {}
    if spec.get("cohortName"):
        queue["cohort"] = spec["cohortName"]
    groups = entries(spec.get("resourceGroups"))
    # Further groups have no place in the inventory; they come back through the overlay.
    group = groups[0] if groups else {}
    queue["flavors"] = {
        flavor.get("name"): _quotas(flavor) for flavor in entries(group.get("flavors"))
    }
    covered = texts(group.get("coveredResources"))
    if covered != _usual_resources(group, pools, sources):
        queue["resources"] = covered
    if spec.get("queueingStrategy", "BestEffortFIFO") != "BestEffortFIFO":
        queue["queueingStrategy"] = spec["queueingStrategy"]
    queue["preemption"] = _preemption(mapping(spec.get("preemption")))
    if fungibility := mapping(spec.get("flavorFungibility")):
        usual = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
        odd = {k: fungibility[k] for k, v in usual.items() if fungibility.get(k, v) != v}
        queue |= {"flavorFungibility": odd} if odd else {}
    queue |= _fair_sharing(spec)
    selector = spec.get("namespaceSelector")
    if isinstance(selector, dict) and selector != _usual_selector(source.name, local_queues):
        queue["namespaceSelector"] = {
            key: selector[key] for key in ("matchLabels", "matchExpressions") if key in selector
        }
    strategy = mapping(spec.get("admissionChecksStrategy"))
    if checks := entries(strategy.get("admissionChecks")):
        queue["admissionChecks"] = [check.get("name") for check in checks]
    if spec.get("stopPolicy", "None") != "None":
        queue["stopPolicy"] = spec["stopPolicy"]
    return queue


def _quotas(flavor: dict[str, Any]) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for row in entries(flavor.get("resources")):
        limits = {
            key: plain_amount(row[key]) for key in ("borrowingLimit", "lendingLimit") if key in row
        }
        nominal = plain_amount(row.get("nominalQuota", 0))
        resources[str(row.get("name"))] = {"nominal": nominal, **limits} if limits else nominal
    return {"resources": resources}


def _usual_resources(group: dict[str, Any], pools: Pools, sources: list[Source]) -> list[str]:
    """What compile covers when nothing is said: accelerators, whatever has a quota, cpu, memory."""
    accelerators: list[str] = []
    given: list[str] = []
    labels = {
        s.name: node_labels(s.spec.get("nodeLabels")) for s in by_kind(sources, "ResourceFlavor")
    }
    for flavor in entries(group.get("flavors")):
        pool = pools.find(labels.get(str(flavor.get("name")), {}))
        if pool and pool.accelerator and pool.selector == labels.get(str(flavor.get("name"))):
            accelerators.append(pool.accelerator.resource)
        given += [str(row.get("name")) for row in entries(flavor.get("resources"))]
    rest = [name for name in given if name not in {*accelerators, *CPU_RESOURCES}]
    return [*dict.fromkeys(accelerators), *dict.fromkeys(rest), *CPU_RESOURCES]


def _preemption(given: dict[str, Any]) -> dict[str, Any]:
    """Kueue's default is Never; the inventory's is not, so it is written out."""
    rules: dict[str, Any] = {"withinClusterQueue": given.get("withinClusterQueue", "Never")}
    if given.get("reclaimWithinCohort", "Never") != "Never":
        rules["reclaimWithinCohort"] = given["reclaimWithinCohort"]
    borrowing = mapping(given.get("borrowWithinCohort"))
    own = {k: borrowing[k] for k in ("policy", "maxPriorityThreshold") if k in borrowing}
    if own and own != {"policy": "Never"}:
        rules["borrowWithinCohort"] = own
    return rules


def _usual_selector(queue: str, local_queues: dict[str, Any]) -> dict[str, Any]:
    namespaces = sorted(
        {n for q in local_queues.values() if q["clusterQueue"] == queue for n in q["namespaces"]}
    )
    if not namespaces:
        return {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}]
        }
    expression = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": namespaces,
    }
    return {"matchExpressions": [expression]}


def _local_queues(sources: list[Source], log: Log) -> tuple[dict[str, Any], set[str]]:
    """Queues by name with their namespaces, and the namespaces that compile makes anyway."""
    queues: dict[str, dict[str, Any]] = {}
    used: set[str] = set()
    for source in by_kind(sources, "LocalQueue"):
        rest = {"clusterQueue": source.spec.get("clusterQueue")}
        if source.spec.get("stopPolicy", "None") != "None":
            rest["stopPolicy"] = source.spec["stopPolicy"]
        known = queues.get(source.name)
        if known is None:
            queues[source.name] = {
                "clusterQueue": rest.pop("clusterQueue"), "namespaces": [], **rest,
            }  # fmt: skip
            known = queues[source.name]
        elif {k: v for k, v in known.items() if k != "namespaces"} != rest:
            log.add(
                "IMP006",
                Severity.WARNING,
                "another namespace has a queue of this name with another ClusterQueue; the "
                "inventory has one entry for a name, so this one goes into the overlay",
                "rename one of them",
                source,
            )
            continue
        known["namespaces"].append(source.namespace)
        used.add(source.namespace)
    used |= {source.namespace for source in by_kind(sources, "JobSet")}
    return queues, used


def _namespaces(sources: list[Source], used: set[str]) -> dict[str, Any]:
    """Namespaces that say something, or that nothing else would make."""
    found: dict[str, Any] = {}
    for source in by_kind(sources, "Namespace"):
        labels = {k: str(v) for k, v in source.labels.items() if k not in MANAGED_BY}
        notes = {
            key: str(value)
            for key, value in source.annotations.items()
            if not key.startswith("argocd.argoproj.io/")
        }
        entry = {
            **({"labels": labels} if labels else {}),
            **({"annotations": notes} if notes else {}),
        }
        if entry or (source.name not in used and source.name not in BUILT_IN):
            found[source.name] = entry
    return found
