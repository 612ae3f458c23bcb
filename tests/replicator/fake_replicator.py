"""A replicator for one node that follows the protocol and does nothing else, run in a thread.

It stands in for the agent where a test is about the client: it takes the config, offers the newest
checkpoint it holds (or says that there is none), and takes saved checkpoints over.
"""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

from replicator.config import Framework, ReplicatorConfig, parse_config
from replicator.digest import read_content, reference_hash
from replicator.errors import ConfigError
from replicator.protocol import (
    CONFIG_FILE,
    ERRORS_FILE,
    FAILED_FILE,
    PRERESTORE_FILE,
    CheckpointName,
    NameKind,
    Prerestore,
    data_name,
    no_checkpoint_marker,
    parse_checkpoint_name,
    parse_meta,
    parse_step_directory,
    survives_cleanup,
)

CONFIG = ReplicatorConfig(
    job_name="job",
    framework=Framework.PYTORCH_DISTRIBUTED,
    node_rank=0,
    nodes=1,
    peer_ranks=None,
    peers_per_node=0,
    backup_interval_minutes=30,
    backup_interval_steps=None,
)
FILES = replace(CONFIG, framework=Framework.PYTORCH, workers_per_node=2)
"""A job of one node, with a directory a step and with a file for each of two workers."""


class FakeReplicator:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config: ReplicatorConfig | None = None
        self.saved: list[int] = []
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FakeReplicator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        assert self.error is None, self.error

    def wait_for_saved(self, step: int, timeout: float = 10) -> None:
        deadline = time.monotonic() + timeout
        while step not in self.saved:
            assert time.monotonic() < deadline, f"step {step} was not handed over: {self.saved}"
            assert self.error is None, self.error
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.01):
                if (self.directory / CONFIG_FILE).exists():
                    self._accept()
                if self.config is not None:
                    self._take_over(self.config)
        except BaseException as error:
            self.error = error

    def _accept(self) -> None:
        path = self.directory / CONFIG_FILE
        content = path.read_bytes()
        for entry in self.directory.iterdir():
            if not survives_cleanup(entry.name):
                shutil.rmtree(
                    entry
                ) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        try:
            self.config = parse_config(content)
        except ConfigError as error:
            (self.directory / FAILED_FILE).write_text(str(error))
            path.unlink()
            return
        path.unlink()
        self._restore(self.config)

    def _metas(self) -> list[CheckpointName]:
        names = (parse_checkpoint_name(entry.name) for entry in self.directory.iterdir())
        return [name for name in names if name is not None and name.kind is NameKind.META]

    def _restore(self, config: ReplicatorConfig) -> None:
        step = max((name.step for name in self._metas()), default=None)
        content = Prerestore(step).to_bytes()
        temporary = self.directory / f"{PRERESTORE_FILE}.tmp"
        temporary.write_bytes(content)
        temporary.rename(self.directory / PRERESTORE_FILE)
        if step is None:
            (self.directory / ERRORS_FILE).write_text("nothing found anywhere\n")
            for worker in range(config.workers_per_node):
                name = no_checkpoint_marker(config.job_name, config.node_rank, worker)
                (self.directory / str(name)).touch()
            return
        for name in self._metas():
            if name.step == step:
                stored = parse_meta((self.directory / str(name)).read_bytes())
                (self.directory / str(name.of_kind(NameKind.RESTORE))).symlink_to(data_name(stored))

    def _take_over(self, config: ReplicatorConfig) -> None:
        for entry in list(self.directory.iterdir()):
            parsed = parse_checkpoint_name(entry.name)
            if config.framework is not Framework.PYTORCH:
                step = parse_step_directory(entry.name)
                if step is None or entry.is_symlink():
                    continue
                name = CheckpointName(config.job_name, step, config.node_rank, 0, NameKind.META)
            elif parsed is not None and parsed.kind is NameKind.SAVE:
                step, name = parsed.step, parsed.of_kind(NameKind.META)
            else:
                continue
            stored = reference_hash(read_content(entry))
            target = self.directory / data_name(stored)
            if target.exists():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            else:
                entry.rename(target)
            (self.directory / str(name)).write_text(stored)
            self.saved.append(step)
