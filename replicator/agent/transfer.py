"""Moving one shard between two agents: plain blocking sockets in threads, hashed on arrival.

The reader asks for data by its storage name (a digest); the other side answers with the manifest
and then all files' bytes in the manifest's order. The reader trusts nothing but the digest: the
manifest must hash to the name asked for, and each file to its entry.

One thread takes bytes from the connection while another hashes and writes those before: on free
cores a copy takes as long as the slower of the two, not as both.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from blake3 import blake3

from replicator.agent.bandwidth import CHUNK_BYTES, Bandwidth
from replicator.agent.channel import Channel
from replicator.agent.files import is_full, open_beneath, remove
from replicator.agent.sockets import Connection
from replicator.agent.space import NoSpaceError, Reservation
from replicator.agent.store import LocalStore
from replicator.agent.wire import WireError, decode_json, is_hash
from replicator.content import make_folders, new_file
from replicator.core.model import Failure
from replicator.errors import ManifestError, ReplicatorError
from replicator.manifest import MAX_MANIFEST_BYTES, ManifestFile, ShardManifest

BUFFER_BYTES = 512 * 1024
"""Small enough for bytes to be still in a core's cache when they are hashed and written."""
BUFFERS = 4
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
        reservation = store.space.reserve(manifest.total_size)
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
            store.space.release(reservation)


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, NoSpaceError):
        return Failure.NO_SPACE
    if isinstance(error, OSError) and is_full(error):
        return Failure.NO_SPACE
    if isinstance(error, ManifestError):
        return Failure.CORRUPT
    return Failure.TRANSIENT


def _receive_files(
    incoming: Incoming, manifest: ShardManifest, place: Path, reservation: Reservation
) -> None:
    if manifest.is_directory:
        folders = set(manifest.empty_directories)
        folders.update(f.path.rpartition("/")[0] for f in manifest.files)
        make_folders(place, sorted(folders - {""}))
    stream = _Stream(incoming, manifest)
    stream.start()
    try:
        for file in manifest.files:
            with new_file(place, file.path) as fd:
                _receive_file(stream, file, fd, reservation)
    finally:
        stream.stop()


class _Stream:
    """The bytes of a shard's files as they come, a few buffers ahead of who takes them.

    No buffer holds bytes of two files.
    """

    def __init__(self, incoming: Incoming, manifest: ShardManifest) -> None:
        self._incoming = incoming
        self._sizes = [file.size for file in manifest.files]
        self._deadline = time.monotonic() + GRACE_SECONDS + sum(self._sizes) / MIN_BYTES_PER_SECOND
        size = max(min(BUFFER_BYTES, max(self._sizes, default=0)), 1)
        self._free: SimpleQueue[memoryview | None] = SimpleQueue()
        for _ in range(BUFFERS):
            self._free.put(memoryview(bytearray(size)))
        self._buffer_bytes = size
        self._full: SimpleQueue[tuple[memoryview, int] | BaseException] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="receive", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more is wanted; where not all has been taken this ends the connection."""
        self._free.put(None)
        if self._thread.is_alive() and any(self._sizes):
            self._incoming.channel.abort()
        self._thread.join()

    def take(self) -> tuple[memoryview, int]:
        """The next buffer and how many bytes it holds; give it back afterwards.

        Raises:
            OSError: what ended the connection.
        """
        item = self._full.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def give_back(self, buffer: memoryview) -> None:
        self._free.put(buffer)

    def _run(self) -> None:
        try:
            while self._sizes:
                if not self._sizes[0]:
                    del self._sizes[0]
                    continue
                buffer = self._free.get()
                if buffer is None:
                    return
                count = min(self._sizes[0], self._buffer_bytes)
                self._incoming.channel.connection.fill(buffer[:count])
                if self._incoming.cancelled.is_set():
                    raise ConnectionError("cancelled")
                if time.monotonic() > self._deadline:
                    raise TimeoutError("too slow")
                self._sizes[0] -= count
                self._full.put((buffer, count))
        except BaseException as error:
            self._full.put(error)


def _receive_file(stream: _Stream, file: ManifestFile, fd: int, reservation: Reservation) -> None:
    hasher, left = blake3(), file.size
    while left:
        buffer, count = stream.take()
        hasher.update(buffer[:count])
        _write_all(fd, buffer[:count])
        stream.give_back(buffer)
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
            _send_file(channel.connection, fd, file.size, bandwidth)
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


def _send_file(connection: Connection, fd: int, size: int, bandwidth: Bandwidth) -> None:
    offset = 0
    step = size if bandwidth.bytes_per_second is None else CHUNK_BYTES
    while offset < size:
        count = min(step, size - offset)
        bandwidth.wait(count)
        moved = connection.send_file(fd, offset, count)
        if moved == 0:
            raise ConnectionError("a file became shorter while it was sent")
        offset += moved
