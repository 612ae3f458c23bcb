"""Write a synthetic fleet: the example fleet's classes, and as many clusters as wanted.

    python -m benchmarks.compile.synthetic_fleet DIR CLUSTERS

Clusters take turns among the example fleet's targets, so each has about 15 manifests, real
inheritance and references. The tree serves ``stowplan compile`` and ``kapitan compile`` alike.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def write(folder: Path, clusters: int) -> None:
    """Write the tree; the folder must not hold one yet."""
    shutil.copytree(REPOSITORY / "inventory" / "classes", folder / "inventory" / "classes")
    targets = folder / "inventory" / "targets"
    targets.mkdir(parents=True)
    # argocd.yml is no cluster: Kapitan's target for the fleet's own objects.
    models = sorted(
        path
        for path in (REPOSITORY / "inventory" / "targets").glob("*.yml")
        if path.stem != "argocd"
    )
    for index in range(clusters):
        model = models[index % len(models)]
        name = f"{model.stem}-{index:04}"
        targets.joinpath(f"{name}.yml").write_text(
            model.read_text().replace("us-east5-b", "us-east5-a" if index % 2 else "us-east5-b")
        )
    # Kapitan looks for its component in the tree.
    for package in ("generator", "schemas", "policies"):
        folder.joinpath(package).symlink_to(REPOSITORY / package)
    shutil.copy(REPOSITORY / ".kapitan", folder / ".kapitan")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
