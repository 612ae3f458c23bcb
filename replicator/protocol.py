"""The protocol between a training job and the replicator: file names, markers and small files.

Everything here is a pure function of names and bytes. Facts:
GoogleCloudPlatform/checkpoint-replicator 3a24fd1 (file_naming.py, common_main.py, restore.py,
sync.py); names marked "ours" are extensions that the public reference ignores.

In the local directory (and, for `.meta`, `.data` and `.manifest`, in a backup):

===============================  ==================================================================
`replicator.yaml`                the job's wish; deleted once consumed (`ReplicatorConfig`)
`replicator.prerestore`          what is about to be restored (`Prerestore`)
`<job>-s5-n0-w2.save`            a checkpoint being taken over
`<hash>.data`                    a checkpoint's file or directory
`<job>-s5-n0-w2.meta`            the hash of worker 2 of node 0 at step 5, without a line end
`<job>-s5-n0-w2.manifest`        ours: each file's path, size and BLAKE3 (`ShardManifest`)
`<job>-s5-n0-w2.restore`         link to `<hash>.data`; an empty file at step 0 = no checkpoint
`replicator.errors`, `.failed`   text for the job: recoverable, fatal
===============================  ==================================================================
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from replicator.config import (
    MAX_CONFIG_BYTES,
    Framework,
    ReplicatorConfig,
    default_peers,
    is_safe_job_name,
    parse_config,
)
from replicator.errors import ConfigError, ManifestError, Problem, ProtocolError
from replicator.manifest import ManifestFile, ShardManifest
from replicator.yaml_fields import Scalar, read_fields

__all__ = [
    "BACKUP_FORMAT_FILE",
    "BACKUP_SEAL_FILE",
    "CONFIG_FILE",
    "ERRORS_FILE",
    "FAILED_FILE",
    "JAX_INIT_INFO_FILE",
    "MAX_CONFIG_BYTES",
    "PRERESTORE_FILE",
    "RESTORE_VERSION_FILE",
    "CheckpointName",
    "ConfigError",
    "Framework",
    "ManifestError",
    "ManifestFile",
    "NameKind",
    "Prerestore",
    "Problem",
    "ProtocolError",
    "ReplicatorConfig",
    "ShardManifest",
    "data_name",
    "default_peers",
    "format_backup_name",
    "is_safe_job_name",
    "no_checkpoint_marker",
    "parse_backup_name",
    "parse_checkpoint_name",
    "parse_config",
    "parse_data_name",
    "parse_meta",
    "parse_prerestore",
    "parse_restore_version",
    "parse_step_directory",
    "survives_cleanup",
    "temporary_name",
]

CONFIG_FILE: Final = "replicator.yaml"
PRERESTORE_FILE: Final = "replicator.prerestore"
ERRORS_FILE: Final = "replicator.errors"
FAILED_FILE: Final = "replicator.failed"
JAX_INIT_INFO_FILE: Final = "jax-init-info.txt"
RESTORE_VERSION_FILE: Final = "restore.version"
"""Beside the backups of a job: holds the one backup's name that must be restored."""
BACKUP_FORMAT_FILE: Final = "backup.format"
"""Ours, inside a backup and written first: it is only complete with manifests and a seal."""
BACKUP_SEAL_FILE: Final = "backup.seal"
"""Ours, inside a backup and written last: what it must consist of (`BackupSeal`)."""

MAX_STEP: Final = 2**63 - 1
MAX_SMALL_FILE_BYTES: Final = 4096
"""Largest `.meta`, `.prerestore` or `restore.version` that is read."""

_HASH: Final = re.compile(r"D?[0-9a-f]{64}")
_DATA: Final = re.compile(r"(D?[0-9a-f]{64})\.data")
_STEP: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_NAME: Final = re.compile(
    r"(?P<job>.+)-s(?P<step>0|[1-9][0-9]{0,18})-n(?P<node>0|[1-9][0-9]{0,8})"
    r"-w(?P<worker>0|[1-9][0-9]{0,8})\.(?P<kind>[a-z]+)"
)
_BACKUP: Final = re.compile(r"\d{4}-\d{2}-\d{2}_\d{2}-\d{2}", re.ASCII)
_BACKUP_FORMAT: Final = "%Y-%m-%d_%H-%M"


class NameKind(StrEnum):
    """What a checkpoint file is, by the end of its name."""

    SAVE = "save"
    META = "meta"
    MANIFEST = "manifest"
    RESTORE = "restore"


_KINDS: Final = frozenset(kind.value for kind in NameKind)


@dataclass(frozen=True, slots=True, order=True)
class CheckpointName:
    """`<job>-s<step>-n<node>-w<worker>.<kind>`: one shard of one step."""

    job_name: str
    step: int
    node_rank: int
    worker: int
    kind: NameKind

    def __post_init__(self) -> None:
        if not is_safe_job_name(self.job_name):
            raise ProtocolError(f"job name {self.job_name!r} cannot be used in file names")
        if not 0 <= self.step <= MAX_STEP or self.node_rank < 0 or self.worker < 0:
            raise ProtocolError(
                f"step {self.step}, node {self.node_rank}, worker {self.worker}: out of range"
            )

    def __str__(self) -> str:
        return f"{self.job_name}-s{self.step}-n{self.node_rank}-w{self.worker}.{self.kind.value}"

    def of_kind(self, kind: NameKind) -> CheckpointName:
        """The same shard's name of another kind."""
        return CheckpointName(self.job_name, self.step, self.node_rank, self.worker, kind)


