"""Jobs, shards and backups for the tests of the backup tier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from replicator.backup_seal import BackupSeal
from replicator.backups import JobBackups
from replicator.config import Framework, parse_config
from replicator.digest import build_manifest, data_hash, read_content
from replicator.manifest import ShardManifest

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
