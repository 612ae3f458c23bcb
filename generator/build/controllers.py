"""The JobSet controller's resources, as a kustomize component.

Source of the figures: GKE documentation, "Multi-Tier Checkpointing", deployment of the JobSet
controller; the controller ran out of memory at about a thousand nodes without them (xpk#475).
"""

from __future__ import annotations

from typing import Any

JOBSET_RESOURCES = {
    "limits": {"memory": "2Gi"},
    "requests": {"cpu": "1", "memory": "1Gi"},
}


def component() -> dict[str, Any]:
    """A component to be named in the kustomization that installs JobSet."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [
            {
                "path": "jobset-controller-resources.yaml",
                "target": {
                    "group": "apps",
                    "version": "v1",
                    "kind": "Deployment",
                    "name": "jobset-controller-manager",
                },
            }
        ],
    }


def jobset_patch() -> list[dict[str, Any]]:
    """The JSON patch of the documents: ``add`` also replaces what is there."""
    return [
        {
            "op": "add",
            "path": "/spec/template/spec/containers/0/resources",
            "value": JOBSET_RESOURCES,
        }
    ]
