"""One object under judgement, and where it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generator.findings import Location
from generator.yaml_load import Document


@dataclass(frozen=True, slots=True)
class Subject:
    """One object to judge.

    Attributes:
        body: the object as plain values.
        file: the manifest's file as shown to people; empty inside ``stowplan compile``.
        document: the loaded document, for looking up lines; None where nothing was parsed.
        base: where the object stands inside the document (``items`` of a List), empty for one of
            its own.
        inventory: where the user wrote what the object was made from.
        text: the object as it is written, equal for equal objects; empty if it is not at hand.
    """

    body: Mapping[str, Any]
    file: str = ""
    document: Document | None = None
    base: tuple[str | int, ...] = ()
    inventory: Location | None = None
    text: str = ""

    @property
    def kind(self) -> str:
        """The object's kind, empty if it has none."""
        kind = self.body.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The object's metadata, empty if it has none."""
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def spec(self) -> Mapping[str, Any]:
        """The object's spec, empty if it has none."""
        spec = self.body.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def name(self) -> str:
        """The object's name, or its ``generateName``."""
        return str(self.metadata.get("name") or self.metadata.get("generateName") or "")

    @property
    def namespace(self) -> str:
        """The object's namespace as written; empty where none is."""
        return str(self.metadata.get("namespace") or "")

    @property
    def labels(self) -> Mapping[str, Any]:
        """The object's labels."""
        labels = self.metadata.get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The object's annotations."""
        annotations = self.metadata.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def resource(self) -> str:
        """How findings and waivers name the object: ``JobSet team-a/llama``, ``Topology gke``."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()
