"""How a job's pods reach their node's RAM disk: through GKE's driver, or beside the self-hosted
agent."""

from __future__ import annotations

from typing import Any

from generator.build.agent_pod import pod_user
from generator.build.frameworks import (
    COMPLETION_INDEX,
    JOB_INDEX_LABEL,
    JOBSET_NAME_LABEL,
    field_variable,
)
from generator.fleet import Fleet, RamDisk
from generator.jobs import Job
from generator.self_hosted import claim_name, directory
from schemas.manifests.checkpointing import CSI_DRIVER
from schemas.manifests.core import Container, ResourceRequirements
from schemas.quantity import format_quantity

VOLUME = "checkpoint"
JAX_COORDINATOR_PORT = 8476
"""The port that JAX itself takes for its coordinator (jax/_src/clusters/k8s_cluster.py)."""

_RANKS_RESOURCES = ResourceRequirements(
    limits={"memory": "128Mi"}, requests={"cpu": "100m", "memory": "128Mi"}
)


def self_hosted_disk(fleet: Fleet, job: Job) -> RamDisk | None:
    """The self-hosted RAM disk that a job's pods save to; None where GKE's driver serves them."""
    if not job.checkpointed or job.spec.checkpoint is None:
        return None
    disk = fleet.ram_disks.get(job.spec.checkpoint.configuration)
    return disk if disk is not None and disk.self_hosted else None


def checkpoint_volume(fleet: Fleet, job: Job) -> dict[str, Any]:
    """The pod's volume."""
    disk = self_hosted_disk(fleet, job)
    if disk is None:
        return {"name": VOLUME, "csi": {"driver": CSI_DRIVER}}
    return {"name": VOLUME, "persistentVolumeClaim": {"claimName": claim_name(disk.name)}}


def checkpoint_mount(fleet: Fleet, job: Job) -> dict[str, Any]:
    """The container's mount; of a node's tmpfs only the directory that the agent watches."""
    checkpoint, disk = job.spec.checkpoint, self_hosted_disk(fleet, job)
    assert checkpoint is not None
    mount = {"name": VOLUME, "mountPath": checkpoint.directory}
    return mount if disk is None else mount | {"subPath": directory(disk.name)}


def shared_user(fleet: Fleet, job: Job) -> dict[str, Any]:
    """The pod's security context: beside an agent its user, since the agent moves and deletes what
    the pod wrote."""
    disk = self_hosted_disk(fleet, job)
    agent = disk.spec.agent if disk else None
    return (pod_user(agent) if agent else {}) | {"seccompProfile": {"type": "RuntimeDefault"}}


def memory_limit(fleet: Fleet, job: Job) -> dict[str, str]:
    """The limit that differs from the request beside an agent.

    Linux charges a page of a tmpfs to the pod that wrote it. The agent requests the RAM disk, so
    the pod requests its own memory only; its limit must leave room for what it saves.
    """
    disk = self_hosted_disk(fleet, job)
    if disk is None or job.memory is None:
        return {}
    return {"memory": format_quantity(job.memory + disk.bytes, binary=True)}


def rank_containers(fleet: Fleet, job: Job) -> list[Container]:
    """An init container that tells JAX its process id, as GKE's driver does on its own volume.

    Orbax and MaxText wait for ``jax-init-info.txt`` before they start JAX.
    """
    disk = self_hosted_disk(fleet, job)
    if disk is None or disk.spec.agent is None or job.spec.framework != "jax":
        return []
    mount = checkpoint_mount(fleet, job)
    arguments = {
        "local-dir": mount["mountPath"],
        "slice": "$(SLICE)",
        "slice-size": str(job.parallelism),
        "worker": "$(WORKER)",
        "coordinator": f"$(JOBSET_NAME)-{job.name}-0-0.$(JOBSET_NAME):{JAX_COORDINATOR_PORT}",
    }
    return [
        Container(
            name="ranks",
            image=disk.spec.agent.ranks_image or disk.spec.agent.image,
            args=["jax-init-info", *(f"--{name}={value}" for name, value in arguments.items())],
            env=[
                field_variable("JOBSET_NAME", JOBSET_NAME_LABEL),
                field_variable("SLICE", JOB_INDEX_LABEL),
                field_variable("WORKER", COMPLETION_INDEX),
            ],
            resources=_RANKS_RESOURCES,
            volume_mounts=[mount],
            security_context={
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
        )
    ]
