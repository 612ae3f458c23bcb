"""The pod of a self-hosted replicator's agent: its arguments, rights and resources."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from generator.build.checkpointing import pool_tolerations
from generator.build.frameworks import field_variable
from generator.fleet import Fleet, RamDisk
from generator.self_hosted import ACCOUNT, NAME, claim_name, directory, service_name
from schemas.inventory.base import KeyRef
from schemas.inventory.self_hosted import Agent
from schemas.manifests.core import Container, PodSpec, ResourceRequirements
from schemas.quantity import format_quantity

RAM_DISK = "/ram-disk"
KEY_FOLDER = "/etc/stowplan-replicator/key"
TLS_FOLDER = "/etc/stowplan-replicator/tls"
TLS_FILES = {"tls-cert": "tls.crt", "tls-key": "tls.key", "tls-ca": "ca.crt"}
"""The agent's options, and the keys of the Secret as cert-manager names them."""
CREDENTIALS_FOLDER = "/etc/stowplan-replicator/credentials"
OWNER_AND_GROUP_READ = 0o440
GRACE_SECONDS = 30


def agent_pod(fleet: Fleet, disk: RamDisk, agent: Agent) -> PodSpec:
    """The pod of one agent."""
    return PodSpec(
        restart_policy="Always",
        service_account_name=ACCOUNT,
        automount_service_account_token=True,
        priority_class_name=NAME,
        dns_policy="ClusterFirst",
        node_selector=disk.selector,
        tolerations=pool_tolerations(fleet, disk) or None,
        scheduler_name="default-scheduler",
        security_context=pod_user(agent)
        | {"fsGroup": agent.user, "seccompProfile": {"type": "RuntimeDefault"}},
        termination_grace_period_seconds=GRACE_SECONDS,
        containers=[_container(disk, agent)],
        volumes=_volumes(disk, agent),
    )


def pod_user(agent: Agent) -> dict[str, Any]:
    """The user that agents and training pods share: without rights over others' files, each can
    only move and delete what belongs to itself."""
    return {"runAsUser": agent.user, "runAsGroup": agent.user} | (
        {"runAsNonRoot": True} if agent.user else {}
    )


def _container(disk: RamDisk, agent: Agent) -> Container:
    probe = {
        "httpGet": {"path": "/healthz", "port": "metrics", "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "successThreshold": 1,
    }
    return Container(
        name="agent",
        image=agent.image,
        image_pull_policy="IfNotPresent",
        args=arguments(disk, agent),
        ports=[
            {"name": "peers", "containerPort": agent.port, "protocol": "TCP"},
            {"name": "metrics", "containerPort": agent.metrics_port, "protocol": "TCP"},
        ],
        env=[field_variable("POD_IP", "status.podIP")],
        resources=_resources(disk, agent),
        volume_mounts=_mounts(disk, agent),
        # A busy node answers late: a restart helps only an agent that is truly stuck.
        liveness_probe=probe | {"failureThreshold": 6},
        readiness_probe=probe | {"failureThreshold": 3},
        security_context={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        termination_message_path="/dev/termination-log",
        termination_message_policy="FallbackToLogsOnError",
    )


def arguments(disk: RamDisk, agent: Agent) -> list[str]:
    """The agent's command line, in the words of ``stowplan-replicator agent --help``."""
    place = disk.spec.backup_place
    service = f"{service_name(disk.name)}.{agent.namespace}.svc:{agent.port}"
    options = {
        "local-dir": RAM_DISK,
        "backup": place,
        "backup-credentials": backup_credentials(agent),
        "platform": "kubernetes",
        "namespace": agent.namespace,
        "service": service,
        "key-file": f"{KEY_FOLDER}/{agent.key_secret.key}",
        "bind": "$(POD_IP)",
        "port": str(agent.port),
        "http": f"$(POD_IP):{agent.metrics_port}",
        "capacity": disk.size,
    }
    if agent.tls is not None:
        options |= {option: f"{TLS_FOLDER}/{file}" for option, file in TLS_FILES.items()}
        options["tls-name"] = agent.tls.dns_name
    if agent.bandwidth is not None:
        options["bandwidth"] = agent.bandwidth
    if agent.timeouts is not None:
        given = agent.timeouts.model_dump(exclude_none=True)
        options |= {f"{name}-timeout": str(seconds) for name, seconds in given.items()}
    return ["agent", *(f"--{name}={value}" for name, value in options.items())]


def backup_credentials(agent: Agent | None) -> str:
    """What ``--backup-credentials`` is given: a mounted file, or the pod's own identity."""
    if agent is None or agent.credentials_secret is None:
        return "platform"  # workload identity
    return f"{CREDENTIALS_FOLDER}/{agent.credentials_secret.key}"


def secret_volume(name: str, reference: KeyRef) -> dict[str, Any]:
    """One key of a Secret as a file that the pod's group may read."""
    return _secret_files(name, reference.name, [reference.key])


def _secret_files(name: str, secret: str, keys: Sequence[str]) -> dict[str, Any]:
    """Keys of a Secret as files that the pod's group may read.

    The agent refuses a key that everybody may read; ``fsGroup`` makes these readable to it.
    """
    return {
        "name": name,
        "secret": {
            "secretName": secret,
            "defaultMode": OWNER_AND_GROUP_READ,
            "items": [{"key": key, "path": key} for key in keys],
        },
    }


def _resources(disk: RamDisk, agent: Agent) -> ResourceRequirements:
    """The RAM disk counts as the agent's memory.

    So the scheduler and Kueue keep it free of other pods, and pages of the RAM disk that the agent
    itself wrote (copies for peers, restored shards) never exceed its limit.
    """
    memory = format_quantity(Decimal(disk.node_bytes), binary=True)
    return ResourceRequirements(
        limits={"memory": memory}, requests={"cpu": agent.cpu, "memory": memory}
    )


def _mounts(disk: RamDisk, agent: Agent) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "ram-disk", "mountPath": RAM_DISK, "subPath": directory(disk.name)},
        {"name": "key", "mountPath": KEY_FOLDER, "readOnly": True},
    ]
    if agent.tls is not None:
        mounts.append({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True})
    if agent.credentials_secret is not None:
        mounts.append({"name": "credentials", "mountPath": CREDENTIALS_FOLDER, "readOnly": True})
    return mounts


def _volumes(disk: RamDisk, agent: Agent) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "ram-disk", "persistentVolumeClaim": {"claimName": claim_name(disk.name)}},
        secret_volume("key", agent.key_secret),
    ]
    if agent.tls is not None:
        volumes.append(_secret_files("tls", agent.tls.secret, list(TLS_FILES.values())))
    if agent.credentials_secret is not None:
        volumes.append(secret_volume("credentials", agent.credentials_secret))
    return volumes
