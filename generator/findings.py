"""What a check reports.

Checks never raise on bad content; they return findings. Each output format is one renderer of
findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is; only errors keep a cluster from being written."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


SEVERITY_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file. Lines and columns count from 1; None where only the file is known."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(
            str(part) for part in (self.file, self.line, self.column) if part is not None
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has to say.

    Attributes:
        rule: stable id (``INV…`` inventory, ``SCH…`` schema, ``REF…`` references, or a policy's
            id).
        severity: error, warning or note.
        message: what was found and what was expected, one sentence.
        fix: what to write instead; empty where there is nothing to add.
        cluster: the cluster concerned, empty for a fault of the whole tree.
        resource: ``Kind namespace/name`` or ``Kind name``, empty outside manifests.
        path: the value's path inside the inventory parameters or the manifest.
        inventory: where the user wrote it.
        manifest: where it shows in a manifest.
        via: further places that the value came through (classes, interpolations).
    """

    rule: str
    severity: Severity
    message: str
    fix: str = ""
    cluster: str = ""
    resource: str = ""
    path: tuple[str | int, ...] = ()
    inventory: Location | None = None
    manifest: Location | None = None
    via: tuple[str, ...] = field(default=())

    @property
    def where(self) -> Location | None:
        """The place to show first: the inventory's, else the manifest's."""
        return self.inventory or self.manifest

    @property
    def sort_key(self) -> tuple[str, str, int, int, int, str, str]:
        """Stable order: by cluster, file, line, column, severity, rule and message."""
        place = self.where
        return (
            self.cluster,
            place.file if place else "",
            (place.line or 0) if place else 0,
            (place.column or 0) if place else 0,
            SEVERITY_RANK[self.severity],
            self.rule,
            self.message,
        )


def path_text(path: tuple[str | int, ...]) -> str:
    """Write a path as people read it: ``nodePools.v6e.taints[0].key``; odd keys are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part and all(c.isalnum() or c in "_-" for c in part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text
