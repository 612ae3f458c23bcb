"""A copy of the example fleet in a Git repository, and what ``stowplan diff`` says of a commit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .controlplane.client import Manifest, read_manifest
from .fleets import NOT_RESOURCES, ROOT

#: A run as the numbers beside a change name it.
_RUN = re.compile(r"\bdefault/([\w-]+)")
#: What the diff says of files that no cluster reads.
_NOT_SYNCED = ("Cluster", "File")
_STOWPLAN = (
    sys.executable,
    "-c",
    "import sys; from generator.cli.main import main; sys.exit(main())",
)


@dataclass(frozen=True)
class Change:
    """What ``stowplan diff`` says of one object.

    Attributes:
        previous: its name before, where it is replaced.
        nodes: how many nodes it touches, None where the diff names no number.
        endangers: runs whose pods it may evict.
    """

    verb: str
    kind: str
    name: str
    impact: str
    previous: str = ""
    nodes: int | None = None
    endangers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Effect:
    """What a change does, foretold or seen.

    Attributes:
        stopped: runs whose pods stop.
        emptied: nodes whose RAM disk is emptied.
        refused: objects (``Kind/name``) that keep their old state since the API says no.
    """

    stopped: frozenset[str] = frozenset()
    emptied: int = 0
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Snapshot:
    """What runs at one moment: pods of each run, and each node's RAM disk, by UID."""

    pods: dict[str, frozenset[str]]
    disks: dict[str, str]

    def effect(self, after: Snapshot) -> Effect:
        """What was lost between this moment and a later one."""
        return Effect(
            stopped=frozenset(
                run for run, pods in self.pods.items() if not pods <= after.pods.get(run, set())
            ),
            emptied=sum(after.disks.get(node) != uid for node, uid in self.disks.items()),
        )


def foretold(changes: Iterable[Change]) -> Effect:
    """What the impact classes of a diff promise."""
    found = list(changes)
    return Effect(
        stopped=frozenset(
            change.previous or change.name
            for change in found
            if change.kind == "JobSet" and change.impact == "restart"
        ),
        emptied=sum(change.nodes or 0 for change in found if change.impact == "ramdisk-loss"),
        refused=frozenset(
            f"{change.kind}/{change.name}" for change in found if change.impact == "blocked"
        ),
    )


class FleetRepository:
    """A copy of the example fleet with one cluster, its compiled tree committed on ``main``."""

    def __init__(self, folder: Path, cluster: str) -> None:
        self.folder = folder
        self.cluster = cluster
        self.target = f"targets/{cluster}.yml"
        shutil.copytree(ROOT / "inventory", folder / "inventory")
        for path in (folder / "inventory/targets").iterdir():
            if path.name != f"{cluster}.yml":
                path.unlink()
        (folder / ".gitignore").write_text(".stowplan/\n")
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    @property
    def compiled(self) -> Path:
        return self.folder / "compiled" / self.cluster

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text of the inventory that must be there once."""
        path = self.folder / "inventory" / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} holds {text.count(old)} times {old!r}"
        path.write_text(text.replace(old, new))

    def stowplan(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the repository; the caller judges its exit status."""
        return subprocess.run(
            [*_STOWPLAN, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def compile(self) -> None:
        answer = self.stowplan("compile", "--jobs", "1")
        assert answer.returncode == 0, answer.stdout + answer.stderr

    def commit(self, message: str) -> str:
        """Commit the whole work tree and return the commit."""
        self._git("add", "--all")
        author = ("-c", "user.name=stowplan", "-c", "user.email=stowplan@example.com")
        self._git(*author, "commit", "--quiet", f"--message={message}")
        return self._git("rev-parse", "HEAD").strip()

    def propose(self, message: str, *, by_hand: bool = False) -> list[Change]:
        """Commit what was edited on a branch of its own, and say what the review would.

        Args:
            message: the commit's.
            by_hand: the compiled tree itself was edited, so it is not compiled.
        """
        self._git("checkout", "--quiet", "-B", "review")
        if not by_hand:
            self.compile()
        self.commit(message)
        answer = self.stowplan("diff", "--base", "main", "--head", "review", "--format", "json")
        assert answer.returncode == 1, answer.stdout + answer.stderr
        changes = [_change(entry) for entry in json.loads(answer.stdout)["changes"]]
        return [change for change in changes if change.kind not in _NOT_SYNCED]

    def merge(self) -> str:
        """Bring the proposal to ``main``, which Argo CD follows; return the commit."""
        self._git("checkout", "--quiet", "main")
        self._git("merge", "--quiet", "--ff-only", "review")
        return self._git("rev-parse", "HEAD").strip()

    def manifests(self, layer: str) -> list[Manifest]:
        return [
            read_manifest(path)
            for path in sorted((self.compiled / layer).glob("*.yaml"))
            if path.name not in NOT_RESOURCES
        ]

    def configurations(self) -> list[Manifest]:
        """The CheckpointConfigurations that Git has."""
        return [
            m for m in self.manifests("checkpointing") if m["kind"] == "CheckpointConfiguration"
        ]

    def run_of(self, workload: str) -> str:
        """Name of the JobSet that Git has for a workload."""
        (name,) = (
            str(manifest["metadata"]["name"])
            for manifest in self.manifests("workloads")
            if manifest["metadata"]["annotations"]["stowplan.dev/workload"] == workload
        )
        return name

    def _git(self, *arguments: str) -> str:
        completed = subprocess.run(
            ["git", "-C", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert completed.returncode == 0, completed.stderr
        return completed.stdout


def _change(entry: dict[str, Any]) -> Change:
    resource = entry["resource"]
    previous = entry.get("previous", {}).get("name", "")
    return Change(
        entry["verb"],
        resource["kind"],
        resource["name"],
        entry["impact"],
        previous,
        entry.get("nodes"),
        tuple(
            run
            for line in entry["derived"]
            if line["name"] == "may-evict"
            for run in _RUN.findall(line["text"])
        ),
    )
