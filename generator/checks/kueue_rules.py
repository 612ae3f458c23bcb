"""What Kueue's admission webhooks refuse beyond the CRDs; see :mod:`generator.checks.webhooks`.

Source: Kueue 0.15 to 0.19, ``pkg/webhooks`` and ``pkg/controller/jobframework/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.structure import Path
from schemas.names import dns_subdomain_problem, label_key_problem, label_value_problem
from schemas.quantity import QuantityError, parse_quantity

Fault = tuple[str, str, Path]
Object = Mapping[str, Any]

MAX_FLAVORS = 256
MAX_RESOURCES = 256
MAX_COMBINATIONS = 512


def _spec(document: Object) -> Object:
    spec = document.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _groups(document: Object) -> list[Object]:
    return list(_spec(document).get("resourceGroups") or [])


def resource_groups(document: Object, _: str) -> Iterator[Fault]:
    """Resources and flavors stand in one group only; quotas are sane and in order."""
    resources: set[str] = set()
    flavors: set[str] = set()
    is_cohort = document.get("kind") == "Cohort"
    spec = _spec(document)
    parent = spec.get("parentName") if is_cohort else spec.get("cohortName", spec.get("cohort"))
    for number, group in enumerate(_groups(document)):
        path: Path = ("spec", "resourceGroups", number)
        covered = group.get("coveredResources") or []
        for position, name in enumerate(covered):
            if name in resources:
                yield (
                    f"the resource {name} stands in two resource groups",
                    "cover each resource in one group only",
                    (*path, "coveredResources", position),
                )
            resources.add(name)
        for position, flavor in enumerate(group.get("flavors") or []):
            here: Path = (*path, "flavors", position)
            name = flavor.get("name")
            if name in flavors:
                yield (
                    f"the flavor {name} stands in two resource groups",
                    "name each flavor in one group only",
                    (*here, "name"),
                )
            flavors.add(name)
            for index, quota in enumerate(flavor.get("resources") or []):
                place: Path = (*here, "resources", index)
                if index < len(covered) and quota.get("name") != covered[index]:
                    yield (
                        f"resources[{index}] is {quota.get('name')}, coveredResources[{index}] is "
                        f"{covered[index]}: the order must be the same",
                        f"write the resources in the order of coveredResources: "
                        f"{', '.join(covered)}",
                        (*place, "name"),
                    )
                yield from _quota(quota, bool(parent), is_cohort, place)


def _quota(quota: Object, has_parent: bool, is_cohort: bool, path: Path) -> Iterator[Fault]:
    amounts = {}
    for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        if quota.get(field) is None:
            continue
        try:
            amounts[field] = parse_quantity(str(quota[field]))
        except QuantityError:
            continue
        if amounts[field] < 0:
            yield (
                f"{field} {quota[field]} is negative",
                "write 0 or more",
                (*path, field),
            )
    for field in ("borrowingLimit", "lendingLimit"):
        if field in amounts and not has_parent:
            owner = "parentName" if is_cohort else "cohortName"
            yield (
                f"{field} without {owner}: there is nobody to borrow from or lend to",
                f"add {owner}, or remove {field}",
                (*path, field),
            )
    nominal, lending = amounts.get("nominalQuota"), amounts.get("lendingLimit")
    if not is_cohort and nominal is not None and lending is not None and lending > nominal:
        yield (
            f"lendingLimit {quota['lendingLimit']} is above nominalQuota {quota['nominalQuota']}",
            "lend at most what the queue owns",
            (*path, "lendingLimit"),
        )


def totals(document: Object, _: str) -> Iterator[Fault]:
    """Flavors, resources and their combinations have limits over all groups."""
    groups = _groups(document)
    path: Path = ("spec", "resourceGroups")
    flavors = sum(len(group.get("flavors") or []) for group in groups)
    covered = sum(len(group.get("coveredResources") or []) for group in groups)
    if flavors > MAX_FLAVORS:
        yield f"{flavors} flavors in all groups; at most {MAX_FLAVORS}", "split the queue", path
    if covered > MAX_RESOURCES:
        yield f"{covered} covered resources; at most {MAX_RESOURCES}", "split the queue", path
    for number, group in enumerate(groups):
        pairs = sum(len(flavor.get("resources") or []) for flavor in group.get("flavors") or [])
        if pairs > MAX_COMBINATIONS:
            yield (
                f"{pairs} flavor-resource pairs in one group; at most {MAX_COMBINATIONS}",
                "split the group",
                (*path, number),
            )


def preemption(document: Object, _: str) -> Iterator[Fault]:
    """Borrowing with preemption needs reclaiming, also when reclaiming is merely left out."""
    rules = _spec(document).get("preemption") or {}
    borrowing = (rules.get("borrowWithinCohort") or {}).get("policy", "Never")
    if rules.get("reclaimWithinCohort") in (None, "Never") and borrowing != "Never":
        yield (
            f"borrowWithinCohort.policy {borrowing} with reclaimWithinCohort "
            f"{rules.get('reclaimWithinCohort', 'left out (Never)')}",
            "write reclaimWithinCohort: LowerPriority or Any",
            ("spec", "preemption", "borrowWithinCohort", "policy"),
        )


def fungibility(document: Object, _: str) -> Iterator[Fault]:
    """A preference between borrowing and preempting needs both to try the next flavor."""
    rules = _spec(document).get("flavorFungibility") or {}
    if rules.get("preference") and (
        rules.get("whenCanBorrow", "MayStopSearch") != "TryNextFlavor"
        or rules.get("whenCanPreempt", "TryNextFlavor") != "TryNextFlavor"
    ):
        yield (
            "flavorFungibility.preference needs whenCanBorrow and whenCanPreempt TryNextFlavor",
            "set both to TryNextFlavor, or remove preference",
            ("spec", "flavorFungibility", "preference"),
        )


def fair_sharing(document: Object, _: str) -> Iterator[Fault]:
    """A fair-sharing weight is not negative."""
    weight = (_spec(document).get("fairSharing") or {}).get("weight")
    try:
        negative = weight is not None and parse_quantity(str(weight)) < 0
    except QuantityError:
        return
    if negative:
        yield (
            f"fairSharing.weight {weight} is negative",
            "write 0 or more",
            ("spec", "fairSharing", "weight"),
        )


_NEEDS_VALUES = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


def selector(document: Object, _: str) -> Iterator[Fault]:
    """The namespace selector is a valid label selector."""
    value = _spec(document).get("namespaceSelector")
    if not isinstance(value, Mapping):
        return
    path: Path = ("spec", "namespaceSelector")
    for key, text in (value.get("matchLabels") or {}).items():
        problem = label_key_problem(key) or label_value_problem(str(text))
        if problem:
            yield f"the label {key}: {text!r} {problem}", "respell it", (*path, "matchLabels", key)
    for position, term in enumerate(value.get("matchExpressions") or []):
        here: Path = (*path, "matchExpressions", position)
        problem = label_key_problem(str(term.get("key", "")))
        if problem:
            yield f"the label key {term.get('key')!r} {problem}", "respell it", (*here, "key")
        for index, text in enumerate(term.get("values") or []):
            problem = label_value_problem(str(text))
            if problem:
                yield f"the label value {text!r} {problem}", "respell it", (*here, "values", index)
        operator = term.get("operator")
        if operator not in _NEEDS_VALUES:
            yield (
                f"the operator {operator!r} is none of {', '.join(_NEEDS_VALUES)}",
                "write one of them",
                (*here, "operator"),
            )
        elif bool(term.get("values")) != _NEEDS_VALUES[operator]:
            yield (
                f"operator {operator} "
                + ("needs values" if _NEEDS_VALUES[operator] else "takes no values"),
                "add values" if _NEEDS_VALUES[operator] else "remove values",
                (*here, "values"),
            )


def check_flavors(document: Object, _: str) -> Iterator[Fault]:
    """An admission check is tied to flavors of the queue only: refused from Kueue 0.18 on, and
    before that the check silently never runs.
    """
    strategy = _spec(document).get("admissionChecksStrategy") or {}
    known = {f.get("name") for g in _groups(document) for f in g.get("flavors") or []}
    for position, check in enumerate(strategy.get("admissionChecks") or []):
        for index, flavor in enumerate(check.get("onFlavors") or []):
            if flavor not in known:
                yield (
                    f"admission check {check.get('name')} is tied to the flavor {flavor}, which "
                    "the queue does not have",
                    f"name one of {', '.join(sorted(str(name) for name in known))}"
                    if known
                    else "leave onFlavors out, or give the queue that flavor",
                    (
                        "spec",
                        "admissionChecksStrategy",
                        "admissionChecks",
                        position,
                        "onFlavors",
                        index,
                    ),
                )


def node_labels(document: Object, _: str) -> Iterator[Fault]:
    """The flavor's node labels are labels that a node can have."""
    for key, value in (_spec(document).get("nodeLabels") or {}).items():
        problem = label_key_problem(key) or label_value_problem(str(value))
        if problem:
            yield (
                f"the node label {key}: {value!r} {problem}",
                "respell it",
                ("spec", "nodeLabels", key),
            )


