"""The rules of ``metadata`` that no schema states: names, labels, annotations, scope.

Source: ``k8s.io/apimachinery/pkg/api/validation/objectmeta.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.findings import Finding, Severity
from schemas.kinds.store import KindRef
from schemas.names import (
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)

MAX_ANNOTATION_BYTES = 256 * 1024

_OPEN = re.compile(r"\$\{|\$\(|\{\{|^\$|<[A-Za-z_ ]+>")
"""What a template or a document leaves for somebody to fill in."""

_LABEL_NAMES = frozenset({"Namespace", "Service"})
"""Kinds whose name is a DNS label; the others take a DNS subdomain."""

_PATH_SEGMENT = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
"""Kinds whose name may be any path segment, such as ``system:node``."""


def _error(rule: str, message: str, fix: str, *path: str | int) -> Finding:
    return Finding(rule, Severity.ERROR, message, fix, path=("metadata", *path))


def metadata_findings(document: Mapping[str, Any], ref: KindRef) -> Iterator[Finding]:
    """Judge an object's metadata; what has a wrong type is left to the schema."""
    metadata = document.get("metadata")
    if metadata is None:
        yield _error(
            "SCH010", "metadata is missing: every object needs a name", "add metadata.name"
        )
        return
    if not isinstance(metadata, Mapping):
        return
    yield from _name(metadata, ref)
    namespace = metadata.get("namespace")
    if namespace is not None and not ref.namespaced:
        # Stored with a 201: the API server clears it (tried on a 1.36 server).
        yield Finding(
            "SCH011",
            Severity.WARNING,
            f"{ref.kind} is cluster-scoped: metadata.namespace {namespace!r} means nothing here",
            "remove metadata.namespace",
            path=("metadata", "namespace"),
        )
    elif isinstance(namespace, str) and namespace and (problem := dns_label_problem(namespace)):
        yield _error(
            "SCH010",
            f"metadata.namespace {namespace!r} {problem}",
            _respelt(namespace),
            "namespace",
        )
    yield from _keys(metadata, "labels")
    yield from _keys(metadata, "annotations")


def _respelt(name: str) -> str:
    """What to do about a bad name; one that a template has left open needs no other spelling."""
    return "fill in the variable first" if _OPEN.search(name) else "rename it"


def _name(metadata: Mapping[str, Any], ref: KindRef) -> Iterator[Finding]:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if name is None and prefix is None:
        yield _error("SCH010", "metadata.name is missing", "add metadata.name", "name")
        return
    if not isinstance(name, str) or ref.kind in _PATH_SEGMENT:
        return
    rule = dns_label_problem if ref.kind in _LABEL_NAMES else dns_subdomain_problem
    problem = rule(name) if name else "is empty"
    if problem:
        yield _error("SCH010", f"metadata.name {name!r} {problem}", _respelt(name), "name")


def _keys(metadata: Mapping[str, Any], field: str) -> Iterator[Finding]:
    entries = metadata.get(field)
    if not isinstance(entries, Mapping):
        return
    size = 0
    for key, value in entries.items():
        if problem := label_key_problem(str(key)):
            yield _error(
                "SCH010", f"the key {key!r} of metadata.{field} {problem}", "rename it", field, key
            )
        if not isinstance(value, str):
            continue
        size += len(str(key)) + len(value)
        if field == "labels" and (problem := label_value_problem(value)):
            yield _error(
                "SCH010",
                f"the label {key}: {value[:80]!r} {problem}",
                "shorten or respell the value, or make it an annotation",
                field,
                key,
            )
    if size > MAX_ANNOTATION_BYTES:
        yield _error(
            "SCH010",
            f"metadata.{field} holds {size:,} bytes; at most {MAX_ANNOTATION_BYTES:,} are allowed",
            "keep large texts in a ConfigMap",
            field,
        )
