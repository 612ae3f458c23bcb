"""What `stowplan-replicator status` shows of an agent."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from replicator.agent.store import LocalStore
from replicator.core.node import Node
from replicator.core.state import NodeState

MAX_STATUS_BYTES = 16 * 1024 * 1024


def fetch_status(host: str, port: int, timeout: float) -> Any:
    """What an agent answers to `/status`, asked directly: a proxy is for what is farther away.

    Raises:
        OSError, ValueError, RecursionError, HTTPException: nothing answers, or with no JSON.
    """
    shown = f"[{host}]" if ":" in host else host
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"http://{shown}:{port}/status", timeout=timeout) as answer:
        return json.loads(answer.read(MAX_STATUS_BYTES))


def node_status(address: str, node: Node | None, store: LocalStore) -> dict[str, Any]:
    """The node's part of the status document."""
    state = node.state if node is not None else NodeState()
    job = state.job
    phase = "idle"
    if job is not None:
        phase = "running" if state.linked else "prepared" if state.prepared else "joining"
    copies = sorted(
        {(k.checkpoint.epoch, k.checkpoint.step) for k in list(store.records)}, reverse=True
    )
    return {
        "address": address,
        "job": None if job is None else job.name,
        "rank": None if job is None else job.rank,
        "nodes": None if job is None else job.world,
        "phase": phase,
        "connected": bool(node is not None and node.connected),
        "run": None if state.linked is None else state.linked.epoch,
        "restored_step": None if state.checkpoint is None else state.checkpoint.step,
        "last_saved_step": None if state.last_step < 0 else state.last_step,
        "copies": [{"run": epoch, "step": step} for epoch, step in copies],
    }
