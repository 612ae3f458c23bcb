"""What was built from what, so that an unchanged cluster is not built again.

Kept in ``.stowplan/state.json`` beside the inventory; it can be deleted at any time. A cluster is
current if the files that it was made from, the list of classes, stowplan itself and the files that
it became are all as they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from generator.findings import Finding, Location, Severity
from generator.gitops import Member
from generator.inventory import Tree
from generator.output import Output, Staged, files_below, fingerprint

FOLDER = ".stowplan"
_RACY_NS = 2_000_000_000
"""A file changed this shortly before it was read may change again within its time stamp's tick."""


def tool_key() -> str:
    """A hash of stowplan's own code and data, by size and time."""
    packages = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for name in ("generator", "schemas", "policies"):
        for path, entry in sorted(files_below(str(packages / name)), key=lambda item: item[0]):
            if path.endswith((".py", ".yaml", ".json", ".rego", ".gz")):
                stat = entry.stat()
                digest.update(f"{name}/{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _finding_from(row: dict[str, Any]) -> Finding:
    def place(value: dict[str, Any] | None) -> Location | None:
        return Location(**value) if value else None

    return Finding(
        **{
            **row,
            "severity": Severity(row["severity"]),
            "path": tuple(row["path"]),
            "via": tuple(row["via"]),
            "inventory": place(row["inventory"]),
            "manifest": place(row["manifest"]),
        }
    )


class State:
    """The memory of earlier runs."""

    def __init__(self, root: Path, tree: Tree, *, enabled: bool) -> None:
        self._root = root
        self._file = root / FOLDER / "state.json"
        self._enabled = enabled
        self._checked: dict[str, bool] = {}
        self._built: list[tuple[Staged, list[Finding]]] = []
        listing = "\n".join(sorted(tree.shown(path) for path in tree.classes.values()))
        self._key = hashlib.sha256(f"{tool_key()}\n{listing}".encode()).hexdigest()
        self._inputs: dict[str, list[Any]] = {}
        self._clusters: dict[str, dict[str, Any]] = {}
        if enabled:
            self._load()

    def _load(self) -> None:
        try:
            data = json.loads(self._file.read_bytes())
            if data["key"] == self._key:
                self._inputs, self._clusters = data["inputs"], data["clusters"]
        except (OSError, ValueError, KeyError, TypeError):
            return  # no memory, or one that cannot be read: everything is built

    def is_current(self, cluster: str, output: Output) -> bool:
        """Whether a cluster's inputs and outputs are as the last run left them."""
        entry = self._clusters.get(cluster)
        if entry is None or "member" not in entry:
            return False
        if entry["day"] not in ("", date.today().isoformat()):
            return False
        if not all(self._unchanged(path) for path in entry["inputs"]):
            return False
        return bool(fingerprint(str(output.root / cluster)) == entry["outputs"])

    def findings_of(self, cluster: str) -> list[Finding]:
        """What was found when a current cluster was built."""
        return [_finding_from(row) for row in self._clusters[cluster]["findings"]]

    def member_of(self, cluster: str) -> Member | None:
        """What the whole fleet's objects need to know of a current cluster."""
        row = self._clusters[cluster]["member"]
        return Member.from_row(row) if row is not None else None

    def foreign_of(self, cluster: str) -> list[str]:
        """Files of others in a current cluster's folder."""
        foreign: list[str] = self._clusters[cluster]["foreign"]
        return foreign

    def _unchanged(self, path: str) -> bool:
        known = self._checked.get(path)
        if known is None:
            known = self._checked[path] = self._compare(path)
        return known

    def _compare(self, path: str) -> bool:
        recorded = self._inputs.get(path)
        if recorded is None:
            return False
        try:
            file = f"{self._root}/{path}"
            stat = os.stat(file)  # noqa: PTH116 - a large tree has thousands
            if _stamp(stat) == recorded[:3]:
                return True
            return bool(stat.st_size == recorded[0] and _digest(file) == recorded[3])
        except OSError:
            return False

    def remember(self, staged: Staged, findings: list[Finding]) -> None:
        """Take note of a cluster that was built; :meth:`save` writes it once it is in place."""
        self._built.append((staged, findings))

    def save(self, output: Output) -> None:
        """Write the memory. A folder that cannot be written only costs speed, so it is no error."""
        if not self._enabled or not self._built:
            return
        for path in {path for staged, _ in self._built for path in staged.sources}:
            self._record(path)
        for staged, findings in self._built:
            self._clusters[staged.cluster] = {
                "inputs": staged.sources,
                "outputs": staged.fingerprint or fingerprint(str(output.root / staged.cluster)),
                "foreign": staged.foreign,
                "member": staged.member.to_row() if staged.member else None,
                "day": staged.day,
                "findings": [asdict(finding) for finding in findings],
            }
        try:
            self._file.parent.mkdir(exist_ok=True)
            ignore = self._file.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            temporary = self._file.with_suffix(f".{os.getpid()}")
            data = {"key": self._key, "inputs": self._inputs, "clusters": self._clusters}
            temporary.write_text(json.dumps(data, separators=(",", ":")))
            temporary.replace(self._file)
        except OSError:
            return

    def _record(self, path: str) -> None:
        file = f"{self._root}/{path}"
        try:
            stat = os.stat(file)  # noqa: PTH116 - as _compare
            racy = time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) < _RACY_NS
            if racy or self._inputs.get(path, [])[:3] != _stamp(stat):
                size, mtime, ctime = _stamp(stat)
                self._inputs[path] = [size, 0 if racy else mtime, ctime, _digest(file)]
        except OSError:
            self._inputs.pop(path, None)


def _stamp(stat: os.stat_result) -> list[int]:
    """What changes when a file does; the change time even if the modification time is set back."""
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _digest(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - as _compare
        return hashlib.sha256(file.read()).hexdigest()
