"""Faults between the sections of one inventory: names that do not exist, sums that do not fit.

Each check takes the typed parameters (and the resolved fleet, as far as it resolves) and yields
problems by path; places are looked up later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_DOWN, Decimal

from generator.checks.agent_deadlines import too_slow
from generator.checks.providers import provider_problems
from generator.fleet import (
    Fleet,
    Pool,
    RamDisk,
    machine_of,
    resolve_pool,
    resolve_ram_disk,
)
from generator.jobs import Job, pods_on
from generator.problems import Problem
from generator.retention import cron_job_name
from generator.self_hosted import SHARED_MEMORY, SHARED_MEMORY_SHARE
from generator.spelling import nearest
from schemas.catalog import machines, mistaken_names, topology_problem, whole
from schemas.inventory import Parameters
from schemas.inventory.cluster import gke_version_key
from schemas.names import LABEL_VALUE_MAX
from schemas.quantity import GIB, format_quantity
from schemas.versions import RELEASES, UnknownVersionError, minor_of, resolve

CONFIGURATION_SUFFIX = len("-00000000-configuration")
CRON_JOB_NAME_MAX = 52
"""A CronJob's name leaves 11 characters for its jobs (kubernetes pkg/apis/batch/validation)."""

MTC_MINIMUM_GKE = "1.32.4-gke.1415000"
"""GKE documentation, "Multi-Tier Checkpointing", requirements."""

Check = Callable[[Fleet], Iterator[Problem]]


def resolve_fleet(spec: Parameters, target: str) -> tuple[Fleet | None, list[Problem]]:
    """Look everything up and check it; the fleet is None where something essential is missing."""
    problems = [*_cluster_name(spec, target), *_versions(spec), *_node_pools(spec)]
    pools = {
        name: pool
        for name, node_pool in spec.node_pools.items()
        if (pool := resolve_pool(name, node_pool)) is not None
    }
    disks = {
        name: disk
        for name, config in spec.checkpointing.items()
        if (disk := resolve_ram_disk(name, config, pools, _pools_used(spec, name))) is not None
    }
    problems += [*provider_problems(spec), *_checkpointing(spec, pools), *_overlaps(disks)]
    versions = spec.cluster.versions
    try:
        api = f"kueue.x-k8s.io/{versions.kueue_api}" if versions.kueue_api else ""
        fleet = Fleet(
            spec,
            pools,
            disks,
            kueue_api=api or resolve("kueue", versions.kueue).api_version,
            jobset_minor=tuple(map(int, (minor_of(versions.jobset) or "0.0").split("."))),
        )
    except UnknownVersionError:
        return None, problems
    from generator.checks.jobs import JOB_CHECKS
    from generator.checks.quotas import QUEUE_CHECKS

    for check in (*QUEUE_CHECKS, *JOB_CHECKS, _ram_disks):
        problems += check(fleet)
    return (None if problems else fleet), problems


def unknown(
    path: tuple[str | int, ...], what: str, name: str, known: Iterable[str], *, key: bool = False
) -> Problem:
    """A name that nothing of its kind bears."""
    names = sorted(known)
    near = nearest(name, names)
    fix = f"did you mean {near}?" if near else f"known: {', '.join(names) or 'none'}"
    return Problem("INV020", path, f"no {what} is called {name!r}", fix, key=key)


def _cluster_name(spec: Parameters, target: str) -> Iterator[Problem]:
    if spec.cluster.name != target:
        yield Problem(
            "INV021",
            ("cluster", "name"),
            f"the cluster is called {spec.cluster.name!r} but its target file {target!r}",
            f"write name: {target}, or rename the file",
        )


def _versions(spec: Parameters) -> Iterator[Problem]:
    versions = spec.cluster.versions
    for component in RELEASES:
        version = getattr(versions, component)
        try:
            release = resolve(component, version)
        except UnknownVersionError as error:
            yield Problem("INV022", ("cluster", "versions", component), str(error))
            continue
        api = versions.kueue_api
        if component == "kueue" and api and f"kueue.x-k8s.io/{api}" not in release.served:
            yield Problem(
                "INV022",
                ("cluster", "versions", "kueueApi"),
                f"Kueue {version} does not serve {api}",
                f"it serves {', '.join(release.served)}",
            )
    managed = any(config.provider == "gke" for config in spec.checkpointing.values())
    if managed and gke_version_key(spec.cluster.gke_version) < gke_version_key(MTC_MINIMUM_GKE):
        yield Problem(
            "INV023",
            ("cluster", "gkeVersion"),
            f"{spec.cluster.gke_version} is too old for multi-tier checkpointing",
            f"upgrade to {MTC_MINIMUM_GKE} or newer",
        )


