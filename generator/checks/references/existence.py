"""Everything that an object names exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.references.world import (
    PRIORITY_CLASS,
    QUEUE_NAME,
    Pair,
    PodSet,
    World,
    groups,
    namespace_of,
)
from generator.checks.subject import Subject
from generator.findings import Finding, Severity

BUILT_IN_PRIORITIES = frozenset({"system-cluster-critical", "system-node-critical"})


def unique_identities(world: World) -> Iterator[Pair]:
    """No two objects have one kind, namespace and name: the second would overwrite the first."""
    seen: dict[tuple[str, str, str, str], Subject] = {}
    for subject in world.subjects:
        group = str(subject.body.get("apiVersion", "")).rpartition("/")[0]
        identity = (group, subject.kind, subject.namespace, subject.name)
        first = seen.setdefault(identity, subject)
        if first is not subject and subject.metadata.get("name"):
            where = f" (also in {first.file})" if first.file and first.file != subject.file else ""
            yield (
                subject,
                Finding(
                    "REF001",
                    Severity.ERROR,
                    f"{subject.resource} stands twice{where}: the later one overwrites the other",
                    "rename or remove one",
                    path=("metadata", "name"),
                ),
            )


def names_exist(world: World) -> Iterator[Pair]:
    """Flavors, queues, topologies, admission checks and priority classes exist."""
    for queue in world.all("ClusterQueue"):
        yield from _flavors(world, queue)
        yield from _admission_checks(world, queue)
    for local in world.all("LocalQueue"):
        name = str(local.spec.get("clusterQueue") or "")
        if name and not world.find("ClusterQueue", name):
            yield world.missing(
                "REF003",
                local,
                ("spec", "clusterQueue"),
                "ClusterQueue",
                name,
                "the queue stays inactive and its jobs wait for ever",
            )
    for flavor in world.all("ResourceFlavor"):
        name = str(flavor.spec.get("topologyName") or "")
        if name and not world.find("Topology", name):
            yield world.missing(
                "REF005",
                flavor,
                ("spec", "topologyName"),
                "Topology",
                name,
                "every queue with this flavor is inactive",
            )
    for workload, sets in world.workloads:
        yield from _workload_names(world, workload, sets)


def _flavors(world: World, queue: Subject) -> Iterator[Pair]:
    for path, group in groups(queue):
        for position, flavor in enumerate(group.get("flavors") or []):
            name = str(flavor.get("name"))
            if not world.find("ResourceFlavor", name):
                yield world.missing(
                    "REF002",
                    queue,
                    (*path, "flavors", position, "name"),
                    "ResourceFlavor",
                    name,
                    "the queue is inactive (FlavorNotFound) and everything in it pends",
                )


def _admission_checks(world: World, queue: Subject) -> Iterator[Pair]:
    strategy = queue.spec.get("admissionChecksStrategy") or {}
    for position, check in enumerate(strategy.get("admissionChecks") or []):
        name = str(check.get("name"))
        if not world.find("AdmissionCheck", name):
            yield world.missing(
                "REF006",
                queue,
                ("spec", "admissionChecksStrategy", "admissionChecks", position, "name"),
                "AdmissionCheck",
                name,
                "the queue is inactive (AdmissionCheckNotFound)",
            )


def _workload_names(world: World, workload: Subject, sets: list[PodSet]) -> Iterator[Pair]:
    queue = workload.labels.get(QUEUE_NAME)
    namespace = namespace_of(workload)
    if isinstance(queue, str) and not world.find("LocalQueue", queue, namespace):
        elsewhere = [local for local in world.all("LocalQueue") if local.name == queue]
        effect = "the job stays suspended and no Workload is admitted"
        if elsewhere:
            effect += f" (one of that name is in namespace {namespace_of(elsewhere[0])})"
        yield world.missing(
            "REF004",
            workload,
            ("metadata", "labels", QUEUE_NAME),
            "LocalQueue",
            queue,
            effect,
            f" in namespace {namespace}",
        )
    priority = workload.labels.get(PRIORITY_CLASS)
    if isinstance(priority, str) and not world.find("WorkloadPriorityClass", priority):
        yield world.missing(
            "REF007",
            workload,
            ("metadata", "labels", PRIORITY_CLASS),
            "WorkloadPriorityClass",
            priority,
            "Kueue makes no Workload and the job stays suspended",
        )
    for pods in sets:
        name = pods.spec.get("priorityClassName")
        if (
            isinstance(name, str)
            and name
            and name not in BUILT_IN_PRIORITIES
            and not world.find("PriorityClass", name)
        ):
            yield world.missing(
                "REF008",
                workload,
                (*pods.path, "spec", "priorityClassName"),
                "PriorityClass",
                name,
                "the API server refuses the pods",
            )


def pod_references(world: World) -> Iterator[Pair]:
    """Service accounts, Secrets and ConfigMaps that pods name exist.

    Platforms often keep these outside the tree, so a missing one is judged only where the checked
    files declare that kind in the pod's namespace.
    """
    for workload, sets in world.workloads:
        namespace = namespace_of(workload)
        for pods in sets:
            for kind, name, key, path in _named_by(pods):
                declared = [s for s in world.all(kind) if namespace_of(s) == namespace]
                target = world.find(kind, name, namespace)
                if not declared or (kind == "ServiceAccount" and name == "default"):
                    continue
                if target is None:
                    yield (
                        workload,
                        Finding(
                            "REF009",
                            Severity.WARNING,
                            f"namespace {namespace} declares no {kind} {name!r}: pods stay in "
                            "CreateContainerConfigError or are refused",
                            f"declare it, or use {', '.join(sorted(s.name for s in declared))}",
                            path=path,
                        ),
                    )
                elif key and key not in _keys(target):
                    yield (
                        workload,
                        Finding(
                            "REF009",
                            Severity.WARNING,
                            f"{kind} {name} has no key {key!r}",
                            f"use one of {', '.join(sorted(_keys(target)))}",
                            path=path,
                        ),
                    )


def _keys(target: Subject) -> set[str]:
    return {
        str(key)
        for field in ("data", "stringData", "binaryData")
        for key in (target.body.get(field) or {})
    }


_SOURCES = (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap"))


def _named_by(pods: PodSet) -> Iterator[tuple[str, str, str, tuple[str | int, ...]]]:
    """Yield ``(kind, name, key or empty, path)`` of each reference that is not optional."""
    base = (*pods.path, "spec")
    account = pods.spec.get("serviceAccountName")
    if isinstance(account, str) and account:
        yield "ServiceAccount", account, "", (*base, "serviceAccountName")
    for field in ("initContainers", "containers"):
        for number, container in enumerate(pods.spec.get(field) or []):
            for index, variable in enumerate(container.get("env") or []):
                source = variable.get("valueFrom") or {}
                for ref, kind in _SOURCES:
                    named = source.get(ref)
                    if isinstance(named, dict) and not named.get("optional"):
                        path = (*base, field, number, "env", index, "valueFrom", ref)
                        yield kind, str(named.get("name")), str(named.get("key")), path
    for number, volume in enumerate(pods.spec.get("volumes") or []):
        for field, kind, word in (
            ("secret", "Secret", "secretName"),
            ("configMap", "ConfigMap", "name"),
        ):
            named = volume.get(field)
            if isinstance(named, dict) and not named.get("optional"):
                yield kind, str(named.get(word)), "", (*base, "volumes", number, field, word)


SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def namespaces_exist(world: World) -> Iterator[Pair]:
    """The namespace of each object is declared, where the files declare namespaces at all."""
    declared = set(world.names("Namespace"))
    if not declared or not world.complete:
        return
    for subject in world.subjects:
        name = subject.namespace
        if name and name not in declared and name not in SYSTEM_NAMESPACES:
            near = world.nearest("Namespace", name)
            yield (
                subject,
                Finding(
                    "REF029",
                    Severity.WARNING,
                    f"no Namespace {name!r} is declared, unlike {', '.join(sorted(declared)[:6])}",
                    f"write {near[0]}" if near else "declare the namespace",
                    path=("metadata", "namespace"),
                ),
            )


def namespaces_admitted(world: World) -> Iterator[Pair]:
    """The namespace of each LocalQueue is one that its ClusterQueue's selector admits."""
    for local in world.all("LocalQueue"):
        queue = world.find("ClusterQueue", str(local.spec.get("clusterQueue")))
        selector = queue.spec.get("namespaceSelector") if queue else None
        if not isinstance(selector, dict):
            continue
        name = namespace_of(local)
        namespace = world.find("Namespace", name)
        labels = {"kubernetes.io/metadata.name": name, **(namespace.labels if namespace else {})}
        verdict = admits(selector, labels, known=namespace is not None)
        if verdict is False:
            yield (
                local,
                Finding(
                    "REF010",
                    Severity.ERROR,
                    f"ClusterQueue {queue.name if queue else ''} does not admit namespace {name}: "
                    "its namespaceSelector does not match the namespace's labels",
                    f"select it, for example kubernetes.io/metadata.name: {name}, or label the "
                    "namespace",
                    path=("spec", "clusterQueue"),
                ),
            )


