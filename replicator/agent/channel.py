"""Authenticated frames on a connection: `length (4 bytes) | payload | tag (32 bytes)`.

Both ends speak blocking sockets in threads for checkpoint data, and asyncio for control; the
handshake is the same and runs on asyncio, after which a data socket is handed over to a thread.
With TLS all of it goes through the encrypted connection.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import re
import socket
from dataclasses import dataclass
from typing import Any

from replicator.agent.security import (
    NONCE_BYTES,
    TAG_BYTES,
    FrameSigner,
    job_key,
    new_nonce,
    proof,
    session_signers,
)
from replicator.agent.sockets import AuthenticationError, Connection, TlsConnection
from replicator.agent.tls import PeerTls
from replicator.agent.wire import (
    MAX_FRAME_BYTES,
    MAX_TEXT,
    PROTOCOL_VERSION,
    WireError,
    decode_json,
)
from replicator.protocol import is_safe_job_name

HANDSHAKE_BYTES = 2048
"""Largest frame before a peer has proven who it is."""
HANDSHAKE_SECONDS = 10.0
ROLES = ("node", "data")
_TLS_RECORD = b"\x16\x03"
"""How a TLS connection begins; as a frame's length it would be far too long."""


@dataclass(slots=True, eq=False)
class Channel:
    """An authenticated connection; `outgoing` signs what we send, `incoming` what we receive.

    `peer_host` is the host that the peer's certificate was checked for, empty where it was not.
    """

    connection: Connection
    outgoing: FrameSigner
    incoming: FrameSigner
    job: str
    role: str
    peer_host: str = ""

    # ---- asyncio --------------------------------------------------------------------------------

    async def send(self, payload: bytes) -> None:
        """Send one frame."""
        await self.connection.send(self._framed(payload))

    async def receive(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """Receive one frame; raises ConnectionError at the end of the connection."""
        size = _checked_size(await self.connection.receive(4), limit)
        payload = await self.connection.receive(size)
        self.incoming.check(payload, await self.connection.receive(TAG_BYTES))
        return payload

    # ---- blocking -------------------------------------------------------------------------------

    def send_blocking(self, payload: bytes, limit: int = MAX_FRAME_BYTES) -> None:
        """Send one frame from a thread."""
        self.connection.send_blocking(self._framed(payload, limit))

    def receive_blocking(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """Receive one frame in a thread."""
        payload = bytearray(_checked_size(self._read(4), limit))
        self.connection.fill(memoryview(payload))
        content = bytes(payload)
        self.incoming.check(content, self._read(TAG_BYTES))
        return content

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        self.connection.fill(memoryview(buffer))
        return bytes(buffer)

    def _framed(self, payload: bytes, limit: int = MAX_FRAME_BYTES) -> bytes:
        if len(payload) > limit:
            raise WireError(f"a frame of {len(payload)} bytes; limit {limit}")
        return len(payload).to_bytes(4, "big") + payload + self.outgoing.sign(payload)

    def abort(self) -> None:
        """End the connection, from anywhere."""
        self.connection.abort()

    def close(self) -> None:
        """Give the descriptor back. Only for the one who reads, when nobody waits on it."""
        self.connection.close()

    async def finish(self) -> None:
        """`close`, once the event loop has let go of the descriptor."""
        await self.connection.finish()


def _checked_size(header: bytes, limit: int) -> int:
    size = int.from_bytes(header, "big")
    if size > limit:
        if header.startswith(_TLS_RECORD):
            raise AuthenticationError("the other side speaks TLS, but this agent has no --tls-cert")
        raise WireError(f"a frame of {size} bytes; limit {limit}")
    return size


async def _send_plain(connection: Connection, document: dict[str, Any]) -> bytes:
    payload = json.dumps(document).encode()
    await connection.send(len(payload).to_bytes(4, "big") + payload)
    return payload


async def _receive_plain(connection: Connection) -> tuple[dict[str, Any], bytes]:
    size = _checked_size(await connection.receive(4), HANDSHAKE_BYTES)
    payload = await connection.receive(size)
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


@dataclass(slots=True)
class Dialer:
    """How an agent reaches its peers: its proofs, its own address, the interface to leave from."""

    secret: bytes
    tls: PeerTls | None = None
    source: str = ""
    advertised: str = ""

    async def connect(self, address: str, *, job: str, role: str, timeout: float) -> Channel:
        """Connect; each side proves that it may take part in the job.

        Raises:
            AuthenticationError: the other side may not, or finds that we may not.
            WireError: it speaks something else.
            OSError, TimeoutError: it cannot be reached.
        """
        host, port = split_address(address)
        async with asyncio.timeout(timeout):
            connection = await self._reach(host, port)
            try:
                if isinstance(connection, TlsConnection) and self.tls is not None:
                    self.tls.check(connection, job)
                return await self._open(connection, job, role)
            except BaseException:
                await connection.finish()
                raise

    async def _reach(self, host: str, port: int) -> Connection:
        loop = asyncio.get_running_loop()
        family, target = await _resolve(host, port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.source:
                sock.bind((self.source, 0))
            await loop.sock_connect(sock, target)
        except BaseException:
            await Connection(sock).finish()
            raise
        return Connection(sock) if self.tls is None else await self.tls.connected(sock, host)

    async def _open(self, connection: Connection, job: str, role: str) -> Channel:
        key, mine = job_key(self.secret, job), new_nonce()
        document = {"version": PROTOCOL_VERSION, "job": job, "role": role, "nonce": mine.hex()}
        if self.tls is not None:
            document["address"] = self.advertised
        opening = await _send_plain(connection, document)
        answer, _ = await _receive_plain(connection)
        if "error" in answer:
            raise WireError(f"refused: {str(answer['error'])[:200]}")
        theirs = _hex(answer, "nonce", NONCE_BYTES)
        expected = proof(key, "server", mine, theirs, opening)
        if not hmac.compare_digest(_hex(answer, "proof", len(expected)), expected):
            raise AuthenticationError("the other side does not know the key of this job")
        signed = proof(key, "client", mine, theirs, opening).hex()
        await _send_plain(connection, {"proof": signed})
        to_server, to_client = session_signers(key, mine, theirs)
        return Channel(connection, to_server, to_client, job, role)


async def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Where a host is; an address is taken as it is, without the hop to a resolver's thread."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return infos[0][0], infos[0][4]
    return (socket.AF_INET6 if version == 6 else socket.AF_INET), (host, port)


async def accept(sock: socket.socket, secret: bytes, tls: PeerTls | None = None) -> Channel:
    """The server's side of the handshake, within its deadline; closes the socket where it fails.

    Raises:
        AuthenticationError: the peer does not know the job's key, or has no good certificate.
        WireError: it speaks something else.
        OSError, TimeoutError: it is gone or too slow.
    """
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        connection = Connection(sock) if tls is None else await tls.accepted(sock)
        try:
            return await _answer(connection, secret, tls)
        except BaseException:
            await connection.finish()
            raise


async def _answer(connection: Connection, secret: bytes, tls: PeerTls | None) -> Channel:
    hello, opening = await _receive_plain(connection)
    job, role = hello.get("job"), hello.get("role")
    if hello.get("version") != PROTOCOL_VERSION or role not in ROLES:
        await _send_plain(connection, {"error": f"expected protocol version {PROTOCOL_VERSION}"})
        raise WireError("handshake: another version or role")
    if not isinstance(job, str) or not is_safe_job_name(job):
        raise WireError("handshake: unsafe job name")
    host = ""
    if tls is not None and isinstance(connection, TlsConnection):
        host = _claimed_host(hello)
        tls.check(connection, job, host)
    theirs = _hex(hello, "nonce", NONCE_BYTES)
    key, mine = job_key(secret, job), new_nonce()
    signed = proof(key, "server", theirs, mine, opening).hex()
    await _send_plain(connection, {"nonce": mine.hex(), "proof": signed})
    answer, _ = await _receive_plain(connection)
    expected = proof(key, "client", theirs, mine, opening)
    if not hmac.compare_digest(_hex(answer, "proof", len(expected)), expected):
        raise AuthenticationError("a peer does not know the key of this job")
    to_server, to_client = session_signers(key, theirs, mine)
    return Channel(connection, to_client, to_server, job, str(role), host)


def _claimed_host(hello: dict[str, Any]) -> str:
    address = hello.get("address")
    if not isinstance(address, str) or len(address) > MAX_TEXT:
        raise WireError("handshake: no address")
    return split_address(address)[0]


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`.

    Raises:
        WireError: anything else.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise WireError(f"{address[:80]!r} is no address (host:port)")
    return match["host"] or match["bracketed"] or match["v6"], int(match["port"])


_LABEL = "[A-Za-z0-9_-]{1,63}"
_V6 = r"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{1,40}(?:%[A-Za-z0-9._-]{1,32})?"
_ADDRESS = re.compile(
    rf"(?:(?P<host>(?=.{{1,254}}:)(?:{_LABEL}\.)*{_LABEL}\.?)"
    rf"|\[(?P<bracketed>{_V6})\]|(?P<v6>{_V6}))"
    r":(?P<port>[0-9]{1,5})"
)
"""A name or an IP address; brackets around an IPv6 address were never asked for."""
