"""Does every accelerator node have its checkpoint driver, with all its containers ready?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import (
    Object,
    accelerator_of,
    count,
    full_name,
    is_going,
    is_true,
    labels_of,
    name_of,
    selects,
    some,
    taint_text,
    untolerated,
)
from generator.doctor.reads import CHECKPOINTING_NAMESPACE
from generator.findings import Finding, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

CONTAINERS = 5
"""Containers of a driver pod: GKE's documentation shows ``5/5 Running``."""
_SETTLING_S = 120
"""A driver that is younger than this may still start."""


def driver_name(config: Object) -> str:
    """Name of the DaemonSet that the add-on makes for a CheckpointConfiguration."""
    return f"multitier-driver-{dig(dict(config), 'metadata', 'uid')}"


def is_ready_driver(pod: Object) -> bool:
    """Whether a driver pod is ``5/5 Running``."""
    return ready_containers(pod) >= CONTAINERS and not is_going(pod)


def ready_containers(pod: Object) -> int:
    """How many containers of a pod are ready."""
    statuses = dig(dict(pod), "status", "containerStatuses") or []
    return sum(bool(status.get("ready")) for status in statuses)


def _selected(look: Look, config: Object) -> list[Mapping[str, Any]]:
    selector = dig(dict(config), "spec", "nodeSelector")
    return [node for node in look.snapshot.items("nodes") if selects(selector, labels_of(node))]


def daemonsets_exist(look: Look) -> Iterator[Finding]:
    """Each CheckpointConfiguration has led to a driver DaemonSet."""
    there = {name_of(item) for item in look.snapshot.items("daemonsets")}
    events = look.snapshot.items("configevents")
    for config in look.snapshot.items("checkpointconfigurations"):
        resource = f"CheckpointConfiguration {name_of(config)}"
        if driver_name(config) in there:
            if is_going(config):
                yield _stuck(look, resource)
            continue
        said = [e for e in events if dig(e, "involvedObject", "name") == name_of(config)]
        if said:
            text = "; ".join(sorted({f"{e.get('reason')}: {e.get('message')}" for e in said}))
            message = f"it has no driver DaemonSet: {text}"
        elif look.snapshot.age_s(
            dig(config, "metadata", "creationTimestamp")
        ) > _SETTLING_S or is_going(config):
            message = (
                "it has no driver DaemonSet, and the add-on says nothing: it refuses an empty "
                "bucket or a size that is no quantity in its own log only"
            )
        else:
            continue
        yield look.finding(
            "DOC015",
            _E,
            resource,
            message,
            "check cloudStorageBucketName and inMemoryVolumeSize with stowplan check, then delete "
            "and create the object: edits are ignored",
        )


def _stuck(look: Look, resource: str) -> Finding:
    return look.finding(
        "DOC015",
        _W,
        resource,
        "it is being deleted and waits for its driver pods to go",
        look.kubectl("-n", CHECKPOINTING_NAMESPACE, "get", "pods"),
    )


def one_config_a_node(look: Look) -> Iterator[Finding]:
    """No node is selected by two CheckpointConfigurations."""
    chosen: dict[str, set[str]] = defaultdict(set)
    for config in look.snapshot.items("checkpointconfigurations"):
        if not is_going(config):
            for node in _selected(look, config):
                if accelerator_of(node):
                    chosen[name_of(node)].add(name_of(config))
    pairs: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, selectors in chosen.items():
        if len(selectors) > 1:
            pairs[tuple(sorted(selectors))].append(name)
    for configs, nodes in sorted(pairs.items()):
        yield look.finding(
            "DOC014",
            _E,
            f"CheckpointConfiguration {configs[0]}",
            f"it and {', '.join(configs[1:])} select the same {count(len(nodes), 'node')} "
            f"({some(nodes)}): the add-on reports a Conflict and installs only one driver",
            "delete the one that is not in Git, or narrow its nodeSelector and re-create it",
        )


