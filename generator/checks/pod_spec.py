"""What the API server refuses in a pod although no schema says so.

A custom resource with a pod template is stored as it is; the refusal comes later, when a controller
creates the pods, and shows only in events. Built-in kinds are refused at once.

Source: ``k8s.io/kubernetes/pkg/apis/core/validation/validation.go`` and the Kubernetes API
reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from generator.checks.structure import Path
from generator.findings import Finding, Severity, path_text
from schemas.names import dns_label_problem, label_key_problem, label_value_problem
from schemas.quantity import QuantityError, parse_quantity

RULE = "SCH013"

POD_TEMPLATES: dict[str, Path] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where each kind keeps its pod template (a mapping with ``metadata`` and ``spec``)."""

_JOB_TEMPLATE: Path = ("template", "spec", "template")

ENUMS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("restartPolicy",): ("Always", "OnFailure", "Never"),
    ("dnsPolicy",): ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ("preemptionPolicy",): ("Never", "PreemptLowerPriority"),
    ("containers", "*", "imagePullPolicy"): ("Always", "IfNotPresent", "Never"),
    ("initContainers", "*", "imagePullPolicy"): ("Always", "IfNotPresent", "Never"),
    ("containers", "*", "ports", "*", "protocol"): ("TCP", "UDP", "SCTP"),
    ("containers", "*", "terminationMessagePolicy"): ("File", "FallbackToLogsOnError"),
    ("tolerations", "*", "operator"): ("Exists", "Equal", "Lt", "Gt"),
    ("tolerations", "*", "effect"): ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    ("topologySpreadConstraints", "*", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
}
"""Fields of a pod spec that take one of a few words."""

PORTS: tuple[tuple[str, ...], ...] = (
    ("containers", "*", "ports", "*", "containerPort"),
    ("containers", "*", "ports", "*", "hostPort"),
    ("initContainers", "*", "ports", "*", "containerPort"),
)


def pod_templates(document: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield every pod template of an object with its path."""
    kind = document.get("kind")
    if kind == "JobSet":
        spec = document.get("spec")
        jobs = spec.get("replicatedJobs") if isinstance(spec, Mapping) else None
        for position, job in enumerate(jobs if isinstance(jobs, list) else []):
            template = _at(job, _JOB_TEMPLATE)
            if isinstance(template, Mapping):
                yield ("spec", "replicatedJobs", position, *_JOB_TEMPLATE), template
    elif kind in POD_TEMPLATES:
        template = _at(document, POD_TEMPLATES[kind])
        if isinstance(template, Mapping):
            yield POD_TEMPLATES[kind], template


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _values(value: Any, pattern: tuple[str, ...], path: Path) -> Iterator[tuple[Path, Any]]:
    if not pattern:
        yield path, value
        return
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        for position, item in enumerate(value if isinstance(value, list) else []):
            yield from _values(item, rest, (*path, position))
    elif isinstance(value, Mapping) and value.get(first) is not None:
        yield from _values(value[first], rest, (*path, first))


def _fault(message: str, fix: str, path: Path) -> Finding:
    return Finding(RULE, Severity.ERROR, message, fix, path=path)


def pod_findings(document: Mapping[str, Any], kind: str) -> Iterator[Finding]:
    """Judge every pod template of an object that the schema already accepts."""
    if kind != "JobSet" and kind not in POD_TEMPLATES:
        return
    claims = _claim_names(document, kind)
    for path, template in pod_templates(document):
        yield from _template_metadata(template.get("metadata"), (*path, "metadata"))
        spec = template.get("spec")
        if isinstance(spec, Mapping):
            yield from _enums(spec, (*path, "spec"))
            yield from _containers(spec, claims, (*path, "spec"))
            yield from _selector(spec.get("nodeSelector"), (*path, "spec", "nodeSelector"))
            yield from _tolerations(spec.get("tolerations"), (*path, "spec", "tolerations"))
            yield from _jobs_restart(spec, kind, (*path, "spec"))


def _template_metadata(metadata: Any, path: Path) -> Iterator[Finding]:
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    for key, value in (labels or {}).items():
        problem = label_key_problem(str(key)) or label_value_problem(str(value))
        if problem:
            yield _fault(
                f"the pod label {key}: {value!r} {problem}", "respell it", (*path, "labels", key)
            )


def _enums(spec: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    for pattern, words in ENUMS.items():
        for where, value in _values(spec, pattern, path):
            if value not in words:
                near = get_close_matches(str(value), words, 1, 0.6)
                yield _fault(
                    f"{path_text(where)} is {value!r}; pods take one of {', '.join(words)}",
                    f"write {near[0]}" if near else f"write one of {', '.join(words)}",
                    where,
                )
    for pattern in PORTS:
        for where, value in _values(spec, pattern, path):
            if isinstance(value, int) and not 1 <= value <= 65535:
                yield _fault(
                    f"{path_text(where)} is {value}; a port is 1 to 65535", "correct it", where
                )


def _claim_names(document: Mapping[str, Any], kind: str) -> set[str]:
    """Volumes that a controller adds from claim templates of the object."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return set()
    if kind == "StatefulSet":
        claims = spec.get("volumeClaimTemplates") or []
        return {str(_at(claim, ("metadata", "name"))) for claim in claims}
    policies = spec.get("volumeClaimPolicies") or [] if kind == "JobSet" else []
    return {
        str(_at(claim, ("metadata", "name")))
        for policy in policies
        for claim in policy.get("templates") or []
    }


def _containers(spec: Mapping[str, Any], claims: set[str], path: Path) -> Iterator[Finding]:
    declared = claims | {v.get("name") for v in spec.get("volumes") or [] if isinstance(v, Mapping)}
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(field) or []):
            here: Path = (*path, field, position)
            name = container.get("name", "")
            if problem := dns_label_problem(name):
                yield _fault(f"the container name {name!r} {problem}", "rename it", (*here, "name"))
            if name in names:
                yield _fault(f"two containers are called {name!r}", "rename one", (*here, "name"))
            names.add(name)
            yield from _resources(container.get("resources"), (*here, "resources"))
            yield from _mounts(container, declared, here)
    if not spec.get("containers") and "containers" in spec:
        yield _fault("a pod needs at least one container", "add one", (*path, "containers"))
    if spec.get("hostNetwork") is not True and spec.get("dnsPolicy") == "None":
        servers = _at(spec, ("dnsConfig", "nameservers"))
        if not servers:
            yield _fault(
                "dnsPolicy None needs dnsConfig.nameservers",
                "add them, or write dnsPolicy: ClusterFirst",
                (*path, "dnsPolicy"),
            )


