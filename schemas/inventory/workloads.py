"""Workloads: JobSets for JAX on TPU slices, PyTorch on GPUs, and anything else."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from schemas.inventory.base import (
    AbsolutePath,
    Annotations,
    Image,
    InventoryModel,
    KeyRef,
    Labels,
    Memory,
    Name,
    Quantity,
    Text,
    Toleration,
    fault,
)

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise fault(f"{value!r} is no environment variable name")
    return value


def _plain_env(value: Any) -> Any:
    if isinstance(value, str):
        return {"value": value}
    if isinstance(value, bool | int | float):
        shown = str(value).lower() if isinstance(value, bool) else value
        raise fault(
            f"{value!r} is no text; an environment variable holds text", f'quote it: "{shown}"'
        )
    return value


class EnvValue(InventoryModel):
    """Where an environment variable's value comes from: exactly one of the four."""

    value: Text | None = None
    """The text itself; the short form is to write it behind the name."""
    secret: KeyRef | None = None
    """A Secret's key."""
    config_map: KeyRef | None = None
    """A ConfigMap's key."""
    field: str | None = None
    """A field of the pod, such as ``metadata.name``."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [v for v in (self.value, self.secret, self.config_map, self.field) if v is not None]
        if len(given) != 1:
            raise fault(
                "an environment variable needs exactly one of value, secret, configMap, field"
            )
        return self


Env = dict[
    Annotated[str, AfterValidator(_env_name)],
    Annotated[EnvValue, BeforeValidator(_plain_env, json_schema_input_type=EnvValue | str)],
]


class Resources(InventoryModel):
    """What one pod asks for beside its accelerators, which follow from the node pool."""

    cpu: Quantity | None = None
    """Cores, as a request; training pods get no CPU limit, which would only throttle them."""
    memory: Memory | None = None
    """Memory, as request and limit."""
    ephemeral_storage: Memory | None = None
    """Disk, as request and limit."""


class PodSettings(InventoryModel):
    """What the container and pod of a replicated job look like."""

    image: Image | None = None
    """The container image."""
    command: tuple[Text, ...] | None = Field(default=None, strict=False)
    """The command; for PyTorch, torchrun with its rendezvous arguments unless given."""
    args: tuple[Text, ...] = Field(default=(), strict=False)
    """Arguments behind it; checkpoint arguments that follow from the rest are appended."""
    env: Env = Field(default_factory=dict)
    """Environment variables by name."""
    resources: Resources | None = None
    """Requests and limits of one pod."""
    working_dir: AbsolutePath | None = None
    """The working directory."""
    volumes: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    """Further volumes, as in a pod spec."""
    volume_mounts: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    """Further mounts, as in a container."""
    shared_memory: Memory | None = None
    """Size of a memory-backed /dev/shm; it counts against the node's memory."""
    service_account: Name | None = None
    """The service account."""
    node_selector: Labels = Field(default_factory=dict)
    """Further node labels to select by; accelerator and topology follow from the pool."""
    tolerations: tuple[Toleration, ...] = Field(default=(), strict=False)
    """Further tolerations; those of the pool's taints follow from the pool."""
    host_network: bool | None = None
    """The node's network; true on TPU slices and on GPUs unless given."""
    labels: Labels = Field(default_factory=dict)
    """Further labels of the pods."""
    annotations: Annotations = Field(default_factory=dict)
    """Further annotations of the pods."""
    termination_grace_period_seconds: int | None = Field(default=None, ge=0)
    """Seconds between SIGTERM and SIGKILL."""


class ReplicatedJob(PodSettings):
    """One replicated job of a JobSet. What it leaves out is taken from the workload."""

    node_pool: Name | None = None
    """The node pool that its pods run on."""
    replicas: int | None = Field(default=None, gt=0)
    """Jobs: slices of a TPU pool; one unless given."""
    parallelism: int | None = Field(default=None, gt=0)
    """Pods of each job; the nodes of a slice on TPU, else required."""
    backoff_limit: int = Field(default=0, ge=0)
    """Pod retries inside a job before the JobSet restarts; 0 for training that runs in lockstep."""
    depends_on: dict[Name, Literal["Ready", "Complete"]] = Field(default_factory=dict)
    """Earlier replicated jobs that must be ready or complete first."""


