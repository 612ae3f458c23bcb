"""The one listening socket of an agent: for nodes of its coordinator and for readers of data."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from replicator.agent.bandwidth import Bandwidth
from replicator.agent.channel import Channel, accept, split_address
from replicator.agent.metrics import Metrics
from replicator.agent.sockets import AuthenticationError, cannot_listen
from replicator.agent.store import LocalStore
from replicator.agent.tls import PeerTls
from replicator.agent.transfer import serve
from replicator.agent.wire import WireError, decode_to_coordinator, encode
from replicator.core.messages import Hello, ToCoordinator, ToNode
from replicator.errors import ReplicatorError

MAX_HANDSHAKES = 256
"""Connections that may be proving themselves at the same time; more are closed at once."""
MAX_READERS = 16
"""Peers that are served data at the same time; more wait their turn."""
MAX_WAITING_READERS = 256
MAX_EARLY_NODES = 1024
"""Nodes that may wait here for a coordinator that has not started yet; more have to ask again."""
EARLY_SECONDS = 15.0
"""How long they may; they ask again sooner than that."""
MAX_QUEUE = 100_000
"""Messages that may wait for a slow node before its connection is closed."""

log = logging.getLogger("replicator.server")


@dataclass(slots=True)
class _NodeConnection:
    channel: Channel
    queue: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUE))


@dataclass(slots=True)
class PeerServer:
    """Accepts peers. The callbacks run on the event loop."""

    secret: bytes
    store: LocalStore
    metrics: Metrics
    bandwidth: Bandwidth
    serves_job: Callable[[str], float | None]  # since when (wall clock), None: not here
    received: Callable[[int, ToCoordinator], None]
    lost: Callable[[int], None]
    tls: PeerTls | None = None
    _listener: socket.socket | None = None
    _nodes: dict[int, _NodeConnection] = field(default_factory=dict)
    _early: set[asyncio.Future[None]] = field(default_factory=set)
    _next: int = 1
    _handshakes: int = 0
    _readers: set[Channel] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MAX_READERS, thread_name_prefix="serve")
    )

    def listen(self, host: str, port: int) -> int:
        """Bind and start accepting; returns the port.

        Raises:
            OSError: the address cannot be bound.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        try:
            listener.bind((host, port))
        except OSError as error:
            listener.close()
            raise cannot_listen(host, port, error) from None
        listener.listen(1024)
        self._listener = listener
        self._spawn(self._accept_all(listener))
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Close everything."""
        if self._listener is not None:
            self._listener.close()
        self.drop_all()
        for reader in list(self._readers):
            reader.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # One connection's fault must not end the agent, but must not pass unseen either.
            log.error("a connection failed", exc_info=error)

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(0.1)  # out of descriptors: those in use will be given back
                continue
            if self._handshakes >= MAX_HANDSHAKES:
                sock.close()
                continue
            sock.setblocking(False)
            self._spawn(self._greet(sock, str(address[0])))

    async def _greet(self, sock: socket.socket, peer: str) -> None:
        self._handshakes += 1
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = await accept(sock, self.secret, self.tls)
        except (OSError, TimeoutError, ReplicatorError) as error:
            self.metrics.rejected.inc()
            level = logging.WARNING if isinstance(error, AuthenticationError) else logging.INFO
            reason = f"{type(error).__name__}: {error}"
            log.log(level, "connection refused", extra={"peer": peer, "reason": reason})
            return
        finally:
            self._handshakes -= 1
        if channel.role == "data":
            await self._serve_data(channel)
        else:
            await self._serve_node(channel)

    # ---- data -----------------------------------------------------------------------------------

    async def _serve_data(self, channel: Channel) -> None:
        if len(self._readers) >= MAX_WAITING_READERS:
            await channel.finish()
            return
        channel.connection.block()
        self._readers.add(channel)
        loop = asyncio.get_running_loop()
        try:
            sent = await loop.run_in_executor(
                self._threads, serve, channel, self.store, self.bandwidth
            )
            self.metrics.sent_bytes.inc(sent)
        except (OSError, ReplicatorError) as error:
            log.info("transfer ended", extra={"reason": f"{type(error).__name__}: {error}"})
        finally:
            self._readers.discard(channel)
            channel.close()

    # ---- nodes ----------------------------------------------------------------------------------

    async def _serve_node(self, channel: Channel) -> None:
        if not await self._has_coordinator(channel):
            await channel.finish()
            return
        number, self._next = self._next, self._next + 1
        connection = _NodeConnection(channel)
        self._nodes[number] = connection
        writer = asyncio.create_task(self._write(number, connection))
        try:
            while True:
                message = decode_to_coordinator(await channel.receive())
                if number not in self._nodes:
                    return
                if isinstance(message, Hello):
                    _check_address(channel, message)
                self.received(number, message)
        except (OSError, ReplicatorError) as error:
            log.info("node gone", extra={"reason": f"{type(error).__name__}: {error}"})
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await channel.finish()
            if self._nodes.pop(number, None) is not None:
                self.lost(number)

    async def _has_coordinator(self, channel: Channel) -> bool:
        """Tell a node whether its coordinator is here: at once, and again when one starts."""
        try:
            here = await self._tell(channel)
            if not here and len(self._early) < MAX_EARLY_NODES and await self._starts(channel):
                here = await self._tell(channel)
        except (OSError, ReplicatorError):
            return False
        except BaseException:
            await channel.finish()
            raise
        return here

    async def _tell(self, channel: Channel) -> bool:
        since = self.serves_job(channel.job)
        answer = {"coordinator": since is not None, "since": since}
        await channel.send(json.dumps(answer).encode())
        return since is not None

    async def _starts(self, channel: Channel) -> bool:
        """Wait for a coordinator to start here, as long as the node does. It says nothing then."""
        if self.serves_job(channel.job) is not None:
            return True  # it did while the answer was on its way
        started = asyncio.get_running_loop().create_future()
        gone = asyncio.create_task(channel.receive())
        self._early.add(started)
        try:
            await asyncio.wait(
                (started, gone), timeout=EARLY_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            return started.done() and not gone.done()
        finally:
            self._early.discard(started)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    def coordinator_started(self) -> None:
        """Nodes that came too early need not ask again."""
        for started in self._early:
            if not started.done():
                started.set_result(None)

    async def _write(self, number: int, connection: _NodeConnection) -> None:
        try:
            while number in self._nodes:
                await connection.channel.send(await connection.queue.get())
        except (OSError, ReplicatorError):
            connection.channel.abort()

    def send(self, number: int, message: ToNode) -> None:
        """Queue a message for a node; dropped when its connection is gone."""
        connection = self._nodes.get(number)
        if connection is None:
            return
        try:
            connection.queue.put_nowait(encode(message))
        except asyncio.QueueFull:
            connection.channel.abort()

    def drop(self, number: int) -> None:
        """Close a node's connection without a `lost`."""
        connection = self._nodes.pop(number, None)
        if connection is not None:
            self._spawn(self._close_soon(connection))

    async def _close_soon(self, connection: _NodeConnection) -> None:
        await asyncio.sleep(0.05)  # what was queued before may still go out
        connection.channel.abort()

    def drop_all(self) -> None:
        """Close all nodes' connections: another coordinator serves from now on."""
        for number in list(self._nodes):
            self._nodes.pop(number).channel.abort()


def _check_address(channel: Channel, hello: Hello) -> None:
    """A node is reached where its certificate says, and nowhere else."""
    if channel.peer_host and split_address(hello.address)[0] != channel.peer_host:
        raise WireError(
            f"Hello: the address {hello.address[:80]!r} is not the certified {channel.peer_host!r}"
        )
