"""Peers prove to each other that they know the job's key, and every frame carries a proof.

The key file is shared by the agents of one trust domain; each job has its own key derived from it.
The handshake is mutual (each side signs both nonces and the first frame), and each direction then
counts its frames, so nothing can be replayed, reordered or injected. Checkpoint bytes travel
unsigned: their manifest's digest comes in a signed frame, and every byte is checked against it.
Without TLS (tls.py) nothing is encrypted: use a network you trust with the data then.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from replicator.agent.files import read_given
from replicator.agent.sockets import AuthenticationError
from replicator.errors import ReplicatorError

MIN_KEY_BYTES = 32
MAX_KEY_BYTES = 4096
NONCE_BYTES = 32
TAG_BYTES = 32


class KeyFileError(ReplicatorError):
    """The key file cannot be used."""


def read_key(path: Path) -> bytes:
    """The shared secret.

    Raises:
        KeyFileError: missing, no regular file, too short or long, or readable by others.
    """
    try:
        mode = path.stat().st_mode
        content = read_given(path, MAX_KEY_BYTES).strip()
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror or error}") from None
    if not MIN_KEY_BYTES <= len(content) <= MAX_KEY_BYTES:
        raise KeyFileError(
            f"key file {path}: {len(content)} bytes; expected {MIN_KEY_BYTES} to {MAX_KEY_BYTES} "
            "(for example from: head -c 32 /dev/urandom | base64)"
        )
    if mode & 0o007:
        raise KeyFileError(f"key file {path} can be read by everyone; chmod o-rwx it")
    return content


def job_key(secret: bytes, job: str) -> bytes:
    """The key of one job."""
    return hmac.digest(secret, b"stowplan-replicator job\0" + job.encode(), hashlib.sha256)


def new_nonce() -> bytes:
    """Fresh random bytes."""
    return os.urandom(NONCE_BYTES)


def proof(key: bytes, role: str, client_nonce: bytes, server_nonce: bytes, opening: bytes) -> bytes:
    """What a side signs in the handshake: its role, both nonces and the opening frame."""
    message = b"\0".join((role.encode(), client_nonce, server_nonce, opening))
    return hmac.digest(key, message, hashlib.sha256)


class FrameSigner:
    """Signs the frames of one direction of one connection, in order."""

    def __init__(self, session: bytes) -> None:
        self._session = session
        self._count = 0

    def sign(self, payload: bytes) -> bytes:
        """The tag of the next frame."""
        tag = hmac.digest(self._session, self._count.to_bytes(8, "big") + payload, hashlib.sha256)
        self._count += 1
        return tag

    def check(self, payload: bytes, tag: bytes) -> None:
        """Raise AuthenticationError unless this is the next frame of the other side."""
        if not hmac.compare_digest(self.sign(payload), tag):
            raise AuthenticationError("a frame's signature does not fit")


def session_signers(
    key: bytes, client_nonce: bytes, server_nonce: bytes
) -> tuple[FrameSigner, FrameSigner]:
    """Signers for client-to-server and for server-to-client frames."""
    both = client_nonce + server_nonce
    return (
        FrameSigner(hmac.digest(key, b"client session" + both, hashlib.sha256)),
        FrameSigner(hmac.digest(key, b"server session" + both, hashlib.sha256)),
    )
