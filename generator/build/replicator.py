"""The self-hosted replicator: agents on the nodes, and the RAM disk that pods share with them.

The RAM disk is a directory in the node's own tmpfs (``/dev/shm``), not an emptyDir: it belongs to
the node, so that it is still there when a training pod, the agent or the whole DaemonSet is made
anew. Pods reach it through a PersistentVolume that an administrator applies, so no pod names a path
of the node and no container needs a privilege (docs/replicator-self-hosted.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.build.agent_pod import agent_pod
from generator.build.checkpointing import config_annotations
from generator.build.metadata import metadata
from generator.fleet import Fleet, RamDisk
from generator.manifest import Manifest
from generator.self_hosted import ACCOUNT, NAME, claim_name, service_name, volume_name
from schemas.inventory.self_hosted import Agent
from schemas.manifests.base import KubernetesObject, LabelSelector, TemplateMeta
from schemas.manifests.cluster_services import (
    DaemonSet,
    DaemonSetSpec,
    NetworkPolicy,
    NetworkPolicySpec,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Role,
    RoleBinding,
    Service,
    ServiceSpec,
)
from schemas.manifests.core import PodTemplateSpec, ServiceAccount
from schemas.manifests.scheduling import PriorityClass

HIGHEST_PRIORITY = 1_000_000_000
"""The largest value that a PriorityClass of one's own may have (kubernetes
pkg/apis/scheduling/types.go, HighestUserDefinablePriority)."""

NOMINAL_CAPACITY = "1Gi"
"""What volume and claim state: nothing reads it for a hostPath volume, and a claim's request
cannot be changed later, while the RAM disk's size can."""


def build(fleet: Fleet) -> Iterator[Manifest]:
    """The objects of every self-hosted configuration; those of a namespace once."""
    namespaces: set[str] = set()
    for disk in fleet.ram_disks.values():
        agent = disk.spec.agent
        if agent is None:
            continue
        section = ("checkpointing", disk.name)
        objects: list[KubernetesObject] = []
        if not namespaces:
            objects.append(_priority_class())
        if agent.namespace not in namespaces:
            namespaces.add(agent.namespace)
            objects += _rights(agent.namespace)
        objects += [_daemon_set(fleet, disk, agent), *_network(disk, agent)]
        for namespace in sorted({agent.namespace, *job_namespaces(fleet, disk)}):
            objects += _volume(disk, agent, namespace)
        for item in objects:
            yield Manifest("checkpointing", item.to_dict(), section)


def job_namespaces(fleet: Fleet, disk: RamDisk) -> list[str]:
    """The namespaces whose workloads use a configuration."""
    return sorted(
        {
            workload.namespace
            for workload in fleet.spec.workloads.values()
            if workload.checkpoint is not None and workload.checkpoint.configuration == disk.name
        }
    )


def labels(disk: RamDisk) -> dict[str, str]:
    """The labels by which Service, DaemonSet and NetworkPolicy know the agents."""
    return {"app.kubernetes.io/instance": disk.name, "app.kubernetes.io/name": NAME}


def _priority_class() -> PriorityClass:
    """Above every job: a job on a node without its agent waits for ever, and an agent that makes
    room for a job would take the job's own checkpoints out of reach."""
    return PriorityClass(
        metadata=metadata("PriorityClass", NAME),
        value=HIGHEST_PRIORITY,
        description="Checkpoint replicator: one agent on every node of its pool",
    )


def _rights(namespace: str) -> list[KubernetesObject]:
    """What replicator/platform/kubernetes.py asks of the API server, and nothing else."""
    group = "rbac.authorization.k8s.io"
    return [
        ServiceAccount(metadata=metadata("ServiceAccount", ACCOUNT, namespace)),
        Role(
            metadata=metadata("Role", ACCOUNT, namespace),
            rules=[
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "verbs": ["create", "get", "update"],
                }
            ],
        ),
        RoleBinding(
            metadata=metadata("RoleBinding", ACCOUNT, namespace),
            role_ref={"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            subjects=[{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        ),
    ]


def _daemon_set(fleet: Fleet, disk: RamDisk, agent: Agent) -> DaemonSet:
    return DaemonSet(
        metadata=metadata(
            "DaemonSet",
            service_name(disk.name),
            agent.namespace,
            labels=labels(disk),
            annotations=config_annotations(fleet, disk)
            | {"stowplan.dev/provider": "self-hosted", "stowplan.dev/ram-disk-size": disk.size},
        ),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels=labels(disk)),
            # The RAM disk outlives its agent, and a job goes on without one for a while.
            update_strategy={
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"},
            },
            template=PodTemplateSpec(
                metadata=TemplateMeta(labels=labels(disk)),
                spec=agent_pod(fleet, disk, agent),
            ),
        ),
    )


def _network(disk: RamDisk, agent: Agent) -> list[KubernetesObject]:
    """A headless Service that resolves to all agents, and a policy that keeps others off their
    port."""
    name = service_name(disk.name)
    peers = {"podSelector": {"matchLabels": labels(disk)}}
    return [
        Service(
            metadata=metadata("Service", name, agent.namespace, labels=labels(disk)),
            spec=ServiceSpec(
                clusterIP="None",
                # An agent answers for itself before its first probe.
                publish_not_ready_addresses=True,
                selector=labels(disk),
                ports=[
                    {"name": "peers", "port": agent.port, "protocol": "TCP", "targetPort": "peers"}
                ],
            ),
        ),
        NetworkPolicy(
            metadata=metadata("NetworkPolicy", name, agent.namespace, labels=labels(disk)),
            spec=NetworkPolicySpec(
                pod_selector=LabelSelector(match_labels=labels(disk)),
                policy_types=["Ingress"],
                ingress=[
                    {"from": [peers], "ports": [{"port": agent.port, "protocol": "TCP"}]},
                    # Metrics are read-only; which namespace scrapes them is not known here.
                    {
                        "from": [{"namespaceSelector": {}}],
                        "ports": [{"port": agent.metrics_port, "protocol": "TCP"}],
                    },
                ],
            ),
        ),
    ]


def _volume(disk: RamDisk, agent: Agent, namespace: str) -> list[KubernetesObject]:
    """The node's tmpfs for one namespace: bound to its claim by name on both sides."""
    volume, claim = volume_name(disk.name, namespace), claim_name(disk.name)
    modes = ["ReadWriteMany"]
    return [
        PersistentVolume(
            metadata=metadata("PersistentVolume", volume),
            spec=PersistentVolumeSpec(
                access_modes=modes,
                capacity={"storage": NOMINAL_CAPACITY},
                claim_ref={
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "name": claim,
                    "namespace": namespace,
                },
                host_path={"path": agent.node_path, "type": "Directory"},
            ),
        ),
        PersistentVolumeClaim(
            metadata=metadata("PersistentVolumeClaim", claim, namespace),
            spec=PersistentVolumeClaimSpec(
                access_modes=modes,
                resources={"requests": {"storage": NOMINAL_CAPACITY}},
                volume_name=volume,
            ),
        ),
    ]
