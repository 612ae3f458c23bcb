"""Keys of the ConfigMap ``argocd-cm``: health, and types of fields.

Only keys of these kinds are written, so that a server-side apply leaves everybody else's alone.
"""

from __future__ import annotations

from typing import Any

from generator.build.metadata import MANAGED_BY
from generator.data.argocd import health_settings
from generator.emit_yaml import dump_list

_QUOTA = "spec.resourceGroups.flavors.resources"
KNOWN_TYPES = {
    "jobset.x-k8s.io_JobSet": {
        "spec.replicatedJobs.template.spec.template.spec": "core/v1/PodSpec",
    },
    "kueue.x-k8s.io_ClusterQueue": {
        f"{_QUOTA}.borrowingLimit": "core/Quantity",
        f"{_QUOTA}.lendingLimit": "core/Quantity",
        f"{_QUOTA}.nominalQuota": "core/Quantity",
    },
}
"""``<group>_<Kind>`` → field → type, so that ``12`` and ``12000m`` are the same quantity
(argo-cd ``docs/user-guide/diffing.md``, known Kubernetes types in CRDs)."""


def settings() -> dict[str, Any]:
    """The ConfigMap with our keys only."""
    types = {
        f"resource.customizations.knownTypeFields.{kind}": dump_list(
            [{"field": field, "type": name} for field, name in fields.items()]
        )
        for kind, fields in KNOWN_TYPES.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-cm",
            "labels": {**MANAGED_BY, "app.kubernetes.io/part-of": "argocd"},
        },
        "data": dict(sorted({**health_settings(), **types}.items())),
    }
