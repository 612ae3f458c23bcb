"""What appears in the checkpoint volume: inotify for speed, scans so that nothing is missed.

An event only says *look*: every decision is made from a scan, so a lost or early event costs time,
never a save. The one thing events add is that a file was closed or renamed into place; a file that
only a scan has seen is taken once it has been left alone for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import inotify_simple  # type: ignore[import-untyped]

from replicator.protocol import (
    CONFIG_FILE,
    Framework,
    NameKind,
    ReplicatorConfig,
    parse_checkpoint_name,
    parse_step_directory,
)

SETTLED_SECONDS = 0.25
"""A file that no event told about is complete when it was not written for this long."""
_MASK = (
    inotify_simple.flags.CLOSE_WRITE
    | inotify_simple.flags.MOVED_TO
    | inotify_simple.flags.CREATE
    | inotify_simple.flags.DELETE_SELF
)
_COMPLETE = inotify_simple.flags.CLOSE_WRITE | inotify_simple.flags.MOVED_TO


PlacedWorkers = Callable[[int], set[int]]

log = logging.getLogger("replicator.watcher")


@dataclass(slots=True)
class Watcher:
    """Calls `changed` (on the event loop) when something may have appeared in `root`."""

    root: Path
    changed: Callable[[], None]
    _inotify: inotify_simple.INotify | None = None
    _complete: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Begin watching; the caller scans afterwards, so nothing falls between.

        Where the system has no watch to give (its limits are low by default), scans must do.
        """
        try:
            self._inotify = inotify_simple.INotify(nonblocking=True)
            self._inotify.add_watch(self.root, _MASK)
        except OSError as error:
            log.warning("no inotify; saves are seen by scans only", extra={"reason": str(error)})
            if self._inotify is not None:
                self._inotify.close()
            self._inotify = None
            return
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._readable)

    def stop(self) -> None:
        """End watching."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _readable(self) -> None:
        assert self._inotify is not None
        for event in self._inotify.read(timeout=0):
            if event.mask & inotify_simple.flags.CREATE:
                self._complete.discard(event.name)
            elif event.mask & _COMPLETE:
                self._complete.add(event.name)
        if len(self._complete) > 10_000:
            self._complete.clear()  # names that nobody asked for; a scan finds what matters
        self.changed()

    def _is_finished(self, path: Path) -> bool:
        """Whether a regular file was closed, renamed into place, or left alone for long enough."""
        if path.name in self._complete:
            return True
        try:
            age = time.time() - path.lstat().st_mtime
        except OSError:
            return False
        return age > SETTLED_SECONDS or age < -SETTLED_SECONDS  # the clock may have jumped back

    def forget(self, name: str) -> None:
        """The file was dealt with."""
        self._complete.discard(name)

    def config_ready(self) -> bool:
        """Whether a `replicator.yaml` is there and completely written."""
        path = self.root / CONFIG_FILE
        if path.is_symlink() or path.is_dir():
            return True  # to be refused
        if not path.exists():
            return False
        if self._is_finished(path):
            return True
        asyncio.get_running_loop().call_later(SETTLED_SECONDS, self.changed)
        return False

    def finished_saves(self, config: ReplicatorConfig, placed: PlacedWorkers) -> list[int]:
        """Steps that the application has finished saving, in order.

        `placed` says which workers' parts of a step are no `.save` any more: the agent ended while
        it gave them their final names.
        """
        if config.framework is Framework.PYTORCH:
            found = self._files(config, finished=True)
            return sorted(step for step in found if not _missing(config, found, step, placed))
        steps = set()
        for entry in self.root.iterdir():
            step = parse_step_directory(entry.name)
            if step is None:
                name = parse_checkpoint_name(entry.name, config.job_name)
                if name is None or name.kind is not NameKind.SAVE:
                    continue
                if (name.node_rank, name.worker) != (config.node_rank, 0):
                    continue
                step = name.step
            if entry.is_dir() and not entry.is_symlink():
                steps.add(step)
        return sorted(steps)

    def incomplete_saves(
        self, config: ReplicatorConfig, before: int, placed: PlacedWorkers
    ) -> dict[int, list[int]]:
        """Steps older than `before` of which some workers saved their part, and who did not."""
        if config.framework is not Framework.PYTORCH:
            return {}
        found = self._files(config, finished=False)
        missing = {step: _missing(config, found, step, placed) for step in found if step < before}
        return {step: workers for step, workers in sorted(missing.items()) if workers}

    def _files(self, config: ReplicatorConfig, *, finished: bool) -> dict[int, set[int]]:
        """The workers whose `.save` of a step is there."""
        found: dict[int, set[int]] = {}
        for entry in self.root.iterdir():
            name = parse_checkpoint_name(entry.name, config.job_name)
            if name is None or name.kind is not NameKind.SAVE:
                continue
            if name.node_rank != config.node_rank or entry.is_symlink():
                continue
            if not finished or self._is_finished(entry):
                found.setdefault(name.step, set()).add(name.worker)
        return found


def _missing(
    config: ReplicatorConfig, found: dict[int, set[int]], step: int, placed: PlacedWorkers
) -> list[int]:
    missing = set(range(config.workers_per_node)) - found[step]
    return sorted(missing - placed(step)) if missing else []
