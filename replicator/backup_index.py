"""What a backup holds and whether it is complete, from its listing and small files (no I/O here).

Layout of a backup, `<job>/<YYYY-MM-DD_HH-MM>/`: the same `.meta` and `.data` names as in the local
directory. Ours adds `backup.format` (written first), a `.manifest` per stored shard and
`backup.seal` (written last), so that no state half-way looks complete; and it names `.data` entries
by `ShardManifest.storage_name`, which tells apart trees that the reference's hash does not. The
public reference never recomputes those names, so it restores such a backup like its own.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from replicator.backup_seal import BackupSeal, ShardKey
from replicator.manifest import ShardManifest, check_relative_path
from replicator.protocol import (
    BACKUP_FORMAT_FILE,
    BACKUP_SEAL_FILE,
    CheckpointName,
    ManifestError,
    NameKind,
    ProtocolError,
    parse_checkpoint_name,
    parse_data_name,
    parse_meta,
)


@dataclass(frozen=True, slots=True)
class BackupStep:
    """One step within a backup; complete when nothing is in `problems`."""

    step: int
    nodes: int
    """World size when saved; for a backup without manifests, what the ranks found suggest."""
    workers_per_node: int
    shards: Mapping[ShardKey, str]
    """The stored name (hash) of each shard's data."""
    manifests: Mapping[str, ShardManifest]
    """By stored name; empty for a backup of the public reference."""
    data: Mapping[str, Mapping[str, int]]
    """Objects of each stored name: path below it (empty for a single file) to size in bytes."""
    problems: tuple[str, ...]
    epoch: int = 0
    """See `ShardManifest.epoch`."""

    @property
    def complete(self) -> bool:
        """Whether every shard can be restored, as far as names and sizes tell."""
        return not self.problems

    @property
    def size(self) -> int:
        """Bytes of data, each stored name counted once."""
        names = set(self.shards.values())
        return sum(sum(files.values()) for name, files in self.data.items() if name in names)


@dataclass(frozen=True, slots=True)
class BackupIndex:
    """A backup's steps, newest first (normally one)."""

    name: str
    time: datetime.datetime
    steps: tuple[BackupStep, ...]
    ours: bool
    """Written by this package (manifests, seal) rather than by the public reference."""
    unreadable: str = ""
    """Why nothing can be said of what it holds; empty where something can."""

    @property
    def newest_complete(self) -> BackupStep | None:
        """The step to restore, or None where no step is complete."""
        return next((step for step in self.steps if step.complete), None)

    @property
    def complete(self) -> bool:
        """Whether the backup can be restored."""
        return self.newest_complete is not None

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it cannot be restored."""
        if self.unreadable:
            return (self.unreadable,)
        if not self.steps:
            return ("it holds no checkpoint",)
        return tuple(f"step {s.step}: {problem}" for s in self.steps for problem in s.problems)


@dataclass(frozen=True, slots=True)
class BackupFiles:
    """A backup's listing and the content of its small files; names are relative to the backup."""

    listing: Mapping[str, int]
    small: Mapping[str, bytes | None]
    """Content of the seal and of every `.meta` and `.manifest`; None where it has vanished
    since."""


@dataclass(slots=True)
class _Found:
    hashes: dict[ShardKey, str] = field(default_factory=dict)
    manifests: dict[ShardKey, ShardManifest] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def small_files(job_name: str, listing: Mapping[str, int]) -> list[str]:
    """The names of a listing whose content `build_index` needs."""
    return [
        name
        for name in listing
        if name == BACKUP_SEAL_FILE
        or (
            (parsed := parse_checkpoint_name(name, job_name)) is not None
            and parsed.kind in (NameKind.META, NameKind.MANIFEST)
        )
    ]


