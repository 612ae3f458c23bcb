"""Find the schema of a kind among the vendored releases of one cluster."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from schemas.versions import Versions

CONVERTED = Path(__file__).resolve().parent.parent / "upstream" / "converted"


@dataclass(frozen=True, slots=True)
class KindRef:
    """Where the schema of one kind is kept, and what a caller may ask without reading it.

    Attributes:
        archive: the release that holds it, such as ``kueue-0.17.0``.
        member: ``apiVersion/Kind``.
        namespaced: whether objects of the kind live in a namespace.
        deprecated: whether the API server answers this version with a deprecation warning.
    """

    archive: str
    member: str
    namespaced: bool
    deprecated: bool

    @property
    def api_version(self) -> str:
        """``kueue.x-k8s.io/v1beta2``."""
        return self.member.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """``ClusterQueue``."""
        return self.member.rpartition("/")[2]


@lru_cache(maxsize=64)
def _index(archive: str) -> tuple[KindRef, ...]:
    with zipfile.ZipFile(CONVERTED / f"{archive}.zip") as source:
        index: dict[str, dict[str, bool]] = json.loads(source.read("index.json"))
    return tuple(
        KindRef(archive, member, facts["namespaced"], facts["deprecated"])
        for member, facts in index.items()
    )


@lru_cache(maxsize=64)
def kinds_of(versions: Versions) -> dict[tuple[str, str], KindRef]:
    """Every vendored kind of a cluster, by ``(apiVersion, kind)``."""
    archives = (
        f"kubernetes-{versions.kubernetes}",
        f"kueue-{versions.kueue}",
        f"jobset-{versions.jobset}",
        f"checkpointing-{versions.checkpointing}",
        f"argocd-{versions.argocd}",
    )
    return {(ref.api_version, ref.kind): ref for name in archives for ref in _index(name)}


@lru_cache(maxsize=512)
def releases_of(api_version: str, kind: str) -> tuple[KindRef, ...]:
    """The kind in every vendored release that has it, oldest first."""
    names = sorted((path.stem for path in CONVERTED.glob("*.zip")), key=_release_order)
    return tuple(
        ref
        for name in names
        for ref in _index(name)
        if (ref.api_version, ref.kind) == (api_version, kind)
    )


def _release_order(name: str) -> tuple[str, list[int]]:
    """``kueue-0.9`` before ``kueue-0.19``."""
    component, _, version = name.rpartition("-")
    return component, [int(part) for part in version.lstrip("v").split(".")]


@lru_cache(maxsize=512)
def read_kind(ref: KindRef) -> dict[str, Any]:
    """Read the converted schema of one kind; see :mod:`schemas.kinds.convert` for its parts."""
    with zipfile.ZipFile(CONVERTED / f"{ref.archive}.zip") as source:
        value: dict[str, Any] = json.loads(source.read(f"{ref.member}.json"))
    return value
