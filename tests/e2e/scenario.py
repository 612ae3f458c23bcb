"""What the scenarios of the control plane share: set up a fleet, hurt it, look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .controlplane.client import Manifest
from .controlplane.kwok import POOL_LABEL, NodePool, add_pool, ready_nodes, remove_node
from .controlplane.plane import Cluster
from .documents import JOBSET, KUEUE
from .timeline import JOB_INDEX_LABEL, JOBSET_LABEL, Recorder, pod_state, workload_state


@dataclass(frozen=True)
class PlacedPod:
    """A pod as a scenario sees it."""

    name: str
    job_index: str
    state: str
    node: str
    pool: str


class Scenario:
    """One story on one plane, recorded."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.recorder = recorder
        self._pool_of: dict[str, str] = {}

    def add_pools(self, pools: Iterable[NodePool]) -> None:
        """Register pools and wait until their nodes are ready."""
        expected = set()
        for pool in pools:
            add_pool(self.client, pool)
            self._pool_of |= dict.fromkeys(pool.node_names(), pool.name)
            expected |= set(pool.node_names())
        self.cluster.wait(lambda: ready_nodes(self.client) >= expected, 90, "nodes to be ready")

    def apply(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            namespace = manifest["metadata"].get("namespace")
            if namespace and namespace != "default":
                self.cluster.ensure_namespace(namespace)
            self.client.apply(manifest)

    def lose_nodes(self, *names: str) -> float:
        """Delete nodes, as a cloud controller does for machines that are gone."""
        for name in names:
            remove_node(self.client, name)
        return self.recorder.mark(f"lost: {', '.join(names)}")

    def repair(self, pool: NodePool) -> None:
        """Register the nodes of a pool that are gone, and wait until all are ready."""
        for name in pool.node_names():
            if self.client.find("v1", "Node", name) is None:
                self.client.create(pool.manifest(name))
        expected = set(pool.node_names())
        self.cluster.wait(lambda: ready_nodes(self.client) >= expected, 90, "repaired nodes")
        self.recorder.mark(f"repaired: {pool.name}")

    def cordon_pool(self, pool: str) -> None:
        """Close what is left of a pool to new pods."""
        for node in self.client.items("v1", "Node", selector=f"{POOL_LABEL}={pool}"):
            name = node["metadata"]["name"]
            self.client.merge("v1", "Node", name, {"spec": {"unschedulable": True}})
        self.recorder.mark(f"cordoned: {pool}")

    def pods(self, jobset: str, namespace: str = "default") -> list[PlacedPod]:
        """The pods of a JobSet, those being deleted included."""
        found = self.client.items("v1", "Pod", namespace, f"{JOBSET_LABEL}={jobset}")
        return [self._placed(pod) for pod in found]

    def running(self, jobset: str) -> list[PlacedPod]:
        return [pod for pod in self.pods(jobset) if pod.state == "Running"]

    def slices(self, jobset: str) -> dict[str, set[str]]:
        """Pools that the running pods of each job index (one slice) are on."""
        pools: dict[str, set[str]] = {}
        for pod in self.running(jobset):
            pools.setdefault(pod.job_index, set()).add(pod.pool)
        return pools

    def all_running(self, jobset: str, pods: int) -> bool:
        """Whether the JobSet has exactly so many pods, and all of them run."""
        placed = self.pods(jobset)
        return len(placed) == pods and all(
            pod.state == "Running" and self.client.find("v1", "Node", pod.node) for pod in placed
        )

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> float:
        """Wait for ``condition``, mark the moment on the time line and return it.

        Raises:
            TimeoutError: with the state of all pods, so that a failure explains itself.
        """
        try:
            self.cluster.wait(condition, seconds, what)
        except TimeoutError as error:
            self.recorder.mark(f"not reached: {what}")
            raise TimeoutError(f"{error}\n{self.picture()}") from None
        return self.recorder.mark(what)

    def jobset(self, name: str) -> Manifest:
        return self.client.get(JOBSET, "JobSet", name, "default")

    def delete_jobset(self, name: str) -> None:
        """Delete a JobSet, as when its run is over and is taken out of Git."""
        self.client.delete(JOBSET, "JobSet", name, "default")
        self.recorder.mark(f"deleted: {name}")

    def restarts(self, jobset: str) -> int:
        return int(self.jobset(jobset).get("status", {}).get("restarts", 0))

    def workload(self, jobset: str) -> Manifest:
        """The Workload that Kueue keeps for a JobSet."""
        for workload in self.client.items(KUEUE, "Workload"):
            owners = workload["metadata"].get("ownerReferences", [])
            if any(owner["name"] == jobset for owner in owners):
                return workload
        raise LookupError(f"no Workload of JobSet {jobset}")

    def workload_state(self, jobset: str) -> str:
        try:
            return workload_state(self.workload(jobset))[0]
        except LookupError:
            return "absent"

    def picture(self) -> str:
        """All pods and workloads as lines of text."""
        lines = []
        for pod in sorted(
            self.client.items("v1", "Pod"), key=lambda item: str(item["metadata"]["name"])
        ):
            placed = self._placed(pod)
            reason = next(
                (
                    condition.get("message", "")
                    for condition in pod.get("status", {}).get("conditions", [])
                    if condition["type"] == "PodScheduled" and condition["status"] == "False"
                ),
                "",
            )
            lines.append(f"{placed.name}: {placed.state} on {placed.node or '-'} {reason}")
        for workload in self.client.items(KUEUE, "Workload"):
            state, reason = workload_state(workload)
            lines.append(f"{workload['metadata']['name']}: {state} {reason}")
        return "\n".join(lines)

    def _placed(self, pod: Manifest) -> PlacedPod:
        node = pod["spec"].get("nodeName", "")
        return PlacedPod(
            pod["metadata"]["name"],
            pod["metadata"]["labels"].get(JOB_INDEX_LABEL, ""),
            pod_state(pod),
            node,
            self._pool_of.get(node, ""),
        )


@contextmanager
def play(cluster: Cluster, title: str, story: str = "") -> Iterator[Scenario]:
    """Record a scenario on ``cluster``."""
    with Recorder(cluster.client, title, story) as recorder:
        yield Scenario(cluster, recorder)