class FailureRule(InventoryModel):
    """A failure policy rule, tried in order."""

    name: str
    """Its name."""
    action: Literal[
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ]
    """What to do; restarting one job alone is an alpha feature of JobSet 0.12."""
    on_job_failure_reasons: tuple[
        Literal[
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "FailedIndexes",
            "MaxFailedIndexesExceeded",
            "PodFailurePolicy",
        ],
        ...,
    ] = Field(default=(), strict=False)
    """Reasons that it applies to; all unless given."""
    target_replicated_jobs: tuple[Name, ...] = Field(default=(), strict=False)
    """Replicated jobs that it applies to; all unless given."""


class FailurePolicy(InventoryModel):
    """What happens when a job of the JobSet fails."""

    max_restarts: int = Field(default=10, ge=0)
    """Restarts before the JobSet fails."""
    restart_strategy: Literal["Recreate", "BlockingRecreate", "InPlaceRestart"] = "BlockingRecreate"
    """Whether all pods are gone before new ones are made; in place is an alpha feature."""
    rules: tuple[FailureRule, ...] = Field(default=(), max_length=32, strict=False)
    """Exceptions, tried in order."""


class Checkpoint(InventoryModel):
    """How a workload uses multi-tier checkpointing."""

    configuration: Name
    """The entry of ``checkpointing`` that serves its nodes."""
    directory: AbsolutePath = "/checkpoint"
    """Where the volume is mounted."""
    period_steps: int = Field(gt=0)
    """Training steps between local checkpoints."""
    job_name: Name | None = None
    """The job's name in backups; the workload's unless given. It must outlive runs, or nothing is
    found again."""
    arguments: bool = True
    """Append MaxText's or NeMo's checkpoint arguments; false where the program takes others."""


class TopologyAware(InventoryModel):
    """Topology-aware scheduling by Kueue, instead of exclusive placement by JobSet."""

    required: str | None = None
    """A topology level that all pods of a replicated job must share."""
    preferred: str | None = None
    """A topology level that they should share."""
    slice_required: str | None = None
    """A topology level that the pods of each job (slice) must share."""

    @model_validator(mode="after")
    def _one_request(self) -> Self:
        if self.required is not None and self.preferred is not None:
            raise fault("required and preferred are both given", "keep one")
        if self.required is None and self.preferred is None and self.slice_required is None:
            raise fault("no level is given", "write sliceRequired: cloud.google.com/gke-nodepool")
        return self


class Workload(PodSettings):
    """A training job: one JobSet."""

    framework: Literal["jax", "pytorch", "custom"]
    """``jax`` (MaxText on TPU slices), ``pytorch`` (torchrun, NeMo) or ``custom``."""
    namespace: Name = "default"
    """The namespace."""
    node_pool: Name | None = None
    """The node pool, unless each replicated job names its own."""
    slices: int | None = Field(default=None, gt=0)
    """Slices of the pool that it runs on (TPU)."""
    nodes: int | None = Field(default=None, gt=0)
    """Nodes that it runs on (GPU and CPU)."""
    replicated_jobs: dict[Name, ReplicatedJob] = Field(default_factory=dict)
    """Replicated jobs by name, where one is not enough."""
    queue: Name | None = None
    """The LocalQueue in its namespace; without one Kueue does not manage it."""
    priority: str | None = None
    """The entry of ``priorities`` for both its pods and its place in the queue."""
    priority_class: str | None = None
    """The pods' class, where it differs."""
    workload_priority_class: str | None = None
    """The queue's class, where it differs."""
    checkpoint: Checkpoint | None = None
    """Its use of multi-tier checkpointing."""
    failure_policy: FailurePolicy = FailurePolicy()
    """What happens when a job fails."""
    exclusive_placement: bool | None = None
    """One job per GKE node pool; true for multi-host TPU slices unless given."""
    topology_aware: TopologyAware | None = None
    """Placement by Kueue instead."""
    run: int | None = Field(default=None, ge=1)
    """A counter in the JobSet's name instead of the hash of what cannot be changed in place."""

    @model_validator(mode="after")
    def _is_not_contradictory(self) -> Self:
        if self.replicated_jobs and (self.slices is not None or self.nodes is not None):
            raise fault(
                "slices or nodes is given beside replicatedJobs",
                "write replicas and parallelism inside replicatedJobs",
            )
        if self.exclusive_placement and self.topology_aware is not None:
            raise fault("exclusivePlacement and topologyAware are both given", "keep one")
        if self.priority is not None and self.priority_class and self.workload_priority_class:
            raise fault(
                "priority, priorityClass and workloadPriorityClass are all given",
                "priority stands for both; keep it, or the other two",
            )
        return self
