"""Read and judge many files in several processes.

Objects are judged alone in the workers, which also look up the lines of what they find; what the
objects say of each other is judged by the parent, which gets the values but not the texts. Engines
are loaded in the workers, after the fork.
"""

from __future__ import annotations

import gc
import marshal
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
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
from generator.yaml_load import MAX_FILE_BYTES, Document
from schemas.versions import Versions

MIN_FILES = 400
"""Below this many files the processes cost more than they save."""

CHUNK = 128
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


def _facts_of(path: Path) -> Mapping[str, Any] | None:
    """The facts document of a file, None for nearly every file, found by a look at its bytes."""
    try:
        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                return None
            data = file.read()
    except OSError:
        return None
    if not all(mark in data for mark in FACTS_MARKS):
        return None
    facts = [group.facts for group in group_files([(str(path), read_file(path))])]
    return next((found for found in facts if found is not None), None)


def _tasks(
    files: Sequence[Path], facts: Mapping[Path, Mapping[str, Any]], default: Versions
) -> Iterator[tuple[Sequence[Path], Versions]]:
    """Parts of the files, in order, with the versions that their folders' facts state."""
    chosen: dict[Path, Versions] = {}

    def versions(path: Path) -> Versions:
        folder = path.parent
        if folder not in chosen:
            owner = next((f for f in (folder, *folder.parents) if f in facts), None)
            chosen[folder] = versions_of(facts[owner], default)[0] if owner else default
        return chosen[folder]

    for own, part in groupby(files, versions):
        paths = list(part)
        for start in range(0, len(paths), CHUNK):
            yield paths[start : start + CHUNK], own


def _judge_files(
    task: tuple[Sequence[Path], Versions], engine_name: str, data: Mapping[str, Any] | None
) -> list[JudgedFile]:
    """Read and judge some files in this process, one step over all of them after the other.

    A processor that keeps to one step has its code at hand: file by file takes a third longer.
    """
    paths, versions = task
    engine = None if engine_name == "none" else engine_for(engine_name, data=data)
    contents = [read_file(path) for path in paths]
    subjects = [s for documents, _ in contents for d in documents for s in subjects_of(d)]
    judged: dict[int, list[Judged]] = {}
    for item in judge(subjects, versions, engine):
        judged.setdefault(id(item.subject.document), []).append(item)
    locator = Locator()
    out = []
    for documents, findings in contents:
        items = [
            entry
            for number, document in enumerate(documents)
            for item in judged.get(id(document), ())
            if (entry := _packed(number, item, locator)) is not None
        ]
        out.append(JudgedFile(_marshalled([d.value for d in documents]), findings, items))
    return out


def _packed(
    number: int, item: Judged, locator: Locator
) -> tuple[int, tuple[str | int, ...], Any, list[Finding]] | None:
    placed = [locate_finding(item.subject, f, locator) for f in item.findings]
    same = item.readable is item.subject.body
    if placed or not same or item.subject.base:
        return number, item.subject.base, None if same else item.readable, placed
    return None


def _marshalled(plain: list[Any]) -> bytes:
    """Plain values: marshal is several times as quick as pickle, and both ends run one Python."""
    try:
        return marshal.dumps(plain)
    except ValueError:  # a date, which marshal does not know
        return marshal.dumps(as_json(plain))


def _begin() -> None:
    """Prepare a worker: signals are the parent's business, and it ends its workers by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A worker's garbage goes with it; collecting it would cost a tenth of its time.
    gc.disable()


def read_and_judge(
    files: Sequence[Path],
    *,
    versions: Versions,
    engine_name: str,
    data: Mapping[str, Any] | None,
    processes: int,
) -> list[Group]:
    """Read and judge files; each group comes back with its objects already judged alone."""
    work = partial(_judge_files, engine_name=engine_name, data=data)
    with multiprocessing.get_context("fork").Pool(processes, _begin) as pool:
        stated = zip(files, pool.imap(_facts_of, files, chunksize=CHUNK), strict=True)
        facts = {path.parent: found for path, found in stated if found is not None}
        results = [
            result for part in pool.imap(work, _tasks(files, facts, versions)) for result in part
        ]
        pool.close()
        pool.join()
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
