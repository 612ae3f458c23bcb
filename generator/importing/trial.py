"""Compile what an import would write, in a folder of its own, to see that it gives the same."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from generator.build import build
from generator.compile import Builder
from generator.findings import Finding
from generator.inventory import Classes, InventoryError, discover
from generator.manifest import Manifest
from generator.render import ClusterFiles, resolve


@dataclass
class Trial:
    """What compile makes of the files.

    Attributes:
        before: the manifests before overlays and hashes; empty where it does not resolve.
        compiled: the finished cluster, None where it does not resolve.
        findings: why it does not.
    """

    before: list[Manifest]
    compiled: ClusterFiles | None
    findings: list[Finding]


def attempt(scratch: Path, inventory: Path, cluster: str, files: dict[str, str]) -> Trial:
    """Compile one cluster of an inventory with further files, without touching the inventory.

    Args:
        scratch: an empty folder to work in.
        inventory: the inventory that the files would join; it need not exist.
        cluster: the target.
        files: path inside the inventory → text.
    """
    folder = scratch / "inventory"
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("classes", "overlays"):
        if (inventory / part).is_dir():
            shutil.copytree(inventory / part, folder / part)
    (folder / "targets").mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    try:
        tree = discover(scratch)
        classes = Classes.read(tree)
    except InventoryError as error:
        return Trial([], None, error.findings)
    builder = Builder(tree, classes)
    rendered = builder.render(cluster)
    if isinstance(rendered, list):
        return Trial([], None, classes.findings + rendered)
    fleet, findings = resolve(tree, rendered)
    if fleet is None:
        return Trial([], None, classes.findings + findings)
    return Trial(build(fleet), builder.build(cluster), [])
