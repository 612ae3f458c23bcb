"""Moving one shard between two agents: plain blocking sockets in threads, hashed on arrival.

The reader asks for data by its storage name (a digest); the other side answers with the manifest
and then all files' bytes in the manifest's order. The reader trusts nothing but the digest: the
manifest must hash to the name asked for, and each file to its entry.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from replicator.agent.bandwidth import CHUNK_BYTES, Bandwidth
from replicator.agent.channel import Channel
from replicator.agent.files import open_beneath, remove, sync_directory
from replicator.agent.store import LocalStore, NoSpaceError, Reservation
from replicator.agent.wire import WireError, decode_json, is_hash
from replicator.content import make_folders, new_file
from replicator.core.model import Failure
from replicator.errors import ManifestError, ReplicatorError
from replicator.manifest import MAX_MANIFEST_BYTES, ManifestFile, ShardManifest

BUFFER_BYTES = 1024 * 1024
IDLE_SECONDS = 30.0
"""A transfer in which nothing moves for this long is given up."""
MIN_BYTES_PER_SECOND = 1024 * 1024
"""A transfer slower than this on the whole is given up (after a grace of `GRACE_SECONDS`)."""
GRACE_SECONDS = 120.0
REQUEST_BYTES = 4096


class TransferError(ReplicatorError):
    """A copy did not arrive; `failure` says what that means."""

    def __init__(self, failure: Failure, detail: str) -> None:
        self.failure = failure
        super().__init__(detail)


@dataclass(slots=True)
class Incoming:
    """A copy that is being received. `cancel` may be called from any thread."""

    channel: Channel
    cancelled: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Stop as soon as possible."""
        self.cancelled.set()
        self.channel.abort()


def make_blocking(sock: socket.socket) -> None:
    """Hand a connected socket over to threads, with the kernel's idle timeouts."""
    sock.setblocking(True)
    timeout = struct.pack("ll", int(IDLE_SECONDS), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def receive(
    incoming: Incoming, store: LocalStore, stored: str, limit: int | None = None
) -> tuple[ShardManifest, Path]:
    """Receive a shard by its storage name into scratch space; returns its manifest and place.

    Args:
        incoming: an authenticated data channel, blocking.
        store: reserves space and names the place.
        stored: what to ask for.
        limit: largest total size in bytes that is accepted.

    Raises:
        TransferError: with the reason; nothing is left behind.
    """
    channel = incoming.channel
    place = store.scratch()
    reservation: Reservation | None = None
    try:
        channel.send_blocking(json.dumps({"get": stored}).encode())
        answer = decode_json(channel.receive_blocking(REQUEST_BYTES))
        if answer.get("answer") != "found":
            kind = Failure.CORRUPT if answer.get("answer") == "damaged" else Failure.MISSING
            raise TransferError(kind, f"the source answers: {str(answer.get('answer'))[:40]}")
        manifest = ShardManifest.from_bytes(channel.receive_blocking(MAX_MANIFEST_BYTES))
        if manifest.storage_name != stored:
            raise TransferError(Failure.CORRUPT, "the source's manifest is not the one asked for")
        if limit is not None and manifest.total_size > limit:
            raise TransferError(Failure.CORRUPT, f"{manifest.total_size} bytes, expected {limit}")
        reservation = store.reserve(manifest.total_size)
        _receive_files(incoming, manifest, place, reservation)
        return manifest, place
    except TransferError:
        remove(place)
        raise
    except (OSError, EOFError, ReplicatorError) as error:
        remove(place)
        raise TransferError(_failure_of(error), f"{type(error).__name__}: {error}") from error
    finally:
        if reservation is not None:
            store.release(reservation)


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, NoSpaceError):
        return Failure.NO_SPACE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure.NO_SPACE
    if isinstance(error, ManifestError):
        return Failure.CORRUPT
    return Failure.TRANSIENT


