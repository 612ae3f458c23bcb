"""Take the upstream schemas into ``schemas/upstream/originals``.

Run by hand when a version is added: ``python -m schemas.kinds.vendor --kubernetes DIR``. Sources
are the Go module cache (``go mod download``, whose checksums Go verifies) for Kueue, JobSet and
Argo CD, a checkout for CheckpointConfiguration, and the data of the ``kubernetes-validate`` wheel
for the core kinds. Descriptions are dropped, nothing else is changed; ``sources.json`` records
where each file came from, its licence and its digest.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from schemas.kinds.convert import closure
from schemas.kinds.core import CORE_GROUPS, NOT_MANIFESTS
from schemas.versions import (
    ARGOCD_VERSION,
    JOBSET_VERSIONS,
    KUBERNETES_MINORS,
    KUEUE_VERSIONS,
)

UPSTREAM = Path(__file__).resolve().parent.parent / "upstream"
ORIGINALS = UPSTREAM / "originals"
CHECKPOINT_COMMIT = "e750704a82ffb203e5e1d9e94758dbe148a9af6e"
CHECKPOINT_FILE = "crd/checkpointconfiguration.yaml"
MODULES = {
    "kueue": ("sigs.k8s.io/kueue", "config/components/crd/bases/*.yaml"),
    "jobset": ("sigs.k8s.io/jobset", "config/components/crd/bases/*.yaml"),
    "argocd": ("github.com/argoproj/argo-cd/v3", "manifests/crds/*-crd.yaml"),
}


def without_descriptions(value: Any) -> Any:
    """Drop ``description`` texts; a property of that name is a mapping and stays."""
    if isinstance(value, dict):
        return {
            key: without_descriptions(child)
            for key, child in value.items()
            if not (key == "description" and isinstance(child, str))
        }
    return [without_descriptions(child) for child in value] if isinstance(value, list) else value


def pack(value: Any) -> bytes:
    """Compress a value in a form that depends on nothing but the value."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), 9, mtime=0)


def digest(paths: Iterable[Path]) -> str:
    """One SHA-256 over the originals, in the order of their names."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def module_folder(module: str, version: str) -> Path:
    """Download a Go module and return its folder.

    Raises:
        subprocess.CalledProcessError: Go could not fetch or verify it.
    """
    command = ["go", "mod", "download", "-json", f"{module}@v{version}"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(answer.stdout)["Dir"])


def vendor_module(component: str, version: str) -> dict[str, str]:
    """Store the CRDs of one release of a component; returns its ``sources.json`` entry."""
    module, pattern = MODULES[component]
    files = sorted(module_folder(module, version).glob(pattern))
    crds = [without_descriptions(yaml.safe_load(path.read_text("utf-8"))) for path in files]
    (ORIGINALS / f"{component}-{version}.json.gz").write_bytes(pack(crds))
    return {
        "component": component,
        "version": version,
        "source": f"Go module {module}@v{version}, {pattern}",
        "licence": "Apache-2.0",
        "changes": "descriptions dropped",
        "sha256_of_originals": digest(files),
    }


def vendor_checkpointing(checkout: Path) -> dict[str, str]:
    """Store the CheckpointConfiguration CRD of a checkout at :data:`CHECKPOINT_COMMIT`."""
    command = ["git", "-C", str(checkout), "show", f"{CHECKPOINT_COMMIT}:{CHECKPOINT_FILE}"]
    data = subprocess.run(command, check=True, capture_output=True).stdout
    crd = without_descriptions(yaml.safe_load(data))
    (ORIGINALS / "checkpointing-v1.json.gz").write_bytes(pack([crd]))
    return {
        "component": "checkpointing",
        "version": "v1",
        "source": (
            "GoogleCloudPlatform/high-scale-checkpointing-controller "
            f"@ {CHECKPOINT_COMMIT}, {CHECKPOINT_FILE}"
        ),
        "licence": "Apache-2.0",
        "changes": "comments dropped",
        "sha256_of_originals": hashlib.sha256(data).hexdigest(),
    }


def vendor_core(data: Path, minor: str) -> dict[str, str]:
    """Store the definitions that the vendored core kinds of one Kubernetes minor reach."""
    path = data / f"v{minor}.0-local" / "_definitions.json"
    definitions: dict[str, Any] = json.loads(path.read_text("utf-8"))["$defs"]
    roots: dict[str, str] = {}
    for name, definition in definitions.items():
        for gvk in definition.get("x-kubernetes-group-version-kind", []):
            group, version, kind = gvk["group"], gvk["version"], gvk["kind"]
            if version in CORE_GROUPS.get(group, ()) and not (
                kind in NOT_MANIFESTS or kind.endswith("List")
            ):
                roots[f"{group}/{version}/{kind}".lstrip("/")] = name
    kept = {n: without_descriptions(definitions[n]) for n in closure(definitions, roots.values())}
    (ORIGINALS / f"kubernetes-{minor}.json.gz").write_bytes(
        pack({"kinds": roots, "definitions": kept})
    )
    return {
        "component": "kubernetes",
        "version": minor,
        "source": f"kubernetes-validate 1.37.0 (PyPI), v{minor}.0-local/_definitions.json",
        "licence": "Apache-2.0",
        "changes": "descriptions and the definitions that no vendored kind reaches dropped",
        "sha256_of_originals": digest([path]),
    }


def main() -> None:
    """Vendor everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubernetes", type=Path, required=True, metavar="DIR")
    parser.add_argument("--checkpointing", type=Path, required=True, metavar="CHECKOUT")
    args = parser.parse_args()
    ORIGINALS.mkdir(parents=True, exist_ok=True)
    entries = [vendor_module("kueue", release.version) for release in KUEUE_VERSIONS]
    entries += [vendor_module("jobset", release.version) for release in JOBSET_VERSIONS]
    entries.append(vendor_module("argocd", ARGOCD_VERSION))
    entries.append(vendor_checkpointing(args.checkpointing))
    entries += [vendor_core(args.kubernetes, minor) for minor in KUBERNETES_MINORS]
    (UPSTREAM / "sources.json").write_text(json.dumps(entries, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