def _node_pools(spec: Parameters) -> Iterator[Problem]:
    for name, pool in spec.node_pools.items():
        path = ("nodePools", name)
        machine = machine_of(pool)
        if machine is None:
            yield _unknown_machine((*path, "machineType"), pool.machine_type)
            continue
        if machine.accelerator is None or machine.accelerator.type == "gpu":
            if pool.topology is not None or pool.slices is not None:
                key = "topology" if pool.topology is not None else "slices"
                yield Problem(
                    "INV025",
                    (*path, key),
                    f"{machine.name} has no TPU slices",
                    "write nodes: and leave topology and slices out",
                    key=True,
                )
            elif pool.nodes is None:
                yield Problem(
                    "INV025", path, "how many nodes is not said", "write nodes:", key=True
                )
            continue
        if pool.nodes is not None:
            yield Problem(
                "INV025",
                (*path, "nodes"),
                f"{machine.name} comes in slices",
                "write slices: and topology:; the nodes follow",
                key=True,
            )
        if pool.slices is None:
            yield Problem("INV025", path, "how many slices is not said", "write slices:", key=True)
        if pool.topology is None:
            yield Problem(
                "INV025",
                path,
                "the slices' topology is not said",
                f"write topology: one of {', '.join(machine.topologies)}",
                key=True,
            )
        elif wrong := topology_problem(machine, pool.topology):
            near = nearest(pool.topology, machine.topologies)
            yield Problem(
                "INV026",
                (*path, "topology"),
                f"{pool.topology!r} {wrong}",
                f"did you mean {near}?" if near else "",
            )


def _unknown_machine(path: tuple[str | int, ...], name: str) -> Problem:
    real = mistaken_names().get(name)
    if real is not None:
        return Problem(
            "INV024",
            path,
            f"{name!r} stands in the documents but no such machine type exists",
            f"write {real}",
        )
    near = nearest(name, machines())
    return Problem(
        "INV024",
        path,
        f"machine type {name!r} is not in the catalog",
        f"did you mean {near}?"
        if near
        else "describe it under machine: (accelerator, vcpus, memory)",
    )


def _checkpointing(spec: Parameters, pools: dict[str, Pool]) -> Iterator[Problem]:
    for name, config in spec.checkpointing.items():
        path = ("checkpointing", name)
        if config.provider == "gke" and config.hierarchical_namespace is False:
            yield Problem(
                "INV030",
                (*path, "hierarchicalNamespace"),
                f"bucket {config.bucket!r} has no hierarchical namespace, so every backup fails",
                "create a bucket with one; it cannot be turned on later",
            )
        if config.node_pool not in spec.node_pools:
            yield unknown((*path, "nodePool"), "node pool", config.node_pool, spec.node_pools)
            continue
        configured = len(name) + CONFIGURATION_SUFFIX
        if config.provider == "gke" and configured > LABEL_VALUE_MAX:
            yield Problem(
                "INV039",
                path,
                f"its CheckpointConfiguration would be called {name}-00000000-configuration: "
                f"{configured} characters; the controller uses the name as a label value, "
                f"which has at most {LABEL_VALUE_MAX}",
                f"shorten the name to {LABEL_VALUE_MAX - CONFIGURATION_SUFFIX} characters",
                key=True,
            )
        cron_job = cron_job_name(name)
        if config.retention.tool != "none" and len(cron_job) > CRON_JOB_NAME_MAX:
            yield Problem(
                "INV036",
                path,
                f"its retention job would be called {cron_job}: {len(cron_job)} characters, "
                f"at most {CRON_JOB_NAME_MAX} are allowed",
                f"shorten the name to {CRON_JOB_NAME_MAX - len(cron_job_name(''))} characters",
                key=True,
            )
        pool = pools.get(config.node_pool)
        if pool is None:
            continue
        if pool.accelerator is None:
            yield Problem(
                "INV031",
                (*path, "nodePool"),
                f"node pool {pool.name!r} has no accelerators",
                "multi-tier checkpointing serves TPU and GPU nodes",
            )


def _pools_used(spec: Parameters, config: str) -> set[str]:
    """The pools that jobs of a configuration run on."""
    return {
        pool
        for workload in spec.workloads.values()
        if workload.checkpoint is not None and workload.checkpoint.configuration == config
        for own in (workload.replicated_jobs.values() or (None,))
        if (pool := (own.node_pool if own else None) or workload.node_pool) is not None
    }


def _overlaps(disks: dict[str, RamDisk]) -> Iterator[Problem]:
    """Configurations whose selectors can match one node: they differ in no key that both have."""
    for index, disk in enumerate(disks.values()):
        for other in list(disks.values())[:index]:
            shared = disk.selector.keys() & other.selector.keys()
            if any(disk.selector[key] != other.selector[key] for key in shared):
                continue
            yield Problem(
                "INV032",
                ("checkpointing", disk.name, "nodePool"),
                f"{other.name!r} already serves the nodes of machine type "
                f"{disk.pool.machine.name}; two drivers on one node conflict",
                "tell their pools apart by selectBy (one label, two values), and let each one's "
                "jobs run on its own pool"
                if disk.self_hosted and other.self_hosted and disk.pool is not other.pool
                else "keep one configuration for each machine type",
            )
            break


