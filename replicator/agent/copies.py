"""Copies into this node: from a peer, from a backup, or of what is here already."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from replicator.agent.channel import Dialer
from replicator.agent.files import remove
from replicator.agent.metrics import Metrics
from replicator.agent.store import LocalStore
from replicator.agent.tier import Tier
from replicator.agent.transfer import Incoming, TransferError, receive
from replicator.core.effects import GetCopy
from replicator.core.model import Content, Failure, Key, Origin, Source
from replicator.errors import ReplicatorError
from replicator.manifest import ShardManifest
from replicator.protocol import ReplicatorConfig

CONNECT_SECONDS = 10.0
MAX_COPIES = 4
"""Copies that are made at the same time."""
VERIFY_NICE = 10
"""By how much hashing what is here gives way: to the transfers and the talk that nodes without
their data wait for, and to whatever else a node does."""

log = logging.getLogger("replicator.copies")


@dataclass(slots=True)
class Copies:
    """Runs GetCopy effects; reports each result once, unless it was cancelled meanwhile."""

    store: LocalStore
    metrics: Metrics
    dialer: Dialer
    copied: Callable[[Key, Content, int], None]
    failed: Callable[[Key, Source, Failure, str], None]
    broken: Callable[[BaseException], None]
    _running: dict[asyncio.Task[None], Incoming | None] = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_COPIES))
    _verifiers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MAX_COPIES, "verify", _give_way)
    )

    def start(self, effect: GetCopy, config: ReplicatorConfig, tier: Tier) -> None:
        """Begin a copy."""
        task = asyncio.get_running_loop().create_task(self._run(effect, config, tier))
        self._running[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken(error)

    def cancel_all(self) -> None:
        """Stop every copy; none of them reports any more."""
        for task, incoming in list(self._running.items()):
            self._running.pop(task, None)
            if incoming is not None:
                incoming.cancel()
            task.cancel()

    def close(self) -> None:
        """No copy is made any more."""
        self.cancel_all()
        self._verifiers.shutdown(wait=False, cancel_futures=True)

    async def _run(self, effect: GetCopy, config: ReplicatorConfig, tier: Tier) -> None:
        me = asyncio.current_task()
        assert me is not None
        origin = effect.source.origin.value
        try:
            async with self._gate:
                content = await self._make(me, effect, config, tier)
        except TransferError as error:
            self.metrics.copies.labels(origin, error.failure.value).inc()
            if me in self._running:
                self.failed(effect.key, effect.source, error.failure, str(error))
            return
        except (OSError, TimeoutError, ReplicatorError) as error:
            self.metrics.copies.labels(origin, Failure.TRANSIENT.value).inc()
            if me in self._running:
                text = f"{type(error).__name__}: {error}"
                self.failed(effect.key, effect.source, Failure.TRANSIENT, text)
            return
        self.metrics.copies.labels(origin, "ok").inc()
        if me in self._running:
            self.copied(effect.key, content, effect.world)

    async def _make(
        self, me: asyncio.Task[None], effect: GetCopy, config: ReplicatorConfig, tier: Tier
    ) -> Content:
        origin = effect.source.origin
        if origin is Origin.LOCAL:
            return await self._verify(effect)
        if origin is Origin.ALIAS:
            if await self._alias(effect):
                return effect.content
            raise TransferError(Failure.MISSING, "no data of this content here")
        if origin is Origin.BACKUP:
            backup = effect.source.backup
            manifest, place = await tier.download(self.store, effect.key, effect.content, backup)
        else:
            if self.store.was_verified(effect.content.manifest) and await self._alias(effect):
                return effect.content  # equal data is recorded, not moved again
            return await self._from_peer(me, effect, config)
        return await asyncio.to_thread(self._keep, effect, manifest, place)

    async def _alias(self, effect: GetCopy) -> bool:
        """Record data that is here under one more name; False where it is not."""
        return await asyncio.to_thread(self.store.alias, effect.key, effect.content, effect.world)

    def _keep(self, effect: GetCopy, manifest: ShardManifest, place: Path) -> Content:
        try:
            return self.store.keep(effect.key, manifest, place, effect.world)
        except BaseException:
            remove(place)
            raise

    async def _verify(self, effect: GetCopy) -> Content:
        loop = asyncio.get_running_loop()
        problem = await loop.run_in_executor(self._verifiers, self.store.verify, effect.key)
        if problem is None:
            raise TransferError(Failure.MISSING, "no such copy here")
        if problem:
            raise TransferError(Failure.CORRUPT, problem)
        return effect.content

    async def _from_peer(
        self, me: asyncio.Task[None], effect: GetCopy, config: ReplicatorConfig
    ) -> Content:
        """A peer's shard to keep for it (replication), or this node's own (restore)."""
        framework = config.framework.value
        if effect.key.shard.rank == config.node_rank:
            return await self._pull(me, effect, config, "RestorePeerMount")
        with self.metrics.timed("CheckpointReplication", framework):
            return await self._pull(me, effect, config, "PeerMount")

    async def _pull(
        self, me: asyncio.Task[None], effect: GetCopy, config: ReplicatorConfig, reaching: str
    ) -> Content:
        with self.metrics.timed(reaching, config.framework.value):
            channel = await self.dialer.connect(
                effect.source.address, job=config.job_name, role="data", timeout=CONNECT_SECONDS
            )
        channel.connection.block()
        incoming = Incoming(channel)
        if me not in self._running:
            channel.close()
            raise TransferError(Failure.TRANSIENT, "cancelled")
        self._running[me] = incoming
        # Shielded: a thread cannot be cancelled, and its scratch data must be cleared by itself.
        work = asyncio.ensure_future(asyncio.to_thread(self._receive, incoming, effect))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            incoming.cancel()
            work.add_done_callback(_ignore)
            raise

    def _receive(self, incoming: Incoming, effect: GetCopy) -> Content:
        content = effect.content
        try:
            manifest, place = receive(incoming, self.store, content.manifest, content.size)
        finally:
            incoming.channel.close()
        if incoming.cancelled.is_set():  # it finished all the same: nobody wants its data
            remove(place)
            raise TransferError(Failure.TRANSIENT, "cancelled")
        return self._keep(effect, manifest, place)


def _give_way() -> None:
    """Lower the priority of this thread, and of those that it starts."""
    thread = threading.get_native_id()
    nice = os.getpriority(os.PRIO_PROCESS, thread) + VERIFY_NICE
    with contextlib.suppress(OSError):  # where that is forbidden it is merely not done
        os.setpriority(os.PRIO_PROCESS, thread, nice)


def _ignore(work: asyncio.Future[Content]) -> None:
    """How a cancelled transfer ends is nobody's concern."""
    if not work.cancelled():
        work.exception()
