"""CheckpointConfigurations and their retention jobs as the ``checkpointing`` section."""

from __future__ import annotations

import re
from typing import Any

from generator.importing.jobs import backup_of, mounts_checkpoints
from generator.importing.options import Options
from generator.importing.pools import Pools
from generator.importing.queues import toleration
from generator.importing.sources import Log, Source, by_kind, entries, mapping, texts
from generator.retention import cron_job_name
from schemas.catalog import MACHINE_LABEL, machines
from schemas.inventory.checkpointing import RECOMMENDED_MOUNT_OPTIONS
from schemas.quantity import QuantityError, parse_quantity
from schemas.sizing import factor, ram_disk_gib

_OWN = "stowplan.dev/"
_HASHED = re.compile(r"(?P<config>.+)-[0-9a-f]{8}-configuration")
_SIZE = re.compile(r"[1-9][0-9]*(?:Mi|Gi|Ti)")
_PERIODS = ("hourly", "daily", "weekly", "monthly", "yearly")


def config_name(source: Source) -> str:
    """The inventory's name of a configuration: without the documents' suffix and our hash."""
    noted = source.annotations.get(f"{_OWN}config")
    if noted:
        return str(noted)
    match = _HASHED.fullmatch(source.name)
    return match["config"] if match else source.name.removesuffix("-configuration")


def checkpointing(
    sources: list[Source], pools: Pools, options: Options, log: Log
) -> dict[str, dict[str, Any]]:
    """The section."""
    found: dict[str, dict[str, Any]] = {}
    for source in by_kind(sources, "CheckpointConfiguration"):
        source.entry = ("checkpointing", config_name(source))
        entry = _configuration(source, sources, pools, options, log)
        if entry is not None:
            found[config_name(source)] = entry
    return found


def _configuration(
    source: Source, sources: list[Source], pools: Pools, options: Options, log: Log
) -> dict[str, Any] | None:
    name, spec = config_name(source), source.spec
    bucket, _, directory = str(spec.get("cloudStorageBucketName", "")).partition("/")
    pool = _pool(source, pools, log)
    if not bucket:
        log.missing("no bucket is named", "write cloudStorageBucketName", source, ("spec",))
    if pool is None or not bucket:
        return None
    entry: dict[str, Any] = {"bucket": bucket}
    if directory:
        entry["directory"] = directory
    entry["hierarchicalNamespace"] = _hierarchical(source, options, log)
    entry["nodePool"] = pool
    if tolerations := _further_tolerations(source, pools, pool):
        entry["tolerations"] = tolerations
    mount_options = texts(spec.get("gcsFuseMountOptions"))
    if tuple(mount_options) != RECOMMENDED_MOUNT_OPTIONS:
        entry["mountOptions"] = mount_options
    if spec.get("csiEphemeralLimit"):
        entry["csiEphemeralLimit"] = str(spec["csiEphemeralLimit"])
    if spec.get("enableExternalJaxProcessIds"):
        entry["enableExternalJaxProcessIds"] = True
    notes = {k.removeprefix(_OWN): str(v) for k, v in source.annotations.items() if _OWN in k}
    epoch, peers = _number(notes, "driver-epoch", 1), _number(notes, "peers", 1)
    if epoch != 1:
        entry["driverEpoch"] = epoch
    entry |= _sizes(source, name, pools, pool, peers, notes, options, log)
    if peers != 1:
        entry["peers"] = peers
    entry["backup"] = _backup(source, sources, notes, options, log)
    entry["retention"] = _retention(source, name, sources, log)
    return entry


def _number(notes: dict[str, str], key: str, otherwise: int) -> int:
    """A whole number that compile wrote as an annotation."""
    text = notes.get(key, "")
    return int(text) if text.isdigit() else otherwise


def _pool(source: Source, pools: Pools, log: Log) -> str | None:
    selector = source.spec.setdefault("nodeSelector", {})
    known = {pool.machine.name for pool in pools.resolved.values() if pool.accelerator}
    if MACHINE_LABEL not in selector and len(known) == 1:
        selector[MACHINE_LABEL] = known.pop()
        log.corrected(
            source,
            "its nodeSelector names no machine type, so its driver starts on nodes of any kind",
            f"written for {selector[MACHINE_LABEL]}, the only one here with accelerators",
            ("spec",),
        )
    machine = str(selector.get(MACHINE_LABEL, ""))
    if not machine:
        log.missing(
            f"its nodeSelector has no {MACHINE_LABEL}, so it would serve nodes of any kind",
            "write the machine type of the training nodes there",
            source,
            ("spec", "nodeSelector"),
        )
        return None
    pool = pools.on_machine(machine)
    if pool is None:
        listed = machines().get(machine)
        shape = "TOPOLOGY:SLICES" if listed and listed.topologies else "NODES"
        log.missing(
            f"no node pool of {machine} is known: nothing else in the files speaks of one",
            f"add --node-pool NAME={machine}:{shape}",
            source,
            ("spec", "nodeSelector", MACHINE_LABEL),
        )
        return None
    return pool.name


