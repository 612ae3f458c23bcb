"""CheckpointConfiguration: the RAM disks."""

from __future__ import annotations

from collections.abc import Iterator

from generator.build.metadata import metadata
from generator.build.queues import tolerating, toleration
from generator.fleet import Fleet, RamDisk
from generator.jobs import largest_pod_memory
from generator.manifest import Manifest
from schemas.catalog import MACHINE_LABEL, whole
from schemas.manifests.base import Toleration
from schemas.manifests.checkpointing import CheckpointConfiguration, CheckpointConfigurationSpec
from schemas.quantity import GIB, format_quantity


def unhashed_name(config: str) -> str:
    """The name before the hash is put in: the documents' ``<config>-configuration``."""
    return f"{config}-configuration"


def build(fleet: Fleet) -> Iterator[Manifest]:
    """One CheckpointConfiguration for each entry of ``checkpointing`` that GKE's driver serves."""
    for disk in fleet.ram_disks.values():
        spec = disk.spec
        if disk.self_hosted:
            continue
        bucket = f"{spec.bucket}/{spec.directory}" if spec.directory else spec.bucket
        body = CheckpointConfiguration(
            metadata=metadata(
                "CheckpointConfiguration",
                unhashed_name(disk.name),
                annotations=config_annotations(fleet, disk) | _driver_annotations(fleet, disk),
            ),
            spec=CheckpointConfigurationSpec(
                cloud_storage_bucket_name=bucket,
                node_selector={MACHINE_LABEL: disk.pool.machine.name},
                tolerations=pool_tolerations(fleet, disk),
                in_memory_volume_size=disk.size,
                csi_ephemeral_limit=spec.csi_ephemeral_limit,
                enable_external_jax_process_ids=spec.enable_external_jax_process_ids,
                gcs_fuse_mount_options=list(spec.mount_options),
            ),
        )
        yield Manifest("checkpointing", body.to_dict(), ("checkpointing", disk.name))


def pool_tolerations(fleet: Fleet, disk: RamDisk) -> list[Toleration]:
    """Driver and agent get no toleration of their own: every taint of the nodes that they serve is
    named."""
    served = [fleet.pools[name] for name, own in fleet.ram_disk_of_pool.items() if own is disk]
    wanted = [tolerating(taint) for pool in served for taint in pool.taints]
    wanted += [toleration(spec) for spec in disk.spec.tolerations]
    return list({t.model_dump_json(): t for t in wanted}.values())


def config_annotations(fleet: Fleet, disk: RamDisk) -> dict[str, str]:
    """What a policy needs to judge the file alone, whoever the provider is."""
    spec = disk.spec
    accelerator = disk.pool.accelerator
    assert accelerator is not None
    notes = {
        "config": disk.name,
        "machine-type": disk.pool.machine.name,
        "accelerator": accelerator.type,
        "peers": str(spec.peers),
        "retention": spec.retention.tool,
        "node-allocatable-memory": f"{whole(disk.pool.machine.allocatable_memory / GIB)}Gi",
    }
    if disk.checkpoint is not None:
        size = disk.checkpoint.to_integral_value(rounding="ROUND_CEILING")
        notes["local-checkpoint-size"] = min(
            format_quantity(size, binary=True), format_quantity(size), key=len
        )
    if spec.backup.interval_minutes is not None:
        notes["backup-interval-minutes"] = str(spec.backup.interval_minutes)
    if spec.backup.interval_steps is not None:
        notes["backup-interval-steps"] = str(spec.backup.interval_steps)
    memory = largest_pod_memory(fleet, disk)
    if memory is not None:
        notes["pod-memory"] = format_quantity(memory, binary=True)
    return {f"stowplan.dev/{key}": value for key, value in notes.items()}


def _driver_annotations(fleet: Fleet, disk: RamDisk) -> dict[str, str]:
    """What matters to GKE's driver alone."""
    cluster = fleet.spec.cluster
    return {
        "stowplan.dev/driver-epoch": str(disk.spec.driver_epoch),
        "stowplan.dev/bucket-hierarchical-namespace": str(disk.spec.hierarchical_namespace).lower(),
        "stowplan.dev/gke-version": cluster.gke_version,
        "stowplan.dev/gke-mode": cluster.mode,
    }
