"""What JobSet's admission webhook refuses beyond the CRD; see :mod:`generator.checks.webhooks`.

Source: JobSet 0.8 to 0.12, ``pkg/webhooks/jobset_webhook.go`` (feature gates at their defaults).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.structure import Path
from schemas.names import dns_label_problem, dns_subdomain_problem

Fault = tuple[str, str, Path]
Object = Mapping[str, Any]

MAX_INT32 = 2**31 - 1
NAME_LIMIT = 63
POD_SUFFIX = 6
"""``-abcde``: what the Job controller appends to a pod's name."""

RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
RULE_NAME_LIMIT = 128
FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
ALPHA_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")


def _spec(document: Object) -> Object:
    spec = document.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _jobs(document: Object) -> list[Object]:
    return list(_spec(document).get("replicatedJobs") or [])


def _job_spec(job: Object) -> Object:
    return ((job.get("template") or {}).get("spec")) or {}


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def name_budget(replicated_job: str, replicas: int, completions: int | None) -> int:
    """The most characters that a JobSet's name may have for one of its replicated jobs.

    Args:
        replicated_job: the replicated job's name.
        replicas: its number of Jobs.
        completions: pods of each Job; None leaves only the Job's own name to fit.
    """
    budget = NAME_LIMIT - len(replicated_job) - 2 - len(str(max(replicas - 1, 0)))
    if completions is not None:
        budget -= 1 + len(str(max(completions - 1, 0))) + POD_SUFFIX
    return budget


def names(document: Object, _: str) -> Iterator[Fault]:
    """Names of Jobs and pods that the controller makes must be DNS labels of 63 characters."""
    name = str((document.get("metadata") or {}).get("name", ""))
    for position, job in enumerate(_jobs(document)):
        path: Path = ("spec", "replicatedJobs", position)
        job_name = str(job.get("name", ""))
        spec = _job_spec(job)
        replicas = _number(job.get("replicas"), 1)
        indexed = spec.get("completionMode", "Indexed") == "Indexed"
        completions = _number(spec.get("completions"), 0) or None if indexed else None
        budget = name_budget(job_name, replicas, completions)
        if len(name) > budget:
            yield (
                f"the name {name!r} has {len(name)} characters; pods of {job_name!r} leave room "
                f"for {budget}",
                f"shorten the JobSet's name to {budget} characters",
                ("metadata", "name"),
            )
        problem = dns_label_problem(f"{name}-{job_name}"[:NAME_LIMIT], starts_with_letter=True)
        if name and problem and len(name) <= budget:
            yield (
                f"Jobs named {name}-{job_name}-… cannot exist: such a name {problem}",
                "start the JobSet's name with a letter and use only a-z, 0-9 and '-'",
                ("metadata", "name"),
            )
        if replicas * _number(spec.get("parallelism"), 1) > MAX_INT32:
            yield "replicas x parallelism is above 2147483647", "lower them", (*path, "replicas")
        group = job.get("groupName")
        if group and (problem := dns_label_problem(str(group), starts_with_letter=True)):
            yield f"groupName {group!r} {problem}", "rename it", (*path, "groupName")


def gates(document: Object, _: str) -> Iterator[Fault]:
    """Alpha features are off unless the controller was started with their gate."""
    policy = _spec(document).get("failurePolicy") or {}
    if policy.get("restartStrategy") == "InPlaceRestart":
        yield (
            "restartStrategy InPlaceRestart is behind an alpha feature gate that is off",
            "write BlockingRecreate",
            ("spec", "failurePolicy", "restartStrategy"),
        )
    for position, rule in enumerate(policy.get("rules") or []):
        if rule.get("action") in ALPHA_ACTIONS:
            yield (
                f"the action {rule['action']} is behind an alpha feature gate that is off",
                "write RestartJobSet",
                ("spec", "failurePolicy", "rules", position, "action"),
            )


