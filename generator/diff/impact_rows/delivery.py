"""Impact rows: what delivers the tree, and what no cluster reads."""

from __future__ import annotations

from generator.diff.impact_rows.row import ANY, COMES, GOES, IS_RECREATED, Row
from generator.diff.model import Impact, Verb

_FACTS = ("stowplan.dev", "Cluster")
_KCC_ROLE = ("iam.cnrm.cloud.google.com", "IAMPolicyMember")
_KCC = "docs.cloud.google.com/config-connector/docs/reference/resource-docs/iam/iampolicymember"
_FLUX = "fluxcd.io/flux/components/source/gitrepositories"
_ARGO_OPTIONS = "argo-cd.readthedocs.io/en/stable/user-guide/sync-options"
_ARGO_DELETE = "argo-cd.readthedocs.io/en/stable/user-guide/app_deletion"
_LOCAL = "stowplan: cluster.yaml and annotations of stowplan.dev are read by people and checks"

DELIVERY_ROWS = (
    *(
        Row(
            "argoproj.io",
            kind,
            "",
            Impact.RESTART,
            "with the resources finalizer everything that it synced is deleted too",
            _ARGO_DELETE,
            (Verb.DELETE, *IS_RECREATED),
        )
        for kind in ("Application", "ApplicationSet")
    ),
    Row("argoproj.io", ANY, "", Impact.LIVE, "Argo CD takes it over", _ARGO_OPTIONS),
    Row(
        "argoproj.io",
        ANY,
        "spec **",
        Impact.LIVE,
        "Argo CD takes it over at the next sync",
        _ARGO_OPTIONS,
    ),
    Row(
        "kustomize.toolkit.fluxcd.io",
        ANY,
        "",
        Impact.LIVE,
        "Flux takes it over",
        "fluxcd.io/flux/components/kustomize/kustomizations",
    ),
    Row(
        "kustomize.toolkit.fluxcd.io",
        ANY,
        "spec **",
        Impact.LIVE,
        "Flux takes it over at the next reconciliation",
        "fluxcd.io/flux/components/kustomize/kustomizations",
    ),
    *(
        Row("source.toolkit.fluxcd.io", ANY, path, Impact.LIVE, "Flux reads another source", _FLUX)
        for path in ("", "spec **")
    ),
    *(
        Row(
            "kustomize.config.k8s.io",
            ANY,
            path,
            Impact.NONE,
            "run by a person; nothing follows by itself",
            "stowplan bootstrap",
            when="bootstrap",
        )
        for path in ("", "**")
    ),
    Row(
        "kustomize.config.k8s.io",
        ANY,
        "",
        Impact.LIVE,
        "kustomize builds other objects; the files that it lists are shown on their own",
        "kubectl.docs.kubernetes.io/references/kustomize/kustomization",
    ),
    Row(
        "kustomize.config.k8s.io",
        ANY,
        "**",
        Impact.LIVE,
        "kustomize builds other objects; the files that it lists are shown on their own",
        "kubectl.docs.kubernetes.io/references/kustomize/kustomization",
    ),
    Row(*_KCC_ROLE, "", Impact.LIVE, "the role is granted where it is applied", _KCC, COMES),
    Row(*_KCC_ROLE, "", Impact.NONE, "abandoned: the role stays in the project", _KCC, GOES),
    Row(
        *_KCC_ROLE,
        "",
        Impact.LIVE,
        "another role is granted; the old one is abandoned and stays until somebody removes it",
        _KCC,
        IS_RECREATED,
    ),
    Row(
        *_KCC_ROLE,
        "spec **",
        Impact.BLOCKED,
        "updating spec is not allowed",
        _KCC,
        (Verb.CHANGE,),
    ),
    Row(*_FACTS, "", Impact.NONE, "facts for people and checks; not for a cluster", _LOCAL),
    Row(*_FACTS, "**", Impact.NONE, "facts for people and checks; not for a cluster", _LOCAL),
    *(
        Row(
            "",
            "File",
            path,
            Impact.LIVE,
            "a patch of a controller: its pods are rolled, training goes on",
            "kubernetes.io/docs/concepts/workloads/controllers",
            when="controllers",
        )
        for path in ("", "**")
    ),
    Row(
        "",
        "File",
        "",
        Impact.NONE,
        "run by a person; nothing follows by itself",
        "stowplan bootstrap",
        when="bootstrap",
    ),
    Row(
        "",
        "File",
        "**",
        Impact.NONE,
        "run by a person; nothing follows by itself",
        "stowplan bootstrap",
        when="bootstrap",
    ),
)
