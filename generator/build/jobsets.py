"""JobSets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generator.build.checkpoint_volume import (
    checkpoint_mount,
    checkpoint_volume,
    memory_limit,
    rank_containers,
    shared_user,
)
from generator.build.frameworks import (
    CONTAINER_NAMES,
    checkpoint_arguments,
    command,
    environment,
)
from generator.build.metadata import metadata
from generator.build.queues import tolerating, toleration
from generator.fleet import Fleet
from generator.jobs import Job, jobs_of, pod_priority, queue_priority
from generator.manifest import Manifest
from schemas.catalog import NODE_POOL_LABEL
from schemas.inventory.workloads import Workload
from schemas.manifests import jobset
from schemas.manifests.base import TemplateMeta, Toleration
from schemas.manifests.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements

GROUP_NAME_SINCE = (0, 9)
"""JobSet's first minor with ``replicatedJobs[].groupName``."""


def build(fleet: Fleet) -> Iterator[Manifest]:
    """One JobSet for each workload."""
    for name, workload in fleet.spec.workloads.items():
        jobs = jobs_of(fleet, name)
        body = jobset.JobSet(
            metadata=metadata(
                "JobSet",
                f"{name}-r{workload.run}" if workload.run else name,
                workload.namespace,
                labels=_queue_labels(workload),
                annotations=_annotations(name, workload, jobs),
            ),
            spec=jobset.JobSetSpec(
                failure_policy=_failure_policy(workload),
                replicated_jobs=[_replicated_job(fleet, job) for job in jobs],
            ),
        )
        yield Manifest("workloads", body.to_dict(), ("workloads", name))


def _queue_labels(workload: Workload) -> dict[str, str]:
    """Kueue reads both from the JobSet's own labels and nowhere else."""
    labels: dict[str, str] = {}
    if workload.queue is not None:
        labels["kueue.x-k8s.io/queue-name"] = workload.queue
        priority = queue_priority(workload)
        if priority is not None:
            labels["kueue.x-k8s.io/priority-class"] = priority
    return labels


def _annotations(name: str, workload: Workload, jobs: list[Job]) -> dict[str, str]:
    notes = {"stowplan.dev/workload": name, "stowplan.dev/framework": workload.framework}
    if is_exclusive(workload, jobs):
        notes[jobset.EXCLUSIVE_TOPOLOGY] = NODE_POOL_LABEL
    return notes


def is_exclusive(workload: Workload, jobs: list[Job]) -> bool:
    """Whether JobSet keeps each job to a GKE node pool of its own, as multi-host slices need."""
    if workload.exclusive_placement is not None:
        return workload.exclusive_placement
    return workload.topology_aware is None and any(
        job.pool is not None and job.pool.is_multi_host for job in jobs
    )


def _failure_policy(workload: Workload) -> jobset.FailurePolicy:
    policy = workload.failure_policy
    rules = [
        jobset.FailurePolicyRule(
            name=rule.name,
            action=rule.action,
            on_job_failure_reasons=list(rule.on_job_failure_reasons) or None,
            target_replicated_jobs=list(rule.target_replicated_jobs) or None,
        )
        for rule in policy.rules
    ]
    return jobset.FailurePolicy(
        max_restarts=policy.max_restarts,
        restart_strategy=policy.restart_strategy,
        rules=rules or None,
    )


def _replicated_job(fleet: Fleet, job: Job) -> jobset.ReplicatedJob:
    needs = job.own.depends_on if job.own else {}
    return jobset.ReplicatedJob(
        name=job.name,
        group_name="default" if fleet.jobset_minor >= GROUP_NAME_SINCE else None,
        replicas=job.replicas,
        depends_on=[jobset.DependsOn(name=n, status=s) for n, s in needs.items()] or None,
        template=jobset.JobTemplateSpec(
            spec=jobset.JobSpec(
                parallelism=job.parallelism,
                completions=job.parallelism,
                backoff_limit=job.own.backoff_limit if job.own else 0,
                template=PodTemplateSpec(metadata=_pod_meta(job), spec=_pod(fleet, job)),
            )
        ),
    )


