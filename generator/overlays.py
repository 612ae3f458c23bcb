"""The user's own edits: jsonnet files that take the cluster and its manifests and return manifests.

An overlay is a function of ``cluster`` (the facts, as in ``cluster.yaml``) and ``manifests`` (a
list of objects). What it returns passes the same checks as what stowplan built.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from generator.findings import Finding, Location, Severity
from generator.jsonnet import MEMORY_LIMIT, TIME_LIMIT_S, JsonnetError, UnboundedError, evaluate
from generator.manifest import LAYERS, Manifest

LAYER_ANNOTATION = "stowplan.dev/layer"
"""On an object that an overlay adds: the layer that it belongs to."""

KIND_LAYERS: dict[str, str] = {
    "CheckpointConfiguration": "checkpointing",
    "CronJob": "checkpointing",
    "DaemonSet": "checkpointing",
    "JobSet": "workloads",
}

_PLACE = re.compile(r"(?P<file>[^\s:()]+\.(?:jsonnet|libsonnet)):\(?(?P<line>\d+):(?P<column>\d+)")
_EXPECTED = "function(cluster, manifests) with a list of objects as its result"
_BOUNDS = (
    f"look for a recursion without end: an overlay has {TIME_LIMIT_S} seconds and "
    f"{MEMORY_LIMIT >> 30} GiB of memory"
)


def _fault(cluster: str, where: Location, message: str, fix: str) -> Finding:
    return Finding("INV080", Severity.ERROR, message, fix, cluster=cluster, inventory=where)


def apply(
    root: Path, name: str, facts: dict[str, Any], manifests: list[Manifest]
) -> tuple[list[Manifest], list[Finding]]:
    """Run one overlay file of ``inventory/overlays`` over a cluster's manifests."""
    cluster = str(facts["metadata"]["name"])
    folder = (root / "inventory" / "overlays").resolve()
    shown = f"inventory/overlays/{name}"
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        message = "there is no such overlay file"
        return manifests, [_fault(cluster, Location(shown), message, "create it, or mend its name")]

    try:
        # Called from a snippet, so that a file that is no function is an error.
        text = evaluate(
            shown,
            f"function(cluster, manifests) (import {json.dumps(name)})(cluster, manifests)",
            {"cluster": facts, "manifests": [manifest.body for manifest in manifests]},
            folder,
        )
        result = json.loads(text)
    except UnboundedError as error:
        return manifests, [_fault(cluster, Location(shown), str(error), _BOUNDS)]
    except (JsonnetError, ValueError) as error:
        where, message = _jsonnet_fault(str(error), folder, shown)
        return manifests, [_fault(cluster, where, message, f"an overlay is a {_EXPECTED}")]
    problem = _shape_problem(result)
    if problem is not None:
        return manifests, [_fault(cluster, Location(shown), problem, f"return {_EXPECTED}")]
    return _relayered(manifests, result), []


def _jsonnet_fault(text: str, folder: Path, shown: str) -> tuple[Location, str]:
    first = text.strip().splitlines()[0].removeprefix("RUNTIME ERROR: ")
    match = _PLACE.search(text)
    if match is None:
        return Location(shown), first
    file = match["file"].replace(str(folder), "inventory/overlays")
    message = first.replace(f"{match['file']}:{match['line']}:{match['column']}", "").lstrip("- :")
    message = re.sub(r"^\d+\s*", "", message)
    return Location(file, int(match["line"]), int(match["column"])), message or "jsonnet failed"


def _shape_problem(result: Any) -> str | None:
    if not isinstance(result, list):
        return f"the overlay returned a {type(result).__name__}, not a list"
    seen: set[tuple[str, str, str]] = set()
    for position, body in enumerate(result):
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(metadata, dict) or not all(
            isinstance(text, str) and text
            for text in (body.get("apiVersion"), body.get("kind"), metadata.get("name"))
        ):
            return f"entry {position} of the overlay's result has no apiVersion, kind or name"
        identity = (body["kind"], str(metadata.get("namespace", "")), metadata["name"])
        if identity in seen:
            return f"the overlay returned {' '.join(part for part in identity if part)} twice"
        seen.add(identity)
        layer = (metadata.get("annotations") or {}).get(LAYER_ANNOTATION)
        if layer is not None and layer not in LAYERS:
            return f"{LAYER_ANNOTATION} is {layer!r}; the layers are {', '.join(LAYERS)}"
    return None


def _relayered(before: list[Manifest], result: list[dict[str, Any]]) -> list[Manifest]:
    """Objects keep the layer that they had; new ones go by annotation, else by kind."""
    known = {(m.kind, m.namespace, m.name): m for m in before}
    manifests: list[Manifest] = []
    for body in result:
        metadata = body["metadata"]
        old = known.get((body["kind"], str(metadata.get("namespace", "")), metadata["name"]))
        layer = (metadata.get("annotations") or {}).get(LAYER_ANNOTATION)
        if layer is None:
            layer = old.layer if old else KIND_LAYERS.get(body["kind"], "queueing")
        manifests.append(Manifest(layer, body, old.section if old else ("overlays",)))
    return manifests
