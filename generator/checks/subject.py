"""One object under judgement, and where it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        kind: the object's kind, empty if it has none.
        metadata: the object's metadata, empty if it has none.
        spec: the object's spec, empty if it has none.
        name: the object's name, or its ``generateName``.
        namespace: the object's namespace as written; empty where none is.
    """

    body: Mapping[str, Any]
    file: str = ""
    document: Document | None = None
    base: tuple[str | int, ...] = ()
    inventory: Location | None = None
    text: str = ""
    kind: str = field(init=False, repr=False, compare=False)
    metadata: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    spec: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    name: str = field(init=False, repr=False, compare=False)
    namespace: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The checks ask for these thousands of times; the class is frozen to everybody else.
        kind, metadata, spec = (self.body.get(key) for key in ("kind", "metadata", "spec"))
        metadata = metadata if isinstance(metadata, dict) else {}
        put = object.__setattr__
        put(self, "kind", kind if isinstance(kind, str) else "")
        put(self, "metadata", metadata)
        put(self, "spec", spec if isinstance(spec, dict) else {})
        put(self, "name", str(metadata.get("name") or metadata.get("generateName") or ""))
        put(self, "namespace", str(metadata.get("namespace") or ""))

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
