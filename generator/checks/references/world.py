"""The objects of one cluster, indexed the way the reference checks ask for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from generator.checks.pod_spec import pod_templates
from generator.checks.structure import Path
from generator.checks.subject import Subject
from generator.findings import Finding, Severity
from generator.self_hosted import CLAIM_PREFIX
from schemas.quantity import QuantityError, parse_quantity

Pair = tuple[Subject, Finding]
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
MTC_DRIVER = "multitier-checkpoint.csi.storage.gke.io"
WORKLOADS = ("JobSet", "Job")
MAX_NAMES_COMPARED = 200
"""Above this many objects of a kind no nearest spelling is looked for: it would be quadratic."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """One group of equal pods of a workload: what Kueue calls a pod set.

    Attributes:
        name: the replicated job's name.
        path: the pod template's path.
        template: the pod template.
        count: pods in all.
        parallelism: pods of one Job.
        least: pods in all without which Kueue admits nothing; fewer than ``count`` for a Job that
            takes part of its pods (``kueue.x-k8s.io/job-min-parallelism``).
        requests: what one pod asks for, by resource.
    """

    name: str
    path: Path
    template: Mapping[str, Any]
    count: int
    parallelism: int
    requests: Mapping[str, Decimal]
    least: int

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod spec."""
        spec = self.template.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def node_selector(self) -> dict[str, str]:
        """The pod's node selector."""
        selector = self.spec.get("nodeSelector")
        return {str(k): str(v) for k, v in selector.items()} if isinstance(selector, dict) else {}

    @property
    def mounts_checkpoints(self) -> bool:
        """Whether the pod has a multi-tier checkpointing volume."""
        return any(
            isinstance(volume, dict)
            and (
                (volume.get("csi") or {}).get("driver") == MTC_DRIVER
                or str((volume.get("persistentVolumeClaim") or {}).get("claimName", "")).startswith(
                    CLAIM_PREFIX
                )
            )
            for volume in self.spec.get("volumes") or []
        )


