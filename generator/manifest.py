"""A manifest on its way to a file."""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from generator.emit_yaml import dump

LAYERS = ("queueing", "checkpointing", "workloads")
"""Layers in the order in which a cluster wants them: each a folder and an Argo CD Application."""

_TEXTS_MAX = 4096
_texts: dict[bytes, str] = {}


@dataclass(frozen=True)
class Manifest:
    """One Kubernetes object bound for ``compiled/<cluster>/<layer>/``.

    Attributes:
        layer: the folder, one of :data:`LAYERS`.
        body: the object as plain values, keys in the order in which they are written.
        section: the inventory section that it was built from, such as ``("workloads",
            "llama-70b")``.
    """

    layer: str
    body: dict[str, Any]
    section: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace, empty for a cluster-scoped one."""
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def resource(self) -> str:
        """How findings name the object: ``JobSet team-a/llama`` or ``ClusterQueue tpu``."""
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )

    @property
    def file_name(self) -> str:
        """``<kind>-<name>.yaml``; a namespaced object's namespace goes before the name with a dot
        between.

        A namespace holds no dot, so two objects never share a file and no name depends on what else
        exists.
        """
        stem = f"{self.namespace}.{self.name}" if self.namespace else self.name
        return f"{self.kind.lower()}-{stem}.yaml"

    @cached_property
    def text(self) -> str:
        """The object as YAML, without the file's head."""
        # The clusters of a fleet have most objects in common, and marshal is quicker than YAML.
        try:
            key = marshal.dumps(self.body, 2)
        except ValueError:  # no plain value, which dump names
            return dump(self.body)
        text = _texts.get(key)
        if text is None:
            text = dump(self.body)
            if len(_texts) < _TEXTS_MAX:
                _texts[key] = text
        return text

    @cached_property
    def path(self) -> str:
        """The file's path inside the cluster's folder."""
        return f"{self.layer}/{self.file_name}"
