"""The coordinator inside the agent of rank 0: started, supervised and ended with the job."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replicator.core import effects as fx
from replicator.core.coordinator import Coordinator
from replicator.core.messages import ToCoordinator
from replicator.core.model import Backup
from replicator.errors import ProtocolError, ReplicatorError
from replicator.storage import BackupTierError

if TYPE_CHECKING:
    from replicator.agent.agent import Agent

PUBLISH_PAUSE = 2.0

log = logging.getLogger("replicator.coordinator")


class Coordination:
    """Runs a coordinator while this node has rank 0 of a job."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._coordinator: Coordinator | None = None
        self._published: asyncio.Task[None] | None = None

    def supervise(self) -> None:
        """A job began or ended: begin anew, with every node's hello."""
        self.agent_server_drop()
        if self._published is not None:
            self._published.cancel()
            self._published = None
        node = self._agent.node
        job = node.state.job if node is not None else None
        if job is None or job.rank != 0:
            self._coordinator = None
            return
        token = secrets.token_hex(8)
        timing, tier = self._agent.settings.timing, self._agent.tier
        assert tier is not None
        self._coordinator = Coordinator(job, token, timing, tier.name_backup, self._agent.now())
        self._published = self._agent.spawn(self._publish(job.name))
        self._agent.server.coordinator_started()

    def agent_server_drop(self) -> None:
        """Connections to an earlier coordinator end."""
        self._agent.server.drop_all()

    async def _publish(self, job: str) -> None:
        """Tell the platform where the coordinator is, and keep telling it."""
        platform, config = self._agent.settings.platform, self._agent.config
        framework = "" if config is None else config.framework.value
        registered = False
        while True:
            began = self._agent.now()
            try:
                await platform.publish(job, self._agent.address, self._agent.accepted_at)
                ok = True
            except ReplicatorError as error:
                log.warning("cannot publish the coordinator", extra={"reason": str(error)})
                ok = False
            if not (registered and ok):  # renewals are not registrations
                took = self._agent.now() - began
                self._agent.metrics.observe("CoordinatorRegistration", framework, took, ok=ok)
            registered = ok
            await asyncio.sleep(PUBLISH_PAUSE)

    async def stop(self) -> None:
        """The agent ends: another one may serve the job."""
        coordinator, self._coordinator = self._coordinator, None
        if self._published is not None:
            self._published.cancel()
        if coordinator is not None:
            try:
                async with asyncio.timeout(PUBLISH_PAUSE):
                    await self._agent.settings.platform.withdraw(coordinator.job.name)
            except Exception as error:  # whatever it is, the rest of the agent is to end as well
                reason = f"{type(error).__name__}: {error}"
                log.warning("cannot withdraw the coordinator", extra={"reason": reason})

    def serves(self, job: str) -> float | None:
        """Since when (wall clock) the coordinator of this job is here, or None."""
        if self._coordinator is None or self._coordinator.job.name != job:
            return None
        return self._agent.accepted_at

    def received(self, connection: int, message: ToCoordinator) -> None:
        """A node's message."""
        self._event(lambda c, now: c.received(connection, message, now))

    def lost(self, connection: int) -> None:
        """A node's connection ended."""
        self._event(lambda c, now: c.lost(connection, now))

    def tick(self) -> None:
        """Once a second."""
        self._event(lambda c, now: c.tick(now))

    def _event(self, event: Callable[[Coordinator, float], list[fx.CoordinatorEffect]]) -> None:
        """Give the coordinator an event; a fault in it ends the agent, which then begins anew."""
        if self._coordinator is None:
            return
        try:
            self.decide(event(self._coordinator, self._agent.now()))
        except Exception as error:
            self._agent.die(error)

    def decide(self, effects: list[fx.CoordinatorEffect]) -> None:
        """Carry out the coordinator's effects, in order."""
        for effect in effects:
            _EFFECTS[type(effect)](self, effect)

    def _send_to(self, effect: fx.SendTo) -> None:
        coordinator = self._coordinator
        member = coordinator.members.by_rank.get(effect.rank) if coordinator is not None else None
        if member is not None:
            self._agent.server.send(member.connection, effect.message)

    def _answer(self, effect: fx.Answer) -> None:
        self._agent.server.send(effect.connection, effect.message)

    def _drop(self, effect: fx.Drop) -> None:
        self._agent.server.drop(effect.connection)

    def _read_backups(self, effect: fx.ReadBackups) -> None:
        self._agent.spawn(self._read(self._coordinator, effect))

    async def _read(self, asked_by: Coordinator | None, effect: fx.ReadBackups) -> None:
        tier = self._agent.tier
        assert tier is not None
        problem = ""
        backups: list[Backup] = []
        forced: str | None = None
        try:
            backups, forced = await tier.read(effect.skip)
        except ProtocolError as error:
            if asked_by is not None and asked_by is self._coordinator:
                text = f"{error}. Correct or remove it; nothing was deleted."
                self.decide(asked_by.forced_is_bad(text, self._agent.now()))
            return
        except (BackupTierError, OSError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        if asked_by is not None and asked_by is self._coordinator:
            now = self._agent.now()
            self.decide(asked_by.backups_read(backups, forced, problem, now))

    def _list_backups(self, effect: fx.ListBackups) -> None:
        self._agent.spawn(self._list(self._coordinator))

    async def _list(self, asked_by: Coordinator | None) -> None:
        tier = self._agent.tier
        assert tier is not None
        problem = ""
        backups: list[Backup] = []
        try:
            backups = await tier.newest()
        except (ReplicatorError, OSError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
            log.warning("backups cannot be listed", extra={"reason": problem})
        if asked_by is not None and asked_by is self._coordinator:
            self.decide(asked_by.backups_listed(backups, problem, self._agent.now()))

    def _complete_backup(self, effect: fx.CompleteBackup) -> None:
        self._agent.spawn(self._complete(self._coordinator, effect))

    async def _complete(self, asked_by: Coordinator | None, effect: fx.CompleteBackup) -> None:
        tier = self._agent.tier
        assert tier is not None
        problem = await tier.complete(effect)
        if asked_by is not None and asked_by is self._coordinator:
            log.info("backup", extra={"backup": effect.name, "problem": problem})
            now = self._agent.now()
            self.decide(asked_by.backup_completed(effect.name, problem, now))

    def _clear_forced(self, effect: fx.ClearForcedVersion) -> None:
        self._agent.spawn(self._clear(effect.name))

    async def _clear(self, name: str) -> None:
        tier = self._agent.tier
        assert tier is not None
        try:
            await tier.clear_forced(name)
        except (ReplicatorError, OSError, TimeoutError) as error:
            log.error("restore.version cannot be removed", extra={"reason": str(error)})

    def _replicated(self, effect: fx.Replicated) -> None:
        log.info("replicated", extra={"step": effect.checkpoint.step})

    def _not_replicated(self, effect: fx.NotReplicated) -> None:
        self._agent.metrics.failed_rounds.inc()
        log.warning("not replicated", extra={"reason": effect.text})

    def _log(self, effect: fx.Log) -> None:
        log.info(effect.text)

    def status(self) -> dict[str, Any] | None:
        """The coordinator's view, where it runs here."""
        coordinator = self._coordinator
        if coordinator is None:
            return None
        replication = coordinator.replication
        replicated = replication.replicated if replication is not None else None
        complete = replication.complete if replication is not None else None
        return {
            "phase": coordinator.phase.value,
            "present": sorted(coordinator.members.by_rank),
            "restored_step": coordinator.checkpoint.step if coordinator.checkpoint else None,
            "complete_step": None if complete is None else complete.step,
            "replicated_step": None if replicated is None else replicated.step,
        }


_EFFECTS: dict[type[Any], Callable[[Coordination, Any], None]] = {
    fx.SendTo: Coordination._send_to,
    fx.Answer: Coordination._answer,
    fx.Drop: Coordination._drop,
    fx.ReadBackups: Coordination._read_backups,
    fx.ListBackups: Coordination._list_backups,
    fx.CompleteBackup: Coordination._complete_backup,
    fx.ClearForcedVersion: Coordination._clear_forced,
    fx.Replicated: Coordination._replicated,
    fx.NotReplicated: Coordination._not_replicated,
    fx.Log: Coordination._log,
}