def _mounts(
    container: Mapping[str, Any], declared: set[Any] | None, path: Path
) -> Iterator[Finding]:
    seen: set[str] = set()
    for position, mount in enumerate(container.get("volumeMounts") or []):
        target = mount.get("mountPath", "") if isinstance(mount, Mapping) else ""
        where: Path = (*path, "volumeMounts", position, "mountPath")
        if not target:
            yield _fault(f"{path_text(where)} is empty", "write the directory", where)
        elif ":" in target:
            yield _fault(f"{path_text(where)} {target!r} must not contain ':'", "rename it", where)
        elif target in seen:
            yield _fault(f"two volumes are mounted at {target}", "mount one elsewhere", where)
        seen.add(target)
        name = mount.get("name")
        if declared is not None and name not in declared:
            yield _fault(
                f"volumeMount {name!r}: the pod has no volume of that name",
                "declare it under volumes, or remove the mount",
                (*path, "volumeMounts", position, "name"),
            )


def _resources(resources: Any, path: Path) -> Iterator[Finding]:
    if not isinstance(resources, Mapping):
        return
    amounts: dict[str, dict[str, Any]] = {}
    for side in ("requests", "limits"):
        for name, text in (resources.get(side) or {}).items():
            try:
                amount = parse_quantity(str(text))
            except QuantityError:
                continue
            amounts.setdefault(name, {})[side] = amount
            where: Path = (*path, side, name)
            if amount < 0:
                yield _fault(f"{path_text(where)} is negative", "write 0 or more", where)
            elif "/" in name and amount != amount.to_integral_value():
                yield _fault(
                    f"{path_text(where)} is {text}; {name} comes in whole units",
                    "write a whole number",
                    where,
                )
    for name, sides in amounts.items():
        yield from _pair(name, sides, path)


def _pair(name: str, sides: dict[str, Any], path: Path) -> Iterator[Finding]:
    request, limit = sides.get("requests"), sides.get("limits")
    extended = "/" in name
    if extended and request is not None and limit is None:
        yield _fault(
            f"{name} is requested without a limit: an extended resource needs a limit, and the two "
            "must be equal",
            f"write limits: {{{name}: …}}",
            (*path, "requests", name),
        )
    elif extended and request is not None and request != limit:
        yield _fault(
            f"{name}: request {request} and limit {limit} differ; of an extended resource they "
            "must be equal",
            "write the limit only; the request follows",
            (*path, "requests", name),
        )
    elif not extended and request is not None and limit is not None and request > limit:
        yield _fault(
            f"the request of {name} is above its limit",
            "raise the limit or lower the request",
            (*path, "requests", name),
        )


def _selector(selector: Any, path: Path) -> Iterator[Finding]:
    for key, value in selector.items() if isinstance(selector, Mapping) else ():
        problem = label_key_problem(str(key)) or label_value_problem(str(value))
        if problem:
            yield _fault(
                f"the node selector {key}: {value!r} {problem}", "respell it", (*path, key)
            )


def _tolerations(tolerations: Any, path: Path) -> Iterator[Finding]:
    for position, item in enumerate(tolerations if isinstance(tolerations, list) else []):
        if not isinstance(item, Mapping):
            continue
        where: Path = (*path, position)
        operator = item.get("operator") or "Equal"
        if not item.get("key") and operator != "Exists":
            yield _fault(
                f"{path_text(where)} has no key: the operator must be Exists",
                "add the key, or operator: Exists to tolerate every taint",
                where,
            )
        if operator == "Exists" and item.get("value"):
            yield _fault(
                f"{path_text(where)}: operator Exists takes no value", "remove the value", where
            )
        if item.get("tolerationSeconds") is not None and item.get("effect") != "NoExecute":
            yield _fault(
                f"{path_text(where)}: tolerationSeconds needs effect NoExecute",
                "remove tolerationSeconds, or write effect: NoExecute",
                where,
            )


def _jobs_restart(spec: Mapping[str, Any], kind: str, path: Path) -> Iterator[Finding]:
    if kind not in {"Job", "CronJob", "JobSet"}:
        return
    policy = spec.get("restartPolicy")
    if policy == "Always" or (policy is None and kind != "JobSet"):
        said = "is missing, and the default Always" if policy is None else "Always"
        yield _fault(
            f"restartPolicy {said} is refused in a Job",
            "write restartPolicy: OnFailure or Never",
            (*path, "restartPolicy"),
        )
