"""Read the files of a tree as resources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from generator.diff.model import Resource
from generator.diff.tree import Content, unreadable
from generator.findings import Finding
from generator.visible import visible
from generator.yaml_load import YamlError, decode, load_documents

FILE_KIND = "File"
"""Kind of what is no Kubernetes object; its body is the text, or the parsed value."""

_LEADING_COMMENTS = re.compile(rb"\A(?:#[^\n]*\n)+")
_PARSED = (".yaml", ".yml", ".json")
DOCUMENTS = (".md", ".txt", ".rst")
"""Files for people; a change of theirs follows from changes that are shown."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One resource of one file.

    Attributes:
        resource: its identity.
        file: path under the tree.
        body: the object as plain values; text for a file that is not parsed.
    """

    resource: Resource
    file: str
    body: Any

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata, empty where it has none."""
        found = self.body.get("metadata") if isinstance(self.body, dict) else None
        return found if isinstance(found, dict) else {}

    def annotation(self, name: str) -> str:
        """Return an annotation's value, empty where it has none."""
        annotations = self.metadata.get("annotations")
        value = annotations.get(name) if isinstance(annotations, dict) else None
        return value if isinstance(value, str) else ""


def cluster_of(path: str) -> str:
    """Return the first folder of a path, empty for a file at the top."""
    head, slash, _ = path.partition("/")
    return head if slash else ""


def group_of(api_version: str) -> str:
    """Return the API group: ``kueue.x-k8s.io`` of ``kueue.x-k8s.io/v1beta2``, empty for ``v1``."""
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""


class Parser:
    """Parses files, equal contents once."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[Any]] = {}

    def load(self, path: str, content: Content) -> list[Loaded] | Finding:
        """Return a file's resources, or the finding that says why there are none to be had."""
        if isinstance(content, Finding):
            return content
        if not path.endswith(_PARSED):
            return _resources(path, _text(content), 0)
        # The comment on top names the cluster; what follows is often the same in many.
        key = _LEADING_COMMENTS.sub(b"", content, count=1)
        values = self._known.get(key)
        if values is None:
            parsed = _documents(path, content)
            if isinstance(parsed, Finding):
                return parsed
            values = self._known[key] = parsed
        return [
            loaded
            for number, value in enumerate(values)
            for loaded in _resources(path, value, number)
        ]


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return f"(binary, {len(content):,} bytes)"


def _documents(path: str, content: bytes) -> list[Any] | Finding:
    try:
        documents = load_documents(decode(content, path), path)
    except YamlError as error:
        fix = error.fix
        if b"<<<<<<< " in content:
            fix = "it holds conflict markers (<<<<<<<): finish the merge, or compile again"
        return unreadable(path, error.message, fix, error.where.line)
    return [document.value for document in documents if document.value is not None]


def _resources(path: str, value: Any, number: int) -> list[Loaded]:
    """Return the resources of one document: one, or those of a List."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "List" and isinstance(value.get("items"), list):
        return [
            loaded
            for place, item in enumerate(value["items"])
            for loaded in _resources(path, item, number + place)
        ]
    return [Loaded(_identity(path, value, number), path, value)]


def _identity(path: str, value: Any, number: int) -> Resource:
    cluster = cluster_of(path)
    own = path[len(cluster) + 1 :] if cluster else path
    fallback = own if number == 0 else f"{own}#{number + 1}"
    if not isinstance(value, dict):
        return Resource(cluster, "", FILE_KIND, "", fallback)
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not kind:
        return Resource(cluster, "", FILE_KIND, "", fallback)
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return Resource(
        cluster,
        visible(group_of(api_version)),
        visible(kind),
        visible(namespace) if isinstance(namespace, str) else "",
        visible(name) if isinstance(name, str) and name else fallback,
    )
