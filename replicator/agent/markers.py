"""The small files through which the agent and the training job talk (all in the volume's root)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replicator.agent.files import Reserve, read_small, remove
from replicator.agent.leftovers import (
    QUARANTINE,
    clear_config,
    clear_leftovers,
    dangling_restore_links,
)
from replicator.core.model import CheckpointId, Job, Run
from replicator.core.state import NodeState
from replicator.errors import ReplicatorError
from replicator.protocol import (
    CONFIG_FILE,
    ERRORS_FILE,
    FAILED_FILE,
    MAX_CONFIG_BYTES,
    PRERESTORE_FILE,
    CheckpointName,
    NameKind,
    Prerestore,
    ReplicatorConfig,
    data_name,
    is_safe_job_name,
    no_checkpoint_marker,
    parse_config,
)

STATE_FILE = "state.json"
DAMAGED_FILE = "state.json.damaged"
RESERVE_FILE = "reserve"
MAX_STATE_BYTES = 256 * 1024
MAX_ERRORS_BYTES = 256 * 1024
"""Past this size `replicator.errors` is begun anew: a job that never reads it must not fill RAM."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """What survives a crash of the agent: the job as configured, and the node's state."""

    config: ReplicatorConfig | None
    state: NodeState
    accepted_at: float = 0.0
    problem: str = ""
    """Why it is a fresh one although there was another; empty where all is well."""


class Markers:
    """Reads and writes the markers of one volume."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self._scratch = scratch
        self._quarantine = scratch.parent / QUARANTINE
        self._read: tuple[int, ...] = ()  # which replicator.yaml
        self.reserve = Reserve(scratch.parent / RESERVE_FILE)

    # ---- replicator.yaml ------------------------------------------------------------------------

    def read_config(self, environ: dict[str, str]) -> ReplicatorConfig:
        """Parse `replicator.yaml`.

        Raises:
            ConfigError: with every problem, also for what is no regular file.
        """
        path = self._root / CONFIG_FILE
        self._read = _identity(path)
        try:
            content = read_small(path, MAX_CONFIG_BYTES)
        except OSError as error:
            raise ReplicatorError(f"{CONFIG_FILE}: no regular file: {error.strerror}") from None
        return parse_config(content or b"", environ=environ)

    def consume_config(self) -> None:
        """Take the `replicator.yaml` that was read away: the job waits for that.

        One that was written since stays: nobody has read it.
        """
        if _identity(self._root / CONFIG_FILE) == self._read:
            clear_config(self._root / CONFIG_FILE, self._quarantine)

    def clean_up(self) -> None:
        """Clear markers, links and unfinished saves of an earlier start; see leftovers.py."""
        clear_leftovers(self._root, self._quarantine)

    # ---- for the job ----------------------------------------------------------------------------

    def announce(self, checkpoint: CheckpointId | None, backup: str) -> None:
        """Write `replicator.prerestore`."""
        step = None if checkpoint is None else checkpoint.step
        content = Prerestore(step, backup or None).to_bytes()
        self.reserve.write_whole(self._root / PRERESTORE_FILE, content, self._scratch)

    def link(
        self, config: ReplicatorConfig, checkpoint: CheckpointId | None, stored: list[str]
    ) -> None:
        """Release each worker: a link to its data, or the empty no-checkpoint marker."""
        for worker in range(config.workers_per_node):
            if checkpoint is None:
                name = no_checkpoint_marker(config.job_name, config.node_rank, worker)
                self.reserve.write_whole(self._root / str(name), b"", self._scratch)
            else:
                name = CheckpointName(
                    config.job_name,
                    checkpoint.step,
                    config.node_rank,
                    worker,
                    NameKind.RESTORE,
                )
                target = data_name(stored[worker])
                self.reserve.replace_link(self._root / str(name), target, self._scratch)

    def drop_dangling_links(self) -> None:
        """Remove restore links into data that has since been deleted; others' links stay."""
        for link in list(dangling_restore_links(self._root)):
            link.unlink(missing_ok=True)

    def error(self, text: str) -> None:
        """Append a line to `replicator.errors`."""
        path = self._root / ERRORS_FILE
        self.reserve.write_whole(path, self._errors() + _one_line(text), self._scratch)

    def has_error(self, part: str) -> bool:
        """Whether `replicator.errors` says this already."""
        return part.encode() in self._errors()

    def _errors(self) -> bytes:
        """What stands in `replicator.errors`; nothing where that is something else than a file."""
        try:
            content = read_small(self._root / ERRORS_FILE, MAX_ERRORS_BYTES) or b""
        except OSError:
            return b""
        return b"" if len(content) > MAX_ERRORS_BYTES else content

    def failed(self, text: str) -> None:
        """Write `replicator.failed`: the job aborts."""
        content = text.encode() + b"\n"
        self.reserve.write_whole(self._root / FAILED_FILE, content, self._scratch)

    # ---- for the agent --------------------------------------------------------------------------

    def save_state(
        self, config: ReplicatorConfig | None, state: NodeState, accepted_at: float
    ) -> None:
        """Make the state durable."""
        document = {
            "config": None if config is None or state.job is None else config.to_yaml(),
            "attempt": state.attempt,
            "in_vain": state.in_vain,
            "waited": state.waited,
            "epoch": state.epoch,
            "linked": state.linked,
            "prepared": state.prepared,
            "checkpoint": state.checkpoint,
            "forced": state.forced,
            "last_step": state.last_step,
            "accepted_at": accepted_at,
        }
        content = json.dumps(document).encode()
        self.reserve.write_whole(self._scratch.parent / STATE_FILE, content, self._scratch)

    def load_state(self, platform_uid: str) -> SavedState:
        """The state before the crash; a fresh one where there is none or it is damaged.

        A damaged one is kept beside it, under another name.
        """
        path = self._scratch.parent / STATE_FILE
        try:
            content = read_small(path, MAX_STATE_BYTES)
            if content is None:
                return SavedState(None, NodeState())
            return _parse_state(content, platform_uid)
        except (
            *(OSError, ValueError, KeyError, TypeError),
            *(AttributeError, OverflowError, RecursionError),
        ) as error:
            problem = f"{type(error).__name__}: {error}"
        try:
            damaged = path.with_name(DAMAGED_FILE)
            remove(damaged)
            path.rename(damaged)
        except OSError as error:
            problem = f"{problem}; it cannot be put aside: {error}"
        return SavedState(None, NodeState(), problem=problem)


