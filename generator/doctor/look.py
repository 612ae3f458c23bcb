"""What every check gets: what was seen, what is wanted, and how to word commands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.snapshot import Snapshot
from generator.doctor.wanted import Wanted
from generator.findings import Finding, Severity

GKE_CONTEXT = re.compile(r"gke_(?P<project>[^_]+)_(?P<location>[^_]+)_(?P<name>.+)")
"""How ``gcloud container clusters get-credentials`` names a context."""


@dataclass(frozen=True, slots=True)
class Look:
    """One examination.

    Attributes:
        snapshot: the live cluster.
        wanted: the compiled one, None where none was given.
        title: what findings call the cluster, where that is neither the compiled one's name nor
            the context.
    """

    snapshot: Snapshot
    wanted: Wanted | None = None
    title: str = ""

    @property
    def cluster(self) -> str:
        """What findings call the cluster."""
        return self.title or (self.wanted.cluster if self.wanted else self.snapshot.context)

    def fact(self, *keys: str) -> Any:
        """A value of ``cluster.yaml``'s spec, None where there is none."""
        return dig(dict(self.wanted.spec), *keys) if self.wanted else None

    @property
    def project(self) -> str:
        """Project id, or the placeholder that the documentation uses."""
        return self._place("project") or str(self.fact("project", "id") or "PROJECT_ID")

    @property
    def project_number(self) -> str:
        """Project number, or the placeholder."""
        return str(self.fact("project", "number") or "PROJECT_NUMBER")

    @property
    def location(self) -> str:
        """Region or zone of the cluster, or the placeholder."""
        return self._place("location") or str(self.fact("location") or "CLUSTER_LOCATION")

    @property
    def gke_name(self) -> str:
        """The cluster's name in GKE as the context has it, or the placeholder."""
        return self._place("name") or "CLUSTER_NAME"

    def _place(self, part: str) -> str:
        found = GKE_CONTEXT.fullmatch(self.snapshot.context)
        return found[part] if found else ""

    def kubectl(self, *arguments: str) -> str:
        """A command for people to run; nothing here runs it."""
        context = ["--context", self.snapshot.context] if self.snapshot.context else []
        return shlex.join(["kubectl", *context, *arguments])

    def finding(
        self, rule: str, severity: Severity, resource: str, message: str, fix: str = ""
    ) -> Finding:
        """A finding about this cluster."""
        return Finding(rule, severity, message, fix, self.cluster, resource)
