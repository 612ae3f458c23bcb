"""The replicated jobs of each workload with everything filled in that follows from the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any

from generator.fleet import Fleet, Pool, RamDisk
from generator.provenance import ValuePath
from schemas.inventory.workloads import PodSettings, ReplicatedJob, Workload
from schemas.quantity import parse_quantity

RUN_HASH_LENGTH = 8
NAME_FLAGS = {"jax": "run_name", "pytorch": "--job-name"}
"""The flags by which MaxText and NeMo are told the name that checkpoints go by."""
DEFAULT_JOB_NAMES = {True: "slice", False: "workers"}
_MERGED = frozenset({"env", "labels", "annotations", "node_selector"})


@dataclass(frozen=True)
class Job:
    """One replicated job.

    Attributes:
        workload: the workload's name.
        name: the replicated job's name.
        spec: the workload.
        own: what was said of this replicated job alone, None for the one that stands for all.
        pool: its node pool, None where it needs none.
        replicas: how many jobs.
        parallelism: how many pods each.
        checkpointed: whether it mounts the checkpoint volume.
    """

    workload: str
    name: str
    spec: Workload
    own: ReplicatedJob | None
    pool: Pool | None
    replicas: int
    parallelism: int
    checkpointed: bool

    @property
    def pods(self) -> int:
        """Pods in all."""
        return self.replicas * self.parallelism

    def setting(self, name: str) -> Any:
        """A pod setting: the replicated job's own, else the workload's; mappings are merged."""
        if self.own is None:
            return getattr(self.spec, name)
        if name in _MERGED:
            return {**getattr(self.spec, name), **getattr(self.own, name)}
        source: PodSettings = self.own if name in self.own.model_fields_set else self.spec
        return getattr(source, name)

    def settings_path(self, name: str) -> tuple[str, ...]:
        """Where in the inventory a pod setting stands."""
        alias = type(self.spec).model_fields[name].alias or name
        if self.own is not None and name in self.own.model_fields_set:
            return ("workloads", self.workload, "replicatedJobs", self.name, alias)
        return ("workloads", self.workload, alias)

    @property
    def path(self) -> tuple[str, ...]:
        """Where in the inventory the job itself stands."""
        if self.own is None:
            return ("workloads", self.workload)
        return ("workloads", self.workload, "replicatedJobs", self.name)

    @cached_property
    def memory(self) -> Decimal | None:
        """Bytes of memory that one pod asks for."""
        resources = self.setting("resources")
        return parse_quantity(resources.memory) if resources and resources.memory else None

    @cached_property
    def cpu(self) -> Decimal | None:
        """Cores that one pod asks for."""
        resources = self.setting("resources")
        return parse_quantity(resources.cpu) if resources and resources.cpu else None

    @property
    def host_network(self) -> bool:
        """Whether pods use the node's network: on accelerators unless said otherwise."""
        given = self.setting("host_network")
        if given is None:
            return self.pool is not None and self.pool.accelerator is not None
        return bool(given)


def jobs_of(fleet: Fleet, name: str) -> list[Job]:
    """The replicated jobs of one workload, in the order of the inventory."""
    workload = fleet.spec.workloads[name]
    if not workload.replicated_jobs:
        pool = fleet.pools.get(workload.node_pool or "")
        own_name = DEFAULT_JOB_NAMES[pool is not None and pool.is_tpu]
        replicas, parallelism = workload.slices or 1, workload.nodes or 1
        if pool is not None and pool.is_tpu:
            parallelism = pool.nodes_per_slice
        return [
            Job(
                name, own_name, workload, None, pool, replicas, parallelism,
                workload.checkpoint is not None,
            )
        ]  # fmt: skip
    return [
        _replicated(fleet, name, workload, job_name, job)
        for job_name, job in workload.replicated_jobs.items()
    ]


def _replicated(
    fleet: Fleet, name: str, workload: Workload, job_name: str, job: ReplicatedJob
) -> Job:
    pool = fleet.pools.get(job.node_pool or workload.node_pool or "")
    parallelism = job.parallelism or (pool.nodes_per_slice if pool and pool.is_tpu else 1)
    # More than one replicated job beside a checkpoint is refused (INV070).
    mounts = workload.checkpoint is not None
    return Job(name, job_name, workload, job, pool, job.replicas or 1, parallelism, mounts)


def all_jobs(fleet: Fleet) -> Iterator[Job]:
    """Every replicated job of a cluster."""
    for name in fleet.spec.workloads:
        yield from jobs_of(fleet, name)


def pods_on(fleet: Fleet, pool: str) -> list[Job]:
    """The replicated jobs whose pods run on a pool's nodes."""
    return [job for job in all_jobs(fleet) if job.pool is not None and job.pool.name == pool]


def largest_pod_memory(fleet: Fleet, disk: RamDisk) -> Decimal | None:
    """The most memory that a pod beside a RAM disk asks for, None where none says."""
    asked = [
        job.memory
        for pool, served in fleet.ram_disk_of_pool.items()
        if served is disk
        for job in pods_on(fleet, pool)
        if job.memory is not None
    ]
    return max(asked, default=None)


def pod_priority(workload: Workload) -> str | None:
    """The PriorityClass of a workload's pods."""
    return workload.priority_class or workload.priority


def queue_priority(workload: Workload) -> str | None:
    """The WorkloadPriorityClass of a workload."""
    return workload.workload_priority_class or workload.priority


def checkpoint_name(job: Job) -> str:
    """The name that a job's checkpoints, backups and coordinator go by.

    A flag of its command line wins over the inventory's ``jobName``, as it does when the derived
    flags are added; one that is only known in the pod (``$(NAME)``) cannot be looked at here.
    """
    flag = name_flag(job)
    if flag is not None:
        return flag[1]
    checkpoint = job.spec.checkpoint
    return (checkpoint.job_name if checkpoint else None) or job.workload


def name_flag(job: Job) -> tuple[ValuePath, str] | None:
    """Where in the inventory a command line names the checkpoints, and how; the last flag wins, as
    with MaxText and argparse. A shell's script counts as its words."""
    wanted = NAME_FLAGS.get(job.spec.framework)
    words: list[tuple[ValuePath, str]] = [
        ((*job.settings_path(setting), index), word.rstrip("()\"';&"))
        for setting in ("command", "args")
        for index, text in enumerate(job.setting(setting) or ())
        for word in text.split()
    ]
    found: tuple[ValuePath, str] | None = None
    for (path, word), (_, following) in pairwise([*words, ((), "")]):
        flag, equals, value = word.partition("=")
        given = (value if equals else following if flag[:1] == "-" else "").lstrip("\"'")
        if flag.lstrip("\"'") == wanted and given:
            found = None if {"$", "`"} & set(given) else (path, given)
    return found
