"""The compiled clusters that the control plane judges, and the versions each asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .controlplane.client import Manifest, read_manifest

ROOT = Path(__file__).parents[2]
COMPILED = ROOT / "compiled"

#: The order in which a GitOps controller syncs the layers.
LAYERS = ("queueing", "checkpointing", "workloads")
NOT_RESOURCES = {"kustomization.yaml"}
#: What a compiled cluster says about itself; not for the API server.
DESCRIPTION = "cluster.yaml"


@dataclass(frozen=True)
class CompiledCluster:
    """One folder of manifests, one file a resource."""

    name: str
    folder: Path
    kueue: str
    jobset: str

    def files(self) -> list[Path]:
        """Resource files in the order of application; namespaces first within a layer."""
        return [
            path
            for layer in LAYERS
            for path in sorted((self.folder / layer).glob("*.yaml"), key=_rank)
            if path.name not in NOT_RESOURCES
        ]

    def manifests(self) -> list[Manifest]:
        return [read_manifest(path) for path in self.files()]


def cluster_versions(folder: Path) -> tuple[str, str]:
    """Versions of Kueue and JobSet that a compiled cluster asks for, from its ``cluster.yaml``."""
    versions = read_manifest(folder / DESCRIPTION)["spec"]["versions"]
    return f"v{versions['kueue']}", f"v{versions['jobset']}"


def example_clusters() -> list[CompiledCluster]:
    """The clusters of ``compiled/``."""
    return [
        CompiledCluster(folder.name, folder, *cluster_versions(folder))
        for folder in sorted(COMPILED.glob("*"))
        if (folder / DESCRIPTION).exists()
    ]


def example_cluster(name: str) -> CompiledCluster:
    """One cluster of ``compiled/``.

    Raises:
        LookupError: there is none of that name.
    """
    for cluster in example_clusters():
        if cluster.name == name:
            return cluster
    raise LookupError(f"no cluster {name} in {COMPILED}; run make compile")


def _rank(path: Path) -> tuple[bool, str]:
    return not path.name.startswith("namespace-"), path.name
