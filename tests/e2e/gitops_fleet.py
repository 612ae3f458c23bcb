"""A plane that a GitOps controller syncs from a repository on disk, and what runs on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .checkpoint_addon import ram_disks
from .controlplane import argocd
from .controlplane.client import Manifest
from .controlplane.kwok import add_pool, ready_nodes
from .controlplane.plane import Cluster
from .documents import HIGH_WORKLOAD, JOBSET, LOW_WORKLOAD, PODS
from .fleet_nodes import pools_for
from .fleet_repository import FleetRepository, Snapshot
from .fleets import LAYERS
from .timeline import JOBSET_LABEL

APPROVAL = "argocd.argoproj.io/deletion-approved"
#: How a server-side comparison names the object that the API server refuses.
_REFUSED = re.compile(r"in dryrun mode for resource (\w+/[\w.-]+)")


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

    def both_jobs_run(self) -> bool:
        """Whether both of the documents' jobs run whole."""
        return self.running(HIGH_WORKLOAD, LOW_WORKLOAD, pods=PODS)

    def wait_for_jobs_and_drivers(self, nodes: int) -> None:
        """Wait until both of the documents' jobs run and so many nodes have their driver."""
        self.wait(
            lambda: self.both_jobs_run() and len(self.snapshot().disks) == nodes,
            60,
            "both jobs to run and all drivers to be there",
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
