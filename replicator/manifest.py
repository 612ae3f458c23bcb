"""The shard manifest: what verification trusts.

The names of `.data` files are the public reference's hashes, which ignore file names (two different
directories can share one) and, for Orbax, part of the files. A manifest pins every path, size and
BLAKE3, and which job, run, step, node and world size the data belongs to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from blake3 import blake3

from replicator.config import is_safe_job_name
from replicator.errors import ManifestError

MANIFEST_FORMAT: Final = 1
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
MAX_FILES: Final = 200_000
MAX_PATH_BYTES: Final = 4096
MAX_SEGMENT_BYTES: Final = 255

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HASH: Final = re.compile(r"D?[0-9a-f]{64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, order=True)
class ManifestFile:
    """One file of a shard: path relative to the shard with `/` between, size in bytes, BLAKE3 in
    hex.

    A shard that is a single file has one entry with the empty path.
    """

    path: str
    size: int
    blake3: str


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """Everything that one worker's shard of one step consists of."""

    job_name: str
    job_uid: str | None
    """The run that saved it; None where neither the job nor the platform told one."""
    step: int
    node_rank: int
    worker: int
    nodes: int
    """World size when saved: a restore into another number of nodes is refused."""
    workers_per_node: int
    data_hash: str
    """Name of the `.data` entry (`D...` for a directory)."""
    files: tuple[ManifestFile, ...]
    """Sorted by path."""
    empty_directories: tuple[str, ...] = ()
    """Sorted; directories that hold files are implied by these."""
    assume_data_parallelism: int | None = None
    epoch: int = 0
    """Which start of the job saved it, counted by the agents; 0 where nobody counted."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def total_size(self) -> int:
        """Bytes in all files together."""
        return sum(file.size for file in self.files)

    @property
    def is_directory(self) -> bool:
        """Whether the shard is a directory rather than a single file."""
        return self.data_hash.startswith("D")

    @property
    def content_digest(self) -> str:
        """`D` + BLAKE3 over paths, sizes and hashes alone: equal for equal trees, whoever saved
        them.

        Has the form of the reference's hashes, so it can name a `.data` entry where the reference's
        own hash is already taken by a different tree.
        """
        tree = [[f.path, f.size, f.blake3] for f in self.files]
        text = _json({"files": tree, "directories": list(self.empty_directories)})
        return ("D" if self.is_directory else "") + blake3(text).hexdigest()

    @property
    def storage_name(self) -> str:
        """What a backup calls this shard's data: names that two different trees never share."""
        return self.content_digest if self.is_directory else self.data_hash

    def to_bytes(self) -> bytes:
        """Canonical form: equal manifests give equal bytes; a checksum guards the text."""
        shard = _json(self._document())
        return b'{"blake3":"%s","shard":%s}\n' % (blake3(shard).hexdigest().encode(), shard)

    def _document(self) -> dict[str, Any]:
        return {
            "format": MANIFEST_FORMAT,
            "job-name": self.job_name,
            "job-uid": self.job_uid,
            "epoch": self.epoch,
            "step": self.step,
            "node-rank": self.node_rank,
            "worker": self.worker,
            "nodes": self.nodes,
            "workers-per-node": self.workers_per_node,
            "assume-data-parallelism": self.assume_data_parallelism,
            "data-hash": self.data_hash,
            "files": [[f.path, f.size, f.blake3] for f in self.files],
            "empty-directories": list(self.empty_directories),
        }

    @classmethod
    def from_bytes(cls, content: bytes) -> ShardManifest:
        """Read a manifest.

        Raises:
            ManifestError: damaged, of another format, or holding something unsafe or out of range.
        """
        if len(content) > MAX_MANIFEST_BYTES:
            raise ManifestError(f"manifest of {len(content)} bytes; limit {MAX_MANIFEST_BYTES}")
        try:
            outer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"manifest is not JSON: {error}") from None
        if not isinstance(outer, dict) or outer.keys() != {"blake3", "shard"}:
            raise ManifestError("manifest: expected the keys blake3 and shard")
        document = outer["shard"]
        if not isinstance(document, dict):
            raise ManifestError("manifest: shard is not a mapping")
        if document.get("format") != MANIFEST_FORMAT:
            found = repr(document.get("format"))[:40]
            raise ManifestError(f"manifest format {found}; this version reads {MANIFEST_FORMAT}")
        manifest = cls._from_document(document)
        if manifest.to_bytes() != content:
            raise ManifestError(
                "manifest is damaged: its checksum or form does not fit its content"
            )
        return manifest

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> ShardManifest:
        values: dict[str, Any] = {name: document.get(key) for name, key in _KEYS.items()}
        for name, kinds in _TYPES.items():
            value = values[name]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ManifestError(f"manifest: {_KEYS[name]} is {type(value).__name__}")
        files, directories = values.pop("files"), values.pop("empty_directories")
        if len(files) + len(directories) > MAX_FILES:
            raise ManifestError(f"manifest of more than {MAX_FILES} files")
        return cls(
            **values,
            files=tuple(_file(entry) for entry in files),
            empty_directories=tuple(_text(entry) for entry in directories),
        )


