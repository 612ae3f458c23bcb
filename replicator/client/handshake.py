"""Handing `replicator.yaml` over, one look at a time; `session` and `aio` wait between looks."""

from __future__ import annotations

import logging
import time

from replicator.client.deadline import deadline_after
from replicator.client.errors import HandshakeTimeoutError
from replicator.client.volume import CheckpointVolume
from replicator.protocol import CONFIG_FILE, FAILED_FILE

_log = logging.getLogger("replicator.client")


class Handshake:
    """One attempt to have this run's config taken.

    A config of an earlier run is waited out first. So is its `replicator.failed`: what lies there
    when the attempt begins says nothing about this run, and what appears later does.
    """

    def __init__(self, volume: CheckpointVolume, timeout: float) -> None:
        """Begin; `timeout` is in seconds, for all of it."""
        self._volume = volume
        self._timeout = timeout
        self._deadline = deadline_after(timeout)
        self._written = False
        self._stale = volume.reports.remember_stale()

    def taken(self) -> bool:
        """Look, and do what can be done now; whether the replicator has taken this run's config.

        Raises:
            HandshakeTimeoutError: nobody took it in time.
            ReplicatorFailedError: the replicator gave up meanwhile.
            LocalDirectoryError: the directory is not there any more, or cannot be used.
        """
        volume = self._volume
        if volume.config_is_gone():
            if self._written:
                return True
            if report := volume.reports.set_stale_aside():
                _log.warning("%s of an earlier start:\n%s", FAILED_FILE, report.rstrip())
                self._stale = report
            volume.write_config()
            self._written = True
        volume.reports.raise_if_newly_failed()
        if time.monotonic() >= self._deadline:
            raise HandshakeTimeoutError(self._not_taken())
        return False

    def withdraw(self) -> None:
        """Take this run's config back, so that a later replicator does not act on it."""
        if self._written:
            self._volume.withdraw_config()

    def _not_taken(self) -> str:
        whose = "this run's" if self._written else "an earlier run's"
        text = (
            f"nobody took {whose} {self._volume.directory / CONFIG_FILE} within "
            f"{self._timeout:g} s; does a replicator run on this node and serve this directory?"
        )
        if self._stale:
            text += f" {FAILED_FILE} of an earlier start said: {self._stale.rstrip()}"
        return text
