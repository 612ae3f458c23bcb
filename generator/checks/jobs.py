"""Checks of the workloads section."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.consistency import Check, unknown
from generator.checks.job_names import names_are_apart
from generator.fleet import Fleet
from generator.jobs import (
    RUN_HASH_LENGTH,
    Job,
    all_jobs,
    jobs_of,
    pod_priority,
    queue_priority,
)
from generator.problems import Problem
from generator.provenance import ValuePath
from schemas.inventory.workloads import Workload
from schemas.names import DNS_LABEL_MAX

_POD_SUFFIX = len("-abcde")
FRAMEWORK_ACCELERATORS = {"jax": "tpu", "pytorch": "gpu"}
OWN_VOLUMES = {"checkpoint": "the checkpoint volume", "shared-memory": "sharedMemory"}


def _references(fleet: Fleet) -> Iterator[Problem]:
    spec = fleet.spec
    for name, workload in spec.workloads.items():
        path = ("workloads", name)
        for key, used in (
            ("priority", workload.priority),
            ("priorityClass", workload.priority_class),
            ("workloadPriorityClass", workload.workload_priority_class),
        ):
            if used is not None and used not in spec.priorities:
                yield unknown((*path, key), "priority class", used, spec.priorities)
        if workload.queue is not None:
            yield from _queue(fleet, name, workload)
        if workload.node_pool is not None and workload.node_pool not in spec.node_pools:
            yield unknown((*path, "nodePool"), "node pool", workload.node_pool, spec.node_pools)
        for job_name, job in workload.replicated_jobs.items():
            inside = (*path, "replicatedJobs", job_name)
            if job.node_pool is not None and job.node_pool not in spec.node_pools:
                yield unknown((*inside, "nodePool"), "node pool", job.node_pool, spec.node_pools)
            earlier = list(workload.replicated_jobs)[
                : list(workload.replicated_jobs).index(job_name)
            ]
            for needed in job.depends_on:
                if needed not in earlier:
                    yield unknown(
                        (*inside, "dependsOn", needed),
                        "earlier replicated job",
                        needed,
                        earlier,
                        key=True,
                    )


def _queue(fleet: Fleet, name: str, workload: Workload) -> Iterator[Problem]:
    queues = fleet.spec.queueing.local_queues
    path = ("workloads", name, "queue")
    assert workload.queue is not None
    queue = queues.get(workload.queue)
    if queue is None:
        yield unknown(path, "local queue", workload.queue, queues)
    elif workload.namespace not in queue.namespaces:
        yield Problem(
            "INV060",
            path,
            f"local queue {workload.queue!r} is not in namespace {workload.namespace!r} but in "
            f"{', '.join(queue.namespaces)}",
            f"add {workload.namespace} to queueing.localQueues.{workload.queue}.namespaces",
        )
    if workload.queue is not None and queue_priority(workload) is None and fleet.spec.priorities:
        yield Problem(
            "INV061",
            ("workloads", name),
            "the workload is queued without a priority",
            "write priority:, one of " + ", ".join(sorted(fleet.spec.priorities)),
            key=True,
        )


def _shapes(fleet: Fleet) -> Iterator[Problem]:
    for job in all_jobs(fleet):
        workload = job.spec
        if job.setting("image") is None:
            yield Problem("INV062", job.path, "no image is given", "write image:", key=True)
        pool_name = (job.own.node_pool if job.own else None) or workload.node_pool
        if pool_name is None:
            if workload.framework != "custom":
                yield Problem(
                    "INV063",
                    job.path,
                    f"a {workload.framework} workload needs a node pool",
                    "write nodePool:, one of " + ", ".join(sorted(fleet.spec.node_pools)),
                    key=True,
                )
            continue
        if job.pool is not None:
            yield from _shape_on_pool(job)


def _shape_on_pool(job: Job) -> Iterator[Problem]:
    pool, workload = job.pool, job.spec
    assert pool is not None
    wanted = FRAMEWORK_ACCELERATORS.get(workload.framework)
    has = pool.accelerator.type if pool.accelerator else None
    if wanted is not None and has != wanted and (job.own is None or job.checkpointed):
        yield Problem(
            "INV064",
            (*job.path[:2], "framework"),
            f"{workload.framework} runs on {wanted.upper()} here, but node pool {pool.name!r} has "
            f"{has.upper() if has else 'no accelerator'}",
            "choose another pool, or framework: custom",
        )
        return
    if pool.is_tpu:
        yield from _tpu_shape(job)
    else:
        if job.own is None and workload.slices is not None:
            yield Problem(
                "INV065",
                (*job.path, "slices"),
                f"node pool {pool.name!r} has no slices",
                "write nodes:",
                key=True,
            )
        elif job.own is None and workload.nodes is None:
            yield Problem(
                "INV065",
                job.path,
                "how many nodes it runs on is not said",
                "write nodes:",
                key=True,
            )
        elif pool.accelerator is not None and job.pods > pool.nodes:
            key = "parallelism" if job.own else "nodes"
            yield _too_many((*job.path, key), job.pods, "nodes", pool.nodes, pool.name)
        if workload.framework == "pytorch" and job.replicas > 1:
            yield Problem(
                "INV066",
                (*job.path, "replicas"),
                "torchrun's node ranks need all pods in one job",
                "write replicas: 1 and parallelism:",
            )


def _tpu_shape(job: Job) -> Iterator[Problem]:
    pool, workload = job.pool, job.spec
    assert pool is not None
    if job.own is None and workload.nodes is not None:
        yield Problem(
            "INV065",
            (*job.path, "nodes"),
            f"node pool {pool.name!r} comes in slices",
            "write slices:",
            key=True,
        )
    if job.own is None and workload.slices is None:
        yield Problem(
            "INV065", job.path, "how many slices it runs on is not said", "write slices:", key=True
        )
    if job.parallelism != pool.nodes_per_slice:
        yield Problem(
            "INV067",
            (*job.path, "parallelism"),
            f"parallelism {job.parallelism}, but a slice of {pool.spec.topology} on "
            f"{pool.machine.name} has {pool.nodes_per_slice} nodes",
            f"write {pool.nodes_per_slice}, or leave it out",
        )
    if job.replicas > pool.slices:
        key = "replicas" if job.own else "slices"
        yield _too_many((*job.path, key), job.replicas, "slices", pool.slices, pool.name)


def _too_many(path: tuple[str | int, ...], asked: int, what: str, there: int, pool: str) -> Problem:
    return Problem(
        "INV068",
        path,
        f"asks for {asked} {what}, but node pool {pool!r} has {there}",
        f"write at most {there}, or grow the pool",
    )


def _names(fleet: Fleet) -> Iterator[Problem]:
    """Pod names as JobSet computes them (pkg/webhooks/jobset_webhook.go)."""
    for name, workload in fleet.spec.workloads.items():
        run = f"-r{workload.run}" if workload.run else "-" + "0" * RUN_HASH_LENGTH
        if not name[0].isalpha():
            yield Problem(
                "INV069",
                ("workloads", name),
                "a JobSet's name must start with a letter",
                "rename the workload",
                key=True,
            )
        for job in jobs_of(fleet, name):
            tail = f"-{job.name}-{job.replicas - 1}-{job.parallelism - 1}"
            length = len(name) + len(run) + len(tail) + _POD_SUFFIX
            if length > DNS_LABEL_MAX:
                room = len(name) - (length - DNS_LABEL_MAX)
                yield Problem(
                    "INV069", ("workloads", name),
                    f"its pods would be called {name}{run}{tail}-abcde: {length} characters, "
                    f"at most {DNS_LABEL_MAX} are allowed",
                    f"shorten the workload's name to {room} characters"
                    if room > 0 else "shorten the replicated job's name",
                    key=True,
                )  # fmt: skip


def _checkpoints(fleet: Fleet) -> Iterator[Problem]:
    for name, workload in fleet.spec.workloads.items():
        checkpoint = workload.checkpoint
        if checkpoint is None:
            continue
        path = ("workloads", name, "checkpoint")
        if checkpoint.configuration not in fleet.spec.checkpointing:
            yield unknown(
                (*path, "configuration"),
                "checkpointing configuration",
                checkpoint.configuration,
                fleet.spec.checkpointing,
            )
            continue
        if len(workload.replicated_jobs) > 1:
            # high-scale-checkpointing-controller pkg/idfile/ranks_server.go: any other JobSet is
            # taken for one without checkpoints, and its pods wait for their ranks for ever.
            yield Problem(
                "INV070",
                ("workloads", name, "replicatedJobs"),
                f"{len(workload.replicated_jobs)} replicated jobs in a workload with a checkpoint; "
                "the driver hands out ranks only to a JobSet with exactly one",
                "move the others to a workload of their own",
                key=True,
            )
            continue
        disk = fleet.ram_disks.get(checkpoint.configuration)
        for job in jobs_of(fleet, name):
            if disk is None or job.pool is None:
                continue
            # Where another configuration serves these nodes as well, INV032 says so.
            if not disk.selector.items() <= job.pool.labels.items():
                yield Problem(
                    "INV071",
                    (*path, "configuration"),
                    f"configuration {disk.name!r} serves {disk.pool.machine.name} nodes, but "
                    f"{job.name!r} runs on {job.pool.machine.name}",
                    "its pods would wait for a volume that no driver mounts; name another",
                )


def _volumes(fleet: Fleet) -> Iterator[Problem]:
    for job in all_jobs(fleet):
        taken = {"checkpoint"} if job.checkpointed else set()
        taken |= {"shared-memory"} if job.setting("shared_memory") else set()
        names: set[str] = set()
        for index, volume in enumerate(job.setting("volumes")):
            name = volume.get("name")
            path: ValuePath = (*job.settings_path("volumes"), index)
            if not isinstance(name, str):
                yield Problem("INV072", path, "a volume without a name", "write name:")
            elif name in taken:
                yield Problem(
                    "INV072",
                    (*path, "name"),
                    f"{name!r} is {OWN_VOLUMES[name]}, added already",
                    "choose another name",
                )
            names.add(str(name))
        for index, mount in enumerate(job.setting("volume_mounts")):
            path = (*job.settings_path("volume_mounts"), index)
            if mount.get("name") not in names | taken:
                yield unknown((*path, "name"), "volume", str(mount.get("name")), names | taken)
            checkpoint = job.spec.checkpoint
            if job.checkpointed and checkpoint and mount.get("mountPath") == checkpoint.directory:
                yield Problem(
                    "INV072",
                    (*path, "mountPath"),
                    f"{checkpoint.directory} is where the checkpoint volume is mounted",
                    "choose another path",
                )


def _classes_agree(fleet: Fleet) -> Iterator[Problem]:
    """Pods that outrank each other one way and queue the other way round."""
    for name, workload in fleet.spec.workloads.items():
        pods, queue = pod_priority(workload), queue_priority(workload)
        if pods is None and queue is not None and workload.queue is not None:
            yield Problem(
                "INV073",
                ("workloads", name),
                "it has a queue priority but no pod priority, so Hotswap never helps it",
                "write priority: for both",
                key=True,
            )


JOB_CHECKS: tuple[Check, ...] = (
    _references, _shapes, _names, _checkpoints, _volumes, _classes_agree, names_are_apart,
)  # fmt: skip
