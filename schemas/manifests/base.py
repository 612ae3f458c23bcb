"""The ground of every manifest model.

Field order is the order of keys in the file, a field's default is the API's own default (so that
Git and the live object agree), and None means that the key is left out.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ManifestModel(BaseModel):
    """A part of a manifest: closed, frozen, camelCase in the file."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class ObjectMeta(ManifestModel):
    """Name, namespace, labels and annotations."""

    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class TemplateMeta(ManifestModel):
    """The metadata of a template: labels and annotations only."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class KubernetesObject(ManifestModel):
    """An object with a group, a kind and a name."""

    api_version: str
    kind: str
    metadata: ObjectMeta

    def to_dict(self) -> dict[str, Any]:
        """The object as plain values, defaults written out, absent fields left out."""
        return self.model_dump(by_alias=True, exclude_none=True)


class Taint(ManifestModel):
    """A node taint."""

    key: str
    value: str | None = None
    effect: str


class Toleration(ManifestModel):
    """A toleration."""

    key: str | None = None
    operator: str = "Exists"
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class LabelSelector(ManifestModel):
    """A label selector; empty selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, Any]] | None = Field(default=None)
