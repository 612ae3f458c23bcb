"""A node's connection to the coordinator: find it, connect, keep trying."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from replicator.agent.channel import Channel, Dialer
from replicator.agent.sockets import AuthenticationError
from replicator.agent.wire import WireError, decode_json, decode_to_node, encode
from replicator.core.messages import ToCoordinator, ToNode
from replicator.errors import ReplicatorError
from replicator.platform.base import Platform

CONNECT_SECONDS = 10.0
OTHERS_SECONDS = 0.5
"""Time that slower answers get once one coordinator was found."""
PROBES = 32
"""Addresses that are asked at the same time."""
MAX_HELD = 32
"""Connections to agents where the coordinator may yet start; who has one need not be asked."""
FIRST_PAUSE = 0.02
"""Short: mostly the agent of rank 0 has just not yet seen its own new replicator.yaml."""
LONGEST_PAUSE = 5.0
MAX_DISTRUSTED = 1000

log = logging.getLogger("replicator.uplink")


@dataclass(slots=True)
class Uplink:
    """At most one connection, for one job. The callbacks run on the event loop."""

    platform: Platform
    dialer: Dialer
    up: Callable[[], None]
    down: Callable[[], None]
    received: Callable[[ToNode], None]
    failed: Callable[[BaseException], None]
    _task: asyncio.Task[None] | None = None
    _channel: Channel | None = None
    _queue: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    _old: set[asyncio.Task[None]] = field(default_factory=set)
    _distrusted: dict[str, str] = field(default_factory=dict)  # address: why, as last logged

    def restart(self, job: str | None) -> None:
        """Drop what there is and, with a job, connect to its coordinator until it works."""
        task, self._task = self._task, None
        if self._channel is not None:
            self._channel.abort()
            self._channel = None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            self._old.add(task)
            task.add_done_callback(self._old.discard)
        if job is not None:
            self._task = asyncio.create_task(self._run(job))
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    async def stop(self) -> None:
        """Close for good."""
        self.restart(None)
        await asyncio.gather(*self._old, return_exceptions=True)

    def send(self, message: ToCoordinator) -> None:
        """Queue a message for the connection that is up."""
        if self._channel is not None:
            self._queue.put_nowait(encode(message))

    async def _run(self, job: str) -> None:
        me = asyncio.current_task()
        pause = FIRST_PAUSE
        while self._task is me:
            channel = await self._seek(job, pause * (0.5 + random.random()))
            if channel is not None and self._task is me:
                await self._talk(channel, me)
                return  # `down` has asked for a restart if one is wanted
            if channel is not None:
                await channel.finish()
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _seek(self, job: str, patience: float) -> Channel | None:
        """The job's coordinator, or one that starts within `patience` where we were early."""
        held: list[Channel] = []
        found: Channel | None = None
        try:
            found = await self._find(job, held) or await self._first_to_start(held, patience)
            return found
        finally:
            for channel in held:
                if channel is not found:
                    await channel.finish()

    async def _first_to_start(self, held: list[Channel], patience: float) -> Channel | None:
        """Agents without a coordinator say so when they get one."""
        answers = {asyncio.create_task(_answer(channel)): channel for channel in held}
        waiting = set(answers)
        deadline = asyncio.get_running_loop().time() + patience
        try:
            while (left := deadline - asyncio.get_running_loop().time()) > 0:
                if not waiting:
                    await asyncio.sleep(left)
                    return None
                done, waiting = await asyncio.wait(
                    waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    if task.exception() is None and task.result() is not None:
                        return answers[task]
            return None
        finally:
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    async def _find(self, job: str, held: list[Channel]) -> Channel | None:
        """The job's coordinator; of several (an old one may still run) the youngest.

        Where there is none, `held` has connections to agents that may yet get one.
        """
        try:
            addresses = await self.platform.coordinators(job)
        except ReplicatorError as error:
            log.info("no coordinator yet", extra={"reason": str(error)})
            return None
        for start in range(0, len(addresses), PROBES):
            some = addresses[start : start + PROBES]
            found = await self._probe_all(job, some, held)
            if found:
                best = max(found, key=lambda one: one[0])
                for other in found:
                    if other is not best:
                        await other[1].finish()
                return best[1]
        return None

    async def _probe_all(
        self, job: str, addresses: list[str], held: list[Channel]
    ) -> list[tuple[float, Channel]]:
        """Coordinators among these; once one has answered, the others get little time."""
        probes = {asyncio.create_task(self._probe(job, address)) for address in addresses}
        found: list[tuple[float, Channel]] = []
        try:
            waiting, patience = probes, CONNECT_SECONDS
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                for since, channel in filter(None, (task.result() for task in done)):
                    if since is not None:
                        found.append((since, channel))
                    elif len(held) < MAX_HELD:
                        held.append(channel)
                    else:
                        await channel.finish()
                if not done:
                    break
                patience = OTHERS_SECONDS if found else CONNECT_SECONDS
        except BaseException:
            for _, channel in found:
                await channel.finish()
            raise
        finally:
            for probe in waiting:
                probe.cancel()
            for late in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(late, tuple):
                    await late[1].finish()
        return found

    async def _probe(self, job: str, address: str) -> tuple[float | None, Channel] | None:
        """An agent that answers, and since when it has the coordinator, if it has."""
        try:
            channel = await self.dialer.connect(
                address, job=job, role="node", timeout=CONNECT_SECONDS
            )
        except AuthenticationError as error:
            self._distrust(address, str(error))
            return None
        except (OSError, TimeoutError, ReplicatorError) as error:
            log.debug("not %s", address, extra={"reason": f"{type(error).__name__}: {error}"})
            return None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await _answer(channel), channel
        except (OSError, TimeoutError, ReplicatorError) as error:
            log.debug("not %s", address, extra={"reason": f"{type(error).__name__}: {error}"})
        except BaseException:
            await channel.finish()
            raise
        await channel.finish()
        return None

    def _distrust(self, address: str, reason: str) -> None:
        """Say once why an agent is not talked to."""
        if len(self._distrusted) > MAX_DISTRUSTED:
            self._distrusted.clear()
        if self._distrusted.get(address) != reason:
            self._distrusted[address] = reason
            log.warning("peer not trusted", extra={"peer": address, "reason": reason})

    async def _talk(self, channel: Channel, me: asyncio.Task[None] | None) -> None:
        self._channel = channel
        self._queue = asyncio.Queue()
        writer = asyncio.create_task(self._write(channel, self._queue))
        try:
            self.up()
            while self._task is me:
                self.received(decode_to_node(await channel.receive()))
        except (OSError, WireError, ReplicatorError) as error:
            log.info("coordinator gone", extra={"reason": f"{type(error).__name__}: {error}"})
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await channel.finish()
            if self._task is me and self._channel is channel:
                self._channel = None
                self.down()

    @staticmethod
    async def _write(channel: Channel, queue: asyncio.Queue[bytes]) -> None:
        try:
            while True:
                await channel.send(await queue.get())
        except (OSError, ReplicatorError):
            channel.abort()


async def _answer(channel: Channel) -> float | None:
    """Since when (wall clock) this agent has the job's coordinator; None where it has not."""
    answer = decode_json(await channel.receive())
    since = answer.get("since")
    if answer.get("coordinator") is True and isinstance(since, int | float):
        return float(since)
    return None
