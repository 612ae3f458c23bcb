"""Hashes of checkpoint data: the public reference's (names) and our manifest (trust).

Reference hashes (merkle.py, framework/orbax.py, commit 3a24fd1): a file is its BLAKE3; a directory
is `D` + BLAKE3 of its children's hashes, sorted and joined by line ends, without their names; an
Orbax step is `D` + BLAKE3 over `key TAB blake3(value) LF` of the sorted keys of its OCDBT store.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import defaultdict, deque
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from blake3 import blake3

from replicator.config import Framework, ReplicatorConfig
from replicator.content import DataError, ShardContent, hash_file, list_shard, read_content
from replicator.errors import ReplicatorError
from replicator.manifest import ShardManifest

__all__ = [
    "DataError",
    "Mismatch",
    "MismatchKind",
    "OrbaxHashUnavailableError",
    "ShardContent",
    "build_manifest",
    "can_read_ocdbt",
    "data_hash",
    "find_ocdbt_store",
    "hash_file",
    "orbax_hash",
    "read_content",
    "reference_hash",
    "verify",
]

READ_AHEAD: Final = 8
"""Values of an OCDBT store that are being read at a time, at most."""
READ_AHEAD_BYTES: Final = 128 * 2**20
"""What they may hold together, taking the next for as large as the largest one before."""
OCDBT_MANIFEST: Final = "manifest.ocdbt"


class OrbaxHashUnavailableError(ReplicatorError):
    """The OCDBT store cannot be read: `tensorstore` is not installed, or the store is damaged."""


def reference_hash(content: ShardContent) -> str:
    """The public reference's hash of a file or directory, from hashes already taken.

    Two directories with the same contents under different names share it: use it as a name only.
    """
    if not content.is_directory:
        return content.files[0].blake3
    children: dict[str, list[str]] = defaultdict(list)
    directories = {""}
    for path in (
        *(file.path for file in content.files),
        *(f"{d}/" for d in content.empty_directories),
    ):
        parent = path.rpartition("/")[0]
        while parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    for file in content.files:
        children[file.path.rpartition("/")[0]].append(file.blake3)
    # Deepest first, so that each directory's children are all there when its turn comes.
    for directory in sorted(directories - {""}, key=lambda d: d.count("/"), reverse=True):
        children[directory.rpartition("/")[0]].append(_directory_hash(children[directory]))
    return _directory_hash(children[""])


def _directory_hash(children: list[str]) -> str:
    return "D" + blake3("\n".join(sorted(children)).encode()).hexdigest()


def find_ocdbt_store(step_directory: Path) -> Path | None:
    """The first sub-directory (by name) of an Orbax step that holds an OCDBT store."""
    for entry in sorted(step_directory.iterdir()):
        if entry.is_symlink() or not entry.is_dir():
            continue
        if (entry / OCDBT_MANIFEST).is_file():
            return entry
    return None


def can_read_ocdbt() -> bool:
    """Whether `tensorstore` is installed (it is not imported: that costs 40 MB and 0.2 s)."""
    return importlib.util.find_spec("tensorstore") is not None


class _KeyValueStore(Protocol):
    """The part of `tensorstore.KvStore` that is used."""

    def list(self) -> Any: ...
    def read(self, key: bytes) -> Any: ...


def orbax_hash(step_directory: Path, *, threads: int = 1) -> str | None:
    """The reference's hash of an Orbax step; None where it holds no OCDBT store.

    Equal arrays give equal hashes however the store is laid out on disk, which is what data
    parallelism relies on; other files of the step are not covered.

    Raises:
        OrbaxHashUnavailableError: `tensorstore` (extra `agent-orbax`) is missing, or it cannot read
            the store.
    """
    store = find_ocdbt_store(step_directory)
    if store is None:
        return None
    try:
        tensorstore = importlib.import_module("tensorstore")
    except ImportError as error:
        raise OrbaxHashUnavailableError(
            "tensorstore is not installed, without which Orbax checkpoints cannot be named; "
            "install the extra 'agent-orbax'"
        ) from error
    base = {"driver": "file", "path": f"{store}/"}
    try:
        opened: _KeyValueStore = tensorstore.KvStore.open(
            {"driver": "ocdbt", "base": base}
        ).result()
        return _hash_entries(opened, threads)
    except (ValueError, OSError) as error:
        raise OrbaxHashUnavailableError(f"{store}: cannot read the OCDBT store: {error}") from error


def _hash_entries(store: _KeyValueStore, threads: int) -> str:
    """Values are read ahead of the hashing; which order they come in makes no difference."""
    hasher, largest = blake3(), 0
    reading: deque[tuple[bytes | str, Any]] = deque()
    keys = deque(sorted(store.list().result()))
    while keys or reading:
        ahead = min(READ_AHEAD, READ_AHEAD_BYTES // largest) if largest else 1
        while keys and len(reading) < max(ahead, 1):
            reading.append((keys[0], store.read(keys.popleft())))
        key, future = reading.popleft()
        value = future.result().value
        largest = max(largest, len(value), 1)
        digest = blake3(value, max_threads=threads).hexdigest()
        hasher.update(f"{_key_text(key)}\t{digest}\n".encode())
    return "D" + hasher.hexdigest()


def _key_text(key: bytes | str) -> str:
    """As the reference prints it: a Python bytes literal, since tensorstore lists bytes."""
    return f"{key!s}"


def data_hash(path: Path, framework: Framework, content: ShardContent, *, threads: int = 1) -> str:
    """The name that the reference would give this shard's `.data`.

    Raises:
        OrbaxHashUnavailableError: see `orbax_hash`.
    """
    if framework is Framework.ORBAX and content.is_directory:
        return orbax_hash(path, threads=threads) or reference_hash(content)
    return reference_hash(content)


def build_manifest(
    content: ShardContent,
    config: ReplicatorConfig,
    *,
    step: int,
    worker: int,
    data_hash: str,
    epoch: int = 0,
) -> ShardManifest:
    """The manifest of a shard that this node has just saved."""
    return ShardManifest(
        job_name=config.job_name,
        job_uid=config.job_uid,
        step=step,
        node_rank=config.node_rank,
        worker=worker,
        nodes=config.nodes,
        workers_per_node=config.workers_per_node,
        data_hash=data_hash,
        files=content.files,
        empty_directories=content.empty_directories,
        assume_data_parallelism=config.assume_data_parallelism,
        epoch=epoch,
    )


class MismatchKind(StrEnum):
    """How data differs from its manifest."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    SIZE = "size"
    CONTENT = "content"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference between data and manifest; the path is relative to the shard."""

    path: str
    kind: MismatchKind
    detail: str

    def __str__(self) -> str:
        return f"{self.path or '(the file)'}: {self.kind.value}: {self.detail}"


def verify(path: Path, manifest: ShardManifest, *, threads: int = 1) -> tuple[Mismatch, ...]:
    """Compare a shard on disk with its manifest; nothing returned = every byte is as it was saved.

    Never raises for bad data. Names and sizes are compared first, so that torn or truncated data is
    told without reading it. Hashing gives way to others (`pauses` of `read_content`): what is on a
    disk is verified while bytes that somebody waits for come in.
    """
    try:
        differences = _compare_listing(path, manifest)
        if differences:
            return differences
        content = read_content(path, threads=threads, pauses=True)
    except (ReplicatorError, OSError) as error:
        return (Mismatch("", MismatchKind.UNREADABLE, str(error)),)
    found = {file.path: file for file in content.files}
    return tuple(
        Mismatch(wanted.path, MismatchKind.CONTENT, f"BLAKE3 is {found[wanted.path].blake3}")
        if wanted.path in found
        else Mismatch(wanted.path, MismatchKind.MISSING, "vanished while it was read")
        for wanted in manifest.files
        if found.get(wanted.path) != wanted
    )


def _compare_listing(path: Path, manifest: ShardManifest) -> tuple[Mismatch, ...]:
    if path.is_symlink():
        raise DataError(f"{path}: a symbolic link where checkpoint data was expected")
    if path.is_dir() != manifest.is_directory:
        what = "a directory" if manifest.is_directory else "a file"
        missing = not path.exists()
        kind = MismatchKind.MISSING if missing else MismatchKind.UNEXPECTED
        return (Mismatch("", kind, f"expected {what}"),)
    listed, empty = list_shard(path) if manifest.is_directory else _list_file(path)
    found: dict[str, int | None] = {**dict.fromkeys(empty), **dict(listed)}
    wanted: dict[str, int | None] = {
        **dict.fromkeys(manifest.empty_directories),
        **{file.path: file.size for file in manifest.files},
    }
    return tuple(
        _listing_mismatch(name, found, wanted)
        for name in sorted(found.keys() | wanted.keys())
        if name not in found or name not in wanted or found[name] != wanted[name]
    )


def _list_file(path: Path) -> tuple[list[tuple[str, int]], list[str]]:
    try:
        return [("", path.stat().st_size)], []
    except FileNotFoundError:
        return [], []


def _listing_mismatch(
    name: str, found: dict[str, int | None], wanted: dict[str, int | None]
) -> Mismatch:
    if name not in found:
        return Mismatch(name, MismatchKind.MISSING, f"expected {wanted[name]} bytes")
    if name not in wanted:
        return Mismatch(name, MismatchKind.UNEXPECTED, "not in the manifest")
    return Mismatch(
        name, MismatchKind.SIZE, f"{found[name]} bytes; the manifest says {wanted[name]}"
    )
