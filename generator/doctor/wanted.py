"""What a cluster should be: its folder under ``compiled/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.checks.reading import FACTS_KIND, Group, read_groups
from generator.checks.subject import Subject
from generator.diff.conditions import dig
from generator.diff.resources import group_of
from generator.doctor.reads import BY_KIND, Read, object_key, single

_NOT_APPLIED = frozenset({"Component", "Kustomization", FACTS_KIND})
_OTHER_CLUSTER = "argoproj.io"
"""Argo CD's objects live in the cluster of Argo CD, which need not be this one."""


class WantedError(Exception):
    """The folder is no compiled cluster."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A compiled cluster.

    Attributes:
        cluster: its name.
        spec: the facts of ``cluster.yaml``.
        subjects: the objects that are applied.
    """

    cluster: str
    spec: Mapping[str, Any]
    subjects: tuple[Subject, ...]

    def of_kind(self, kind: str) -> Iterator[Subject]:
        """The objects of a kind."""
        return (subject for subject in self.subjects if subject.kind == kind)

    @property
    def api_versions(self) -> dict[str, str]:
        """API group → the version that the objects are written in."""
        versions = {}
        for subject in self.subjects:
            group, _, version = str(subject.body.get("apiVersion", "")).rpartition("/")
            versions[group] = version
        return versions

    def singles(self) -> list[Read]:
        """The reads of objects whose kind is not listed as a whole."""
        reads = []
        for subject in self.subjects:
            group, version = _group_version(subject)
            if (group, subject.kind) not in BY_KIND:
                read = single(group, version, subject.kind, subject.namespace, subject.name)
                if read is not None:
                    reads.append(read)
        return reads


def place_in(subject: Subject) -> str:
    """The snapshot's key under which an object of ``compiled/`` is found live."""
    group, _ = _group_version(subject)
    listed = BY_KIND.get((group, subject.kind))
    if listed:
        return listed.key
    return object_key(group, subject.kind, subject.namespace, subject.name)


def _group_version(subject: Subject) -> tuple[str, str]:
    api_version = str(subject.body.get("apiVersion", ""))
    return group_of(api_version), api_version.rpartition("/")[2]


def read_wanted(folder: str) -> Wanted:
    """Read ``compiled/<cluster>``.

    Raises:
        NothingToReadError: there is no such folder.
        WantedError: it holds no cluster, several, or files that cannot be read.
    """
    # A single file would make leftovers of all other objects.
    groups = [] if Path(folder).is_file() else read_groups([folder])
    clusters = [group for group in groups if group.facts is not None]
    if len(clusters) != 1:
        names = ", ".join(sorted(group.cluster for group in clusters)) or "none"
        raise WantedError(
            f"{folder}: expected the folder of one cluster, such as compiled/NAME with its "
            f"cluster.yaml; found {names if groups else 'a file'}"
        )
    return _wanted(clusters[0])


def _wanted(group: Group) -> Wanted:
    if group.findings:
        finding = group.findings[0]
        raise WantedError(f"{finding.where}: {finding.message}")
    spec = dig(group.facts, "spec")
    applied = [
        subject
        for subject in group.subjects
        if subject.kind not in _NOT_APPLIED
        and group_of(str(subject.body.get("apiVersion", ""))) != _OTHER_CLUSTER
    ]
    return Wanted(group.cluster, spec if isinstance(spec, dict) else {}, tuple(applied))
