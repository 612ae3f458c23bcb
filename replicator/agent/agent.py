"""One agent: the core with real files, sockets and time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replicator.agent.bandwidth import Bandwidth
from replicator.agent.channel import Dialer
from replicator.agent.coordination import Coordination
from replicator.agent.copies import Copies
from replicator.agent.files import remove
from replicator.agent.health import HttpServer, json_page
from replicator.agent.intake import Intake
from replicator.agent.markers import Markers
from replicator.agent.metrics import Metrics
from replicator.agent.reports import Reports
from replicator.agent.saves import Saves
from replicator.agent.server import PeerServer
from replicator.agent.settings import AgentSettings
from replicator.agent.status import node_status
from replicator.agent.store import LocalStore
from replicator.agent.tier import Tier
from replicator.agent.uplink import Uplink
from replicator.agent.watcher import Watcher
from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.model import CheckpointId, Content, Failure, Key, Source
from replicator.core.node import Node
from replicator.protocol import CONFIG_FILE, ReplicatorConfig

log = logging.getLogger("replicator.agent")


class Agent:
    """Runs until it is cancelled; everything of the core happens on its event loop."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.store = LocalStore(
            settings.local_dir, capacity=settings.capacity, threads=settings.threads
        )
        self.markers = Markers(settings.local_dir, self.store.incoming)
        self.reports = Reports(self.markers, self.metrics)
        self.config: ReplicatorConfig | None = None
        self.node: Node | None = None
        self.address = ""
        self.accepted_at = 0.0  # wall clock, only to tell an older coordinator from a younger
        self.restoring_since: float | None = None
        self.tier: Tier | None = None  # the backups of the current job
        self._tasks: set[asyncio.Task[None]] = set()
        self._uploads: set[asyncio.Task[None]] = set()
        self._fatal: asyncio.Future[None] | None = None
        source = "" if settings.host in ("0.0.0.0", "::") else settings.host
        self.dialer = Dialer(settings.secret, settings.tls, source)
        self.copies = Copies(
            self.store,
            self.metrics,
            self.dialer,
            self._copied,
            self._copy_failed,
            self.die,
        )
        self.uplink = Uplink(
            settings.platform,
            self.dialer,
            up=lambda: self._with_node(Node.link_up),
            down=lambda: self._with_node(Node.link_down),
            received=self._received,
            waiting=self._waiting,
            failed=self.die,
        )
        self.intake = Intake(self)
        self.watcher = Watcher(settings.local_dir, self.intake.something_appeared)
        self.saves = Saves(self.store, self.watcher, self.metrics)
        self.coordination = Coordination(self)
        self.server = PeerServer(
            settings.secret,
            self.store,
            self.metrics,
            Bandwidth(settings.bandwidth),
            serves_job=self.coordination.serves,
            received=self.coordination.received,
            lost=self.coordination.lost,
            tls=settings.tls,
        )
        self.http = HttpServer(
            {
                "/metrics": lambda: (200, "text/plain; version=0.0.4", self.metrics.render()),
                "/healthz": self._health,
                "/status": lambda: json_page(200, self.status()),
            }
        )
        self.http_port: int | None = None

    # ---- life -----------------------------------------------------------------------------------

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled.

        Raises:
            StoreError: the volume cannot be used.
            OSError: an address cannot be bound, or the volume fails.
        """
        self._fatal = asyncio.get_running_loop().create_future()
        self.store.prepare()
        self.markers.reserve.fill()
        try:
            await self._start()
            ready()
            await self._fatal
        finally:
            await self._stop()

    async def _start(self) -> None:
        settings = self.settings
        port = self.server.listen(settings.host, settings.port)
        self.address = self.dialer.advertised = settings.advertise or _join(settings.host, port)
        if settings.http_port is not None:
            self.http_port = await self.http.start(settings.http_host, settings.http_port)
        storage = "nowhere" if settings.storage is None else settings.storage.url
        log.info("%s: peers at %s, backups %s", settings.local_dir, self.address, storage)
        saved = self.markers.load_state(settings.platform.job_uid)
        if saved.problem:
            self.reports.error(
                f"the agent's state is damaged and was put aside ({saved.problem}): it knows of no "
                f"job, and takes no saves until {CONFIG_FILE} is written again"
            )
        self.config = saved.config
        self.metrics.saved_step.set(max(saved.state.last_step, 0))
        self.accepted_at = saved.accepted_at
        copies = [] if saved.config is None else await self._load(saved.config)
        self.node = Node(saved.state, copies, self.address, settings.timing)
        self.watcher.start()
        self.coordination.supervise()
        self.apply(self.node.start(self.now(), max(time.time() - self.accepted_at, 0.0)))
        self.intake.scan()
        self.spawn(self._tick())

    async def _load(self, config: ReplicatorConfig) -> list[Any]:
        self.tier = self.intake.tier_for(config)
        self.metrics.peers.set(len(config.replication_peers()))
        return await asyncio.to_thread(self.store.load, config)

    async def _stop(self) -> None:
        self.watcher.stop()
        self.copies.close()
        for task in list(self._tasks):
            task.cancel()
        await self.uplink.stop()
        await self.coordination.stop()
        await self.server.stop()
        await self.http.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.store.close()

    @staticmethod
    def now() -> float:
        """Monotonic seconds: no wall clock decides anything."""
        return time.monotonic()

    def spawn(self, coroutine: Any) -> asyncio.Task[None]:
        """Run in the background; an error that nobody expected ends the agent."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.die(error)

    def die(self, error: BaseException) -> None:
        """End the agent with this error; its supervisor starts it again."""
        log.critical("the agent ends", exc_info=error)
        if self._fatal is not None and not self._fatal.done():
            self._fatal.set_exception(error)

    @property
    def ending(self) -> bool:
        """Whether the agent has met its end, although it may not be gone yet."""
        return self._fatal is not None and self._fatal.done()

    def _health(self) -> tuple[int, str, bytes]:
        """Whoever answers is alive (all that decides runs on this loop), unless it is ending."""
        return (503, "text/plain", b"ending\n") if self.ending else (200, "text/plain", b"ok\n")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.settings.tick)
            self.markers.reserve.fill()
            self._with_node(Node.tick)
            self.coordination.tick()
            self.intake.scan()

    # ---- events for the core --------------------------------------------------------------------

    def _with_node(self, event: Callable[[Node, float], list[fx.NodeEffect]]) -> None:
        if self.node is not None:
            self.apply(event(self.node, self.now()))
            self.metrics.connected.set(self.node.connected)

    def _waiting(self) -> bool:
        """Whether there is a job that has yet to be restored."""
        return self.node is not None and self.node.state.linked is None

    def _received(self, message: msg.ToNode) -> None:
        if self.node is None:
            return
        if isinstance(message, msg.Progress) and message.replicated and self.config is not None:
            self.saves.replicated(self.config, message.replicated.step)
        self.apply(self.node.received(message, self.now()))

    def _copied(self, key: Key, content: Content, world: int) -> None:
        if self.node is not None:
            self.apply(self.node.copied(key, content, world, self.now()))

    def _copy_failed(self, key: Key, source: Source, failure: Failure, detail: str) -> None:
        if self.node is not None:
            log.warning("copy failed", extra={"reason": f"{failure}: {detail}"})
            self.apply(self.node.copy_failed(key, source, failure, detail, self.now()))

    # ---- effects --------------------------------------------------------------------------------

    def apply(self, effects: list[fx.NodeEffect]) -> bool:
        """Carry out the node's effects, in order; False where the agent ends instead."""
        if self.ending:
            return False  # what came before is not on disk: nothing may build on it
        try:
            for effect in effects:
                _EFFECTS[type(effect)](self, effect)
        except Exception as error:  # the state on disk is good: begin anew from there
            self.die(error)
            return False
        return True

    def _persist(self, effect: fx.Persist) -> None:
        self.markers.save_state(self.config, effect.state, self.accepted_at)

    def _send(self, effect: fx.Send) -> None:
        self.uplink.send(effect.message)

    def _reconnect(self, effect: fx.Reconnect) -> None:
        job = self.node.state.job if self.node is not None else None
        self.uplink.restart(None if job is None else job.name)

    def _seal(self, effect: fx.Seal) -> None:
        self.spawn(self._seal_save(effect.checkpoint))

    async def _seal_save(self, checkpoint: CheckpointId) -> None:
        config, node = self.config, self.node
        assert config is not None
        assert node is not None
        sealed = await self.saves.seal(config, checkpoint)
        if isinstance(sealed, str):
            self.apply(node.seal_failed(checkpoint, sealed))
        else:
            self.apply(node.sealed(checkpoint, sealed, self.now()))
        self.intake.scan()

    def _reject_save(self, effect: fx.RejectSave) -> None:
        if self.config is not None:
            self.saves.reject(self.config, effect.step)

    def _get_copy(self, effect: fx.GetCopy) -> None:
        assert self.config is not None
        assert self.tier is not None
        self.copies.start(effect, self.config, self.tier)

    def _cancel_copies(self, effect: fx.CancelCopies) -> None:
        self.copies.cancel_all()

    def _announce(self, effect: fx.Announce) -> None:
        self.markers.announce(effect.checkpoint, effect.backup)

    def _link(self, effect: fx.Link) -> None:
        assert self.config is not None
        stored = []
        if effect.checkpoint is not None:
            assert self.node is not None
            for worker in range(effect.workers):
                key = Key(effect.checkpoint, (self.config.node_rank, worker))  # type: ignore[arg-type]
                stored.append(self.store.records[key].storage_name)
        self.markers.link(self.config, effect.checkpoint, stored)
        self._observe_restore(ok=True)
        step = None if effect.checkpoint is None else effect.checkpoint.step
        log.info("restored", extra={"step": step})
        self.intake.something_appeared()  # saves that came before are seen now

    def _delete(self, effect: fx.Delete) -> None:
        self._remove_later(self.store.delete(effect.keys))
        self.markers.drop_dangling_links()

    def _remove_later(self, paths: list[Path]) -> None:
        async def remove_all() -> None:
            for path in paths:
                await asyncio.to_thread(remove, path)

        self.spawn(remove_all())

    def _quarantine(self, effect: fx.Quarantine) -> None:
        self.store.put_aside(effect.keys)

    def _release_quarantine(self, effect: fx.ReleaseQuarantine) -> None:
        self._remove_later(self.store.release_quarantine())

    def _upload(self, effect: fx.Upload) -> None:
        task = self.spawn(self._upload_part(effect))
        self._uploads.add(task)
        task.add_done_callback(self._uploads.discard)

    def _stop_uploads(self, effect: fx.StopUploads) -> None:
        for task in list(self._uploads):
            task.cancel()

    async def _upload_part(self, effect: fx.Upload) -> None:
        assert self.tier is not None
        assert self.config is not None
        began = self.now()
        problem = await self.tier.upload(self.store, effect)
        framework = self.config.framework.value
        took = self.now() - began
        self.metrics.observe("CheckpointBackup", framework, took, ok=not problem)
        if self.node is not None:
            self.apply(self.node.uploaded(effect.name, problem, self.now()))

    def _check_room(self, effect: fx.CheckRoom) -> None:
        self.spawn(self._check_room_for(effect.size))

    async def _check_room_for(self, size: int) -> None:
        if not await asyncio.to_thread(self.store.fits, size) and self.node is not None:
            self.apply(self.node.no_room(self.now()))

    def _error(self, effect: fx.WriteError) -> None:
        self.reports.error(effect.text)

    def _observe_restore(self, *, ok: bool) -> None:
        """A restore has ended, unless it began in an earlier life of this agent."""
        began, self.restoring_since = self.restoring_since, None
        if began is not None and self.config is not None:
            framework = self.config.framework.value
            self.metrics.observe("CheckpointRestore", framework, self.now() - began, ok=ok)

    def _failed(self, effect: fx.WriteFailed) -> None:
        self._observe_restore(ok=False)
        self.reports.failed(effect.text)
        self.coordination.supervise()

    # ---- status ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What `stowplan-replicator status` shows."""
        document = node_status(self.address, self.node, self.store)
        return {**document, "coordinator": self.coordination.status()}


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_EFFECTS: dict[type[Any], Callable[[Agent, Any], None]] = {
    fx.Persist: Agent._persist,
    fx.Send: Agent._send,
    fx.Reconnect: Agent._reconnect,
    fx.Seal: Agent._seal,
    fx.RejectSave: Agent._reject_save,
    fx.GetCopy: Agent._get_copy,
    fx.CancelCopies: Agent._cancel_copies,
    fx.Announce: Agent._announce,
    fx.Link: Agent._link,
    fx.Delete: Agent._delete,
    fx.Quarantine: Agent._quarantine,
    fx.ReleaseQuarantine: Agent._release_quarantine,
    fx.Upload: Agent._upload,
    fx.StopUploads: Agent._stop_uploads,
    fx.CheckRoom: Agent._check_room,
    fx.WriteError: Agent._error,
    fx.WriteFailed: Agent._failed,
}
