"""JobSets as the ``workloads`` section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from generator.build.frameworks import maxtext_flags, nemo_flags
from generator.fleet import Pool
from generator.importing.corrections import PRIORITY_LABEL, QUEUE_LABEL
from generator.importing.options import Options
from generator.importing.pods import (
    PodReading,
    checkpoint_directory,
    rename_volumes,
    settings,
)
from generator.importing.pools import Pools, main_container, node_labels, pod_spec
from generator.importing.queues import ADD_QUEUES
from generator.importing.sources import Log, Source, by_kind, entries, mapping, texts
from generator.jobs import DEFAULT_JOB_NAMES
from schemas.catalog import MACHINE_LABEL, NODE_POOL_LABEL
from schemas.inventory.checkpointing import Backup
from schemas.manifests.checkpointing import CSI_DRIVER
from schemas.manifests.jobset import EXCLUSIVE_TOPOLOGY
from schemas.names import dns_label_problem

_OWN = "stowplan.dev/"
JOB_BACKOFF_LIMIT = 6
"""Kubernetes' default of a Job (``pkg/apis/batch/v1/defaults.go``)."""
_USUAL_POLICY = {"maxRestarts": 10, "restartStrategy": "BlockingRecreate"}
_PERIOD_FLAGS = ("local_checkpoint_period", "--local-ckpt-interval")
_NAME_FLAGS = ("run_name", "--job-name")
_BACKUP_FLAGS = {
    "multi_tier_checkpointing_backup_interval_minutes": "intervalMinutes",
    "multi_tier_checkpointing_backup_interval_steps": "intervalSteps",
}


@dataclass(frozen=True)
class Surroundings:
    """What the rest of the inventory holds that workloads refer to.

    Attributes:
        pools: node pools.
        local_queues: the ``localQueues`` section.
        priorities: the names of priority classes.
        usual_priority: the class that pods get which name none (globalDefault), empty without one.
        configurations: checkpointing configuration → node pool.
        backups: checkpointing configuration → its ``backup``.
    """

    pools: Pools
    local_queues: dict[str, Any]
    priorities: frozenset[str]
    usual_priority: str
    configurations: dict[str, str]
    backups: dict[str, dict[str, Any]]


def flags(words: list[str]) -> dict[str, str]:
    """The ``key=value`` words of a command line, also of one inside a shell script."""
    return {
        key: value.rstrip("()\"';&")
        for text in words
        for word in text.split()
        for key, equals, value in [word.partition("=")]
        if equals
    }


def command_line(job: dict[str, Any]) -> list[str]:
    """A replicated job's command and arguments."""
    container = main_container(pod_spec(job))
    return [*texts(container.get("command")), *texts(container.get("args"))]


def backup_of(source: Source) -> dict[str, Any]:
    """The backup interval in a JobSet's arguments, empty without one."""
    for job in entries(source.spec.get("replicatedJobs")):
        given = flags(command_line(job))
        for flag, field in _BACKUP_FLAGS.items():
            if given.get(flag, "").isdigit():
                return {field: int(given[flag])}
    return {}


def mounts_checkpoints(source: Source) -> bool:
    """Whether a JobSet has a multi-tier checkpoint volume."""
    return any(
        mapping(volume.get("csi")).get("driver") == CSI_DRIVER
        for job in entries(source.spec.get("replicatedJobs"))
        for volume in entries(pod_spec(job).get("volumes"))
    )


def workload_name(source: Source) -> tuple[str, int | None]:
    """A JobSet's name without what compile adds to it, and the run counter if it has one."""
    noted = source.annotations.get(f"{_OWN}workload")
    if noted is None:
        return source.name, None
    run = re.fullmatch(re.escape(str(noted)) + r"-r(\d+)", source.name)
    return str(noted), int(run[1]) if run else None


