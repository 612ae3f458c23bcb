"""Real agent processes on loopback, one directory a node, and a stand-in for the training job."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicator.agent.status import fetch_status
from replicator.errors import ReplicatorError
from replicator.protocol import (
    CONFIG_FILE,
    ERRORS_FILE,
    FAILED_FILE,
    NameKind,
    parse_checkpoint_name,
)

POLL_SECONDS = 0.005
HOST = "127.0.0.1"


class DemoError(ReplicatorError):
    """The demo cluster did not do what was waited for."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now.

    From below the range that systems give to outgoing connections, so that none of those takes one
    before its agent has bound it.
    """
    ports: list[int] = []
    pick = random.SystemRandom()
    while len(ports) < count:
        port = pick.randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            ports += [] if port in ports else [port]
    return ports


@dataclass(slots=True)
class DemoNode:
    """One node: its volume, its ports and its agent process."""

    index: int
    local: Path
    port: int
    http: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where peers reach its agent."""
        return f"{HOST}:{self.port}"


@dataclass(slots=True)
class DemoCluster:
    """Starts, kills and replaces agents below `root`. Use as a context manager."""

    root: Path
    size: int
    job: str = "demo"
    framework: str = "pytorch.distributed"
    backup: bool = True
    extra: tuple[str, ...] = ()
    nodes: list[DemoNode] = field(default_factory=list)
    backup_dir: Path = field(init=False)

    def __post_init__(self) -> None:
        self.backup_dir = self.root / "backup"

    def __enter__(self) -> DemoCluster:
        ports = free_ports(2 * self.size)
        self.nodes = [
            DemoNode(index, self.root / f"node{index}", ports[2 * index], ports[2 * index + 1])
            for index in range(self.size)
        ]
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        key = self.root / "key"
        key.write_text(secrets.token_hex(32))
        key.chmod(0o600)
        self.write_peers([node.address for node in self.nodes])
        for node in self.nodes:
            node.local.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            self.kill(node.index, signal.SIGKILL)

    @property
    def backup_url(self) -> str:
        """Where this cluster's backups are."""
        return self.backup_dir.absolute().as_uri()

    def write_peers(self, addresses: list[str], name: str = "peers.yaml") -> Path:
        """Write a peers file."""
        path = self.root / name
        path.write_text(f"agents: {json.dumps(addresses)}\n")
        return path

    # ---- agents ---------------------------------------------------------------------------------

    def start(self, index: int, *more: str) -> None:
        """Start a node's agent (again)."""
        node = self.nodes[index]
        command = [
            *(sys.executable, "-m", "replicator", "agent"),
            *("--local-dir", str(node.local), "--key-file", str(self.root / "key")),
            *("--peers", str(self.root / "peers.yaml"), "--port", str(node.port)),
            *("--http", f"{HOST}:{node.http}", "--log-format", "text"),
            *(("--backup", self.backup_url) if self.backup else ()),
            *self.extra,
            *more,
        ]
        with (self.root / f"node{index}.log").open("ab") as log:
            node.process = subprocess.Popen(command, stdout=log, stderr=log)

    def start_all(self) -> None:
        """Start every agent and wait until each answers."""
        for node in self.nodes:
            self.start(node.index)
        for node in self.nodes:
            self.wait_ready(node.index)

    def wait_ready(self, index: int, timeout: float = 20.0) -> None:
        """Until the agent answers."""
        self.wait_for(lambda: self._answers(index), timeout, f"agent {index} to answer")

    def _answers(self, index: int) -> bool:
        process = self.nodes[index].process
        if process is None or process.poll() is not None:
            raise DemoError(f"agent {index} ended: {self.log(index)[-500:]}")
        return self.status(index) is not None

    def kill(self, index: int, how: int = signal.SIGKILL) -> None:
        """End a node's agent."""
        node = self.nodes[index]
        if node.process is not None:
            node.process.send_signal(how)
            node.process.wait(20)
            node.process = None

    def wipe(self, index: int) -> None:
        """The node's memory is gone."""
        local = self.nodes[index].local
        shutil.rmtree(local)
        local.mkdir()

    def status(self, index: int) -> dict[str, Any] | None:
        """What the agent says about itself, or None when it does not answer."""
        try:
            document = fetch_status(HOST, self.nodes[index].http, 2)
        except (OSError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    # ---- the training job -----------------------------------------------------------------------

    def config(self, rank: int, **keys: object) -> str:
        """The text of a `replicator.yaml`."""
        values: dict[str, object] = {
            "job-name": self.job,
            "framework": self.framework,
            "node-rank": rank,
            "nodes": self.size,
            "peers-per-node": min(1, self.size - 1),
            "backup-interval-minutes": 30,
        }
        values.update({key.replace("_", "-"): value for key, value in keys.items()})
        lines = (f"{key}: {json.dumps(v)}" for key, v in values.items() if v is not None)
        return "\n".join(lines) + "\n"

    def begin(self, ranks: list[int] | None = None, **keys: object) -> None:
        """Every rank writes its `replicator.yaml`, as a restarted job does."""
        for rank, node in enumerate(self.nodes) if ranks is None else []:
            self.write_config(node.index, self.config(rank, **keys))
        for rank in ranks or []:
            self.write_config(rank, self.config(rank, **keys))

    def write_config(self, index: int, text: str) -> None:
        """Write one `replicator.yaml` and rename it into place."""
        local = self.nodes[index].local
        for name in (FAILED_FILE, ERRORS_FILE):
            (local / name).unlink(missing_ok=True)
        temporary = local / f"{CONFIG_FILE}.tmp"
        temporary.write_text(text)
        temporary.rename(local / CONFIG_FILE)

    def restored(self, index: int) -> tuple[int | None, Path] | None:
        """What a rank was given: (step or None, path), or None while it has to wait."""
        for entry in self.nodes[index].local.glob("*.restore"):
            name = parse_checkpoint_name(entry.name)
            if name is not None and name.kind is NameKind.RESTORE:
                return (name.step if entry.is_symlink() else None), entry
        return None

    def wait_restored(self, timeout: float = 60.0) -> int | None:
        """Until every rank has its restore marker; returns the step, None for a start anew.

        Raises:
            DemoError: not in time, the job failed, or the ranks got different steps.
        """
        self.wait_for(lambda: self._all_restored(), timeout, "all ranks to be restored")
        steps = {found[0] for node in self.nodes if (found := self.restored(node.index))}
        if len(steps) != 1:
            raise DemoError(f"the ranks were given different steps: {steps}")
        return steps.pop()

    def _all_restored(self) -> bool:
        if any((node.local / CONFIG_FILE).exists() for node in self.nodes):
            return False
        for node in self.nodes:
            failed = node.local / FAILED_FILE
            if failed.exists():
                raise DemoError(f"node {node.index}: {failed.read_text().strip()}")
        return all(self.restored(node.index) is not None for node in self.nodes)

    def save(self, step: int, size: int, files: int = 4) -> None:
        """Every rank saves a step: new random bytes in a directory, renamed into place."""
        for node in self.nodes:
            prepare_save(node.local, node.index, step, size, files)
        for node in self.nodes:
            finish_save(node.local, step)

    def replicated_step(self) -> int | None:
        """The step that the coordinator calls replicated."""
        for node in self.nodes:
            status = self.status(node.index) if node.process is not None else None
            if status is not None and status["coordinator"] is not None:
                step = status["coordinator"]["replicated_step"]
                return None if step is None else int(step)
        return None

    def wait_replicated(self, step: int, timeout: float = 60.0) -> None:
        """Until a step (or a later one) is replicated."""
        self.wait_for(
            lambda: (self.replicated_step() or -1) >= step, timeout, f"step {step} to be replicated"
        )

    def errors(self, index: int) -> str:
        """What stands in a node's `replicator.errors`."""
        path = self.nodes[index].local / ERRORS_FILE
        return path.read_text() if path.exists() else ""

    def failed(self, index: int) -> str:
        """What stands in a node's `replicator.failed`."""
        path = self.nodes[index].local / FAILED_FILE
        return path.read_text() if path.exists() else ""

    def log(self, index: int) -> str:
        """The agent's log."""
        path = self.root / f"node{index}.log"
        return path.read_text() if path.exists() else ""

    @staticmethod
    def wait_for(condition: Any, timeout: float, what: str) -> None:
        """Poll until a condition holds.

        Raises:
            DemoError: it does not in time.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {timeout:.0f} s for {what}")
            time.sleep(POLL_SECONDS)


def prepare_save(local: Path, rank: int, step: int, size: int, files: int) -> None:
    """Write a step's directory under a temporary name, different on every rank.

    Raises:
        DemoError: it could not be written, such as on a full disk.
    """
    directory = local / f"{step}.tmp"
    try:
        _write_save(directory, rank, step, size, files)
    except OSError as error:  # a failed write does not name its file
        raise DemoError(f"{directory}: {error.strerror or error}") from error


def _write_save(directory: Path, rank: int, step: int, size: int, files: int) -> None:
    directory.mkdir()
    block = os.urandom(min(size // files, 1024 * 1024))
    for number in range(files):
        left = size // files
        with (directory / f"__{rank}_{number}.distcp").open("wb") as file:
            while left > 0:
                file.write(os.urandom(8) + block[8 : min(len(block), left)])
                left -= len(block)
    (directory / ".metadata").write_text(json.dumps({"rank": rank, "step": step}))


def finish_save(local: Path, step: int) -> None:
    """Rename the directory into place: now the step is saved."""
    (local / f"{step}.tmp").rename(local / str(step))