def build_index(
    job_name: str,
    name: str,
    time: datetime.datetime,
    files: BackupFiles,
    *,
    nodes: int | None = None,
    workers_per_node: int | None = None,
) -> BackupIndex:
    """Judge a backup.

    Args:
        job_name: shards of other jobs are not seen.
        name: of the backup.
        time: of the backup.
        files: what is there.
        nodes: world size to expect of a backup without manifests; None takes it from the ranks
            found, which cannot tell that the highest ranks are missing.
        workers_per_node: likewise.
    """
    by_step: dict[int, _Found] = defaultdict(_Found)
    for entry, content in files.small.items():
        parsed = parse_checkpoint_name(entry, job_name)
        if parsed is not None:
            _read_small(parsed, content, by_step[parsed.step])
    data = _group_data(files.listing)
    ours = not {BACKUP_FORMAT_FILE, BACKUP_SEAL_FILE}.isdisjoint(files.listing) or any(
        found.manifests for found in by_step.values()
    )
    if not ours:
        steps = tuple(
            _judge_unsealed(step, found, data, nodes, workers_per_node)
            for step, found in sorted(by_step.items(), reverse=True)
        )
        return BackupIndex(name, time, steps, ours)
    try:
        seal = _read_seal(job_name, files.small.get(BACKUP_SEAL_FILE))
    except ManifestError as error:
        steps = tuple(
            _not_sealed(step, found, data, str(error))
            for step, found in sorted(by_step.items(), reverse=True)
        )
        return BackupIndex(name, time, steps, ours)
    step = _judge_sealed(seal, by_step[seal.step], data)
    return BackupIndex(name, time, (step,), ours)


def _read_seal(job_name: str, content: bytes | None) -> BackupSeal:
    if content is None:
        raise ManifestError("not sealed: it is still being written, or was given up")
    seal = BackupSeal.from_bytes(content)
    if seal.job_name != job_name:
        raise ManifestError(f"the seal is of job {seal.job_name}")
    return seal


def _read_small(name: CheckpointName, content: bytes | None, found: _Found) -> None:
    key = (name.node_rank, name.worker)
    if content is None:
        found.problems.append(f"{name}: vanished")
        return
    try:
        if name.kind is NameKind.META:
            found.hashes[key] = parse_meta(content)
            return
        manifest = ShardManifest.from_bytes(content)
    except (ProtocolError, ManifestError) as error:
        found.problems.append(f"{name}: {error}")
        return
    says = (manifest.job_name, manifest.step, manifest.node_rank, manifest.worker)
    if says != (name.job_name, name.step, name.node_rank, name.worker):
        found.problems.append(f"{name}: holds the manifest of another shard")
        return
    found.manifests[key] = manifest


def _group_data(listing: Mapping[str, int]) -> dict[str, dict[str, int]]:
    grouped: dict[str, dict[str, int]] = defaultdict(dict)
    for path, size in listing.items():
        top, _, below = path.partition("/")
        if (stored := parse_data_name(top)) is not None:
            grouped[stored][below] = size
    return grouped


def _judge_sealed(
    seal: BackupSeal, found: _Found, data: Mapping[str, Mapping[str, int]]
) -> BackupStep:
    manifests = {m.storage_name: m for m in found.manifests.values()}
    problems = list(found.problems)
    used = sorted(set(seal.shards.values()))
    for stored in used:
        manifest = manifests.get(stored)
        if manifest is None:
            problems.append(f"{stored}.data has no manifest")
        else:
            problems += _run_problems(seal, manifest)
            problems += _manifest_problems(stored, data.get(stored, {}), manifest)
    # The public reference restores by these; without them it would pass the backup over.
    if differing := [key for key, stored in seal.shards.items() if found.hashes.get(key) != stored]:
        node, worker = min(differing)
        problems.append(
            f"{len(differing)} .meta files are missing or differ, "
            f"the first being node {node} worker {worker}"
        )
    return BackupStep(
        step=seal.step,
        nodes=seal.nodes,
        workers_per_node=seal.workers_per_node,
        shards=seal.shards,
        manifests=manifests,
        data={stored: data[stored] for stored in used if stored in data},
        problems=tuple(problems),
        epoch=seal.epoch,
    )


