"""Command lines and environments that follow from a workload's framework.

Sources: MaxText's multi-tier checkpointing flags and the NeMo recipe's flags as the GKE
documentation prints them; torchrun's rendezvous flags; JobSet's pod labels and host names
(``jobset_types.go``, ``pkg/constants``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from generator.fleet import Fleet
from generator.jobs import Job
from schemas.inventory.checkpointing import Backup
from schemas.manifests.core import EnvVar

CONTAINER_NAMES = {"jax": "jax-tpu", "pytorch": "pytorch", "custom": "main"}
MASTER_PORT = 29500

JOBSET_NAME_LABEL = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOB_INDEX_LABEL = "metadata.labels['jobset.sigs.k8s.io/job-index']"


def field_variable(name: str, path: str) -> EnvVar:
    """An environment variable that holds a field of the pod."""
    return EnvVar(name=name, value_from={"fieldRef": {"apiVersion": "v1", "fieldPath": path}})


def maxtext_flags(directory: str, period: int, backup: Backup, job_name: str) -> dict[str, str]:
    """MaxText's flags for multi-tier checkpointing, in the order in which they are written."""
    flags = {
        "enable_checkpointing": "True",
        "enable_multi_tier_checkpointing": "True",
        "local_checkpoint_directory": directory,
        "local_checkpoint_period": str(period),
    }
    if backup.interval_minutes is not None:
        flags["multi_tier_checkpointing_backup_interval_minutes"] = str(backup.interval_minutes)
    else:
        flags["multi_tier_checkpointing_backup_interval_steps"] = str(backup.interval_steps)
    return {**flags, "run_name": job_name}


def _maxtext(fleet: Fleet, job: Job) -> list[str]:
    checkpoint = job.spec.checkpoint
    assert checkpoint is not None
    backup = fleet.spec.checkpointing[checkpoint.configuration].backup
    flags = maxtext_flags(
        checkpoint.directory,
        checkpoint.period_steps,
        backup,
        checkpoint.job_name or job.workload,
    )
    given = _keys([*(job.setting("command") or ()), *job.setting("args")])
    return [f"{key}={value}" for key, value in flags.items() if key not in given]


def nemo_flags(directory: str, period: int, job_name: str) -> dict[str, str | None]:
    """The NeMo recipe's flags, in the order in which they are written; None for one alone."""
    return {
        "--local-ckpt-dir": directory,
        "--local-ckpt-interval": str(period),
        "--job-name": job_name,
        "--enable-high-scale-ckpt": None,
    }


def _nemo(fleet: Fleet, job: Job) -> list[str]:
    checkpoint = job.spec.checkpoint
    assert checkpoint is not None
    flags = nemo_flags(
        checkpoint.directory, checkpoint.period_steps, checkpoint.job_name or job.workload
    )
    given = _keys([*(job.setting("command") or ()), *job.setting("args")])
    return [
        key if value is None else f"{key}={value}"
        for key, value in flags.items()
        if key not in given
    ]


def _no_arguments(fleet: Fleet, job: Job) -> list[str]:
    return []


CHECKPOINT_ARGUMENTS: dict[str, Callable[[Fleet, Job], list[str]]] = {
    "jax": _maxtext,
    "pytorch": _nemo,
    "custom": _no_arguments,
}


def _keys(arguments: list[str]) -> set[str]:
    """The flags that a command line sets already; they win over derived ones."""
    return {argument.partition("=")[0] for argument in arguments}


def checkpoint_arguments(fleet: Fleet, job: Job) -> list[str]:
    """The arguments that switch multi-tier checkpointing on, less those given by hand."""
    checkpoint = job.spec.checkpoint
    if not job.checkpointed or checkpoint is None or not checkpoint.arguments:
        return []
    return CHECKPOINT_ARGUMENTS[job.spec.framework](fleet, job)


def command(job: Job) -> list[str] | None:
    """The command: given, or torchrun for PyTorch."""
    given = job.setting("command")
    if given is not None:
        return list(given)
    if job.spec.framework != "pytorch" or job.pool is None or job.pool.accelerator is None:
        return None
    return torchrun(job.pool.accelerator.per_node)


def torchrun(processes: int) -> list[str]:
    """torchrun with one process for each accelerator of a node."""
    return [
        "torchrun",
        "--nnodes=$(NNODES)",
        f"--nproc-per-node={processes}",
        "--node-rank=$(NODE_RANK)",
        "--master-addr=$(MASTER_ADDR)",
        "--master-port=$(MASTER_PORT)",
    ]


def rendezvous(job_name: str, nodes: int) -> list[EnvVar]:
    """The variables that torchrun's command line refers to."""
    return [
        field_variable("JOBSET_NAME", JOBSET_NAME_LABEL),
        field_variable("NODE_RANK", COMPLETION_INDEX),
        EnvVar(name="NNODES", value=str(nodes)),
        EnvVar(name="MASTER_ADDR", value=f"$(JOBSET_NAME)-{job_name}-0-0.$(JOBSET_NAME)"),
        EnvVar(name="MASTER_PORT", value=str(MASTER_PORT)),
    ]


def environment(job: Job) -> list[EnvVar]:
    """The framework's variables, then the user's in their order; the user's win."""
    own: dict[str, Any] = job.setting("env")
    derived: list[EnvVar] = []
    if job.spec.framework == "pytorch" and (job.own is None or job.checkpointed):
        derived = rendezvous(job.name, job.parallelism)
    return [v for v in derived if v.name not in own] + [
        _variable(name, value) for name, value in own.items()
    ]


def _variable(name: str, value: Any) -> EnvVar:
    if value.value is not None:
        return EnvVar(name=name, value=value.value)
    if value.field is not None:
        return field_variable(name, value.field)
    source = "secretKeyRef" if value.secret is not None else "configMapKeyRef"
    reference = value.secret or value.config_map
    return EnvVar(name=name, value_from={source: {"name": reference.name, "key": reference.key}})
