"""Core kinds: Namespace, ServiceAccount, pods and CronJob.

Defaults of objects that the API server fills in itself (CronJob and its pod) are written out; a pod
template inside a custom resource is stored as it stands and gets none.
Source: k8s.io/kubernetes ``pkg/apis/core/v1/defaults.go``, ``pkg/apis/batch/v1/defaults.go``.
"""

from __future__ import annotations

from typing import Any, Literal

from schemas.manifests.base import KubernetesObject, ManifestModel, TemplateMeta, Toleration


class Namespace(KubernetesObject):
    """A namespace."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["Namespace"] = "Namespace"


class ServiceAccount(KubernetesObject):
    """A service account."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["ServiceAccount"] = "ServiceAccount"
    automount_service_account_token: bool = False


class EnvVar(ManifestModel):
    """An environment variable."""

    name: str
    value: str | None = None
    value_from: dict[str, Any] | None = None


class ResourceRequirements(ManifestModel):
    """Requests and limits."""

    limits: dict[str, str] | None = None
    requests: dict[str, str] | None = None


class Container(ManifestModel):
    """A container."""

    name: str
    image: str
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    ports: list[dict[str, Any]] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    volume_mounts: list[dict[str, Any]] | None = None
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    security_context: dict[str, Any] | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None


class PodSpec(ManifestModel):
    """A pod."""

    restart_policy: str
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    priority_class_name: str | None = None
    host_network: bool | None = None
    dns_policy: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    scheduler_name: str | None = None
    security_context: dict[str, Any] | None = None
    termination_grace_period_seconds: int | None = None
    init_containers: list[Container] | None = None
    containers: list[Container]
    volumes: list[dict[str, Any]] | None = None


class PodTemplateSpec(ManifestModel):
    """A pod template."""

    metadata: TemplateMeta | None = None
    spec: PodSpec


class CronJobJobSpec(ManifestModel):
    """The job that a CronJob starts."""

    backoff_limit: int = 6
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    template: PodTemplateSpec


class JobTemplateSpec(ManifestModel):
    """A job template."""

    metadata: TemplateMeta | None = None
    spec: CronJobJobSpec


class CronJobSpec(ManifestModel):
    """A CronJob's spec."""

    schedule: str
    time_zone: str | None = None
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    starting_deadline_seconds: int | None = None
    job_template: JobTemplateSpec


class CronJob(KubernetesObject):
    """A CronJob."""

    api_version: Literal["batch/v1"] = "batch/v1"
    kind: Literal["CronJob"] = "CronJob"
    spec: CronJobSpec
