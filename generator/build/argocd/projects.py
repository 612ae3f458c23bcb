"""AppProject: what an environment's Applications may touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generator.build.metadata import MANAGED_BY
from generator.gitops import Member

KUEUE = "kueue.x-k8s.io"
CLUSTER_KINDS = (
    ("", "Namespace"),
    ("checkpointing.gke.io", "CheckpointConfiguration"),
    (KUEUE, "AdmissionCheck"),
    (KUEUE, "ClusterQueue"),
    (KUEUE, "Cohort"),
    (KUEUE, "ResourceFlavor"),
    (KUEUE, "Topology"),
    (KUEUE, "WorkloadPriorityClass"),
    ("scheduling.k8s.io", "PriorityClass"),
)
NAMESPACED_KINDS = (
    ("", "ServiceAccount"),
    ("batch", "CronJob"),
    ("jobset.x-k8s.io", "JobSet"),
    (KUEUE, "LocalQueue"),
)
"""What stowplan makes, whether or not the fleet has one today: a kind that leaves the list cannot
be pruned any more, so the last object of a kind would stay in the cluster for good."""

NAMESPACES = "!{kube-*,gke-*,gmp-*}"
"""Every namespace but the platform's own. One pattern: beside another entry a negated one would
allow what it does not name (argo-cd v3.2 ``AppProject.isDestinationMatched``)."""


def project_name(environment: str) -> str:
    """The project's name; never Argo CD's own ``default``."""
    return f"fleet-{environment}"


def project(environment: str, members: Sequence[Member]) -> dict[str, Any]:
    """The AppProject of one environment."""
    used = {kind for member in members for kind in member.kinds}
    scopes = {
        namespaced: sorted({*fixed, *((g, k) for g, k, n in used if n is namespaced)})
        for namespaced, fixed in ((False, CLUSTER_KINDS), (True, NAMESPACED_KINDS))
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": project_name(environment), "labels": MANAGED_BY},
        "spec": {
            "description": f"Training clusters of environment {environment}",
            "sourceRepos": [members[0].repo_url],
            "destinations": [
                {"name": name, "namespace": NAMESPACES}
                for name in sorted(member.cluster for member in members)
            ],
            "clusterResourceWhitelist": _group_kinds(scopes[False]),
            "namespaceResourceWhitelist": _group_kinds(scopes[True]),
        },
    }


def _group_kinds(kinds: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"group": group, "kind": kind} for group, kind in kinds]
