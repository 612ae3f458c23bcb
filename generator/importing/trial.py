"""Compile what an import would write, in a folder of its own, to see that it gives the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    _copy(scratch, inventory, files)
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


def inherited(
    scratch: Path, inventory: Path, cluster: str, names: tuple[str, ...]
) -> tuple[dict[str, Any], list[Finding]]:
    """The parameters that classes of an inventory give to a target, or why they do not render."""
    lines = ["classes:", *(f"  - {json.dumps(name)}" for name in names), "parameters: {}", ""]
    _copy(scratch, inventory, {f"targets/{cluster}.yml": "\n".join(lines)})
    try:
        tree = discover(scratch)
        classes = Classes.read(tree)
    except InventoryError as error:
        return {}, error.findings
    rendered = Builder(tree, classes).render(cluster)
    if isinstance(rendered, list):
        return {}, classes.findings + rendered
    return rendered.parameters, []


def _copy(scratch: Path, inventory: Path, files: dict[str, str]) -> None:
    """Lay out the inventory's classes and overlays with the files beside them."""
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
