"""JobSet.

Source: kubernetes-sigs/jobset ``api/jobset/v1alpha2/jobset_types.go`` and the mutating webhook
``pkg/webhooks/jobset_webhook.go``, whose defaults are written out because nearly every field is
immutable: what the webhook adds would differ from Git for ever.
"""

from __future__ import annotations

from typing import Literal

from schemas.manifests.base import KubernetesObject, ManifestModel, TemplateMeta
from schemas.manifests.core import PodTemplateSpec

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation: one job per value of a node label."""


class Network(ManifestModel):
    """Host names of the pods."""

    enable_dns_hostnames: bool = True
    publish_not_ready_addresses: bool = True

    model_config = ManifestModel.model_config | {
        "alias_generator": lambda name: {
            "enable_dns_hostnames": "enableDNSHostnames",
            "publish_not_ready_addresses": "publishNotReadyAddresses",
        }[name]
    }


class SuccessPolicy(ManifestModel):
    """When the JobSet has succeeded."""

    operator: Literal["All", "Any"] = "All"
    target_replicated_jobs: list[str] | None = None


class StartupPolicy(ManifestModel):
    """In which order jobs start."""

    startup_policy_order: Literal["AnyOrder", "InOrder"] = "AnyOrder"


class FailurePolicyRule(ManifestModel):
    """An exception to the failure policy."""

    name: str
    action: str
    on_job_failure_reasons: list[str] | None = None
    target_replicated_jobs: list[str] | None = None


class FailurePolicy(ManifestModel):
    """What happens when a job fails."""

    max_restarts: int = 0
    restart_strategy: str = "Recreate"
    rules: list[FailurePolicyRule] | None = None


class DependsOn(ManifestModel):
    """An earlier replicated job to wait for."""

    name: str
    status: Literal["Ready", "Complete"]


class JobSpec(ManifestModel):
    """A job of a JobSet."""

    completion_mode: Literal["Indexed", "NonIndexed"] = "Indexed"
    parallelism: int
    completions: int
    backoff_limit: int
    template: PodTemplateSpec


class JobTemplateSpec(ManifestModel):
    """A job template."""

    metadata: TemplateMeta | None = None
    spec: JobSpec


class ReplicatedJob(ManifestModel):
    """A replicated job."""

    name: str
    group_name: str | None = None
    replicas: int = 1
    depends_on: list[DependsOn] | None = None
    template: JobTemplateSpec


class JobSetSpec(ManifestModel):
    """A JobSet's spec. ``suspend`` has no place here: Kueue owns it."""

    network: Network = Network()
    success_policy: SuccessPolicy = SuccessPolicy()
    startup_policy: StartupPolicy = StartupPolicy()
    failure_policy: FailurePolicy
    replicated_jobs: list[ReplicatedJob]


class JobSet(KubernetesObject):
    """A set of jobs that live and die together."""

    api_version: Literal["jobset.x-k8s.io/v1alpha2"] = "jobset.x-k8s.io/v1alpha2"
    kind: Literal["JobSet"] = "JobSet"
    spec: JobSetSpec
