"""Names that carry the recreate.

The CheckpointConfiguration controller acts only when an object is created, and nearly all of a
JobSet is immutable. So both are named after what they hold: a change makes a new object and the old
one is pruned, and nobody needs Argo CD's Replace or Force.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from generator.jobs import RUN_HASH_LENGTH
from generator.manifest import Manifest, remembered

CONFIG = "stowplan.dev/config"
EPOCH = "stowplan.dev/driver-epoch"
WORKLOAD = "stowplan.dev/workload"


@remembered
def content_hash(value: Any) -> str:
    """A short hash of plain values, the same for equal values in any key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:RUN_HASH_LENGTH]


def named(manifest: Manifest) -> Manifest:
    """Give a JobSet its run's name and a CheckpointConfiguration its epoch's.

    Only objects that still bear the name that the builder gave them are renamed, so an overlay or a
    ``run`` counter can choose another. The hash covers the spec after overlays.
    """
    metadata = manifest.body["metadata"]
    notes = metadata.get("annotations") or {}
    name = metadata["name"]
    if manifest.kind == "JobSet" and notes.get(WORKLOAD) == name:
        name = f"{name}-{content_hash(manifest.body['spec'])}"
    elif (
        manifest.kind == "CheckpointConfiguration" and f"{notes.get(CONFIG)}-configuration" == name
    ):
        content = [manifest.body["spec"], notes.get(EPOCH)]
        name = f"{notes[CONFIG]}-{content_hash(content)}-configuration"
    else:
        return manifest
    body = {**manifest.body, "metadata": {**metadata, "name": name}}
    return Manifest(manifest.layer, body, manifest.section)
