"""Authenticated frames on a socket: `length (4 bytes) | payload | tag (32 bytes)`.

Both ends speak blocking sockets in threads for checkpoint data, and asyncio for control; the
handshake is the same and runs on asyncio, after which a data socket is handed over to a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
from dataclasses import dataclass
from typing import Any

from replicator.agent.security import (
    NONCE_BYTES,
    TAG_BYTES,
    AuthenticationError,
    FrameSigner,
    job_key,
    new_nonce,
    proof,
    session_signers,
)
from replicator.agent.wire import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    WireError,
    decode_json,
)
from replicator.protocol import is_safe_job_name

HANDSHAKE_BYTES = 2048
"""Largest frame before a peer has proven who it is."""
HANDSHAKE_SECONDS = 10.0
ROLES = ("node", "data")


@dataclass(slots=True, eq=False)
class Channel:
    """An authenticated connection; `outgoing` signs what we send, `incoming` what we receive."""

    sock: socket.socket
    outgoing: FrameSigner
    incoming: FrameSigner
    job: str
    role: str

    # ---- asyncio --------------------------------------------------------------------------------

    async def send(self, payload: bytes) -> None:
        """Send one frame."""
        await asyncio.get_running_loop().sock_sendall(self.sock, self._framed(payload))

    async def receive(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """Receive one frame; raises ConnectionError at the end of the connection."""
        size = _checked_size(await _read(self.sock, 4), limit)
        payload = await _read(self.sock, size)
        self.incoming.check(payload, await _read(self.sock, TAG_BYTES))
        return payload

    # ---- blocking -------------------------------------------------------------------------------

    def send_blocking(self, payload: bytes, limit: int = MAX_FRAME_BYTES) -> None:
        """Send one frame from a thread."""
        self.sock.sendall(self._framed(payload, limit))

    def receive_blocking(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """Receive one frame in a thread."""
        size = _checked_size(read_blocking(self.sock, 4), limit)
        payload = read_blocking(self.sock, size)
        self.incoming.check(payload, read_blocking(self.sock, TAG_BYTES))
        return payload

    def _framed(self, payload: bytes, limit: int = MAX_FRAME_BYTES) -> bytes:
        if len(payload) > limit:
            raise WireError(f"a frame of {len(payload)} bytes; limit {limit}")
        return len(payload).to_bytes(4, "big") + payload + self.outgoing.sign(payload)

    def abort(self) -> None:
        """End the connection, from anywhere: whoever waits on it wakes up, and then closes it."""
        with contextlib.suppress(OSError):  # it may not be connected any more
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back. Only for the one who reads, when nobody waits on it."""
        self.abort()
        self.sock.close()

    async def finish(self) -> None:
        """`close`, once the event loop has let go of the descriptor."""
        await close_quietly(self.sock)


def _checked_size(header: bytes, limit: int) -> int:
    size = int.from_bytes(header, "big")
    if size > limit:
        raise WireError(f"a frame of {size} bytes; limit {limit}")
    return size


async def close_quietly(sock: socket.socket) -> None:
    """Close a socket on which an operation of this event loop may just have ended."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    try:
        await asyncio.sleep(0)  # callbacks that unregister the descriptor run before it is reused
    finally:
        sock.close()


async def _read(sock: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        count = await loop.sock_recv_into(sock, view[got:])
        if count == 0:
            raise ConnectionError("the other side closed the connection")
        got += count
    return bytes(buffer)


def read_blocking(sock: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or ConnectionError."""
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        count = sock.recv_into(view[got:])
        if count == 0:
            raise ConnectionError("the other side closed the connection")
        got += count
    return bytes(buffer)


async def _send_plain(sock: socket.socket, document: dict[str, Any]) -> bytes:
    payload = json.dumps(document).encode()
    frame = len(payload).to_bytes(4, "big") + payload
    await asyncio.get_running_loop().sock_sendall(sock, frame)
    return payload


async def _receive_plain(sock: socket.socket) -> tuple[dict[str, Any], bytes]:
    payload = await _read(sock, _checked_size(await _read(sock, 4), HANDSHAKE_BYTES))
    return decode_json(payload), payload


def _hex(document: dict[str, Any], field: str, size: int) -> bytes:
    text = document.get(field)
    try:
        value = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        value = b""
    if len(value) != size:
        raise WireError(f"handshake: bad {field}")
    return value


async def connect(
    address: str, *, secret: bytes, job: str, role: str, source: str, timeout: float
) -> Channel:
    """Connect and prove each other's knowledge of the job's key.

    Raises:
        AuthenticationError: the other side does not know it.
        WireError: it speaks something else.
        OSError, TimeoutError: it cannot be reached.
    """
    host, port = split_address(address)
    async with asyncio.timeout(timeout):
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, target = infos[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if source:
                sock.bind((source, 0))
            await loop.sock_connect(sock, target)
            return await _open(sock, job_key(secret, job), job, role)
        except BaseException:
            await close_quietly(sock)
            raise


async def _open(sock: socket.socket, key: bytes, job: str, role: str) -> Channel:
    mine = new_nonce()
    opening = await _send_plain(
        sock, {"version": PROTOCOL_VERSION, "job": job, "role": role, "nonce": mine.hex()}
    )
    answer, _ = await _receive_plain(sock)
    if "error" in answer:
        raise WireError(f"refused: {str(answer['error'])[:200]}")
    theirs = _hex(answer, "nonce", NONCE_BYTES)
    expected = proof(key, "server", mine, theirs, opening)
    if not hmac.compare_digest(_hex(answer, "proof", len(expected)), expected):
        raise AuthenticationError("the other side does not know the key of this job")
    await _send_plain(sock, {"proof": proof(key, "client", mine, theirs, opening).hex()})
    to_server, to_client = session_signers(key, mine, theirs)
    return Channel(sock, to_server, to_client, job, role)


async def accept(sock: socket.socket, secret: bytes) -> Channel:
    """The server's side of the handshake, within its deadline.

    Raises:
        AuthenticationError: the peer does not know the job's key.
        WireError: it speaks something else.
        OSError, TimeoutError: it is gone or too slow.
    """
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        hello, opening = await _receive_plain(sock)
        job, role = hello.get("job"), hello.get("role")
        if hello.get("version") != PROTOCOL_VERSION or role not in ROLES:
            await _send_plain(sock, {"error": f"expected protocol version {PROTOCOL_VERSION}"})
            raise WireError("handshake: another version or role")
        if not isinstance(job, str) or not is_safe_job_name(job):
            raise WireError("handshake: unsafe job name")
        theirs = _hex(hello, "nonce", NONCE_BYTES)
        key, mine = job_key(secret, job), new_nonce()
        signed = proof(key, "server", theirs, mine, opening).hex()
        await _send_plain(sock, {"nonce": mine.hex(), "proof": signed})
        answer, _ = await _receive_plain(sock)
        expected = proof(key, "client", theirs, mine, opening)
        if not hmac.compare_digest(_hex(answer, "proof", len(expected)), expected):
            raise AuthenticationError("a peer does not know the key of this job")
        to_server, to_client = session_signers(key, theirs, mine)
        return Channel(sock, to_client, to_server, job, str(role))


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`.

    Raises:
        WireError: anything else.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise WireError(f"{address[:80]!r} is no address (host:port)")
    return host, int(port)
