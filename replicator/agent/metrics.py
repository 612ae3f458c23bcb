"""Prometheus metrics: the public reference's names, and our own under `stowplan_replicator_`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_OPERATIONS = {
    "MountGcsBucket": "the platform makes the job's backups reachable",
    "CoordinatorRegistration": "the coordinator's address is published",
    "RestorePeerMount": "a peer is reached to restore from it (nothing is mounted)",
    "PeerMount": "a peer is reached to replicate from it (nothing is mounted)",
    "CheckpointRestore": "from a new replicator.yaml to the restore link",
    "CheckpointReplicationTotal": "from a save seen here to its last receipt anywhere",
    "CheckpointReplication": "one copy of a peer's shard into this node",
    "CheckpointBackup": "this node's part of a backup",
}
"""The reference's names for what an agent does, and what they time here."""


class Metrics:
    """All metrics of one agent, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.operations = Histogram(
            "node_operations_seconds",
            "Time of node operations (names of the public reference)",
            ("method_name", "framework", "grpc_status_code"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.hashing = Histogram(
            "duration_hashing_dir",
            "Time to hash a saved checkpoint",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.hashing_values = Histogram(
            "duration_hashing_tensorstore",
            "Time to hash a saved checkpoint's keys and values as well (Orbax, data parallelism)",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        own = "stowplan_replicator_"
        self.replicated_step = self._gauge(
            f"{own}replicated_step", "Newest replicated step of this start; 0 for none yet"
        )
        self.saved_step = self._gauge(
            f"{own}saved_step", "Newest step saved here since this start; 0 for none"
        )
        self.connected = self._gauge(f"{own}coordinator_connected", "1 with a coordinator")
        self.peers = self._gauge(f"{own}peers", "Peers that must hold copies; 0 = unprotected")
        self.errors = Counter(
            f"{own}errors", "Lines written to replicator.errors", registry=self.registry
        )
        self.failures = Counter(
            f"{own}failures", "Times that replicator.failed was written", registry=self.registry
        )
        self.failed_rounds = Counter(
            f"{own}failed_rounds",
            "Times that a saved step was not replicated in time, or never will be; counted where "
            "the coordinator runs",
            registry=self.registry,
        )
        self.copies = Counter(
            f"{own}copies",
            "Copies made into this node, by origin and result",
            ("origin", "result"),
            registry=self.registry,
        )
        self.sent_bytes = Counter(
            f"{own}sent_bytes", "Checkpoint bytes sent to peers", registry=self.registry
        )
        self.rejected = Counter(
            f"{own}rejected_connections",
            "Connections that failed authentication or spoke something else",
            registry=self.registry,
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(name, text, registry=self.registry)
        gauge.set(0)
        return gauge

    def job_began(self, peers: int) -> None:
        """A start of a job: what was saved and replicated before it was another run's."""
        self.peers.set(peers)
        self.saved_step.set(0)
        self.replicated_step.set(0)

    def observe(self, operation: str, framework: str, seconds: float, *, ok: bool) -> None:
        """Record one of the reference's operations."""
        assert operation in _OPERATIONS
        code = "OK" if ok else "UNKNOWN"
        self.operations.labels(operation, framework, code).observe(seconds)

    @contextmanager
    def timed(self, operation: str, framework: str) -> Iterator[None]:
        """Time one of the reference's operations; it failed where it raises."""
        began, ok = time.monotonic(), False
        try:
            yield
            ok = True
        finally:
            self.observe(operation, framework, time.monotonic() - began, ok=ok)

    @contextmanager
    def timed_hashing(self, *, values: bool) -> Iterator[None]:
        """Time the hashing of a save."""
        began = time.monotonic()
        try:
            yield
        finally:
            histogram = self.hashing_values if values else self.hashing
            histogram.observe(time.monotonic() - began)

    def render(self) -> bytes:
        """The text that a scrape gets."""
        return generate_latest(self.registry)
