"""Simulated nodes: pools as GKE makes them, kept alive by kwok."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import build, versions
from .client import Client, Manifest

#: Stages of the kwok module. Not pod-complete: a training job does not end by itself.
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)

POOL_LABEL = "cloud.google.com/gke-nodepool"


@dataclass(frozen=True)
class NodePool:
    """Nodes of one kind.

    Attributes:
        name: pool name, the value of the pool label and the stem of node names.
        nodes: how many nodes.
        accelerator: resource name of the accelerator; it is also the key of the pool's taint.
        devices: accelerators per node.
        labels: labels on top of those that GKE gives to every node.
        cpu: cores per node.
        memory: memory per node as a Kubernetes quantity.
    """

    name: str
    nodes: int
    accelerator: str = ""
    devices: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "8"
    memory: str = "32Gi"

    def node_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{index}" for index in range(self.nodes))

    def manifest(self, name: str) -> Manifest:
        """The Node object that a kubelet of this pool would register."""
        capacity = {"cpu": self.cpu, "memory": self.memory, "pods": "110"}
        taints = []
        if self.accelerator:
            capacity[self.accelerator] = str(self.devices)
            taints = [{"key": self.accelerator, "value": "present", "effect": "NoSchedule"}]
        labels = {
            "type": "kwok",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            POOL_LABEL: self.name,
            **self.labels,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints} if taints else {},
            "status": {"capacity": capacity, "allocatable": dict(capacity)},
        }


def tpu_v6e_pool(name: str, nodes: int = 4, topology: str = "4x4") -> NodePool:
    """A ct6e-standard-4t pool; with the defaults one v6e slice of 16 chips on four hosts."""
    return NodePool(
        name,
        nodes,
        "google.com/tpu",
        4,
        {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": topology,
            "node.kubernetes.io/instance-type": "ct6e-standard-4t",
        },
        cpu="180",
        memory="720Gi",
    )


def write_stages(path: Path) -> Path:
    """The stages as one file for ``kwok --config``."""
    program = versions.kwok()
    folder = build.module_folder(program.module, program.version) / "kustomize/stage"
    path.write_text("\n---\n".join((folder / stage).read_text() for stage in _STAGES))
    return path


def add_pool(client: Client, pool: NodePool) -> None:
    """Register the nodes of a pool."""
    for name in pool.node_names():
        client.create(pool.manifest(name))


def remove_node(client: Client, name: str) -> None:
    """Lose one node, as when its machine is gone and the cloud controller deletes the object."""
    client.delete("v1", "Node", name, grace_s=0)


def ready_nodes(client: Client) -> set[str]:
    """Names of nodes that report Ready and are free of the not-ready taint."""
    ready = set()
    for node in client.items("v1", "Node"):
        conditions = node.get("status", {}).get("conditions", [])
        taints = node["spec"].get("taints", [])
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and not any(
            taint["key"] == "node.kubernetes.io/not-ready" for taint in taints
        ):
            ready.add(node["metadata"]["name"])
    return ready
