"""What Argo CD must be told of the kinds that it does not know: health, and which fields others
write.

Argo CD ships no health check for JobSet, Kueue and CheckpointConfiguration. The Lua below runs in
its sandbox, which is Lua 5.1 with the base and table libraries only: ``string`` is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

HEALTH = {
    "jobset.x-k8s.io_JobSet": "jobset.lua",
    "kueue.x-k8s.io_ClusterQueue": "queue.lua",
    "kueue.x-k8s.io_LocalQueue": "queue.lua",
    "checkpointing.gke.io_CheckpointConfiguration": "checkpointconfiguration.lua",
}
"""``<group>_<Kind>``, as Argo CD writes it in a key → script."""


def health_script(kind: str) -> str:
    """Return the Lua that judges the health of a kind of :data:`HEALTH`."""
    return resources.files(__package__).joinpath("health", HEALTH[kind]).read_text("utf-8")


def health_settings() -> dict[str, str]:
    """Return the keys and values for the ConfigMap ``argocd-cm``, in a fixed order.

    Source: ``argo-cd/docs/operator-manual/health.md``,
    ``resource.customizations.health.<group>_<kind>``.
    """
    return {
        f"resource.customizations.health.{kind}": health_script(kind) for kind in sorted(HEALTH)
    }


_KUEUE_OWN = 'objects | .[keys[] | select(startswith("kueue.x-k8s.io/"))]'
_TEMPLATE = ".spec.replicatedJobs[]?.template.spec.template"


@dataclass(frozen=True, slots=True)
class IgnoredFields:
    """Fields that a controller writes, so that they are no difference from Git.

    Attributes:
        group: API group.
        kind: kind.
        expressions: jq path expressions, as Argo CD deletes them from both sides.
        why: who writes them.
        source: where that is to be seen.
    """

    group: str
    kind: str
    expressions: tuple[str, ...]
    why: str
    source: str


IGNORED = (
    IgnoredFields(
        "jobset.x-k8s.io",
        "JobSet",
        (".spec.suspend", ".spec.managedBy"),
        "Kueue's webhook suspends a JobSet on creation, and admission resumes it",
        "kubernetes-sigs/kueue pkg/controller/jobs/jobset/jobset_webhook.go",
    ),
    IgnoredFields(
        "jobset.x-k8s.io",
        "JobSet",
        (
            f"{_TEMPLATE}.metadata.labels | {_KUEUE_OWN}",
            f"{_TEMPLATE}.metadata.annotations | {_KUEUE_OWN}",
            f"{_TEMPLATE}.spec.nodeSelector",
            f"{_TEMPLATE}.spec.tolerations",
            f"{_TEMPLATE}.spec.schedulingGates",
        ),
        "admission puts the flavor's labels and tolerations and Kueue's own keys into the template",
        "kubernetes-sigs/kueue pkg/podset/podset.go (Merge)",
    ),
)
"""What Kueue writes into a JobSet. Of labels and annotations only Kueue's keys are ignored, so that
an edit of others still shows; the selector is one value to server-side apply and goes whole."""

KNOWN_TYPES = {
    "kueue.x-k8s.io_ClusterQueue": tuple(
        (f"spec.resourceGroups.flavors.resources.{name}", "core/Quantity")
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit")
    ),
    "jobset.x-k8s.io_JobSet": (
        ("spec.replicatedJobs.template.spec.template.spec", "core/v1/PodSpec"),
    ),
}
"""``<group>_<Kind>`` → field and Go type, by which Argo CD calls ``12`` and ``12000m`` equal.

Source: ``argo-cd/util/argo/normalizers/knowntypes_normalizer.go``, which walks into lists."""


def ignore_differences() -> list[dict[str, Any]]:
    """Return ``spec.ignoreDifferences`` of an Application, one entry per kind.

    The sync option ``RespectIgnoreDifferences=true`` belongs to it: without that a sync would
    write over what it was told to ignore.
    """
    entries: dict[tuple[str, str], list[str]] = {}
    for row in IGNORED:
        entries.setdefault((row.group, row.kind), []).extend(row.expressions)
    return [
        {"group": group, "kind": kind, "jqPathExpressions": expressions}
        for (group, kind), expressions in entries.items()
    ]


def known_type_settings() -> dict[str, str]:
    """Return the keys and values for the ConfigMap ``argocd-cm``, in a fixed order."""
    return {
        f"resource.customizations.knownTypeFields.{kind}": "".join(
            f"- field: {path}\n  type: {type_}\n" for path, type_ in KNOWN_TYPES[kind]
        )
        for kind in sorted(KNOWN_TYPES)
    }
