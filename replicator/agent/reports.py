"""What the job is told: `replicator.errors` and `replicator.failed`, with logs and metrics."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from replicator.agent.files import is_full
from replicator.agent.markers import Markers
from replicator.agent.metrics import Metrics
from replicator.agent.tier import NO_LOCATION

log = logging.getLogger("replicator.agent")


@dataclass(slots=True)
class Reports:
    """A full volume must not end the agent: then the log alone has it."""

    markers: Markers
    metrics: Metrics

    def error(self, text: str) -> None:
        """A recoverable problem; one that comes again with every backup is told once a start."""
        if NO_LOCATION in text and self.markers.has_error(NO_LOCATION):
            log.debug(text)
            return
        log.error(text)
        self.metrics.errors.inc()
        try:
            self.markers.error(text)
        except OSError as error:
            log.error("replicator.errors cannot be written", extra={"reason": str(error)})

    def failed(self, text: str) -> None:
        """The job cannot go on.

        Raises:
            OSError: the volume fails (other than by being full).
        """
        log.critical(text)
        self.metrics.failures.inc()
        try:
            self.markers.failed(text)
        except OSError as error:
            if not is_full(error):
                raise
            log.error("replicator.failed cannot be written", extra={"reason": str(error)})