def workloads(
    sources: list[Source], around: Surroundings, options: Options, log: Log
) -> dict[str, dict[str, Any]]:
    """The section: one entry for each JobSet."""
    found: dict[str, dict[str, Any]] = {}
    for source in by_kind(sources, "JobSet"):
        name, run = workload_name(source)
        if name in found:
            name = f"{source.namespace}-{name}"
        if problem := dns_label_problem(name, starts_with_letter=True):
            log.missing(f"its name {problem}", "rename it in the manifest", source)
            continue
        source.entry = ("workloads", name)
        entry = _workload(source, name, around, options, log)
        if run is not None:
            entry["run"] = run
        found[name] = entry
    return found


def _workload(
    source: Source, name: str, around: Surroundings, options: Options, log: Log
) -> dict[str, Any]:
    jobs = entries(source.spec.get("replicatedJobs"))
    if not jobs:
        log.missing("it has no replicatedJobs", "leave the file out", source, ("spec",))
        return {}
    for job in jobs:
        for old, new in rename_volumes(pod_spec(job)):
            log.renamed(source, f"volume {old} is called {new} by compile")
    pools = [_pool_of(job, around) for job in jobs]
    noted = source.annotations.get(f"{_OWN}framework")
    # Several jobs have one framework, after which compile names the containers of all.
    given = str(noted) if noted else "custom" if len(jobs) > 1 else None
    readings = [PodReading.of(job, pool, given) for job, pool in zip(jobs, pools, strict=True)]
    framework = readings[0].framework
    entry: dict[str, Any] = {"framework": framework}
    if source.namespace != "default":
        entry["namespace"] = source.namespace
    checkpoint = _checkpoint(source, name, framework, readings[0], around, options, log)
    if len(jobs) == 1:
        entry |= _single(jobs[0], readings[0])
        entry |= settings(readings[0], checkpoint is not None)
    else:
        entry["replicatedJobs"] = {
            str(job.get("name")): _one_of_many(job, reading)
            for job, reading in zip(jobs, readings, strict=True)
        }
    entry |= _queue(source, readings[0].pod, around, log)
    if checkpoint is not None:
        arguments = checkpoint.pop("_args", None)
        if arguments is not None:
            entry["args"] = arguments
            if not arguments:
                del entry["args"]
        entry["checkpoint"] = checkpoint
    policy = _failure_policy(mapping(source.spec.get("failurePolicy")))
    if policy != _USUAL_POLICY:
        entry["failurePolicy"] = policy
    entry |= _placement(source, readings)
    _rename_containers(source, readings, log)
    return _ordered(entry)


def _rename_containers(source: Source, readings: list[PodReading], log: Log) -> None:
    """Compile names the container after the framework; what refers to it follows."""
    for reading in readings:
        old, new = reading.container.get("name"), reading.container_name
        others = [c.get("name") for c in entries(reading.pod.get("containers"))]
        if old != new and new in others:
            log.missing(
                f"compile calls the container {old} {new}, but another one has that name",
                "rename the other container in the manifest",
                source,
            )
        elif old != new and reading.container:
            reading.container["name"] = new
            _follow_rename(reading.job, old, new)
            log.renamed(source, f"container {old} is called {new} by compile")


def _follow_rename(job: dict[str, Any], old: Any, new: str) -> None:
    policy = mapping(mapping(mapping(job.get("template")).get("spec")).get("podFailurePolicy"))
    for rule in entries(policy.get("rules")):
        codes = mapping(rule.get("onExitCodes"))
        if codes.get("containerName") == old:
            codes["containerName"] = new


_ORDER = (
    "framework", "namespace", "nodePool", "slices", "nodes", "replicatedJobs", "queue", "priority",
    "priorityClass", "workloadPriorityClass", "image", "command", "args", "env", "resources",
    "workingDir", "volumes", "volumeMounts", "sharedMemory", "serviceAccount", "nodeSelector",
    "tolerations", "hostNetwork", "labels", "annotations", "terminationGracePeriodSeconds",
    "checkpoint", "failurePolicy", "exclusivePlacement", "topologyAware", "run",
)  # fmt: skip


