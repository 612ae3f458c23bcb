"""Flux: one Kustomization for each layer, in the cluster's own folder.

Flux has no confirmation before it prunes. What Argo CD deletes only after a person said so, Flux
does not delete at all: such objects carry its annotation, and a person deletes them. Sources:
fluxcd.io/flux/components/kustomize/kustomizations (prune, ssa, dependsOn, deletionPolicy).
"""

from __future__ import annotations

from typing import Any

from generator.build.metadata import MANAGED_BY, SYNC_OPTIONS
from generator.emit_yaml import dump
from generator.fleet import Fleet
from generator.manifest import LAYERS, Manifest

NAMESPACE = "flux-system"
SOURCE = "fleet"
PRUNE = "kustomize.toolkit.fluxcd.io/prune"
APPLY = "kustomize.toolkit.fluxcd.io/ssa"


def is_used(fleet: Fleet) -> bool:
    """Whether Flux syncs the cluster."""
    return fleet.spec.gitops is not None and fleet.spec.gitops.tool == "flux"


def marked(manifest: Manifest) -> Manifest:
    """Keep Flux from deleting what costs jobs or RAM disks, and from touching a running JobSet."""
    notes = {}
    if manifest.kind in SYNC_OPTIONS:
        notes[PRUNE] = "disabled"
    if manifest.kind == "JobSet":
        notes[APPLY] = "IfNotPresent"
    if not notes:
        return manifest
    metadata = manifest.body["metadata"]
    merged = dict(sorted({**(metadata.get("annotations") or {}), **notes}.items()))
    body = {**manifest.body, "metadata": {**metadata, "annotations": merged}}
    return Manifest(manifest.layer, body, manifest.section)


def files(fleet: Fleet, manifests: list[Manifest]) -> dict[str, str]:
    """The files of ``flux/`` by path inside the cluster's folder; none where Flux is not used."""
    gitops = fleet.spec.gitops
    if gitops is None or not is_used(fleet):
        return {}
    ref = (
        gitops.revision if gitops.revision.startswith("refs/") else f"refs/heads/{gitops.revision}"
    )
    source = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": _metadata(SOURCE),
        "spec": {"interval": "1m0s", "url": gitops.repo_url, "ref": {"name": ref}},
    }
    used = {manifest.layer for manifest in manifests}
    layers = [layer for layer in LAYERS if layer in used]
    root = f"./{gitops.path}/{fleet.spec.cluster.name}"
    bodies = [source, *(_layer(root, layers, layer) for layer in layers)]
    texts = {f"{b['kind'].lower()}-{NAMESPACE}.{b['metadata']['name']}.yaml": b for b in bodies}
    index = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(texts),
    }
    everything = {**texts, "kustomization.yaml": index}
    return {f"flux/{path}": dump(body) for path, body in everything.items()}


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": MANAGED_BY}


def _layer(root: str, layers: list[str], layer: str) -> dict[str, Any]:
    before = [{"name": f"{SOURCE}-{other}"} for other in layers[: layers.index(layer)]]
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": _metadata(f"{SOURCE}-{layer}"),
        "spec": {
            **({"dependsOn": before} if before else {}),
            "interval": "10m0s",
            "retryInterval": "1m0s",
            "timeout": "5m0s",
            "path": f"{root}/{layer}",
            "prune": True,
            # Without this the deletion of this object would delete everything that it applied.
            "deletionPolicy": "Orphan",
            "force": False,
            # A JobSet is never waited for: it may queue for days.
            "wait": False,
            "sourceRef": {"kind": "GitRepository", "name": SOURCE},
        },
    }
