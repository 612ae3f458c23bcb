"""The report for programs; its shape is ``generator/diff/diff.schema.json``."""

from __future__ import annotations

import json
import math
from typing import Any

from generator.diff.model import (
    MISSING,
    Change,
    Derived,
    FieldChange,
    Group,
    Impact,
    Report,
    Resource,
    Verb,
    pointer,
    show_path,
)
from generator.findings import Finding

SCHEMA = "stowplan.diff/v1"
"""Version of the document. A new field may come without a new version; none goes or changes."""


def render_json(report: Report) -> str:
    """Write the document, keys in a fixed order."""
    return json.dumps(document(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def document(report: Report) -> dict[str, Any]:
    """Return the document as plain values."""
    return {
        "schema": SCHEMA,
        "base": report.base,
        "head": report.head,
        "summary": {
            **{verb.value: report.verbs.get(verb, 0) for verb in Verb},
            "unchanged": report.unchanged,
            "respelled": report.respelled,
            "documents": report.documents,
            "clusters": report.clusters,
            "impact": {impact.value: report.impacts.get(impact, 0) for impact in Impact},
        },
        "headlines": [{"impact": i.value, "text": text} for i, text in report.headlines],
        "changes": [_change(change) for change in report.changes],
        "groups": [_group(group) for group in report.groups],
        "findings": [_finding(finding) for finding in report.findings],
    }


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; YAML also knows infinities and other keys."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _resource(resource: Resource) -> dict[str, str]:
    return resource._asdict()


def _change(change: Change) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": change.id,
        "verb": change.verb.value,
        "impact": change.impact.value,
        "resource": _resource(change.resource),
    }
    if change.previous is not None:
        out["previous"] = _resource(change.previous)
    for key, value in (("oldFile", change.old_file), ("newFile", change.new_file)):
        if value:
            out[key] = value
    out["why"] = list(change.why)
    if change.source:
        out["source"] = change.source
    out["fields"] = [_field(field) for field in change.fields]
    out["derived"] = [_derived(line) for line in change.derived]
    for key, count in (("nodes", change.nodes), ("chips", change.chips)):
        if count is not None:
            out[key] = count
    return out


def _field(field: FieldChange) -> dict[str, Any]:
    out: dict[str, Any] = {"path": show_path(field.path), "op": field.op}
    for key, side in (("oldPointer", "old"), ("newPointer", "new")):
        place = pointer(field.path, side)
        if place is not None and getattr(field, side) is not MISSING:
            out[key] = place
    for key, value in (("old", field.old), ("new", field.new)):
        if value is not MISSING:
            out[key] = _plain(value)
    out["impact"] = field.impact.value
    if field.why:
        out["why"] = field.why
    if field.source:
        out["source"] = field.source
    if field.immutable is not None:
        out["immutable"] = {
            "rule": field.immutable.rule,
            "remedy": field.immutable.remedy,
            "source": field.immutable.source,
        }
    if field.follows:
        out["follows"] = True
    return out


def _derived(line: Derived) -> dict[str, Any]:
    out: dict[str, Any] = {"name": line.name, "text": line.text, "unit": line.unit}
    for key, value in (("path", line.path or None), ("old", line.old), ("new", line.new)):
        if value is not None:
            out[key] = value
    if line.exceeded:
        out["exceeded"] = True
    return out


def _group(group: Group) -> dict[str, Any]:
    return {
        "verb": group.first.verb.value,
        "impact": group.impact.value,
        "varies": group.varies,
        "wholeCluster": group.whole_cluster,
        "fields": [show_path(f.path) for f in group.first.fields if not f.follows],
        "clusters": list(group.clusters),
        "members": [change.id for change in group.changes],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    out: dict[str, Any] = {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
    }
    if finding.fix:
        out["fix"] = finding.fix
    if finding.where is not None:
        out["file"] = finding.where.file
        if finding.where.line is not None:
            out["line"] = finding.where.line
    return out