def _ordered(entry: dict[str, Any]) -> dict[str, Any]:
    """Keys in the order in which a person reads a workload: what, where, how."""
    return {key: entry[key] for key in _ORDER if key in entry}


def _pool_of(job: dict[str, Any], around: Surroundings) -> Pool | None:
    return around.pools.find(node_labels(pod_spec(job).get("nodeSelector")))


def _shape(job: dict[str, Any]) -> tuple[int, int, int]:
    """Replicas, parallelism and backoff limit, with Kubernetes' defaults."""
    spec = mapping(mapping(job.get("template")).get("spec"))
    return (
        int(job.get("replicas", 1)),
        int(spec.get("parallelism", 1)),
        int(spec.get("backoffLimit", JOB_BACKOFF_LIMIT)),
    )


def _single(job: dict[str, Any], reading: PodReading) -> dict[str, Any]:
    """Where the one replicated job runs: in the short form where it says the same."""
    replicas, parallelism, backoff = _shape(job)
    pool = reading.pool
    entry: dict[str, Any] = {"nodePool": pool.name} if pool else {}
    tpu = pool is not None and pool.is_tpu
    short = (
        job.get("name") == DEFAULT_JOB_NAMES[tpu]
        and backoff == 0
        and not job.get("dependsOn")
        and pool is not None
    )
    if short and tpu and pool and parallelism == pool.nodes_per_slice:
        return {**entry, "slices": replicas}
    if short and not tpu and replicas == 1:
        return {**entry, "nodes": parallelism}
    entry["replicatedJobs"] = {
        str(job.get("name")): {"replicas": replicas, "parallelism": parallelism}
        | ({"backoffLimit": backoff} if backoff else {})
    }
    return entry


def _one_of_many(job: dict[str, Any], reading: PodReading) -> dict[str, Any]:
    replicas, parallelism, backoff = _shape(job)
    entry: dict[str, Any] = {"nodePool": reading.pool.name} if reading.pool else {}
    entry |= {"replicas": replicas, "parallelism": parallelism}
    if backoff:
        entry["backoffLimit"] = backoff
    needs = {str(d.get("name")): d.get("status") for d in entries(job.get("dependsOn"))}
    if needs:
        entry["dependsOn"] = needs
    return {**entry, **settings(reading, False)}


def _queue(source: Source, pod: dict[str, Any], around: Surroundings, log: Log) -> dict[str, Any]:
    """Queue and priorities; what they name has to be in the files."""
    entry: dict[str, Any] = {}
    queue = source.labels.get(QUEUE_LABEL)
    if queue is not None:
        known = mapping(around.local_queues.get(str(queue)))
        if source.namespace in known.get("namespaces", ()):
            entry["queue"] = str(queue)
        else:
            log.missing(
                f"LocalQueue {source.namespace}/{queue} is in none of the files",
                ADD_QUEUES,
                source,
                ("metadata", "labels", QUEUE_LABEL),
            )
    pods = pod.get("priorityClassName")
    # Without a class of its own, Kueue takes the pods' class.
    waiting = source.labels.get(PRIORITY_LABEL, pods if queue is not None else None)
    for name in dict.fromkeys(str(n) for n in (pods, waiting) if n):
        if name not in around.priorities:
            log.missing(
                f"priority class {name!r} is in none of the files",
                f"add its file, or --priority-class {name}=VALUE",
                source,
            )
    if pods and (waiting is None or waiting == pods):
        entry["priority"] = str(pods)
    elif waiting and not pods:
        entry["priority"] = str(waiting)
    elif pods and waiting:
        entry |= {"priorityClass": str(pods), "workloadPriorityClass": str(waiting)}
    elif queue is not None and around.usual_priority:
        entry["priority"] = around.usual_priority
        log.derived(f"priority {around.usual_priority}: the cluster's globalDefault", "", source)
    elif queue is not None and around.priorities:
        log.missing(
            "it has a queue but no priority, so it is the first to go",
            f"write priorityClassName in its pods: {', '.join(sorted(around.priorities)[:5])}",
            source,
        )
    return entry


