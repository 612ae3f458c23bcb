"""What the whole fleet's objects need to know of each cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from generator.fleet import Fleet
from generator.manifest import LAYERS, Manifest


@dataclass(frozen=True)
class Member:
    """One cluster of the fleet, as Argo CD's objects speak of it.

    Attributes:
        cluster: its name, which is also its name in Argo CD.
        environment: the environment, one Argo CD project each.
        repo_url: the repository that holds the compiled tree.
        revision: what is synced of it.
        path: the compiled tree's folder in it.
        argocd_namespace: where Argo CD runs.
        layers: layers that have files.
        kinds: (group, kind, namespaced) of its objects, sorted.
    """

    cluster: str
    environment: str
    repo_url: str
    revision: str
    path: str
    argocd_namespace: str
    layers: tuple[str, ...]
    kinds: tuple[tuple[str, str, bool], ...]

    def to_row(self) -> dict[str, Any]:
        """Plain values, for the memory of earlier runs."""
        return {**vars(self), "layers": list(self.layers), "kinds": [list(k) for k in self.kinds]}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Member:
        """The inverse of :meth:`to_row`.

        Raises:
            KeyError, TypeError: the row is of another version.
        """
        kinds = tuple((str(g), str(k), bool(n)) for g, k, n in row["kinds"])
        return cls(**{**row, "layers": tuple(row["layers"]), "kinds": kinds})


def member(fleet: Fleet, manifests: Iterable[Manifest]) -> Member | None:
    """A cluster's entry; None where Argo CD does not sync it."""
    gitops = fleet.spec.gitops
    if gitops is None or gitops.tool != "argocd":
        return None
    objects = list(manifests)
    used = {manifest.layer for manifest in objects}
    kinds = {(group_of(m.body["apiVersion"]), m.kind, bool(m.namespace)) for m in objects}
    return Member(
        cluster=fleet.spec.cluster.name,
        environment=fleet.spec.cluster.environment,
        repo_url=gitops.repo_url,
        revision=gitops.revision,
        path=gitops.path,
        argocd_namespace=gitops.argocd_namespace,
        layers=tuple(layer for layer in LAYERS if layer in used),
        kinds=tuple(sorted(kinds)),
    )


def group_of(api_version: str) -> str:
    """The API group, empty for the core group."""
    return api_version.rpartition("/")[0]
