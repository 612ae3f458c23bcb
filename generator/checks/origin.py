"""From a manifest that stowplan wrote back to the place in the inventory that it was made from.

A compiled file's first lines name the inventory files that say something of it, in merge order; its
annotations, kind and name say which section. Where the inventory lies beside ``compiled/``, a
finding of ``stowplan check`` can say what to edit, as ``stowplan compile`` does.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from generator.checks.subject import Subject
from generator.findings import Location
from generator.inventory import Tree
from generator.manifest import HEADER, LAYERS
from generator.provenance import Provenance

_FROM = "# from "

# Annotation that names the entry → section of the inventory that holds it.
_ENTRIES = {"stowplan.dev/workload": "workloads", "stowplan.dev/config": "checkpointing"}
_QUEUEING = {
    "AdmissionCheck": "admissionChecks",
    "ClusterQueue": "clusterQueues",
    "Cohort": "cohorts",
    "LocalQueue": "localQueues",
    "Namespace": "namespaces",
    "ResourceFlavor": "flavors",
    "Topology": "topologies",
}
_PRIORITIES = frozenset({"PriorityClass", "WorkloadPriorityClass"})


def section_of(subject: Subject) -> tuple[str, ...]:
    """The path of the inventory's entry or section behind an object; empty where none is known."""
    for annotation, section in _ENTRIES.items():
        entry = subject.annotations.get(annotation)
        if isinstance(entry, str):
            return section, entry
    if subject.kind in _PRIORITIES:
        return "priorities", subject.name
    if subject.kind in _QUEUEING:
        return "queueing", _QUEUEING[subject.kind], subject.name
    layer = Path(subject.file).parent.name  # bears the name of a section
    return (layer,) if layer in LAYERS else ()


def origin(subject: Subject) -> Location | None:
    """Where the entry behind a compiled object was written; None for anybody else's file."""
    section = section_of(subject)
    if not section or not subject.file or subject.base:
        return None
    root = _root(Path(subject.file).absolute().parent)
    provenance = _provenance(subject.file, root) if root else None
    place = provenance.find(section, key=True) if provenance else None
    if root is None or place is None or not place.depth:
        return None
    # Shown as the manifest is: from where stowplan runs, or whole.
    shown = root if Path(subject.file).is_absolute() else Path(os.path.relpath(root))
    return replace(place.where, file=(shown / place.where.file).as_posix())


@lru_cache(maxsize=256)
def _root(folder: Path) -> Path | None:
    """The nearest folder above that holds an inventory."""
    return next((f for f in (folder, *folder.parents) if (f / "inventory").is_dir()), None)


@lru_cache(maxsize=256)
def _provenance(file: str, root: Path) -> Provenance | None:
    """The inventory files behind a compiled file, if it is one and they are here."""
    path = Path(file)
    try:
        with path.open(encoding="utf-8") as text:
            if not text.readline().startswith(HEADER):
                return None
            named = [
                line.removeprefix(_FROM).rstrip("\n")
                for line in takewhile(lambda line: line.startswith(_FROM), text)
            ]
    except (OSError, ValueError):
        return None
    inventory = (root / "inventory").resolve()
    files = tuple(root / name for name in named)
    # What a file says of itself is not trusted with anything outside the inventory.
    if not files or not all(f.resolve().is_relative_to(inventory) and f.is_file() for f in files):
        return None
    return Provenance(Tree(root, {}, {}), files)
