"""Find manifests in files, folders and standard input, and group them by cluster.

A folder that holds a ``Cluster`` facts document is a cluster: everything below it is judged
together and by that cluster's versions. Files outside any such folder form one group of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generator.checks.run import STDIN_NAME, Judged
from generator.checks.subject import Subject
from generator.checks.tolerant import read_documents
from generator.findings import Finding, Location, Severity
from generator.yaml_load import MAX_FILE_BYTES, Document, YamlError, decode, read_text

SUFFIXES = (".yaml", ".yml", ".json")
SKIPPED_FOLDERS = frozenset({".git", ".venv", "node_modules", "__pycache__", ".stowplan"})
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
FACTS_KIND = "Cluster"
FACTS_GROUP = "stowplan.dev/"
STDIN = "-"
MAX_STDIN_BYTES = 16 * MAX_FILE_BYTES
"""What ``kubectl get -A -o yaml`` of a very large cluster stays below."""


@dataclass(slots=True)
class Group:
    """The objects of one cluster as read.

    Attributes:
        cluster: the cluster's name, empty for files of no cluster.
        facts: the cluster's facts document, None without one.
        facts_file: where it stands.
        subjects: the objects.
        findings: what is wrong with the files themselves.
        files: how many files were read.
        judged: the objects judged alone, where that is done already.
    """

    cluster: str = ""
    facts: Mapping[str, Any] | None = None
    facts_file: str = ""
    subjects: list[Subject] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    judged: list[Judged] | None = None


FileContents = tuple[list[Document], list[Finding]]
"""The documents of a file, and what is wrong with it."""


class NothingToReadError(Exception):
    """A path that does not exist, or no manifest below the paths given."""


def find_files(paths: Sequence[str]) -> list[Path]:
    """List the manifest files below the paths, each once, sorted.

    Raises:
        NothingToReadError: a path does not exist, or there is no manifest.
    """
    found: dict[Path, None] = {}
    for text in paths:
        if text == STDIN:
            continue
        path = Path(text)
        if path.is_dir():
            found.update(dict.fromkeys(_walk(path)))
        elif path.exists():
            found[path] = None
        else:
            raise NothingToReadError(f"there is no file or folder {text}")
    if not found and STDIN not in paths:
        raise NothingToReadError(f"no manifest below {', '.join(paths)}")
    return list(found)


def _walk(folder: Path) -> Iterator[Path]:
    patches: set[Path] = set()
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in KUSTOMIZATIONS:
            patches |= _patches(folder / entry.name)
    for entry in entries:
        if entry.is_symlink() and (entry.is_dir() or not (folder / entry.name).exists()):
            continue  # a link to a folder may lead back up; what it leads to is read where it is
        if entry.is_dir():
            if entry.name not in SKIPPED_FOLDERS:
                yield from _walk(folder / entry.name)
        elif entry.name.endswith(SUFFIXES) and (path := folder / entry.name) not in patches:
            yield path


def _patches(kustomization: Path) -> set[Path]:
    """Files that a kustomization uses as patches: parts of objects, not objects."""
    try:
        documents = read_documents(read_text(kustomization), str(kustomization)).documents
    except YamlError:
        return set()
    names: list[Any] = []
    for document in documents:
        value = document.value if isinstance(document.value, dict) else {}
        for key in ("patches", "patchesJson6902", "replacements"):
            names += [p.get("path") for p in _listed(value, key) if isinstance(p, dict)]
        for key in ("patchesStrategicMerge", "configurations", "transformers", "generators"):
            names += _listed(value, key)
    return {kustomization.parent / name for name in names if isinstance(name, str)}


def _listed(value: Mapping[str, Any], key: str) -> list[Any]:
    entries = value.get(key)
    return entries if isinstance(entries, list) else []


def read_groups(paths: Sequence[str], files: Sequence[Path] | None = None) -> list[Group]:
    """Read everything below the paths.

    Args:
        paths: files, folders, or ``-`` for standard input.
        files: what :func:`find_files` said of them, where that is known already.

    Raises:
        NothingToReadError: see :func:`find_files`.
    """
    found = find_files(paths) if files is None else files
    return group_files(_contents(found, with_stdin=STDIN in paths))


def _contents(files: Sequence[Path], *, with_stdin: bool) -> Iterator[tuple[str, FileContents]]:
    for path in files:
        yield str(path), read_file(path)
    if with_stdin:
        yield STDIN_NAME, _read_stdin()


def read_file(path: Path) -> FileContents:
    """Read the documents of a file; what is wrong with the file becomes findings."""
    try:
        read = read_documents(read_text(path), str(path))
    except YamlError as error:
        return [], [_unreadable(error)]
    return read.documents, read.findings


def _read_stdin() -> FileContents:
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        # Part of a stream would look like all of it.
        return [], [
            Finding(
                "YML001",
                Severity.ERROR,
                f"standard input holds more than {MAX_STDIN_BYTES:,} bytes; none of it was judged",
                "write it to a folder of files, or judge it in parts",
                manifest=Location(STDIN_NAME),
            )
        ]
    try:
        read = read_documents(decode(data, STDIN_NAME), STDIN_NAME)
    except YamlError as error:
        return [], [_unreadable(error)]
    return read.documents, read.findings


def _unreadable(error: YamlError) -> Finding:
    return Finding("YML001", Severity.ERROR, error.message, error.fix, manifest=error.where)


def group_files(files: Iterable[tuple[str, FileContents]]) -> list[Group]:
    """Sort the documents of files into clusters by the nearest folder with a facts document."""
    loaded = list(files)
    folders: dict[str, Group] = {}
    for name, (documents, _) in loaded:
        for document in documents:
            if _is_facts(document.value):
                metadata = document.value.get("metadata")
                cluster = metadata.get("name") if isinstance(metadata, Mapping) else None
                folder = str(Path(name).parent)
                folders[folder] = Group(
                    str(cluster or Path(folder).name), document.value, facts_file=name
                )
    rest = Group()
    owners: dict[str, Group] = {}
    for name, (documents, findings) in loaded:
        folder = name.rpartition("/")[0]
        if folder not in owners:
            owners[folder] = _group_of(name, folders) or rest
        group = owners[folder]
        group.files += 1
        group.findings += findings
        for document in documents:
            group.subjects += list(subjects_of(document))
            if document.value is not None and not isinstance(document.value, Mapping):
                group.findings.append(_no_object(document))
    return [*folders.values(), *([rest] if rest.files else [])]


def _is_facts(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.get("kind") == FACTS_KIND
        and str(value.get("apiVersion", "")).startswith(FACTS_GROUP)
    )


def _group_of(name: str, folders: Mapping[str, Group]) -> Group | None:
    for parent in Path(name).parents:
        if str(parent) in folders:
            return folders[str(parent)]
    return None


def _no_object(document: Document) -> Finding:
    return Finding(
        "SCH001",
        Severity.ERROR,
        "this document is no object: it has no apiVersion and kind",
        "write an object, or keep the file out of the folder",
        manifest=Location(document.file, 1),
    )


def subjects_of(document: Document) -> Iterator[Subject]:
    """The objects of a document: itself, or the items of a List."""
    value = document.value
    if not isinstance(value, Mapping):
        return
    items = value.get("items")
    if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
        for position, item in enumerate(items):
            if isinstance(item, Mapping):
                yield Subject(item, document.file, document, ("items", position))
    else:
        yield Subject(value, document.file, document)
