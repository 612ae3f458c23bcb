"""ApplicationSet: one Application for each layer of each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generator.build.argocd.projects import project_name
from generator.build.metadata import MANAGED_BY
from generator.data.argocd import ignore_differences
from generator.gitops import Member

SYNC_OPTIONS = (
    "ApplyOutOfSyncOnly=true",
    "FailOnSharedResource=true",
    "PrunePropagationPolicy=foreground",
    "RespectIgnoreDifferences=true",
    "ServerSideApply=true",
    "SkipDryRunOnMissingResource=true",
)
"""Never ``Replace`` or ``Force``: both make a running JobSet anew at every sync."""

APPROVAL = "argocd.argoproj.io/deletion-approved"
"""What a person puts on an Application to approve a prune. The ApplicationSet's controller takes
away annotations of Applications that it does not know of, so it is told to keep this one."""


def application_set(environment: str, members: Sequence[Member]) -> dict[str, Any]:
    """The ApplicationSet of one environment."""
    first = members[0]
    directories = [
        {"path": f"{first.path}/{member.cluster}/{layer}"}
        for member in sorted(members, key=lambda member: member.cluster)
        for layer in member.layers
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": project_name(environment), "labels": MANAGED_BY},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [
                {
                    "git": {
                        "repoURL": first.repo_url,
                        "revision": first.revision,
                        "directories": directories,
                    }
                }
            ],
            "syncPolicy": {
                "applicationsSync": "create-update",
                "preserveResourcesOnDeletion": True,
            },
            "preservedFields": {"annotations": [APPROVAL]},
            "template": _application(environment, first),
        },
    }


def _application(environment: str, member: Member) -> dict[str, Any]:
    cluster = f"{{{{ index .path.segments {len(member.path.split('/'))} }}}}"
    layer = "{{ .path.basename }}"
    return {
        "metadata": {
            "name": f"{cluster}-{layer}",
            "labels": {
                **MANAGED_BY,
                "stowplan.dev/cluster": cluster,
                "stowplan.dev/environment": environment,
                "stowplan.dev/layer": layer,
            },
            "annotations": {"argocd.argoproj.io/compare-options": "ServerSideDiff=true"},
        },
        "spec": {
            "project": project_name(environment),
            "source": {
                "repoURL": member.repo_url,
                "targetRevision": member.revision,
                "path": "{{ .path.path }}",
            },
            "destination": {"name": cluster},
            "ignoreDifferences": ignore_differences(),
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True, "allowEmpty": False},
                "syncOptions": list(SYNC_OPTIONS),
                "retry": {
                    "limit": 10,
                    # Else the commit that mends a refused one waits for all retries of that one.
                    "refresh": True,
                    "backoff": {"duration": "10s", "factor": 2, "maxDuration": "5m"},
                },
            },
        },
    }