def _pod_meta(job: Job) -> TemplateMeta | None:
    """Pod labels and annotations; topology-aware placement is asked for here."""
    notes = dict(job.setting("annotations"))
    request = job.spec.topology_aware
    if request is not None:
        if request.required is not None:
            notes["kueue.x-k8s.io/podset-required-topology"] = request.required
        if request.preferred is not None:
            notes["kueue.x-k8s.io/podset-preferred-topology"] = request.preferred
        if request.slice_required is not None:
            notes["kueue.x-k8s.io/podset-slice-required-topology"] = request.slice_required
            notes["kueue.x-k8s.io/podset-slice-size"] = str(job.parallelism)
    labels = job.setting("labels")
    if not labels and not notes:
        return None
    return TemplateMeta(
        labels=dict(sorted(labels.items())) or None,
        annotations=dict(sorted(notes.items())) or None,
    )


def _pod(fleet: Fleet, job: Job) -> PodSpec:
    account = job.setting("service_account")
    return PodSpec(
        # Never, not JobSet's default OnFailure: a container that restarts by itself would leave
        # its peers of the same step waiting.
        restart_policy="Never",
        service_account_name=account,
        automount_service_account_token=None if account else False,
        priority_class_name=pod_priority(job.spec),
        host_network=True if job.host_network else None,
        dns_policy="ClusterFirstWithHostNet" if job.host_network else None,
        node_selector=_node_selector(job) or None,
        tolerations=_tolerations(job) or None,
        security_context=shared_user(fleet, job),
        termination_grace_period_seconds=job.setting("termination_grace_period_seconds"),
        init_containers=rank_containers(fleet, job) or None,
        containers=[_container(fleet, job)],
        volumes=_volumes(fleet, job) or None,
    )


def _node_selector(job: Job) -> dict[str, str]:
    """The pool's labels: all of the flavor's, so that Kueue has none to add to the template."""
    own = job.pool.selector if job.pool else {}
    return dict(sorted({**own, **job.setting("node_selector")}.items()))


def _tolerations(job: Job) -> list[Toleration]:
    own = [tolerating(taint) for taint in job.pool.taints] if job.pool else []
    return own + [toleration(spec) for spec in job.setting("tolerations")]


def _container(fleet: Fleet, job: Job) -> Container:
    return Container(
        name=CONTAINER_NAMES[job.spec.framework],
        image=job.setting("image"),
        command=command(job),
        args=[*job.setting("args"), *checkpoint_arguments(fleet, job)] or None,
        working_dir=job.setting("working_dir"),
        env=environment(job) or None,
        resources=_resources(fleet, job),
        volume_mounts=_volume_mounts(fleet, job) or None,
        security_context={"allowPrivilegeEscalation": False},
    )


def _resources(fleet: Fleet, job: Job) -> ResourceRequirements | None:
    """Accelerators and memory as request and limit, cpu as a request only."""
    asked = job.setting("resources")
    limits: dict[str, str] = {}
    if job.pool is not None and job.pool.accelerator is not None:
        limits[job.pool.accelerator.resource] = str(job.pool.accelerator.per_node)
    if asked is not None and asked.memory is not None:
        limits["memory"] = asked.memory
    if asked is not None and asked.ephemeral_storage is not None:
        limits["ephemeral-storage"] = asked.ephemeral_storage
    requests = dict(limits)
    limits |= memory_limit(fleet, job)
    if asked is not None and asked.cpu is not None:
        requests = {"cpu": asked.cpu, **requests}
    if not requests:
        return None
    return ResourceRequirements(limits=limits or None, requests=requests)


def _volumes(fleet: Fleet, job: Job) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    if job.checkpointed:
        volumes.append(checkpoint_volume(fleet, job))
    size = job.setting("shared_memory")
    if size is not None:
        volumes.append(
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        )
    return [*volumes, *job.setting("volumes")]


def _volume_mounts(fleet: Fleet, job: Job) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = []
    if job.checkpointed:
        mounts.append(checkpoint_mount(fleet, job))
    if job.setting("shared_memory") is not None:
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    return [*mounts, *job.setting("volume_mounts")]
