"""PriorityClass and Kueue's WorkloadPriorityClass."""

from __future__ import annotations

from typing import Literal

from schemas.manifests.base import KubernetesObject


class PriorityClass(KubernetesObject):
    """A pod priority class.

    ``globalDefault`` is written only when it is true: the API server drops ``false``, so that a
    client-side apply of a written ``false`` changes the object for ever.
    """

    api_version: Literal["scheduling.k8s.io/v1"] = "scheduling.k8s.io/v1"
    kind: Literal["PriorityClass"] = "PriorityClass"
    value: int
    global_default: Literal[True] | None = None
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    description: str | None = None


class WorkloadPriorityClass(KubernetesObject):
    """A queue priority class; ``value`` stands at the top, not in a spec."""

    kind: Literal["WorkloadPriorityClass"] = "WorkloadPriorityClass"
    value: int
    description: str | None = None
