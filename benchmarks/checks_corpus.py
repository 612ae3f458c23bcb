"""A corpus of one-document manifests for the benchmarks: clean, of the kinds that a fleet has."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from generator.emit_yaml import dump
from generator.yaml_load import load_documents

CASES = Path(__file__).resolve().parents[1] / "tests" / "cases" / "rules"
SHARES = (
    ("JobSet", 2),
    ("ClusterQueue", 1),
    ("LocalQueue", 2),
    ("ResourceFlavor", 1),
    ("CheckpointConfiguration", 1),
    ("PriorityClass", 2),
    ("WorkloadPriorityClass", 1),
)
"""Of ten manifests, how many are of each kind."""


def templates() -> dict[str, dict[str, Any]]:
    """One clean object of each kind, from the acceptance cases."""
    text = (CASES / "REF020" / "right.yaml").read_text("utf-8")
    found: dict[str, dict[str, Any]] = {}
    for document in load_documents(text, "right.yaml"):
        found.setdefault(document.value["kind"], document.value)
    return found


def objects(count: int) -> list[dict[str, Any]]:
    """Make ``count`` objects: clusters' worth of ten that name only each other."""
    known = templates()
    kinds = [kind for kind, share in SHARES for _ in range(share)]
    out = []
    for number in range(count):
        group, place = divmod(number, len(kinds))
        body = copy.deepcopy(known[kinds[place]])
        _rename(body, group, place)
        out.append(body)
    return out


def _rename(body: dict[str, Any], group: int, place: int) -> None:
    kind, spec = body["kind"], body.get("spec", {})
    own = {"JobSet": f"llama-{group}-{place}", "LocalQueue": f"training-{group}-{place % 2}"}
    own["PriorityClass"] = f"high-{group}" if place % 2 else f"low-{group}"
    body["metadata"]["name"] = own.get(kind, f"{body['metadata']['name'][:12]}-{group}")
    if kind == "CheckpointConfiguration":
        spec["nodeSelector"]["cloud.google.com/gke-nodepool"] = f"pool-{group}"
    elif kind == "LocalQueue":
        spec["clusterQueue"] = f"tpu-{group}"
    elif kind == "ClusterQueue":
        spec["resourceGroups"][0]["flavors"][0]["name"] = f"v6e-{group}"
    elif kind == "JobSet":
        labels = body["metadata"]["labels"]
        labels["kueue.x-k8s.io/queue-name"] = f"training-{group}-0"
        labels["kueue.x-k8s.io/priority-class"] = f"high-{group}"
        pod = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["priorityClassName"] = f"high-{group}"


def spoilt(body: dict[str, Any]) -> dict[str, Any]:
    """An object with some thirty faults: fields that nobody knows, labels of no use, a bad type."""
    spec = body.setdefault("spec", {})
    spec.update({f"unknownField{number}": number for number in range(24)})
    body["metadata"]["namespace"] = "Not A Name"
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-names": "x", "bad label": 1}
    body["metadata"]["annotations"] = {"kueue.x-k8s.io/queue-name": "<QUEUE NAME>"}
    return body


def write_broken(folder: Path, count: int) -> None:
    """Write objects that are all broken, one file an object."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, body in enumerate(objects(count)):
        (folder / f"{number:06d}.yaml").write_text(dump(spoilt(body)), "utf-8")


def write(folder: Path, count: int) -> int:
    """Write the corpus, one file an object; returns its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for number, body in enumerate(objects(count)):
        text = dump(body)
        size += len(text)
        (folder / f"{number:06d}-{body['kind'].lower()}.yaml").write_text(text, "utf-8")
    return size
