"""Connected sockets, plain or TLS, as the event loop and threads both use them.

A connection begins on the event loop (handshake, control messages). One that carries checkpoint
bytes is then handed over to threads by `block`, which costs no copy and no hop between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable
from typing import TypeVar

from replicator.errors import ReplicatorError

IDLE_SECONDS = 30.0
"""A blocking connection on which nothing moves for this long is given up."""
TLS_SEND_BYTES = 1024 * 1024
"""Bytes of a file that are encrypted and sent at a time."""

T = TypeVar("T")


def cannot_listen(host: str, port: int, error: OSError) -> OSError:
    """Why an address cannot be bound, in one form (asyncio's own text repeats the address)."""
    known = error.strerror if isinstance(error, socket.gaierror) else None
    reason = known or os.strerror(error.errno or 0)
    return OSError(error.errno, f"cannot listen on {host} port {port}: {reason}")


class AuthenticationError(ReplicatorError):
    """The other side cannot prove who it is, or a frame was not sent by it."""


class Connection:
    """A connected plain TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    # ---- on the event loop ----------------------------------------------------------------------

    async def send(self, content: bytes) -> None:
        """Send all of it."""
        await asyncio.get_running_loop().sock_sendall(self.sock, content)

    async def receive(self, size: int) -> bytes:
        """Exactly `size` bytes; raises ConnectionError at the end of the connection."""
        buffer = bytearray(size)
        view, got = memoryview(buffer), 0
        while got < size:
            count = await self._receive_into(view[got:])
            if count == 0:
                raise ConnectionError("the other side closed the connection")
            got += count
        return bytes(buffer)

    async def _receive_into(self, view: memoryview) -> int:
        return await asyncio.get_running_loop().sock_recv_into(self.sock, view)

    # ---- in threads -----------------------------------------------------------------------------

    def block(self) -> None:
        """Hand the socket over to threads, with the kernel's idle timeouts."""
        self.sock.setblocking(True)
        timeout = struct.pack("ll", int(IDLE_SECONDS), 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)

    def send_blocking(self, content: bytes) -> None:
        """Send all of it from a thread."""
        self.sock.sendall(content)

    def fill(self, view: memoryview) -> None:
        """Receive exactly as many bytes as the view holds; ConnectionError at the end."""
        while view:
            count = self.sock.recv_into(view, len(view), socket.MSG_WAITALL)
            if count == 0:
                raise ConnectionError("the other side closed the connection")
            view = view[count:]

    def send_file(self, fd: int, offset: int, count: int) -> int:
        """Send some bytes of a file; returns how many, 0 where the file ends."""
        return os.sendfile(self.sock.fileno(), fd, offset, count)

    # ---- the end --------------------------------------------------------------------------------

    def abort(self) -> None:
        """End the connection, from anywhere: whoever waits on it wakes up, and then closes it."""
        with contextlib.suppress(OSError):  # it may not be connected any more
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back. Only for the one who reads, when nobody waits on it."""
        self.abort()
        self.sock.close()

    async def finish(self) -> None:
        """`close`, once the event loop has let go of the descriptor."""
        self.abort()
        try:
            await asyncio.sleep(0)  # callbacks that unregister the descriptor run before its reuse
        finally:
            self.close()


class TlsConnection(Connection):
    """The same under TLS 1.3. The loop's own socket calls do not take TLS sockets: we wait here."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        super().__init__(sock)
        self.tls = sock
        self._loop = asyncio.get_running_loop()
        self._waits: dict[str, asyncio.Future[None]] = {}

    async def handshake(self) -> None:
        """Prove who we are and have the other side prove it.

        Raises:
            AuthenticationError: one of the two did not succeed.
            OSError: the connection ended.
        """
        await self._retried(self.tls.do_handshake)

    async def _retried(self, operation: Callable[[], T]) -> T:
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                await self._ready("read")
            except ssl.SSLWantWriteError:
                await self._ready("write")
            except ssl.SSLEOFError:
                raise ConnectionError("the other side closed the connection") from None
            except ssl.SSLError as error:
                raise AuthenticationError(explain(error)) from error

    async def _ready(self, direction: str) -> None:
        """Wait for the socket; a reader and a writer may wait for the same direction."""
        future = self._waits.get(direction)
        if future is None:
            future = self._waits[direction] = self._loop.create_future()
            watch = self._loop.add_reader if direction == "read" else self._loop.add_writer
            watch(self.sock.fileno(), self._woken, direction)
        await asyncio.shield(future)

    def _woken(self, direction: str) -> None:
        unwatch = self._loop.remove_reader if direction == "read" else self._loop.remove_writer
        unwatch(self.sock.fileno())
        future = self._waits.pop(direction, None)
        if future is not None and not future.done():
            future.set_result(None)

    def _unwatch(self) -> None:
        for direction in tuple(self._waits):
            self._woken(direction)

    async def send(self, content: bytes) -> None:
        """Send all of it."""
        view = memoryview(content)
        while view:
            part = view
            view = view[await self._retried(lambda: self.tls.send(part)) :]  # noqa: B023

    async def _receive_into(self, view: memoryview) -> int:
        return await self._retried(lambda: self.tls.recv_into(view))

    def block(self) -> None:
        """Hand the socket over to threads. TLS knows nothing of the kernel's idle timeouts."""
        self._unwatch()
        self.sock.settimeout(IDLE_SECONDS)

    def fill(self, view: memoryview) -> None:
        """Receive exactly as many bytes as the view holds; ConnectionError at the end."""
        while view:
            count = self.tls.recv_into(view)
            if count == 0:
                raise ConnectionError("the other side closed the connection")
            view = view[count:]

    def send_file(self, fd: int, offset: int, count: int) -> int:
        """Send some bytes of a file; returns how many, 0 where the file ends."""
        content = os.pread(fd, min(count, TLS_SEND_BYTES), offset)
        self.tls.sendall(content)
        return len(content)

    def close(self) -> None:
        """Give the descriptor back. Only for the one who reads, when nobody waits on it."""
        if self.sock.fileno() >= 0:
            self._unwatch()
        super().close()


_EXPLAINED = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other side shows no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side wants a certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not know the authority of our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side finds our certificate expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refuses our certificate",
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS",
    "HTTP_REQUEST": "the other side does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "the other side does not speak TLS 1.3",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side does not speak TLS 1.3",
}


def explain(error: ssl.SSLError) -> str:
    """Why TLS failed, in words for a log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the other side's certificate is refused: {error.verify_message}"
    reason = error.reason or str(error)
    return f"TLS: {_EXPLAINED.get(reason, reason)}"