def network(document: Object, _: str) -> Iterator[Fault]:
    """The subdomain is also a Service's name."""
    subdomain = (_spec(document).get("network") or {}).get("subdomain")
    if subdomain and (problem := dns_label_problem(str(subdomain), starts_with_letter=True)):
        yield (
            f"network.subdomain {subdomain!r} {problem}",
            "rename it",
            (
                "spec",
                "network",
                "subdomain",
            ),
        )


def managed_by(document: Object, _: str) -> Iterator[Fault]:
    """``managedBy`` is a domain-prefixed path."""
    manager = _spec(document).get("managedBy")
    if not isinstance(manager, str):
        return
    domain, slash, name = manager.partition("/")
    if not slash or not name or dns_subdomain_problem(domain) or len(manager) > NAME_LIMIT:
        yield (
            f"managedBy {manager!r} is no domain-prefixed path of at most {NAME_LIMIT} characters",
            "remove it, or write a path such as kueue.x-k8s.io/multikueue",
            ("spec", "managedBy"),
        )


def depends_on(document: Object, _: str) -> Iterator[Fault]:
    """A replicated job depends only on earlier ones."""
    earlier: set[str] = set()
    for position, job in enumerate(_jobs(document)):
        # An empty list is refused as well: the webhook asks whether the field is there.
        if position == 0 and job.get("dependsOn") is not None:
            yield (
                "dependsOn cannot be set for the first replicated job",
                "depend the later job on the earlier one",
                ("spec", "replicatedJobs", 0, "dependsOn"),
            )
        # The webhook lets a job name itself: it adds the name before it looks.
        earlier.add(str(job.get("name")))
        if position == 0:
            continue
        for index, dependency in enumerate(job.get("dependsOn") or []):
            if dependency.get("name") not in earlier:
                yield (
                    f"{job.get('name')} depends on {dependency.get('name')}, which does not stand "
                    "before it",
                    "depend on an earlier replicated job",
                    ("spec", "replicatedJobs", position, "dependsOn", index, "name"),
                )


def pod_templates(document: Object, _: str) -> Iterator[Fault]:
    """Every replicated job has a pod spec.

    The CRD requires none, but the mutating webhook decodes and encodes the object, which writes
    ``containers: null`` where there is no pod spec, and that the CRD refuses.
    """
    for position, job in enumerate(_jobs(document)):
        value: Any = job
        for key in ("template", "spec", "template", "spec"):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            yield (
                "the job has no pod: template.spec.template.spec is missing",
                "add template.spec.template.spec with its containers",
                ("spec", "replicatedJobs", position, "template"),
            )


def targets(document: Object, _: str) -> Iterator[Fault]:
    """Policies name replicated jobs that exist."""
    known = {str(job.get("name")) for job in _jobs(document)}
    spec = _spec(document)
    places: list[tuple[Path, Object]] = [
        (("spec", "successPolicy"), spec.get("successPolicy") or {})
    ]
    rules = (spec.get("failurePolicy") or {}).get("rules") or []
    places += [(("spec", "failurePolicy", "rules", n), rule) for n, rule in enumerate(rules)]
    for path, holder in places:
        for index, name in enumerate(holder.get("targetReplicatedJobs") or []):
            if name not in known:
                yield (
                    f"there is no replicated job {name!r}",
                    f"name one of {', '.join(sorted(known))}",
                    (*path, "targetReplicatedJobs", index),
                )


def failure_rules(document: Object, _: str) -> Iterator[Fault]:
    """Names of failure rules are unique and well formed; reasons are the Job controller's."""
    rules = (_spec(document).get("failurePolicy") or {}).get("rules") or []
    seen: set[str] = set()
    for position, rule in enumerate(rules):
        path: Path = ("spec", "failurePolicy", "rules", position)
        name = rule.get("name") or f"failurePolicyRule{position}"
        if len(name) > RULE_NAME_LIMIT or not RULE_NAME.fullmatch(name):
            yield (
                f"the failure rule name {name!r} must start with a letter and hold only letters, "
                f"digits, '_', ',' and ':', at most {RULE_NAME_LIMIT} characters",
                f"write {re.sub(r'[^A-Za-z0-9_]', '_', name)}",
                (*path, "name"),
            )
        if name in seen:
            yield f"two failure rules are called {name!r}", "rename one", (*path, "name")
        seen.add(name)
        for index, reason in enumerate(rule.get("onJobFailureReasons") or []):
            if reason not in FAILURE_REASONS:
                yield (
                    f"{reason!r} is no reason that a Job fails with",
                    f"write one of {', '.join(FAILURE_REASONS)}",
                    (*path, "onJobFailureReasons", index),
                )


