"""A node's connection to the coordinator: find it, connect, keep trying.

Of several agents that say that they have the job's coordinator the youngest is right: when rank 0
moves to another node, the agent that had it may live on and know nothing of that. So a node asks
all of them, and while its job waits to be restored it asks again now and then. It asks nobody else
where the coordinator that it had before has begun anew since.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

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
HEAD_START_SECONDS = 0.1
"""For the agent that had the coordinator last, before the others are asked as well."""
DOUBT_SECONDS = 2.0
"""First pause before a younger coordinator is looked for; doubles up to `LONGEST_DOUBT`."""
LONGEST_DOUBT = 60.0
FIRST_PAUSE = 0.02
"""Short: mostly the agent of rank 0 has just not yet seen its own new replicator.yaml."""
LONGEST_PAUSE = 5.0
MAX_DISTRUSTED = 1000

log = logging.getLogger("replicator.uplink")


class Found(NamedTuple):
    """A coordinator: since when (wall clock of its agent) it serves the job."""

    since: float
    address: str
    channel: Channel


@dataclass(slots=True)
class Uplink:
    """At most one connection, for one job. The callbacks run on the event loop."""

    platform: Platform
    dialer: Dialer
    up: Callable[[], None]
    down: Callable[[], None]
    received: Callable[[ToNode], None]
    waiting: Callable[[], bool]  # whether the job has yet to be restored
    failed: Callable[[BaseException], None]
    _task: asyncio.Task[None] | None = None
    _channel: Channel | None = None
    _last: tuple[str, str, float] | None = None  # job, agent and age of who restored it last
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
            found = await self._seek(job, pause * (0.5 + random.random()))
            if found is not None and self._task is me:
                await self._talk(found, job, me)
                return  # `down` has asked for a restart if one is wanted
            if found is not None:
                await found.channel.finish()
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _seek(self, job: str, patience: float) -> Found | None:
        """The job's coordinator, or one that starts within `patience` where we were early."""
        held: dict[str, Channel] = {}
        found: Found | None = None
        try:
            found = await self._find(job, held) or await self._first_to_start(held, patience)
            return found
        finally:
            for channel in held.values():
                if found is None or channel is not found.channel:
                    await channel.finish()

    async def _first_to_start(self, held: dict[str, Channel], patience: float) -> Found | None:
        """Agents without a coordinator say so when they get one."""
        answers = {asyncio.create_task(_answer(held[address])): address for address in held}
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
                    if task.exception() is None and (since := task.result()) is not None:
                        return Found(since, answers[task], held[answers[task]])
            return None
        finally:
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    async def _find(
        self, job: str, held: dict[str, Channel], younger_than: float = -math.inf
    ) -> Found | None:
        """The job's coordinator; of several (an old one may still run) the youngest.

        Where there is none, `held` gets connections to agents that may yet get one.
        """
        try:
            addresses = await self.platform.coordinators(job)
        except ReplicatorError as error:
            log.info("no coordinator yet", extra={"reason": str(error)})
            return None
        if self._last is not None and self._last[0] == job and self._last[1] in addresses:
            _, address, since = self._last
            # One that is there as before may be left over: then the others are asked too.
            found = await self._probe_all(job, [address], held, HEAD_START_SECONDS)
            if again := await _youngest(found, max(since, younger_than)):
                return again
            addresses = [address for address in addresses if address not in held]
        for start in range(0, len(addresses), PROBES):
            found = await self._probe_all(job, addresses[start : start + PROBES], held)
            if best := await _youngest(found, younger_than):
                return best
        return None

    async def _probe_all(
        self,
        job: str,
        addresses: list[str],
        held: dict[str, Channel],
        patience: float = CONNECT_SECONDS,
    ) -> list[Found]:
        """Coordinators among these; once one has answered, the others get little time."""
        probes = {asyncio.create_task(self._probe(job, address)) for address in addresses}
        found: list[Found] = []
        try:
            waiting = probes
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                for since, address, channel in filter(None, (task.result() for task in done)):
                    if since is not None:
                        found.append(Found(since, address, channel))
                    elif len(held) < MAX_HELD:
                        held[address] = channel
                    else:
                        await channel.finish()
                if not done:
                    break
                patience = OTHERS_SECONDS if found else patience
        except BaseException:
            for other in found:
                await other.channel.finish()
            raise
        finally:
            for probe in waiting:
                probe.cancel()
            for late in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(late, tuple):
                    await late[2].finish()
        return found

    async def _probe(self, job: str, address: str) -> tuple[float | None, str, Channel] | None:
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
                return await _answer(channel), address, channel
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

    async def _talk(self, found: Found, job: str, me: asyncio.Task[None] | None) -> None:
        self._channel = channel = found.channel
        self._queue = asyncio.Queue()
        writer = asyncio.create_task(self._write(channel, self._queue))
        doubt = asyncio.create_task(self._doubt(found, job))
        doubt.add_done_callback(self._ended)
        try:
            self.up()
            while self._task is me:
                message, waiting = decode_to_node(await channel.receive()), self.waiting()
                self.received(message)
                if waiting and not self.waiting():
                    self._last = (job, found.address, found.since)
        except (OSError, WireError, ReplicatorError) as error:
            log.info("coordinator gone", extra={"reason": f"{type(error).__name__}: {error}"})
        finally:
            for task in (writer, doubt):
                task.cancel()
            await asyncio.gather(writer, doubt, return_exceptions=True)
            await channel.finish()
            if self._task is me and self._channel is channel:
                self._channel = None
                self.down()

    async def _doubt(self, current: Found, job: str) -> None:
        """End the connection if a younger coordinator has come while the job waits."""
        pause = DOUBT_SECONDS
        while True:
            await asyncio.sleep(pause * (0.5 + random.random()))
            if not self.waiting():
                return
            held: dict[str, Channel] = {}
            try:
                found = await self._find(job, held, current.since)
            finally:
                for channel in held.values():
                    await channel.finish()
            if found is not None:
                await found.channel.finish()
                self._last = (job, found.address, current.since)
                log.info("a younger coordinator", extra={"peer": found.address})
                current.channel.abort()
                return
            pause = min(pause * 2, LONGEST_DOUBT)

    @staticmethod
    async def _write(channel: Channel, queue: asyncio.Queue[bytes]) -> None:
        try:
            while True:
                await channel.send(await queue.get())
        except (OSError, ReplicatorError):
            channel.abort()


async def _youngest(found: list[Found], younger_than: float) -> Found | None:
    """The youngest of these, if it is that young; the connections to all others end."""
    best = max(found, default=None)
    if best is not None and best.since <= younger_than:
        best = None
    for other in found:
        if other is not best:
            await other.channel.finish()
    return best


async def _answer(channel: Channel) -> float | None:
    """Since when (wall clock) this agent has the job's coordinator; None where it has not."""
    answer = decode_json(await channel.receive())
    since = answer.get("since")
    if answer.get("coordinator") is True and isinstance(since, int | float):
        return float(since)
    return None
