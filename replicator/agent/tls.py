"""Mutual TLS between agents, from files that a certificate manager may replace at any time.

Both sides show a certificate of one authority. Whoever connects checks that the other side's is
good for the address it dialled; whoever accepts checks that the peer's is good for the address
under which that peer claims to be reached, and a node's hello may then name no other. Where
addresses are not known beforehand (pods), `name` stands for them: one DNS name that every agent's
certificate carries. A certificate with URIs `stowplan-job:NAME` is good for those jobs only.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicator.agent.sockets import AuthenticationError, TlsConnection
from replicator.errors import ReplicatorError

JOB_URI = "stowplan-job:"
"""Scheme of the URIs in a certificate's subject alternative names that bind it to jobs."""

log = logging.getLogger("replicator.tls")


class TlsFilesError(ReplicatorError):
    """The certificate, its key or the authority cannot be used."""


Stamp = tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class PeerTls:
    """Certificate, key and authority of one agent, as PEM files that are read anew when changed.

    Raises (when made): TlsFilesError, when the files cannot be used.
    """

    certificate: Path
    key: Path
    authority: Path
    name: str = ""
    _stamp: Stamp = ()
    _tried: Stamp = ()
    _client: ssl.SSLContext = field(init=False)
    _server: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self._stamp = self._tried = self._stamps()
        self._load()

    # ---- files ----------------------------------------------------------------------------------

    def _stamps(self) -> Stamp:
        stamps = []
        for path in (self.certificate, self.key, self.authority):
            try:
                status = path.stat()
            except OSError as error:
                raise TlsFilesError(f"TLS: {path}: {error.strerror or error}") from None
            if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
                raise TlsFilesError(f"TLS: {path}: no regular file")
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(stamps)

    def _load(self) -> None:
        if self.key.stat().st_mode & 0o007:
            raise TlsFilesError(f"TLS: key {self.key} can be read by everyone; chmod o-rwx it")
        client = self._context(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = True
        server = self._context(ssl.PROTOCOL_TLS_SERVER)
        server.num_tickets = 0  # connections are long: nothing is resumed
        self._client, self._server = client, server

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cafile=str(self.authority))
        except (ssl.SSLError, OSError) as error:
            raise TlsFilesError(f"TLS: {self.authority}: no authority in PEM: {error}") from None
        try:
            context.load_cert_chain(str(self.certificate), str(self.key), password=_no_password)
        except (ssl.SSLError, OSError) as error:
            raise TlsFilesError(
                f"TLS: {self.certificate} and {self.key}: no certificate with its key in PEM: "
                f"{getattr(error, 'reason', None) or error}"
            ) from None
        return context

    def refresh(self) -> None:
        """Take over changed files; while they do not fit together the old ones stay in use."""
        try:
            stamp = self._stamps()
            if stamp in (self._stamp, self._tried):
                return
            self._tried = stamp
            self._load()
        except TlsFilesError as error:
            log.warning("changed TLS files cannot be used yet", extra={"reason": str(error)})
            return
        self._stamp = stamp
        log.info("TLS files were read anew")

    # ---- connections ----------------------------------------------------------------------------

    async def connected(self, sock: socket.socket, host: str) -> TlsConnection:
        """Our side of a connection that we made; closes the socket where it fails.

        Raises:
            AuthenticationError: the certificate is not good, or not for this host.
            OSError: the connection ended.
        """
        self.refresh()
        return await self._secured(sock, self._client, self.name or host)

    async def accepted(self, sock: socket.socket) -> TlsConnection:
        """Our side of a connection that came in; closes the socket where it fails.

        Raises:
            AuthenticationError: the peer shows no certificate of our authority.
            OSError: the connection ended.
        """
        self.refresh()
        return await self._secured(sock, self._server, None)

    @staticmethod
    async def _secured(
        sock: socket.socket, context: ssl.SSLContext, host: str | None
    ) -> TlsConnection:
        try:
            wrapped = context.wrap_socket(
                sock,
                server_side=host is None,
                do_handshake_on_connect=False,
                server_hostname=host,
            )
        except BaseException:
            sock.close()
            raise
        connection = TlsConnection(wrapped)
        try:
            await connection.handshake()
        except BaseException:
            await connection.finish()
            raise
        return connection

    # ---- who it is ------------------------------------------------------------------------------

    def check(self, connection: TlsConnection, job: str, host: str | None = None) -> None:
        """Whether the peer's certificate is good for a job and, on the accepting side, a host.

        Raises:
            AuthenticationError: it is not.
        """
        names = _alternative_names(connection)
        jobs = [v.removeprefix(JOB_URI) for k, v in names if k == "URI" and v.startswith(JOB_URI)]
        if jobs and job not in jobs:
            raise AuthenticationError(
                f"TLS: the peer's certificate is for job {', '.join(jobs)[:200]}, not {job}"
            )
        if host is None:
            return
        expected = self.name or host
        if not any(_fits(kind, value, expected) for kind, value in names):
            shown = ", ".join(f"{kind}:{value}" for kind, value in names)[:200] or "no names"
            raise AuthenticationError(
                f"TLS: the peer's certificate ({shown}) is not good for {expected[:200] or 'it'}"
            )


def _no_password() -> str:
    raise TlsFilesError("TLS: the key is encrypted; expected one without a password")


def _alternative_names(connection: TlsConnection) -> list[tuple[str, str]]:
    certificate: dict[str, Any] = connection.tls.getpeercert() or {}
    return [(str(kind), str(value)) for kind, value in certificate.get("subjectAltName", ())]


def _fits(kind: str, value: str, expected: str) -> bool:
    """Whether one alternative name is the expected host; a wildcard stands for one whole label."""
    try:
        address = ipaddress.ip_address(expected)
    except ValueError:
        if kind != "DNS":
            return False
        wanted, given = expected.lower().rstrip("."), value.lower().rstrip(".")
        if given.startswith("*."):
            return wanted.partition(".")[2] == given[2:] != ""
        return wanted == given != ""
    try:
        return kind == "IP Address" and ipaddress.ip_address(value.strip()) == address
    except ValueError:
        return False
