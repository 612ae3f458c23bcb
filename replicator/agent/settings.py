"""How one agent runs: everything that comes from its command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from replicator.agent.tls import PeerTls
from replicator.core.model import Timing
from replicator.platform.base import Platform
from replicator.storage import ObjectStorage


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """One agent.

    `host` and `port` are bound for peers (port 0: any); `advertise` is the address that peers are
    given (empty: what was bound). `http_port` is None for no metrics. `capacity` bounds the bytes
    in the volume, `bandwidth` the bytes per second sent to peers. Peers prove themselves by
    `secret` (empty: not asked for, only right with `tls`), by `tls`, or by both.
    """

    local_dir: Path
    secret: bytes
    platform: Platform
    storage: ObjectStorage | None = None
    storage_is_of_job: bool = False  # it holds one job's backups, without a folder for each job
    host: str = "127.0.0.1"
    port: int = 4242
    advertise: str = ""
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    capacity: int | None = None
    bandwidth: int | None = None
    threads: int = 4
    timing: Timing = field(default_factory=Timing)
    tick: float = 1.0  # seconds between two looks at deadlines and at the volume
    tls: PeerTls | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