_NONE: Final = type(None)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "job_name": (str,),
    "job_uid": (str, _NONE),
    "epoch": (int,),
    "step": (int,),
    "node_rank": (int,),
    "worker": (int,),
    "nodes": (int,),
    "workers_per_node": (int,),
    "assume_data_parallelism": (int, _NONE),
    "data_hash": (str,),
    "files": (list,),
    "empty_directories": (list,),
}
_KEYS: Final = {name: name.replace("_", "-") for name in _TYPES}


def _json(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ManifestError("manifest: a text is not valid Unicode") from None


def _text(entry: object) -> str:
    if not isinstance(entry, str):
        raise ManifestError("manifest: a directory's path is not text")
    return entry


def _file(entry: object) -> ManifestFile:
    match entry:
        case [str(path), int(size), str(digest)] if not isinstance(size, bool):
            return ManifestFile(path, size, digest)
    raise ManifestError("manifest: a file is not [path, size, blake3]")


def _check(manifest: ShardManifest) -> None:
    ranges: tuple[tuple[str, int, int, int], ...] = (
        ("step", manifest.step, 0, 2**63 - 1),
        ("epoch", manifest.epoch, 0, 2**63 - 1),
        ("nodes", manifest.nodes, 1, 2**31),
        ("node-rank", manifest.node_rank, 0, manifest.nodes - 1),
        ("workers-per-node", manifest.workers_per_node, 1, 2**31),
        ("worker", manifest.worker, 0, manifest.workers_per_node - 1),
        ("assume-data-parallelism", manifest.assume_data_parallelism or 1, 1, manifest.nodes),
    )
    for key, value, low, high in ranges:
        if not low <= value <= high:
            raise ManifestError(f"manifest: {key} is {value}; expected {low} to {high}")
    for key, name in (("job-name", manifest.job_name), ("job-uid", manifest.job_uid)):
        if name is not None and not is_safe_job_name(name):
            raise ManifestError(f"manifest: {key} {name[:80]!r} cannot be used in file names")
    if _HASH.fullmatch(manifest.data_hash) is None:
        raise ManifestError(f"manifest: data-hash {manifest.data_hash[:80]!r} is not a hash")
    for file in manifest.files:
        if not 0 <= file.size < 2**63:
            raise ManifestError(f"manifest: {file.path[:80]!r} has size {file.size}")
        if _DIGEST.fullmatch(file.blake3) is None:
            raise ManifestError(f"manifest: {file.path[:80]!r} has no BLAKE3")
    if manifest.is_directory:
        _check_paths(manifest)
    elif [f.path for f in manifest.files] != [""] or manifest.empty_directories:
        raise ManifestError("manifest: a single-file shard holds exactly one file without a path")


def _check_paths(manifest: ShardManifest) -> None:
    files = [file.path for file in manifest.files]
    for paths in (files, list(manifest.empty_directories)):
        if paths != sorted(set(paths)):
            raise ManifestError("manifest: paths are not sorted, or one stands there twice")
    for path in (*files, *manifest.empty_directories):
        check_relative_path(path)
    leaves = {*files, *manifest.empty_directories}
    if len(leaves) != len(files) + len(manifest.empty_directories):
        raise ManifestError("manifest: a path is both a file and a directory")
    for path in leaves:
        for parent in _parents(path):
            if parent in leaves:
                raise ManifestError(
                    f"manifest: {parent[:80]!r} holds {path[:80]!r} and is no folder"
                )


def _parents(path: str) -> Iterable[str]:
    end = path.find("/")
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)


def check_relative_path(path: str) -> None:
    """Raise ManifestError unless joining the path to a directory stays inside that directory."""
    segments = path.split("/")
    try:
        sizes = [len(segment.encode("utf-8")) for segment in segments]
    except UnicodeEncodeError:
        raise ManifestError("manifest: a path is not valid Unicode") from None
    if (
        any(segment in ("", ".", "..") for segment in segments)
        or max(sizes) > MAX_SEGMENT_BYTES
        or sum(sizes) + len(sizes) > MAX_PATH_BYTES
        or _CONTROL.search(path)
    ):
        raise ManifestError(f"manifest: unsafe path {path[:80]!r}")