def _failure_policy(given: dict[str, Any]) -> dict[str, Any]:
    """JobSet's defaults are no restart and Recreate, the inventory's are others: written out."""
    policy: dict[str, Any] = {
        "maxRestarts": int(given.get("maxRestarts", 0)),
        "restartStrategy": given.get("restartStrategy", "Recreate"),
    }
    keys = ("name", "action", "onJobFailureReasons", "targetReplicatedJobs")
    rules = [{k: rule[k] for k in keys if k in rule} for rule in entries(given.get("rules"))]
    if rules and all("name" in rule for rule in rules):
        policy["rules"] = rules
    return policy


def _placement(source: Source, readings: list[PodReading]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if readings[0].topology_aware:
        entry["topologyAware"] = readings[0].topology_aware
    exclusive = source.annotations.get(EXCLUSIVE_TOPOLOGY) == NODE_POOL_LABEL
    usual = not readings[0].topology_aware and any(
        reading.pool is not None and reading.pool.is_multi_host for reading in readings
    )
    if exclusive != usual:
        entry["exclusivePlacement"] = exclusive
    return entry


def _checkpoint(
    source: Source,
    name: str,
    framework: str,
    reading: PodReading,
    around: Surroundings,
    options: Options,
    log: Log,
) -> dict[str, Any] | None:
    """How the workload uses the RAM disk, None if it mounts none."""
    directory = checkpoint_directory(reading)
    if directory is None:
        return None
    configuration = _serving(reading, around)
    if configuration is None:
        log.missing(
            "it mounts a multi-tier checkpoint volume, but no CheckpointConfiguration in the files "
            f"serves its nodes ({MACHINE_LABEL})",
            "add its file: kubectl get checkpointconfigurations -o yaml",
            source,
        )
        return None
    words = [*texts(reading.container.get("command")), *texts(reading.container.get("args"))]
    given = flags(words)
    period = next((given[f] for f in _PERIOD_FLAGS if given.get(f, "").isdigit()), None)
    if period is None and options.period_steps is None:
        log.missing(
            "how many steps lie between local checkpoints stands in none of its arguments",
            "add --checkpoint-period STEPS",
            source,
        )
        return None
    steps = int(period) if period is not None else int(options.period_steps or 0)
    checkpoint: dict[str, Any] = {"configuration": configuration}
    if directory != "/checkpoint":
        checkpoint["directory"] = directory
    checkpoint["periodSteps"] = steps
    job_name = next((given[f] for f in _NAME_FLAGS if f in given), name)
    if job_name != name and dns_label_problem(job_name) is None:
        checkpoint["jobName"] = job_name
    backup = around.backups.get(configuration)
    derived = _derived(framework, directory, steps, backup, job_name)
    if not derived:
        return checkpoint
    args = texts(reading.container.get("args"))
    if args[-len(derived) :] == derived:
        checkpoint["_args"] = args[: -len(derived)]
    elif not {word.partition("=")[0] for word in derived} <= {w.partition("=")[0] for w in words}:
        checkpoint["arguments"] = False
    return checkpoint


def _serving(reading: PodReading, around: Surroundings) -> str | None:
    if reading.pool is None:
        return None
    for configuration, pool in around.configurations.items():
        served = around.pools.resolved.get(pool)
        if served is not None and served.machine.name == reading.pool.machine.name:
            return configuration
    return None


def _derived(
    framework: str, directory: str, steps: int, backup: dict[str, Any] | None, job_name: str
) -> list[str]:
    """The arguments that compile appends by itself."""
    if framework == "jax" and backup:
        chosen = maxtext_flags(directory, steps, Backup.model_validate(backup), job_name)
        return [f"{key}={value}" for key, value in chosen.items()]
    if framework == "pytorch":
        return [
            key if value is None else f"{key}={value}"
            for key, value in nemo_flags(directory, steps, job_name).items()
        ]
    return []
