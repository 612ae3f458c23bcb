"""How queues, flavors and cohorts of one cluster work together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from difflib import get_close_matches

from generator.checks.references.world import (
    MAX_NAMES_COMPARED,
    Pair,
    PodSet,
    World,
    cohort_name,
    groups,
)
from generator.checks.subject import Subject
from generator.findings import Finding, Severity

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
QUEUED_PROVISIONING = "queued-provisioning.gke.io"


def cohorts(world: World) -> Iterator[Pair]:
    """A cohort has more than one member, or nobody can borrow.

    A cohort needs no object of its own, so a misspelled name makes a new one without a word.
    """
    members: dict[str, list[Subject]] = defaultdict(list)
    for queue in world.all("ClusterQueue"):
        if cohort_name(queue):
            members[cohort_name(queue)].append(queue)
    with_quota = {cohort.name for cohort in world.all("Cohort")}
    for name, queues in members.items():
        if len(queues) > 1 or name in with_quota:
            continue
        others = {*members, *with_quota} - {name}
        near = get_close_matches(name, others, 1, 0.7) if len(others) <= MAX_NAMES_COMPARED else []
        if near or world.complete:
            yield (
                queues[0],
                Finding(
                    "REF011",
                    Severity.WARNING if near else Severity.NOTE,
                    f"the cohort {name!r} has one member: there is nobody to borrow from",
                    f"did you mean {near[0]}?"
                    if near
                    else "add a second queue, or drop the cohort",
                    path=("spec", "cohortName" if "cohortName" in queues[0].spec else "cohort"),
                ),
            )


def group_labels(world: World) -> Iterator[Pair]:
    """Flavors of one resource group label nodes with the same keys.

    Kueue before 0.19 (and unpatched 0.17, 0.18) matches a job's node selector against the union of
    all keys in the group, so a selector on one flavor's key refuses the others (kueue#12446).
    """
    for queue in world.all("ClusterQueue"):
        for path, group in groups(queue):
            keys = {}
            for flavor in group.get("flavors") or []:
                found = world.find("ResourceFlavor", str(flavor.get("name")))
                if found:
                    keys[found.name] = frozenset(found.spec.get("nodeLabels") or {})
            if len(set(keys.values())) > 1:
                shown = "; ".join(f"{n}: {', '.join(sorted(k)) or 'none'}" for n, k in keys.items())
                yield (
                    queue,
                    Finding(
                        "REF012",
                        Severity.WARNING,
                        f"flavors of one resource group have different node label keys ({shown}): "
                        "a job that selects one key is refused by the flavors without it",
                        "give all flavors of a group the same keys",
                        path=(*path, "flavors"),
                    ),
                )


def selectable(world: World, queue: Subject, pods: PodSet) -> list[Subject]:
    """The flavors of a queue whose node labels do not contradict a pod set's node selector."""
    out = []
    for _, group in groups(queue):
        for entry in group.get("flavors") or []:
            flavor = world.find("ResourceFlavor", str(entry.get("name")))
            labels = (flavor.spec.get("nodeLabels") or {}) if flavor else {}
            if flavor and all(
                str(labels.get(key, value)) == value for key, value in pods.node_selector.items()
            ):
                out.append(flavor)
    return out


def flavor_selectors(world: World) -> Iterator[Pair]:
    """Some flavor of the queue fits each pod set, and leaves Kueue nothing to add to it."""
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        if queue is None:
            continue
        known = [f for _, g in groups(queue) for f in g.get("flavors") or []]
        if not known or not all(world.find("ResourceFlavor", str(f.get("name"))) for f in known):
            continue
        for pods in sets:
            if not pods.requests:
                continue
            fitting = selectable(world, queue, pods)
            path = (*pods.path, "spec", "nodeSelector")
            if not fitting:
                yield (
                    workload,
                    Finding(
                        "REF013",
                        Severity.ERROR,
                        f"no flavor of ClusterQueue {queue.name} fits the node selector of "
                        f"{pods.name!r}: it is never admitted",
                        "select the labels of a flavor of the queue",
                        path=path,
                    ),
                )
            elif len(fitting) == 1 and pods.node_selector:
                labels = fitting[0].spec.get("nodeLabels") or {}
                added = sorted(set(labels) - set(pods.node_selector))
                if added:
                    yield (
                        workload,
                        Finding(
                            "REF014",
                            Severity.NOTE,
                            f"on admission Kueue adds {', '.join(added)} to the node selector of "
                            f"{pods.name!r}; an apply that takes them away again is refused while "
                            "the job runs",
                            "write the flavor's node labels into the template too",
                            path=path,
                        ),
                    )


def queued_jobs_keep_their_nodes(world: World) -> Iterator[Pair]:
    """A job whose queue gets its nodes by queued provisioning says that it is not to be evicted."""
    for workload, sets in world.workloads:
        queue = world.queue_of(workload)
        check = _queued_provisioning(world, queue) if queue else None
        for pods in sets if check else ():
            metadata = pods.template.get("metadata")
            given = metadata.get("annotations") if isinstance(metadata, dict) else None
            if isinstance(given, dict) and given.get(SAFE_TO_EVICT) == "false":
                continue
            yield (
                workload,
                Finding(
                    "REF033",
                    Severity.WARNING,
                    f"ClusterQueue {queue.name if queue else ''} gets nodes by queued provisioning "
                    f"({check}), and {pods.name!r} has no safe-to-evict false: its nodes may go "
                    "under it",
                    f'annotate the pod template: {{{SAFE_TO_EVICT}: "false"}}',
                    path=(*pods.path, "metadata", "annotations"),
                ),
            )


def _queued_provisioning(world: World, queue: Subject) -> str | None:
    """The admission check by which a queue asks GKE for nodes, None without one."""
    strategy = queue.spec.get("admissionChecksStrategy") or {}
    entries = [e.get("name") for e in strategy.get("admissionChecks") or []]
    for name in [*entries, *(queue.spec.get("admissionChecks") or [])]:
        check = world.find("AdmissionCheck", str(name))
        parameters = (check.spec.get("parameters") or {}) if check else {}
        config = world.find("ProvisioningRequestConfig", str(parameters.get("name")))
        if config and config.spec.get("provisioningClassName") == QUEUED_PROVISIONING:
            return str(name)
    return None