def _receive_files(
    incoming: Incoming, manifest: ShardManifest, place: Path, reservation: Reservation
) -> None:
    deadline = time.monotonic() + GRACE_SECONDS + manifest.total_size / MIN_BYTES_PER_SECOND
    buffer = memoryview(bytearray(BUFFER_BYTES))
    if manifest.is_directory:
        folders = set(manifest.empty_directories)
        folders.update(f.path.rpartition("/")[0] for f in manifest.files)
        make_folders(place, sorted(folders - {""}))
    for file in manifest.files:
        with new_file(place, file.path) as fd:
            _receive_file(incoming, file, fd, buffer, reservation, deadline)
    if manifest.is_directory:
        for path in (place, *(p for p in place.rglob("*") if p.is_dir())):
            sync_directory(path)


def _receive_file(
    incoming: Incoming,
    file: ManifestFile,
    fd: int,
    buffer: memoryview,
    reservation: Reservation,
    deadline: float,
) -> None:
    hasher, left = blake3(), file.size
    sock = incoming.channel.sock
    while left:
        count = sock.recv_into(buffer, min(left, BUFFER_BYTES), socket.MSG_WAITALL)
        if count == 0:
            raise ConnectionError("the source closed the connection")
        if incoming.cancelled.is_set():
            raise ConnectionError("cancelled")
        if time.monotonic() > deadline:
            raise TimeoutError("too slow")
        hasher.update(buffer[:count])
        _write_all(fd, buffer[:count])
        left -= count
        reservation.written += count
    if hasher.hexdigest() != file.blake3:
        raise TransferError(
            Failure.CORRUPT, f"{file.path or 'the file'}: received bytes hash differently"
        )
    os.fsync(fd)


def _write_all(fd: int, view: memoryview) -> None:
    while view:
        view = view[os.write(fd, view) :]


def serve(channel: Channel, store: LocalStore, bandwidth: Bandwidth) -> int:
    """Answer requests on a data channel until the reader closes it; returns bytes sent.

    Raises:
        OSError, WireError: the connection ends the hard way.
    """
    sent = 0
    while True:
        try:
            request = decode_json(channel.receive_blocking(REQUEST_BYTES))
        except ConnectionError:
            return sent
        stored = request.get("get")
        if not isinstance(stored, str) or not is_hash(stored):
            raise WireError("a data request without a hash")
        sent += _serve_one(channel, store, stored, bandwidth)


def _serve_one(channel: Channel, store: LocalStore, stored: str, bandwidth: Bandwidth) -> int:
    manifest = store.by_storage_name(stored)
    root = None if manifest is None else store.data_path(manifest)
    if manifest is None or root is None or not root.exists():
        channel.send_blocking(json.dumps({"answer": "missing"}).encode())
        return 0
    if not _sizes_fit(root, manifest):
        channel.send_blocking(json.dumps({"answer": "damaged"}).encode())
        return 0
    channel.send_blocking(json.dumps({"answer": "found"}).encode())
    channel.send_blocking(manifest.to_bytes(), MAX_MANIFEST_BYTES)
    for file in manifest.files:
        with open_beneath(root, file.path) as fd:
            _send_file(channel.sock, fd, file.size, bandwidth)
    return manifest.total_size


def _sizes_fit(root: Path, manifest: ShardManifest) -> bool:
    """Whether every file is there in its size, so that a damaged copy is told, not streamed."""
    try:
        return all(
            os.lstat(root / file.path if file.path else root).st_size == file.size
            for file in manifest.files
        )
    except OSError:
        return False


def _send_file(sock: socket.socket, fd: int, size: int, bandwidth: Bandwidth) -> None:
    offset = 0
    step = size if bandwidth.bytes_per_second is None else CHUNK_BYTES
    while offset < size:
        count = min(step, size - offset)
        bandwidth.wait(count)
        moved = os.sendfile(sock.fileno(), fd, offset, count)
        if moved == 0:
            raise ConnectionError("a file became shorter while it was sent")
        offset += moved