def _parse_state(content: bytes, platform_uid: str) -> SavedState:
    document = json.loads(content)
    text = document["config"]
    config = None if text is None else parse_config(text.encode())
    if config is not None and is_safe_job_name(platform_uid):
        config = config.of_run(platform_uid)  # a bad one is no reason to forget the job
    state = NodeState(
        job=None if config is None else job_of(config),
        attempt=str(document["attempt"]),
        in_vain=int(document.get("in_vain", 0)),  # not in the state of an earlier version
        waited=int(document.get("waited", 0)),
        epoch=int(document["epoch"]),
        linked=_pair(Run, str, document["linked"]),
        prepared=_pair(Run, str, document["prepared"]),
        checkpoint=_pair(CheckpointId, int, document["checkpoint"]),
        forced=str(document["forced"]),
        last_step=int(document["last_step"]),
    )
    return SavedState(config, state, float(document["accepted_at"]))


def _pair(kind: Any, second: type, value: Any) -> Any:
    if value is None:
        return None
    epoch, other = value
    if not isinstance(epoch, int) or not isinstance(other, second):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return kind(epoch, other)


def _identity(path: Path) -> tuple[int, ...]:
    """What changes when a file is written anew or replaced; empty where there is none."""
    try:
        stat = path.lstat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _one_line(text: str) -> bytes:
    return (" ".join(text.split())[:2000] + "\n").encode()


def job_of(config: ReplicatorConfig) -> Job:
    """What the core needs of a configuration, in which the job UID that counts stands already."""
    return Job(
        name=config.job_name,
        rank=config.node_rank,
        world=config.nodes,
        workers=config.workers_per_node,
        peers=config.replication_peers(),
        uid=config.job_uid or "",
        data_parallelism=config.assume_data_parallelism,
        backup_minutes=config.backup_interval_minutes,
        backup_steps=config.backup_interval_steps,
    )