def _ram_disks(fleet: Fleet) -> Iterator[Problem]:
    for disk in fleet.ram_disks.values():
        path = ("checkpointing", disk.name)
        saved, times = disk.checkpoint, disk.factor.value
        if saved is not None and disk.bytes < saved * times:
            # Cut, not rounded: what is below 6.6 must not read "6.60 times; 6.6 is needed".
            has = (disk.bytes / saved).quantize(Decimal("0.01"), ROUND_DOWN)
            yield Problem(
                "INV033",
                (*path, "inMemoryVolumeSize"),
                f"{disk.size} is {has} times the local checkpoint of "
                f"{gib(saved)}; {times} times is needed"
                + (" (derived)" if disk.factor.derived else ""),
                f"write at least {disk.required_gib}Gi, or leave it out to have it derived",
            )
        yield from _memory_sums(fleet, disk)
        yield from _cpu_sums(fleet, disk)
        yield from too_slow(disk)


def _memory_sums(fleet: Fleet, disk: RamDisk) -> Iterator[Problem]:
    room = disk.pool.machine.allocatable_memory
    size_key = "inMemoryVolumeSize" if disk.spec.in_memory_volume_size else "localCheckpointSize"
    if disk.spec.model is not None and disk.spec.in_memory_volume_size is None:
        size_key = "model"
    if disk.node_bytes >= room:
        yield Problem(
            "INV034",
            ("checkpointing", disk.name, size_key),
            f"a RAM disk of {disk.size} does not fit a node of {disk.pool.machine.name}: "
            f"{gib(room)} of {gib(disk.pool.machine.memory)} are allocatable",
            "spread the model over more nodes, use fewer peers, or a larger machine",
        )
        return
    yield from _shared_memory(disk, size_key)
    for job in _jobs_beside(fleet, disk):
        memory = job.memory
        if memory is None or memory + disk.node_bytes <= room:
            continue
        agent = disk.spec.agent
        beside = f" + agent {agent.memory}" if agent else ""
        yield Problem(
            "INV035",
            (*job.settings_path("resources"), "memory"),
            f"RAM disk {disk.size}{beside} + pod {gib(memory)} = "
            f"{gib(memory + disk.node_bytes)}, "
            f"but a node of {disk.pool.machine.name} has {gib(room)} allocatable",
            f"ask for at most {int((room - disk.node_bytes) // GIB)}Gi, or shrink the RAM disk",
        )


def _jobs_beside(fleet: Fleet, disk: RamDisk) -> Iterator[Job]:
    """The jobs whose pods run on nodes that have this RAM disk."""
    for pool_name, served in fleet.ram_disk_of_pool.items():
        if served is disk:
            yield from pods_on(fleet, pool_name)


def _cpu_sums(fleet: Fleet, disk: RamDisk) -> Iterator[Problem]:
    """An agent outranks the jobs: beside one that leaves it no core the job is pushed off."""
    room = disk.pool.machine.allocatable_cpu
    if not disk.node_cpu:
        return
    if disk.node_cpu >= room:
        yield Problem(
            "INV035",
            ("checkpointing", disk.name, "agent", "cpu"),
            f"an agent of {cores(disk.node_cpu)} cores leaves pods none: a node of "
            f"{disk.pool.machine.name} has {cores(room)} allocatable",
            "write less, such as 1",
        )
        return
    for job in _jobs_beside(fleet, disk):
        if job.cpu is None or job.cpu + disk.node_cpu <= room:
            continue
        yield Problem(
            "INV035",
            (*job.settings_path("resources"), "cpu"),
            f"agent {cores(disk.node_cpu)} + pod {cores(job.cpu)} = "
            f"{cores(disk.node_cpu + job.cpu)} cores, "
            f"but a node of {disk.pool.machine.name} has {cores(room)} allocatable",
            f"ask for at most {whole(room - disk.node_cpu)}, or lower the agent's cpu",
        )


def _shared_memory(disk: RamDisk, size_key: str) -> Iterator[Problem]:
    """A node's /dev/shm holds half of its memory; a RAM disk above that fills before its time."""
    agent = disk.spec.agent
    if agent is None or agent.node_path != SHARED_MEMORY:
        return
    room = disk.pool.machine.memory * SHARED_MEMORY_SHARE
    if disk.bytes > room:
        yield Problem(
            "INV038",
            ("checkpointing", disk.name, size_key),
            f"a RAM disk of {disk.size} does not fit {SHARED_MEMORY} of a {disk.pool.machine.name},"
            f" which Linux makes half of the machine's {gib(disk.pool.machine.memory)}",
            "mount a larger tmpfs on the nodes and name it in agent.nodePath, or spread the model "
            "over more nodes",
        )


def gib(value: Decimal) -> str:
    """Bytes as people compare them: GiB, with up to one decimal."""
    exact = value / GIB
    return (
        f"{exact.to_integral_value():f}Gi"
        if exact == exact.to_integral_value()
        else f"{exact:.1f}Gi"
    )


def cores(value: Decimal) -> str:
    """Cores as people compare them: 1, 179.69."""
    return f"{value.normalize():f}"


def shown_quantity(value: Decimal, resource: str) -> str:
    """A quantity as it stands in manifests."""
    return format_quantity(value, binary=resource in {"memory", "ephemeral-storage"})