def namespaces_managed(world: World) -> Iterator[Pair]:
    """Kueue manages the namespaces of the jobs that are labelled for it.

    Judged where Kueue's own Configuration and the Namespace are among the files: from 0.19 the
    selector beats the label, and a labelled job elsewhere runs unmanaged.
    """
    for configuration in world.subjects:
        selector = configuration.body.get("managedJobsNamespaceSelector")
        if configuration.kind != "Configuration" or not isinstance(selector, dict):
            continue
        for workload, _ in world.workloads:
            name = namespace_of(workload)
            namespace = world.find("Namespace", name)
            if QUEUE_NAME not in workload.labels:
                continue
            labels = {
                "kubernetes.io/metadata.name": name,
                **(namespace.labels if namespace else {}),
            }
            if admits(selector, labels, known=namespace is not None) is False:
                yield (
                    workload,
                    Finding(
                        "REF028",
                        Severity.ERROR,
                        f"Kueue does not manage namespace {name} (managedJobsNamespaceSelector): "
                        "the job runs at once, outside the quota",
                        "label the namespace as the selector asks",
                        path=("metadata", "namespace"),
                    ),
                )


def admits(selector: Mapping[str, Any], labels: Mapping[str, Any], *, known: bool) -> bool | None:
    """Whether a label selector matches; None where labels that it asks for are not known."""
    terms = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in (selector.get("matchLabels") or {}).items()
    ] + list(selector.get("matchExpressions") or [])
    unknown = False
    for term in terms:
        key, operator = term.get("key"), term.get("operator")
        if key not in labels and not known:
            unknown = True
            continue
        value, values = labels.get(key), term.get("values") or []
        holds = {
            "In": key in labels and value in values,
            "NotIn": key not in labels or value not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(str(operator), True)
        if not holds:
            return False
    return None if unknown else True
