"""A fleet in a Git repository on disk, reviewed with ``stowplan diff`` and synced by Argo CD."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .checkpoint_addon import ram_disks
from .controlplane import argocd
from .controlplane.client import Manifest, read_manifest
from .controlplane.kwok import add_pool, ready_nodes
from .controlplane.plane import Cluster
from .fleet_nodes import pools_for
from .fleets import LAYERS, NOT_RESOURCES, ROOT
from .timeline import JOBSET_LABEL

JOBSET = "jobset.x-k8s.io/v1alpha2"
CONFIG = "checkpointing.gke.io/v1"
APPROVAL = "argocd.argoproj.io/deletion-approved"
#: How a server-side comparison names the object that the API server refuses.
_REFUSED = re.compile(r"in dryrun mode for resource (\w+/[\w.-]+)")
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


@dataclass
class Fleet:
    """A plane, and the repository whose compiled tree is synced to it."""

    cluster: Cluster
    repository: FleetRepository

    def add_nodes(self) -> set[str]:
        """Simulate a pool for each slice, with the label by which drivers find its nodes."""
        (config,) = self.repository.configurations()
        names: set[str] = set()
        for pool in pools_for(self.repository.manifests("workloads")):
            labels = {**pool.labels, **config["spec"]["nodeSelector"]}
            add_pool(self.cluster.client, replace(pool, labels=labels))
            names |= set(pool.node_names())
        self.cluster.wait(lambda: ready_nodes(self.cluster.client) >= names, 60, "ready nodes")
        return names

    def explain(self) -> str:
        """What runs, for a failure."""
        now = self.snapshot()
        pods = {run: len(uids) for run, uids in now.pods.items()}
        return f"running pods: {pods}, nodes with a driver: {len(now.disks)}"

    def snapshot(self) -> Snapshot:
        """What runs now."""
        pods: dict[str, set[str]] = {}
        for pod in self.cluster.client.items("v1", "Pod", "default", JOBSET_LABEL):
            metadata = pod["metadata"]
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in metadata:
                pods.setdefault(metadata["labels"][JOBSET_LABEL], set()).add(metadata["uid"])
        frozen = {run: frozenset(uids) for run, uids in sorted(pods.items())}
        return Snapshot(frozen, ram_disks(self.cluster.client))

    def running(self, *workloads: str, pods: int) -> bool:
        """Whether the runs that Git has for these workloads run so many pods each."""
        found = self.snapshot().pods
        return all(
            len(found.get(self.repository.run_of(workload), ())) == pods for workload in workloads
        )

    def hold_pods(self, run: str, finalizers: list[str]) -> None:
        """Let a run's pods end slowly, as real ones do: they stay on their nodes until released."""
        client = self.cluster.client
        for pod in client.items("v1", "Pod", "default", f"{JOBSET_LABEL}={run}"):
            patch = {"metadata": {"finalizers": finalizers}}
            client.merge("v1", "Pod", pod["metadata"]["name"], patch, "default")

    def jobset(self, name: str) -> Manifest:
        return self.cluster.client.get(JOBSET, "JobSet", name, "default")

    def generations(self) -> dict[str, int]:
        """Generations of Git's objects in the cluster; a write to a spec raises one."""
        found = {}
        for layer in LAYERS:
            for manifest in self.repository.manifests(layer):
                live = self.find(manifest)
                if live is not None:
                    key = f"{manifest['kind']}/{manifest['metadata']['name']}"
                    found[key] = int(live["metadata"].get("generation", 0))
        return found

    def find(self, manifest: Manifest) -> Manifest | None:
        """The live object of a manifest."""
        metadata = manifest["metadata"]
        return self.cluster.client.find(
            manifest["apiVersion"],
            manifest["kind"],
            metadata["name"],
            metadata.get("namespace", ""),
        )

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> None:
        """Wait, and on failure tell what Argo CD says."""
        try:
            self.cluster.wait(condition, seconds, what)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.explain()}") from None