def _hierarchical(source: Source, options: Options, log: Log) -> bool:
    noted = source.annotations.get(f"{_OWN}bucket-hierarchical-namespace")
    if noted is not None:
        return str(noted) == "true"
    if options.hierarchical_namespace is None:
        log.missing(
            "whether the bucket has a hierarchical namespace stands in no manifest; without one "
            "every backup fails",
            "gcloud storage buckets describe gs://BUCKET says; add --hierarchical-namespace yes",
            source,
            ("spec", "cloudStorageBucketName"),
        )
    return options.hierarchical_namespace is not False


def _further_tolerations(source: Source, pools: Pools, pool: str) -> list[dict[str, Any]]:
    """Tolerations beyond those that follow from the taints of the pools it serves."""
    machine = pools.resolved[pool].machine.name
    follow = {
        (taint.key, taint.effect)
        for own in pools.resolved.values()
        if own.machine.name == machine
        for taint in own.taints
    }
    return [
        toleration(given)
        for given in entries(source.spec.get("tolerations"))
        if not (
            given.get("operator") == "Exists" and (given.get("key"), given.get("effect")) in follow
        )
    ]


def _sizes(
    source: Source,
    name: str,
    pools: Pools,
    pool: str,
    peers: int,
    notes: dict[str, str],
    options: Options,
    log: Log,
) -> dict[str, Any]:
    size = source.spec.get("inMemoryVolumeSize")
    if name in options.ram_disks and options.ram_disks[name] != size:
        log.derived(
            f"the RAM disk is {options.ram_disks[name]} instead of {size!r} by --ram-disk",
            source=source,
            path=("spec", "inMemoryVolumeSize"),
        )
        size = source.spec["inMemoryVolumeSize"] = options.ram_disks[name]
    checkpoint = options.checkpoint_sizes.get(name, notes.get("local-checkpoint-size"))
    if not isinstance(size, str) or not _SIZE.fullmatch(size):
        log.missing(
            f"inMemoryVolumeSize {size!r} is no whole number of Mi, Gi or Ti",
            f"add --ram-disk {name}=SIZE, such as 64Gi",
            source,
            ("spec", "inMemoryVolumeSize"),
        )
        return {}
    if checkpoint is None:
        log.derived(
            "what one node saves stands in no manifest, so the RAM disk's size is taken as it is",
            f"--local-checkpoint-size {name}=SIZE has it derived and checked",
            source,
            ("spec", "inMemoryVolumeSize"),
        )
        return {"inMemoryVolumeSize": size}
    sizes = {"localCheckpointSize": checkpoint}
    accelerator = pools.resolved[pool].accelerator
    try:
        saved = parse_quantity(checkpoint)
    except QuantityError as error:
        log.missing(f"--local-checkpoint-size {checkpoint!r}: {error.message}", error.hint, source)
        return {}
    if accelerator and f"{ram_disk_gib(saved, factor(accelerator.type, peers).value)}Gi" != size:
        sizes = {"inMemoryVolumeSize": size, **sizes}
    return sizes


def _backup(
    source: Source, sources: list[Source], notes: dict[str, str], options: Options, log: Log
) -> dict[str, Any]:
    for key, field in (
        ("backup-interval-minutes", "intervalMinutes"),
        ("backup-interval-steps", "intervalSteps"),
    ):
        if notes.get(key, "").isdigit():
            return {field: int(notes[key])}
    if options.backup_minutes is not None:
        return {"intervalMinutes": options.backup_minutes}
    for job in by_kind(sources, "JobSet"):
        backup = backup_of(job) if mounts_checkpoints(job) else {}
        if backup:
            log.derived(f"backup interval from the arguments of {job.resource}", source=source)
            return backup
    log.missing(
        "how often checkpoints are backed up stands in no manifest",
        "add --backup-interval-minutes 30",
        source,
    )
    return {}


def _retention(source: Source, name: str, sources: list[Source], log: Log) -> dict[str, Any]:
    for job in by_kind(sources, "CronJob"):
        if job.name == cron_job_name(name):
            read = _read_cron_job(job)
            if read is not None:
                return read
    if source.annotations.get(f"{_OWN}retention") != "none":
        log.derived(
            "nothing in the files deletes old backups; retention is written as tool: none",
            "choose a tool and what it keeps in the inventory",
            source,
        )
    return {"tool": "none"}


def _read_cron_job(source: Source) -> dict[str, Any] | None:
    """The retention behind a CronJob that stowplan wrote."""
    job = mapping(mapping(source.spec.get("jobTemplate")).get("spec"))
    pod = mapping(mapping(job.get("template")).get("spec"))
    containers = entries(pod.get("containers"))
    arguments = texts(containers[0].get("args")) if containers else []
    if not arguments or arguments[0] not in {"-p", "prune"}:
        return None
    retention: dict[str, Any] = {
        "tool": "backup-warden" if arguments[0] == "-p" else "replicator",
        "image": containers[0].get("image"),
        "schedule": source.spec.get("schedule"),
    }
    usual = {"hourly": "24", "daily": "7", "weekly": "5", "monthly": "always", "yearly": "always"}
    if "--delete" in arguments:
        retention["delete"] = True
    for period in _PERIODS:
        flag = f"--{period}"
        if flag in arguments[:-1]:
            value = arguments[arguments.index(flag) + 1]
            if value != usual[period]:
                retention[period] = int(value) if value.isdigit() else value
    if "--prefer-recent" not in arguments:
        retention["preferRecent"] = False
    if source.namespace != "checkpoint-retention":
        retention["namespace"] = source.namespace
    return retention
