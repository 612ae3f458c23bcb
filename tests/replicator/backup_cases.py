"""Jobs, shards and backups for the tests of the backup tier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fault_proxy import Fault, FaultProxy, on_path

from replicator.backup_index import BackupStep
from replicator.backup_seal import BackupSeal
from replicator.backups import JobBackups
from replicator.config import Framework, parse_config
from replicator.digest import build_manifest, data_hash, read_content, verify
from replicator.manifest import ShardManifest
from replicator.storage import StorageError, StoredDataError

NAME = "2026-11-30_09-48"
CONFIG = parse_config(
    b"job-name: job\nframework: pytorch.distributed\nnode-rank: 0\nnodes: 2\npeers-per-node: 1\n"
    b"backup-interval-minutes: 30\n"
)


def make_shard(root: Path, rank: int, *, step: int = 3, size: int = 2000, nodes: int = 2) -> Path:
    """A torch-like shard directory whose content depends on rank and step."""
    shard = root / f"shard-{step}-{rank}"
    (shard / "sub").mkdir(parents=True)
    (shard / "none").mkdir()
    (shard / f"__{rank}_0.distcp").write_bytes(f"{rank} {step} ".encode() * (size // 4))
    (shard / "sub" / "rng 1%.bin").write_bytes(bytes(range(256)))
    (shard / "empty").write_bytes(b"")
    return shard


def manifest_of(
    path: Path, rank: int, *, step: int = 3, nodes: int = 2, epoch: int = 1, worker: int = 0
) -> ShardManifest:
    config = replace(CONFIG, node_rank=rank, nodes=nodes, workers_per_node=worker + 1)
    content = read_content(path)
    name = data_hash(path, Framework.PYTORCH_DISTRIBUTED, content)
    return build_manifest(content, config, step=step, worker=worker, data_hash=name, epoch=epoch)


def seal_of(manifests: list[ShardManifest]) -> BackupSeal:
    first = manifests[0]
    return BackupSeal(
        job_name=first.job_name,
        job_uid=first.job_uid,
        epoch=first.epoch,
        step=first.step,
        nodes=first.nodes,
        workers_per_node=first.workers_per_node,
        shards={(m.node_rank, m.worker): m.storage_name for m in manifests},
    )


async def store_backup(
    backups: JobBackups,
    root: Path,
    *,
    name: str = NAME,
    step: int = 3,
    nodes: int = 2,
    size: int = 2000,
) -> list[ShardManifest]:
    """A complete backup of a job; returns the manifests by rank."""
    manifests = []
    for rank in range(nodes):
        shard = make_shard(root / name, rank, step=step, size=size, nodes=nodes)
        manifests.append(manifest_of(shard, rank, step=step, nodes=nodes))
        await backups.put_shard(name, manifests[-1], shard)
    await backups.seal(name, seal_of(manifests))
    return manifests


def tree_of(path: Path) -> dict[str, bytes | None]:
    """Every path below a directory with its content, None for directories."""
    return {
        str(p.relative_to(path)): p.read_bytes() if p.is_file() else None
        for p in sorted(path.rglob("*"))
    }


# ---- what holds on every object store; `part` is a part of the path as its requests spell it ------


async def only_step(backups: JobBackups) -> BackupStep:
    step = (await backups.index(NAME)).newest_complete
    assert step is not None
    return step


async def comes_back_byte_for_byte(backups: JobBackups, root: Path, *, size: int = 2000) -> None:
    assert await backups.names() == ()
    manifests = await store_backup(backups, root, size=size)
    assert await backups.names() == (NAME,)
    index = await backups.index(NAME)
    assert index.complete, index.problems
    step = await only_step(backups)
    assert await backups.verify(NAME, step) == ()
    for rank, manifest in enumerate(manifests):
        await backups.download_shard(NAME, step, rank, 0, root / f"r{rank}")
        assert verify(root / f"r{rank}", manifest) == ()
        assert tree_of(root / f"r{rank}") == tree_of(root / NAME / f"shard-3-{rank}")
    await backups.force_restore(NAME)
    assert await backups.read_restore_version() == NAME
    assert await backups.clear_restore_version(NAME)
    await backups.delete(NAME)
    assert await backups.names() == ()


async def waits_throttling_out(
    backups: JobBackups, proxy: FaultProxy, root: Path, part: str
) -> None:
    proxy.rule = on_path(part, Fault.THROTTLE, times=2)
    await store_backup(backups, root, nodes=1)
    assert proxy.faults(Fault.THROTTLE) == 2
    assert (await backups.index(NAME)).complete


async def torn_upload_never_completes(
    backups: JobBackups, proxy: FaultProxy, root: Path, part: str
) -> None:
    proxy.rule = on_path(part, Fault.TEAR_UPLOAD, method="PUT")
    shard = make_shard(root, 0)
    manifest = manifest_of(shard, 0, nodes=1)
    with pytest.raises(StorageError, match="cannot write") as caught:
        await backups.put_shard(NAME, manifest, shard)
    assert "hidden-secret" not in str(caught.value)
    assert proxy.faults(Fault.TEAR_UPLOAD) >= 1
    assert await backups.newest_complete() is None
    proxy.rule = on_path("", Fault.THROTTLE, times=0)
    await backups.put_shard(NAME, manifest, shard)
    await backups.seal(NAME, seal_of([manifest]))
    assert (await backups.index(NAME)).complete, "the same call again mends it"


async def vanished_object_is_missing(
    backups: JobBackups, proxy: FaultProxy, root: Path, part: str
) -> BackupStep:
    """Leaves the object of node 1 vanished."""
    await store_backup(backups, root)
    step = await only_step(backups)
    proxy.rule = on_path(part, Fault.VANISH)
    with pytest.raises(StoredDataError, match="no such object") as caught:
        await backups.download_shard(NAME, step, 1, 0, root / "r")
    assert caught.value.missing
    assert not caught.value.transient
    return step


async def changed_byte_is_never_accepted(
    backups: JobBackups, proxy: FaultProxy, root: Path, part: str
) -> None:
    await store_backup(backups, root, nodes=1)
    step = await only_step(backups)
    proxy.rule = on_path(part, Fault.FLIP_BYTE, method="GET")
    with pytest.raises(StoredDataError, match="BLAKE3"):
        await backups.download_shard(NAME, step, 0, 0, root / "r")
