"""What Argo CD must be told of the kinds that it does not know: health, and which fields others
write.

Argo CD ships no health check for JobSet, Kueue and CheckpointConfiguration. The Lua below runs in
its sandbox, which is Lua 5.1 with the base and table libraries only: ``string`` is not there.
"""

from __future__ import annotations

from importlib import resources

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
