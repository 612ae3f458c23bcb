"""Retention of backups: a CronJob for each configuration, with a service account of its own.

Backups are only ever written by the replicator; deleting them is the user's job (GKE documentation,
"Multi-Tier Checkpointing", retention).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from generator.build.agent_pod import CREDENTIALS_FOLDER, backup_credentials, secret_volume
from generator.build.metadata import metadata
from generator.fleet import Fleet, RamDisk
from generator.manifest import Manifest
from generator.retention import cron_job_name, job_names
from schemas.inventory.checkpointing import Retention
from schemas.manifests.base import TemplateMeta
from schemas.manifests.core import (
    Container,
    CronJob,
    CronJobJobSpec,
    CronJobSpec,
    JobTemplateSpec,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    ServiceAccount,
)
from schemas.names import dns_label_problem

SERVICE_ACCOUNT = "checkpoint-retention"
BACKUPS = "/backups"
USER = 65532

_GCSFUSE = "gcsfuse.csi.storage.gke.io"


def build(fleet: Fleet) -> Iterator[Manifest]:
    """Service accounts and CronJobs, for configurations with a tool and a workload to prune
    after."""
    accounts: set[str] = set()
    for disk in fleet.ram_disks.values():
        retention = disk.spec.retention
        jobs = job_names(fleet, disk.name)
        if retention.tool == "none" or not jobs:
            continue
        section = ("checkpointing", disk.name)
        if retention.namespace not in accounts:
            accounts.add(retention.namespace)
            account = ServiceAccount(
                metadata=metadata("ServiceAccount", SERVICE_ACCOUNT, retention.namespace)
            )
            yield Manifest("checkpointing", account.to_dict(), section)
        yield Manifest("checkpointing", _cron_job(disk, retention, jobs).to_dict(), section)


def _cron_job(disk: RamDisk, retention: Retention, jobs: list[str]) -> CronJob:
    volume = _volume(disk, retention)
    gcsfuse = retention.tool == "backup-warden"
    pod = PodSpec(
        restart_policy="Never",
        service_account_name=SERVICE_ACCOUNT,
        automount_service_account_token=False,
        dns_policy="ClusterFirst",
        scheduler_name="default-scheduler",
        security_context={
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            **({"fsGroup": USER} if volume is not None and not gcsfuse else {}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        termination_grace_period_seconds=30,
        containers=[
            _container(disk, retention, name, job, volume)
            for name, job in zip(_container_names(jobs), jobs, strict=True)
        ],
        volumes=[volume] if volume is not None else None,
    )
    return CronJob(
        metadata=metadata("CronJob", cron_job_name(disk.name), retention.namespace),
        spec=CronJobSpec(
            schedule=retention.schedule,
            time_zone="Etc/UTC",
            concurrency_policy="Forbid",
            starting_deadline_seconds=600,
            job_template=JobTemplateSpec(
                spec=CronJobJobSpec(
                    backoff_limit=1,
                    parallelism=1,
                    completions=1,
                    active_deadline_seconds=3600,
                    ttl_seconds_after_finished=86400,
                    template=PodTemplateSpec(
                        metadata=TemplateMeta(annotations={"gke-gcsfuse/volumes": "true"})
                        if gcsfuse
                        else None,
                        spec=pod,
                    ),
                )
            ),
        ),
    )


def _volume(disk: RamDisk, retention: Retention) -> dict[str, Any] | None:
    """What the tool reads: the mounted bucket, or the bucket's credentials."""
    agent = disk.spec.agent
    if retention.tool == "backup-warden":
        return _backup_volume(disk)
    if agent is not None and agent.credentials_secret is not None:
        return secret_volume("credentials", agent.credentials_secret)
    return None


def _backup_volume(disk: RamDisk) -> dict[str, Any]:
    # Cloud Storage FUSE shows files as root's unless told whose they are.
    options = ["implicit-dirs", f"uid={USER}", f"gid={USER}"]
    if disk.spec.directory:
        options.append(f"only-dir={disk.spec.directory}")
    return {
        "name": "backups",
        "csi": {
            "driver": _GCSFUSE,
            "volumeAttributes": {
                "bucketName": disk.spec.bucket,
                "mountOptions": ",".join(options),
            },
        },
    }


def _container_names(jobs: list[str]) -> list[str]:
    """The jobs' names; a flag may give one that no container may have, such as Llama_70B."""
    names = [job for job in jobs if dns_label_problem(job) is None]
    numbered = (name for i in count() if (name := f"job-{i}") not in names)
    return [job if job in names else next(numbered) for job in jobs]


def _container(
    disk: RamDisk, retention: Retention, name: str, job: str, volume: dict[str, Any] | None
) -> Container:
    assert retention.image is not None
    place = BACKUPS if retention.tool == "backup-warden" else CREDENTIALS_FOLDER
    mount = {"mountPath": place} | ({} if place == BACKUPS else {"readOnly": True})
    return Container(
        name=name,
        image=retention.image,
        image_pull_policy="IfNotPresent",
        args=_arguments(disk, retention, job),
        resources=ResourceRequirements(
            limits={"memory": "512Mi"}, requests={"cpu": "100m", "memory": "512Mi"}
        ),
        volume_mounts=[{"name": volume["name"], **mount}] if volume is not None else None,
        security_context={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        termination_message_path="/dev/termination-log",
        termination_message_policy="FallbackToLogsOnError",
    )


def _arguments(disk: RamDisk, retention: Retention, job: str) -> list[str]:
    """The tool's arguments; each period's count, and deletion only if it was asked for."""
    keep = [
        part
        for period in ("hourly", "daily", "weekly", "monthly", "yearly")
        for part in (f"--{period}", str(getattr(retention, period)))
    ]
    if retention.prefer_recent:
        keep.append("--prefer-recent")
    if retention.delete:
        keep.append("--delete")
    if retention.tool == "backup-warden":
        return ["-p", f"{BACKUPS}/{job}", *keep]
    place = disk.spec.backup_place
    identity = backup_credentials(disk.spec.agent)
    return ["prune", "--backup", place, "--backup-credentials", identity, "--job", job, *keep]
