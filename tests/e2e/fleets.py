"""The compiled clusters that the control plane judges, and the versions each asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .controlplane.client import Manifest, read_manifest

ROOT = Path(__file__).parents[2]
COMPILED = ROOT / "compiled"
FIXTURES = Path(__file__).parent / "fixtures"

#: The order in which a GitOps controller syncs the layers.
LAYERS = ("queueing", "checkpointing", "workloads")
NOT_RESOURCES = {"kustomization.yaml"}


@dataclass(frozen=True)
class CompiledCluster:
    """One folder of manifests, one file a resource."""

    name: str
    folder: Path
    kueue: str
    jobset: str

    def files(self) -> list[Path]:
        """Resource files in the order of application; within a layer by name."""
        return [
            path
            for layer in LAYERS
            for path in sorted((self.folder / layer).glob("*.yaml"))
            if path.name not in NOT_RESOURCES
        ]

    def manifests(self) -> list[Manifest]:
        return [read_manifest(path) for path in self.files()]


def cluster_versions(folder: Path) -> tuple[str, str]:
    """Versions of Kueue and JobSet that a compiled cluster asks for, from its README.

    Raises:
        ValueError: the README states none.
    """
    readme = folder / "README.md"
    text = readme.read_text()
    found = [re.search(rf"{product}\W+v?(\d+\.\d+\.\d+)", text) for product in ("Kueue", "JobSet")]
    if None in found:
        raise ValueError(f"{readme}: versions of Kueue and JobSet expected in its first lines")
    kueue, jobset = (match.group(1) for match in found if match)
    return f"v{kueue}", f"v{jobset}"


def example_clusters() -> list[CompiledCluster]:
    """The clusters of ``compiled/``."""
    return [
        CompiledCluster(folder.name, folder, *cluster_versions(folder))
        for folder in sorted(COMPILED.glob("*"))
        if (folder / "README.md").exists()
    ]


#: The documents' fleet, corrected: fixed manifests that do not move with the generator.
DOCUMENT_FLEETS = (
    CompiledCluster("documents-v1beta1", FIXTURES / "fleet-v1beta1", "v0.16.2", "v0.10.1"),
    CompiledCluster("documents-v1beta2", FIXTURES / "fleet-v1beta2", "v0.19.2", "v0.12.0"),
)