@dataclass
class ArgoFleet(Fleet):
    """A plane with Argo CD, and the repository that it syncs."""

    def application(self, layer: str) -> Manifest:
        name = f"{self.repository.cluster}-{layer}"
        found = self.cluster.client.find(argocd.APPLICATION, "Application", name, argocd.NAMESPACE)
        return found or {}

    def _status(self, layer: str) -> Manifest:
        status: Manifest = self.application(layer).get("status", {})
        return status

    def state(self, layer: str) -> tuple[str, str]:
        """Sync and health status."""
        status = self._status(layer)
        return (
            status.get("sync", {}).get("status", ""),
            status.get("health", {}).get("status", ""),
        )

    def states(self) -> dict[str, tuple[str, str]]:
        """Sync and health status of every layer's application."""
        return {layer: self.state(layer) for layer in LAYERS}

    def syncs(self) -> dict[str, int]:
        """How often each application has been synced."""
        return {layer: len(self._status(layer).get("history", [])) for layer in LAYERS}

    def merge(self) -> None:
        """Merge the proposal and have every application look at once."""
        revision = self.repository.merge()
        self.refresh()
        self.wait(
            lambda: all(
                self._status(layer).get("sync", {}).get("revision") == revision for layer in LAYERS
            ),
            60,
            "a comparison with the new commit",
        )

    def refresh(self) -> None:
        for layer in LAYERS:
            argocd.refresh(self.cluster.client, f"{self.repository.cluster}-{layer}")

    def operation(self, layer: str) -> tuple[str, str]:
        """Phase and message of the last sync."""
        operation = self._status(layer).get("operationState", {})
        return operation.get("phase", ""), operation.get("message", "")

    def said(self, layer: str) -> str:
        """Messages of the last sync, of its resources, and of the comparison."""
        status = self._status(layer)
        operation = status.get("operationState", {})
        resources = operation.get("syncResult", {}).get("resources", [])
        messages = [operation.get("message", ""), *(r.get("message", "") for r in resources)]
        return "\n".join([*messages, *(c.get("message", "") for c in status.get("conditions", []))])

    def question(self, layer: str) -> str:
        """Name of the object that Argo CD asks whether to prune, empty without a question."""
        phase, message = self.operation(layer)
        asked = phase == "Running" and message.startswith("Waiting for pruning confirmation of ")
        return message.rpartition("/")[2] if asked else ""

    def health(self, layer: str, name: str) -> tuple[str, str]:
        """Health of one object and its message, as Argo CD's own checks judge it."""
        (found,) = (r for r in self._status(layer)["resources"] if r["name"] == name)
        return found["health"]["status"], found["health"].get("message", "")

    def terminate(self, layer: str) -> None:
        """End the running sync, as ``argocd app terminate-op`` does."""
        answer = self.cluster.kubectl.run(
            "patch",
            "application",
            f"{self.repository.cluster}-{layer}",
            f"--namespace={argocd.NAMESPACE}",
            "--type=merge",
            '--patch={"status":{"operationState":{"phase":"Terminating"}}}',
        )
        assert answer.returncode == 0, answer.stderr

    def refused(self) -> frozenset[str]:
        """Objects (``Kind/name``) that the API server refuses, in a sync or in a comparison."""
        found = set()
        for layer in LAYERS:
            result = self._status(layer).get("operationState", {}).get("syncResult", {})
            found |= {
                f"{resource['kind']}/{resource['name']}"
                for resource in result.get("resources", [])
                if resource["status"] == "SyncFailed"
            }
            found |= set(_REFUSED.findall(self.said(layer)))
        return frozenset(found)

    def approve(self, layer: str) -> None:
        """Say yes to the deletions that an application waits to be allowed, as the runbook does."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        answer = self.cluster.kubectl.run(
            "annotate",
            "application",
            f"{self.repository.cluster}-{layer}",
            f"--namespace={argocd.NAMESPACE}",
            "--overwrite",
            f"{APPROVAL}={stamp}",
        )
        assert answer.returncode == 0, answer.stderr

    def explain(self) -> str:
        """State, last operation and resources out of order of every application."""
        lines = [super().explain()]
        for layer in LAYERS:
            lines.append(f"{layer}: {self.state(layer)} {self.operation(layer)}")
            for resource in self._status(layer).get("resources", []):
                health = resource.get("health", {}).get("status", "-")
                if resource.get("status") != "Synced" or health not in ("Healthy", "-"):
                    lines.append(
                        f"  {resource['kind']} {resource['name']}: {resource.get('status')} {health}"
                    )
            lines += [f"  {text}" for text in self.said(layer).splitlines() if text][:12]
        return "\n".join(lines)