def drivers_ready(look: Look) -> Iterator[Finding]:
    """Each accelerator node that a configuration selects has a driver pod that is 5/5."""
    covered: set[str] = set()
    configs = look.snapshot.items("checkpointconfigurations")
    there = {name_of(item) for item in look.snapshot.items("daemonsets")}
    for config in configs:
        nodes = [node for node in _selected(look, config) if accelerator_of(node)]
        covered |= {name_of(node) for node in nodes}
        if driver_name(config) in there:
            yield from _of_config(look, config, nodes)
    bare = {
        name_of(node): accelerator_of(node)
        for node in look.snapshot.items("nodes")
        if accelerator_of(node) and name_of(node) not in covered
    }
    if configs and bare:
        yield look.finding(
            "DOC010",
            _N,
            "nodes",
            f"{count(len(bare), 'accelerator node')} without a CheckpointConfiguration "
            f"({some(bare)}): jobs there have no RAM disk",
            "add one in the inventory if jobs with the checkpoint volume run there",
        )


def _of_config(look: Look, config: Object, nodes: list[Mapping[str, Any]]) -> Iterator[Finding]:
    resource = f"CheckpointConfiguration {name_of(config)}"
    tolerations = dig(dict(config), "spec", "tolerations") or []
    pods = {
        dig(pod, "spec", "nodeName"): pod
        for pod in look.snapshot.items("driverpods")
        if name_of(pod).startswith(f"{driver_name(config)}-") and not is_going(pod)
    }
    shut: dict[str, list[str]] = defaultdict(list)
    missing = []
    broken: list[Object] = []
    for node in nodes:
        pod = pods.get(name_of(node))
        if pod is not None:
            if not is_ready_driver(pod) and is_true(node, "Ready"):
                broken.append(pod)
            continue
        taint = untolerated(_lasting_taints(node), tolerations)
        if taint is not None:
            shut[taint_text(taint)].append(name_of(node))
        elif is_true(node, "Ready"):
            missing.append(name_of(node))
    yield from _unready(look, broken)
    for text, names in shut.items():
        yield look.finding(
            "DOC010",
            _E,
            resource,
            f"no driver pod on {len(names)} of its nodes ({some(names)}): their taint {text} is "
            "not tolerated, so pods with the checkpoint volume wait in ContainerCreating",
            "add the toleration in the inventory and compile: the new name re-creates the object",
        )
    if missing:
        yield look.finding(
            "DOC010",
            _E,
            resource,
            f"no driver pod on {len(missing)} of its {len(nodes)} accelerator nodes "
            f"({some(missing)})",
            look.kubectl(
                "-n", CHECKPOINTING_NAMESPACE, "describe", "daemonset", driver_name(config)
            ),
        )


def _lasting_taints(node: Object) -> list[Mapping[str, Any]]:
    """Taints that a DaemonSet's pods do not tolerate by themselves."""
    return [
        taint
        for taint in dig(dict(node), "spec", "taints") or []
        if not str(taint.get("key", "")).startswith("node.kubernetes.io/")
    ]


def _unready(look: Look, pods: list[Object]) -> Iterator[Finding]:
    """Driver pods that are not whole, those in one state together."""
    states: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        states[_state(pod)].append(pod)
    for state, alike in sorted(states.items()):
        nodes = [str(dig(dict(pod), "spec", "nodeName")) for pod in alike]
        first = min(alike, key=name_of)
        yield look.finding(
            "DOC011",
            _E,
            f"Pod {full_name(first)}",
            f"{count(len(alike), 'driver')} {state} on {some(nodes)}: pods with the checkpoint "
            "volume cannot start there",
            look.kubectl("-n", CHECKPOINTING_NAMESPACE, "describe", "pod", name_of(first)),
        )


def _state(pod: Object) -> str:
    """``0/5 (5 × PodInitializing)``."""
    total = max(len(dig(dict(pod), "spec", "containers") or []), CONTAINERS)
    reasons = Counter(
        reason
        for kind in ("initContainerStatuses", "containerStatuses")
        for status in dig(dict(pod), "status", kind) or []
        if not status.get("ready") and (reason := waiting_reason(status))
    )
    why = ", ".join(f"{number} × {reason}" for reason, number in sorted(reasons.items()))
    return f"{ready_containers(pod)}/{total}" + (f" ({why})" if why else "")


def waiting_reason(status: Object) -> str:
    """Why a container is not running: ``PodInitializing``, ``CrashLoopBackOff`` and the like."""
    state = dig(dict(status), "state") or {}
    for kind in ("waiting", "terminated"):
        if kind in state:
            return str(state[kind].get("reason") or kind)
    return ""