def amount(value: Any) -> Decimal | None:
    """The exact value of a quantity, None for what is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return None


def pod_requests(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """What one pod asks for: the sum over containers, or a larger init container.

    A limit counts where no request stands, as the API server defaults it.
    """
    total: dict[str, Decimal] = defaultdict(Decimal)
    for container in spec.get("containers") or []:
        for name, value in _container_requests(container).items():
            total[name] += value
    for container in spec.get("initContainers") or []:
        for name, value in _container_requests(container).items():
            total[name] = max(total[name], value)
    return dict(total)


def _container_requests(container: Any) -> dict[str, Decimal]:
    resources = container.get("resources") if isinstance(container, dict) else None
    out: dict[str, Decimal] = {}
    for side in ("limits", "requests"):
        entries = resources.get(side) if isinstance(resources, dict) else None
        for name, text in (entries or {}).items():
            value = amount(text)
            if value is not None:
                out[name] = value
    return out


def _count(value: Any, default: int = 1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def pod_sets(subject: Subject) -> list[PodSet]:
    """The pod sets of a JobSet or Job."""
    out = []
    for path, template in pod_templates(subject.body):
        spec = template.get("spec")
        requests = pod_requests(spec) if isinstance(spec, dict) else {}
        if subject.kind == "JobSet":
            job = subject.spec["replicatedJobs"][path[2]]
            inner = job["template"]["spec"]
            replicas, name = _count(job.get("replicas")), job.get("name")
        else:
            inner, replicas, name = subject.spec, 1, "main"
        parallelism = _count(inner.get("parallelism"))
        pods = min(parallelism, _count(inner.get("completions"), parallelism))
        least = min(pods, _least(subject, pods))
        out.append(
            PodSet(
                str(name), path, template, replicas * pods, parallelism, requests, replicas * least
            )
        )
    return out


def _least(subject: Subject, pods: int) -> int:
    text = subject.annotations.get(MIN_PARALLELISM) if subject.kind == "Job" else None
    return int(text) if isinstance(text, str) and text.isdecimal() else pods


@dataclass(frozen=True)
class World:
    """Everything known of one cluster."""

    subjects: tuple[Subject, ...]
    facts: Mapping[str, Any]
    complete: bool
    by_kind: Mapping[str, Mapping[tuple[str, str], Subject]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, subjects: Iterable[Subject], facts: Mapping[str, Any] | None, complete: bool
    ) -> World:
        """Index the objects of a cluster."""
        kept = tuple(subject for subject in subjects if subject.kind)
        index: dict[str, dict[tuple[str, str], Subject]] = defaultdict(dict)
        for subject in kept:
            if subject.name:
                index[subject.kind].setdefault((_namespace(subject), subject.name), subject)
        spec = (facts or {}).get("spec")
        return cls(kept, spec if isinstance(spec, dict) else {}, complete, index)

    def all(self, kind: str) -> Iterable[Subject]:
        """Every object of a kind."""
        return self.by_kind.get(kind, {}).values()

    def find(self, kind: str, name: str, namespace: str = "") -> Subject | None:
        """An object by kind and name; namespaced kinds also by namespace."""
        return self.by_kind.get(kind, {}).get((namespace, name))

    def names(self, kind: str) -> list[str]:
        """The names of a kind's objects, sorted."""
        return sorted({name for _, name in self.by_kind.get(kind, {})})

    def nearest(self, kind: str, name: str) -> list[str]:
        """The name of this kind that is spelled most alike; none among very many objects."""
        key = (kind, name)
        if key not in self._nearest:
            names = self.names(kind)
            few = len(names) <= MAX_NAMES_COMPARED
            self._nearest[key] = get_close_matches(name, names, 1, 0.6) if few else []
        return self._nearest[key]

    @cached_property
    def _nearest(self) -> dict[tuple[str, str], list[str]]:
        return {}

    @cached_property
    def pools(self) -> list[Mapping[str, Any]]:
        """The node pools of the cluster's facts."""
        return [pool for pool in self.facts.get("nodePools") or [] if isinstance(pool, dict)]

    @cached_property
    def workloads(self) -> list[tuple[Subject, list[PodSet]]]:
        """Every JobSet and Job with its pod sets."""
        return [(s, pod_sets(s)) for kind in WORKLOADS for s in self.all(kind)]

    def queue_of(self, workload: Subject) -> Subject | None:
        """The ClusterQueue that a workload is meant for, if both queues are known.

        A queue named by annotation is not read by Kueue, which a rule of its own says; the other
        checks still judge the job against the queue that its author had in mind.
        """
        name = workload.labels.get(QUEUE_NAME) or workload.annotations.get(QUEUE_NAME)
        local = self.find("LocalQueue", str(name), _namespace(workload))
        return self.find("ClusterQueue", str(local.spec.get("clusterQueue"))) if local else None

    def root_cohort(self, queue: Subject) -> str:
        """The cohort at the top of the tree that a queue or cohort stands in, empty for none."""
        name = queue.name if queue.kind == "Cohort" else cohort_name(queue)
        seen = set[str]()
        while name not in seen:
            seen.add(name)
            cohort = self.find("Cohort", name)
            parent = cohort.spec.get("parentName") or cohort.spec.get("parent") if cohort else None
            if not isinstance(parent, str):
                break
            name = parent
        return name

    def missing(
        self,
        rule: str,
        subject: Subject,
        path: Path,
        kind: str,
        name: str,
        effect: str,
        where: str = "",
    ) -> Pair:
        """Report a name that leads nowhere: an error where all objects are there, else a note."""
        near = self.nearest(kind, name)
        if self.complete:
            severity, message = Severity.ERROR, f"there is no {kind} {name!r}{where}: {effect}"
        else:
            severity = Severity.NOTE
            message = f"no {kind} {name!r}{where} among these files; without it, {effect}"
        if near:
            severity = Severity.ERROR if self.complete else Severity.WARNING
        fix = f"write {near[0]}" if near else f"add the {kind}, or name one that exists"
        return subject, Finding(rule, severity, message, fix, path=path)


def _namespace(subject: Subject) -> str:
    if subject.kind in _NAMESPACED:
        return subject.namespace or "default"
    return ""


namespace_of = _namespace

_NAMESPACED = frozenset(
    {"LocalQueue", "JobSet", "Job", "ServiceAccount", "Secret", "ConfigMap", "Pod", "Deployment"}
)


def groups(queue: Subject) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The resource groups of a ClusterQueue or Cohort with their paths."""
    for position, group in enumerate(queue.spec.get("resourceGroups") or []):
        if isinstance(group, dict):
            yield ("spec", "resourceGroups", position), group


def flavor_quotas(queue: Subject) -> Iterator[tuple[Path, str, str, Mapping[str, Any]]]:
    """Every ``(path, flavor, resource, quota)`` of a ClusterQueue or Cohort."""
    for path, group in groups(queue):
        for position, flavor in enumerate(group.get("flavors") or []):
            for index, quota in enumerate(flavor.get("resources") or []):
                yield (
                    (*path, "flavors", position, "resources", index),
                    str(flavor.get("name")),
                    str(quota.get("name")),
                    quota,
                )


def cohort_name(queue: Subject) -> str:
    """The cohort that a ClusterQueue belongs to, empty for none."""
    return str(queue.spec.get("cohortName") or queue.spec.get("cohort") or "")