def parse_checkpoint_name(name: str, job_name: str | None = None) -> CheckpointName | None:
    """Read a shard's file name.

    Args:
        name: a bare file name; anything else (paths, unknown kinds, padded numbers) gives None.
        job_name: if given, names of any other job give None too.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["kind"] not in _KINDS or not is_safe_job_name(match["job"]):
        return None
    if job_name is not None and match["job"] != job_name:
        return None
    step = int(match["step"])
    if step > MAX_STEP:
        return None
    return CheckpointName(
        match["job"], step, int(match["node"]), int(match["worker"]), NameKind(match["kind"])
    )


def no_checkpoint_marker(job_name: str, node_rank: int, worker: int) -> CheckpointName:
    """The name whose *empty regular file* tells a worker that there is nothing to restore.

    A `.restore` *link* of step 0 is an ordinary checkpoint; only the kind of file tells them apart.
    """
    return CheckpointName(job_name, 0, node_rank, worker, NameKind.RESTORE)


def data_name(data_hash: str) -> str:
    """`<hash>.data`; raises ProtocolError for anything that is no hash (so it is safe in a
    path)."""
    return f"{checked_hash(data_hash)}.data"


def checked_hash(text: str) -> str:
    """The text, if it is 64 lower-case hexadecimal digits, with `D` before for directories."""
    if _HASH.fullmatch(text) is None:
        raise ProtocolError(f"{text[:80]!r} is not a hash: expected 64 hexadecimal digits after D?")
    return text


def parse_data_name(name: str) -> str | None:
    """The hash that a `<hash>.data` name holds, or None for any other name."""
    match = _DATA.fullmatch(name)
    return match[1] if match else None


def parse_meta(content: bytes) -> str:
    """The hash that a `.meta` file holds; white space around it is forgiven.

    Raises:
        ProtocolError: the content is no hash.
    """
    if len(content) > MAX_SMALL_FILE_BYTES:
        raise ProtocolError(f"a .meta file of {len(content)} bytes; expected one hash")
    return checked_hash(content.decode("utf-8", "replace").strip())


def parse_step_directory(name: str) -> int | None:
    """The step of a finished checkpoint directory of Orbax or torch (a bare number), else None."""
    if _STEP.fullmatch(name) is None or int(name) > MAX_STEP:
        return None
    return int(name)


def temporary_name(final_name: str, unique: str) -> str:
    """A name to write under before the rename, which nobody takes for a final one.

    `unique` (letters and digits) keeps two writers apart; the reference's plain `.tmp` does not.
    """
    if not unique.isalnum() or not unique.isascii():
        raise ProtocolError(f"{unique!r}: expected letters and digits")
    return f"{final_name}.{unique}.tmp"


def survives_cleanup(name: str) -> bool:
    """Whether a start of the replicator leaves this entry of the local directory alone."""
    if name in (CONFIG_FILE, JAX_INIT_INFO_FILE) or parse_data_name(name) is not None:
        return True
    parsed = parse_checkpoint_name(name)
    return parsed is not None and parsed.kind in (NameKind.META, NameKind.MANIFEST)


@dataclass(frozen=True, slots=True)
class Prerestore:
    """Content of `replicator.prerestore`: no step = nothing to restore, no backup = in-cluster."""

    step: int | None = None
    backup: str | None = None

    def to_bytes(self) -> bytes:
        """The YAML that clients read: `{}` when there is nothing to restore."""
        if self.step is None:
            return b"{}\n"
        text = f"restore-step: {self.step}\n"
        if self.backup is not None:
            text = f"restore-backup: {self.backup}\n{text}"
        return text.encode()


def parse_prerestore(content: bytes, *, source: str = PRERESTORE_FILE) -> Prerestore:
    """Read `replicator.prerestore`; keys that are not known are ignored.

    Raises:
        ConfigError: not a mapping, or its step is no step.
    """
    problems: list[Problem] = []
    fields = read_fields(content, problems)
    step = backup = None
    if field := fields.get("restore-step"):
        text = field.value.text if isinstance(field.value, Scalar) else ""
        step = parse_step_directory(text)
        if step is None:
            problems.append(
                Problem(
                    field.where.line, field.where.column, "restore-step: expected a step number"
                )
            )
    if field := fields.get("restore-backup"):
        backup = field.value.text if isinstance(field.value, Scalar) else ""
        if parse_backup_name(backup) is None:
            problems.append(
                Problem(field.where.line, field.where.column, "restore-backup: not a backup's name")
            )
    if problems:
        raise ConfigError(source, tuple(problems))
    return Prerestore(step, backup)


def format_backup_name(when: datetime.datetime) -> str:
    """`YYYY-MM-DD_HH-MM` in UTC; raises ProtocolError for a time without a zone."""
    if when.tzinfo is None:
        raise ProtocolError("a backup's time needs a time zone")
    return when.astimezone(datetime.UTC).strftime(_BACKUP_FORMAT)


def parse_backup_name(name: str) -> datetime.datetime | None:
    """The UTC time that a backup's name holds, or None where it is no such name or no real date."""
    if _BACKUP.fullmatch(name) is None:
        return None
    try:
        return datetime.datetime.strptime(name, _BACKUP_FORMAT).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None


def parse_restore_version(content: bytes) -> str:
    """The backup that `restore.version` asks for; white space around it is forgiven.

    Raises:
        ProtocolError: empty, or no backup's name. The right answer to that is to refuse and to keep
            all data: someone asked for a particular backup, and guessing another is worse.
    """
    text = content[: MAX_SMALL_FILE_BYTES + 1].decode("utf-8", "replace").strip()
    if parse_backup_name(text) is None:
        found = "nothing" if not text else repr(text[:80])
        raise ProtocolError(
            f"{RESTORE_VERSION_FILE}: expected a backup's name (YYYY-MM-DD_HH-MM), found {found}"
        )
    return text
