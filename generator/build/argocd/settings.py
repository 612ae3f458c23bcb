"""Keys of the ConfigMap ``argocd-cm``: health, and types of fields.

Only keys of these two kinds are written, so that a server-side apply leaves everybody else's alone.
"""

from __future__ import annotations

from typing import Any

from generator.build.metadata import MANAGED_BY
from generator.data.argocd import health_settings, known_type_settings


def settings() -> dict[str, Any]:
    """The ConfigMap with our keys only."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-cm",
            "labels": {**MANAGED_BY, "app.kubernetes.io/part-of": "argocd"},
        },
        "data": dict(sorted({**health_settings(), **known_type_settings()}.items())),
    }
