"""Read and judge many files in several processes.

Objects are judged alone in the workers, which also look up the lines of what they find; what the
objects say of each other is judged by the parent, which gets the values but not the texts. Engines
are loaded in the workers, after the fork.
"""

from __future__ import annotations

import marshal
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from generator.checks.policy import engine_for
from generator.checks.reading import Group, group_files, read_file, subjects_of
from generator.checks.report import Locator, locate_finding
from generator.checks.run import Judged, judge, versions_of
from generator.checks.schema import is_local
from generator.checks.structure import as_json
from generator.checks.subject import Subject
from generator.findings import Finding
from generator.yaml_load import Document
from schemas.versions import Versions

MIN_FILES = 400
"""Below this many files the processes cost more than they save."""

CHUNK = 64
FACTS_MARKS = (b"stowplan.dev/", b"kind: Cluster")


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """What a worker sends back of one file: values without texts, findings with places."""

    values: bytes
    findings: list[Finding]
    judged: list[tuple[int, tuple[str | int, ...], Any, list[Finding]]]

    def documents(self, file: str) -> list[Document]:
        """The file's documents, without their text."""
        return [Document(v, file, n, "") for n, v in enumerate(marshal.loads(self.values))]


def processes_for(files: Sequence[Path], jobs: int | None = None) -> int:
    """How many processes to use for some files; 1 for none besides this one."""
    if sys.platform != "linux" or len(files) < MIN_FILES:
        return 1
    return max(1, min(jobs or len(os.sched_getaffinity(0)), len(files) // (MIN_FILES // 4)))


def _folders_with_facts(files: Sequence[Path]) -> dict[Path, Mapping[str, Any]]:
    """The facts documents among the files by folder, found by a look at the bytes."""
    found: dict[Path, Mapping[str, Any]] = {}
    for path in files:
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if all(mark in data for mark in FACTS_MARKS):
            for group in group_files([(str(path), read_file(path))]):
                if group.facts is not None:
                    found[path.parent] = group.facts
    return found


def _versions_by_folder(
    files: Sequence[Path], default: Versions
) -> Iterator[tuple[Path, Versions]]:
    facts = _folders_with_facts(files)
    chosen: dict[Path, Versions] = {}
    for path in files:
        folder = path.parent
        if folder not in chosen:
            owner = next((f for f in (folder, *folder.parents) if f in facts), None)
            chosen[folder] = versions_of(facts[owner], default)[0] if owner else default
        yield path, chosen[folder]


def _judge_file(
    task: tuple[Path, Versions], engine_name: str, data: Mapping[str, Any] | None
) -> JudgedFile:
    path, versions = task
    documents, findings = read_file(path)
    engine = None if engine_name == "none" else engine_for(engine_name, data=data)
    locator = Locator()
    # Plain values: marshal is several times as quick as pickle, and both ends run one Python.
    plain = [document.value for document in documents]
    try:
        values = marshal.dumps(plain)
    except ValueError:  # a date, which marshal does not know
        values = marshal.dumps(as_json(plain))
    out = []
    for number, document in enumerate(documents):
        for item in judge(list(subjects_of(document)), versions, engine):
            placed = [locate_finding(item.subject, f, locator) for f in item.findings]
            same = item.readable is item.subject.body
            if placed or not same or item.subject.base:
                out.append((number, item.subject.base, None if same else item.readable, placed))
    return JudgedFile(values, findings, out)


def read_and_judge(
    files: Sequence[Path],
    *,
    versions: Versions,
    engine_name: str,
    data: Mapping[str, Any] | None,
    processes: int,
) -> list[Group]:
    """Read and judge files; each group comes back with its objects already judged alone."""
    tasks = list(_versions_by_folder(files, versions))
    work = partial(_judge_file, engine_name=engine_name, data=data)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = list(pool.imap(work, tasks, chunksize=CHUNK))
    groups = group_files(
        (str(path), (result.documents(str(path)), result.findings))
        for path, result in zip(files, results, strict=True)
    )
    judged: dict[tuple[str, int, tuple[str | int, ...]], tuple[Any, list[Finding]]] = {}
    for path, result in zip(files, results, strict=True):
        for number, base, readable, findings in result.judged:
            judged[str(path), number, base] = (readable, findings)
    for group in groups:
        group.judged = list(_rejoin(group.subjects, judged))
    return groups


def _rejoin(
    subjects: Sequence[Subject],
    judged: Mapping[tuple[str, int, tuple[str | int, ...]], tuple[Any, list[Finding]]],
) -> Iterator[Judged]:
    for subject in subjects:
        if subject.document is None:
            continue
        key = (subject.file, subject.document.index, subject.base)
        readable, findings = judged.get(key, (None, []))
        if not is_local(subject.body):
            yield Judged(subject, subject.body if readable is None else readable, findings)