def _run_problems(seal: BackupSeal, manifest: ShardManifest) -> list[str]:
    wanted = (seal.job_uid, seal.epoch, seal.step, seal.nodes, seal.workers_per_node)
    found = (
        manifest.job_uid,
        manifest.epoch,
        manifest.step,
        manifest.nodes,
        manifest.workers_per_node,
    )
    if found == wanted:
        return []
    shard = f"node {manifest.node_rank} worker {manifest.worker}"
    return [f"{shard} belongs to (uid, epoch, step, nodes, workers) {found}, the seal to {wanted}"]


def _not_sealed(
    step: int, found: _Found, data: Mapping[str, Mapping[str, int]], why: str
) -> BackupStep:
    manifests = {m.storage_name: m for m in found.manifests.values()}
    any_manifest = next(iter(manifests.values()), None)
    return BackupStep(
        step=step,
        nodes=any_manifest.nodes if any_manifest else 1,
        workers_per_node=any_manifest.workers_per_node if any_manifest else 1,
        shards={key: manifest.storage_name for key, manifest in found.manifests.items()},
        manifests=manifests,
        data={stored: data[stored] for stored in manifests if stored in data},
        problems=(why, *found.problems),
    )


def _judge_unsealed(
    step: int,
    found: _Found,
    data: Mapping[str, Mapping[str, int]],
    nodes: int | None,
    workers: int | None,
) -> BackupStep:
    nodes = nodes or 1 + max((node for node, _ in found.hashes), default=0)
    workers = workers or 1 + max((worker for _, worker in found.hashes), default=0)
    problems = [*found.problems, *_missing_shards(found, nodes, workers)]
    used = sorted(set(found.hashes.values()))
    for stored in used:
        if stored not in data:
            problems.append(f"{stored}.data is missing")
        else:
            problems += _unsafe_paths(stored, data[stored])
    return BackupStep(
        step=step,
        nodes=nodes,
        workers_per_node=workers,
        shards=found.hashes,
        manifests={},
        data={stored: data[stored] for stored in used if stored in data},
        problems=tuple(problems),
    )


def _missing_shards(found: _Found, nodes: int, workers: int) -> list[str]:
    wanted = nodes * workers
    outside = [key for key in found.hashes if key[0] >= nodes or key[1] >= workers]
    problems = [
        f"node {node} worker {worker} is there, but the job has {nodes} nodes of {workers} workers"
        for node, worker in sorted(outside)
    ]
    there = len(found.hashes) - len(outside)
    if there < wanted:
        first = next(
            (node, worker)
            for node in range(nodes)
            for worker in range(workers)
            if (node, worker) not in found.hashes
        )
        problems.append(
            f"{wanted - there} of {wanted} shards are missing, "
            f"the first being node {first[0]} worker {first[1]}"
        )
    return problems


def _manifest_problems(
    stored: str, objects: Mapping[str, int], manifest: ShardManifest
) -> list[str]:
    wanted = {file.path: file.size for file in manifest.files}
    differing = [path for path, size in wanted.items() if objects.get(path) != size]
    if not differing:
        return []
    path = differing[0]
    there = f"{objects[path]} bytes" if path in objects else "missing"
    return [
        f"{stored}.data: {len(differing)} of {len(wanted)} files are not as saved, "
        f"the first being {path or 'the file itself'!r}: {there}, expected {wanted[path]} bytes"
    ]


def _unsafe_paths(stored: str, objects: Mapping[str, int]) -> list[str]:
    if stored.startswith("D") == ("" in objects):
        return [f"{stored}.data is not the kind of entry (file or directory) that its name says"]
    for path in objects:
        if not path:
            continue
        try:
            check_relative_path(path)
        except ManifestError as error:
            return [f"{stored}.data: {error}"]
    return []