def node_taints(document: Object, _: str) -> Iterator[Fault]:
    """The flavor's taints are taints that a node can have, each key and effect once."""
    seen: set[tuple[Any, Any]] = set()
    for position, taint in enumerate(_spec(document).get("nodeTaints") or []):
        path: Path = ("spec", "nodeTaints", position)
        key, value = str(taint.get("key", "")), str(taint.get("value", ""))
        problem = label_key_problem(key) or label_value_problem(value)
        if problem:
            yield f"the taint {key}={value} {problem}", "respell it", path
        identity = (key, taint.get("effect"))
        if identity in seen:
            yield (
                f"the taint {key}:{taint.get('effect')} stands twice",
                "remove one: taints are unique by key and effect",
                path,
            )
        seen.add(identity)


def flavor_tolerations(document: Object, _: str) -> Iterator[Fault]:
    """The keys of the flavor's tolerations are label keys; an empty key tolerates all taints."""
    for position, toleration in enumerate(_spec(document).get("tolerations") or []):
        key = str(toleration.get("key") or "")
        problem = label_key_problem(key) if key else ""
        if problem:
            yield (
                f"the toleration key {key!r} {problem}",
                "respell it as the taint's key",
                ("spec", "tolerations", position, "key"),
            )


_QUEUE = "kueue.x-k8s.io/queue-name"
_MAX_TIME = "kueue.x-k8s.io/max-exec-time-seconds"


def job_labels(document: Object, _: str) -> Iterator[Fault]:
    """Kueue's labels on a job hold what Kueue can read."""
    labels = (document.get("metadata") or {}).get("labels") or {}
    queue = labels.get(_QUEUE)
    if isinstance(queue, str) and (problem := dns_subdomain_problem(queue)):
        yield (
            f"the queue name {queue!r} {problem}",
            "name a LocalQueue",
            (
                "metadata",
                "labels",
                _QUEUE,
            ),
        )
    seconds = labels.get(_MAX_TIME)
    if isinstance(seconds, str) and not (seconds.isdigit() and int(seconds) > 0):
        yield (
            f"{_MAX_TIME} is {seconds!r}; expected a whole number of seconds above 0",
            'write seconds, such as "86400"',
            ("metadata", "labels", _MAX_TIME),
        )