def coordinator(document: Object, _: str) -> Iterator[Fault]:
    """The coordinator is a pod that exists, and its address fits a label."""
    spec = _spec(document)
    chosen = spec.get("coordinator")
    if not isinstance(chosen, Mapping):
        return
    path: Path = ("spec", "coordinator")
    jobs = {str(job.get("name")): job for job in _jobs(document)}
    job = jobs.get(str(chosen.get("replicatedJob")))
    if job is None:
        yield (
            f"the coordinator's replicated job {chosen.get('replicatedJob')!r} does not exist",
            f"name one of {', '.join(sorted(jobs))}",
            (*path, "replicatedJob"),
        )
        return
    inner = _job_spec(job)
    completions = inner.get("completions")
    job_index, pod_index = chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    if not 0 <= job_index < _number(job.get("replicas"), 1):
        yield (
            f"there is no Job {job_index} in {job.get('name')}",
            "lower jobIndex",
            (
                *path,
                "jobIndex",
            ),
        )
    if inner.get("completionMode", "Indexed") != "Indexed" or completions is None:
        yield "the coordinator's Job must be Indexed with completions set", "set completions", path
        return
    if not 0 <= pod_index < completions:
        yield (
            f"there is no pod {pod_index} in {job.get('name')}",
            "lower podIndex",
            (
                *path,
                "podIndex",
            ),
        )
    name = str((document.get("metadata") or {}).get("name", ""))
    subdomain = (spec.get("network") or {}).get("subdomain") or name
    address = f"{name}-{job.get('name')}-{job_index}-{pod_index}.{subdomain}"
    if len(address) > NAME_LIMIT:
        yield (
            f"the coordinator's address {address} has {len(address)} characters; as a label it may "
            f"have {NAME_LIMIT}",
            "shorten the JobSet's name or set a short network.subdomain",
            ("metadata", "name"),
        )


def volume_claims(document: Object, _: str) -> Iterator[Fault]:
    """Claim templates have their own names, fit a PVC's name, and are mounted."""
    name = str((document.get("metadata") or {}).get("name", ""))
    pods = [((_job_spec(j).get("template") or {}).get("spec")) or {} for j in _jobs(document)]
    mounted = {
        mount.get("name")
        for pod in pods
        for field in ("initContainers", "containers")
        for container in pod.get(field) or []
        for mount in container.get("volumeMounts") or []
    }
    volumes = {volume.get("name") for pod in pods for volume in pod.get("volumes") or []}
    seen: set[str] = set()
    for number, policy in enumerate(_spec(document).get("volumeClaimPolicies") or []):
        for position, template in enumerate(policy.get("templates") or []):
            path: Path = ("spec", "volumeClaimPolicies", number, "templates", position)
            claim = str((template.get("metadata") or {}).get("name", ""))
            if claim in seen:
                yield f"two claim templates are called {claim!r}", "rename one", path
            seen.add(claim)
            if problem := dns_subdomain_problem(claim):
                yield f"the claim name {claim!r} {problem}", "rename it", path
            if len(claim) + 1 + len(name) > NAME_LIMIT:
                yield f"the PVC name {claim}-{name} is too long", "shorten the claim's name", path
            if claim in volumes:
                yield f"a volume of a pod is already called {claim!r}", "rename one", path
            if claim not in mounted:
                yield f"no container mounts the claim {claim!r}", "add a volumeMount", path
