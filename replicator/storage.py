"""Objects of the backup tier, on a mounted path or in a cloud's object storage (obstore).

Three promises that everything above relies on:

* An object is there whole or not at all: every store's put is atomic, larger objects go up as a
  multipart upload that is given up when the data turns out wrong half-way.
* Nothing needs a rename of directories, which only hierarchical buckets can do atomically.
* Credentials are named by the caller. A cloud library would otherwise search environment, home
  directory and metadata server, and back up to an account nobody chose.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import obstore
from blake3 import blake3
from obstore.exceptions import BaseError, InvalidPathError, NotFoundError
from obstore.store import LocalStore

from replicator.concurrency import gather
from replicator.credentials import Credentials, StorageConfigError, open_object_store, store_errors
from replicator.errors import ReplicatorError

__all__ = [
    "BackupTierError",
    "Credentials",
    "ObjectStorage",
    "StorageConfigError",
    "StorageError",
    "StoredDataError",
]

PART_BYTES: Final = 8 * 1024 * 1024
"""Size of one request for data, up or down; larger objects go in parts of it."""
READ_AHEAD: Final = 3
"""Parts of one object that are on their way down at a time."""
READ_ATTEMPTS: Final = 4
"""How often a part is asked for before the download counts as failed."""

LOOPS: Final = ("File system loop found", "Too many levels of symbolic links")
"""How the store's library says that a mounted path's links go round; no type of error does."""

Throttle = Callable[[int], Awaitable[None]]


PARALLEL_DELETES: Final = 16
MAX_PARTS: Final = 9_000
"""Of one multipart upload; S3 and GCS take 10,000."""


def part_size(size: int) -> int:
    """Bytes per part for an object of `size` bytes: grows where there would be too many parts."""
    return max(PART_BYTES, -(-size // MAX_PARTS))


class BackupTierError(ReplicatorError):
    """Base of everything that goes wrong with backups."""

    transient = False
    """Whether trying again later may help."""


class StorageError(BackupTierError):
    """The backup tier could not be read or written."""

    transient = True


class StoredDataError(BackupTierError):
    """An object is not what its manifest says: missing, truncated or changed."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        self.missing = missing
        super().__init__(message)


async def _no_throttle(_: int) -> None:
    return None


class ObjectStorage:
    """Reads and writes whole objects under one URL. Paths are relative, with `/` between."""

    def __init__(self, store: Any, url: str, throttle: Throttle = _no_throttle) -> None:
        self._store = store
        self._throttle = throttle
        self._root = Path(store.prefix) if isinstance(store, LocalStore) and store.prefix else None
        self.url = url

    @classmethod
    def open(
        cls,
        url: str,
        credentials: Credentials | None = None,
        *,
        timeout: timedelta = timedelta(seconds=30),
        retry_timeout: timedelta = timedelta(minutes=3),
        max_retries: int = 10,
        throttle: Throttle = _no_throttle,
        create: bool = True,
    ) -> ObjectStorage:
        """Open `file:///path`, `gs://bucket/dir`, `s3://bucket/dir` or `az://container/dir`.

        Args:
            url: where; the path is optional for buckets.
            credentials: who; required for everything but `file://`.
            timeout: for one request, or one read of a body.
            retry_timeout: how long one request is retried (on throttling and server errors).
            max_retries: how often at most.
            create: make the directory of a `file://` URL where there is none.
            throttle: awaited with the number of bytes before each piece goes up, or after it
                came down.

        Raises:
            StorageConfigError: unusable URL, or credentials that do not fit it.
        """
        store = open_object_store(
            url,
            credentials,
            timeout=timeout,
            retry_timeout=retry_timeout,
            max_retries=max_retries,
            create=create,
        )
        return cls(store, url, throttle)

    async def list(self, prefix: str) -> dict[str, int]:
        """Every object under `prefix/`, path to size.

        Empty objects that stand for a directory (as FUSE mounts of buckets create) are left out.

        Raises:
            StorageError: it cannot be listed (now).
            StoredDataError: something in it has a name that no object may have, or is a link loop.
        """
        found: dict[str, int] = {}
        with self._reporting("list", prefix):
            try:
                async for chunk in obstore.list(self._store, f"{prefix}/", chunk_size=1000):
                    found.update((entry["path"], entry["size"]) for entry in chunk)
            except BaseError as error:
                if isinstance(error, InvalidPathError) or any(loop in str(error) for loop in LOOPS):
                    reason = str(error).splitlines()[0]
                    raise StoredDataError(f"cannot list {self._shown(prefix)}: {reason}") from None
                raise
        parents = {parent for path in found for parent in _parents(path)}
        return {path: size for path, size in found.items() if size or path not in parents}

    async def list_directories(self, prefix: str) -> tuple[str, ...]:
        """Names of the directories right under `prefix` (may be empty for the top), sorted.

        On a mounted path those that no object may have are left out; one of them does not hide the
        others.
        """
        with self._reporting("list", prefix):
            if self._root is not None:
                return await asyncio.to_thread(_directories, self._root / prefix)
            result = await obstore.list_with_delimiter_async(self._store, prefix or None)
        return tuple(sorted(path.rpartition("/")[2] for path in result["common_prefixes"]))

    async def read_bytes(self, path: str, *, limit: int) -> bytes | None:
        """A small object's content, or None where there is none.

        Raises:
            StorageError: it cannot be read.
            StoredDataError: larger than `limit` bytes, or on a mounted path no regular file.
        """
        if self._root is not None:
            with self._reporting("read", path):
                await asyncio.to_thread(_check_regular, self._root / path, self._shown(path))
        found = await self._read(path, None, limit=limit)
        return None if found is None else bytes(found)

    async def _read(
        self,
        path: str,
        part: tuple[int, int] | None,
        *,
        limit: int | None = None,
        size: int | None = None,
    ) -> memoryview | None:
        """An object, or the bytes from start to end of it; None where there is none.

        Requests that are refused or unanswered have been retried by the store already when they
        fail here; a body that breaks off is asked for again here.
        """
        options: Any = {} if part is None else {"range": part}
        for attempt in range(1, READ_ATTEMPTS + 1):
            with self._reporting("read", path):
                try:
                    result = await obstore.get_async(self._store, path, options=options)
                except (FileNotFoundError, NotFoundError):
                    return None
            found = result.meta["size"]
            if limit is not None and found > limit:
                raise StoredDataError(f"{self._shown(path)}: {found} bytes; limit {limit}")
            if size is not None and found != size:
                raise StoredDataError(f"{self._shown(path)}: {found} bytes; expected {size}")
            wanted = found if part is None else part[1] - part[0]
            with self._reporting("read", path):
                try:
                    body = memoryview(await result.bytes_async())
                    if len(body) == wanted:
                        return body
                    raise ConnectionError(f"{len(body)} of {wanted} bytes came")
                except (BaseError, OSError):
                    if attempt == READ_ATTEMPTS:
                        raise
            await asyncio.sleep(0.1 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    async def write_bytes(self, path: str, content: bytes) -> None:
        """Write a small object whole, over any that is there."""
        await self._throttle(len(content))
        with self._reporting("write", path):
            await obstore.put_async(self._store, path, content, use_multipart=False)

    async def write_file(self, path: str, source: Path, *, size: int, digest: str) -> None:
        """Upload a file, provided that it is what it should be.

        Size and BLAKE3 are taken from the very bytes that go up. If they differ, the upload is
        given up and no object appears.

        Raises:
            StoredDataError: the local file is not what `size` and `digest` say.
            StorageError: the upload failed, or reading the file did half-way.
            OSError: the file cannot be opened.
        """
        with source.open("rb", buffering=0) as file:
            if size <= PART_BYTES:
                # One byte more than expected, so that a longer file shows.
                content = await asyncio.to_thread(_read_up_to, file, size + 1)
                if len(content) != size or blake3(content).hexdigest() != digest:
                    raise StoredDataError(f"{source}: changed since its manifest was written")
                await self.write_bytes(path, content)
                return
            parts = _checked_parts(file, source, size, digest, self._throttle)
            with self._reporting("write", path):
                await obstore.put_async(
                    self._store, path, parts, chunk_size=part_size(size), use_multipart=True
                )

    async def read_into(self, path: str, fd: int, *, size: int, digest: str | None) -> str:
        """Download an object into an open file, hashing on the way; returns its BLAKE3 in hex.

        Only the part that broke off is asked for again. The file is on disk (fsync) when this
        returns; after an error it holds something useless.

        Raises:
            StoredDataError: the object is missing or not what `size` and `digest` say.
            StorageError: it cannot be read.
            OSError: the file cannot be written.
        """
        found = await self._read_checked(path, fd, size, digest)
        await asyncio.to_thread(os.fsync, fd)
        return found

    async def hash_file(self, path: str, *, size: int, digest: str | None) -> str:
        """Read an object without keeping it; arguments, result and errors as `read_into`."""
        return await self._read_checked(path, None, size, digest)

    async def _read_checked(self, path: str, fd: int | None, size: int, digest: str | None) -> str:
        hasher = blake3()
        received = await self._receive(path, fd, hasher, size)
        if received != size:
            raise StoredDataError(f"{self._shown(path)}: {received} bytes; expected {size}")
        found = hasher.hexdigest()
        if digest is not None and found != digest:
            raise StoredDataError(f"{self._shown(path)}: BLAKE3 {found}; expected {digest}")
        return found

    async def _receive(self, path: str, fd: int | None, hasher: blake3, size: int) -> int:
        """Take an object's parts in order, with the next ones already on their way."""
        starts = iter(range(0, max(size, 1), PART_BYTES))
        coming: deque[asyncio.Task[memoryview]] = deque()
        received = 0
        try:
            while True:
                while len(coming) < READ_AHEAD and (start := next(starts, None)) is not None:
                    end = min(start + PART_BYTES, size)
                    coming.append(asyncio.create_task(self._read_part(path, start, end, size)))
                if not coming:
                    return received
                part = await coming[0]
                coming.popleft()
                await asyncio.to_thread(_take, fd, hasher, part)
                received += len(part)
                await self._throttle(len(part))
        finally:
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)

    async def _read_part(self, path: str, start: int, end: int, size: int) -> memoryview:
        part = (start, end) if end - start < size else None
        found = await self._read(path, part, size=size)
        if found is None:
            raise StoredDataError(f"{self._shown(path)}: no such object", missing=True)
        return found

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those that are gone already are no error (so it can be repeated)."""
        await gather(PARALLEL_DELETES, (self._delete(path) for path in paths))

    async def _delete(self, path: str) -> None:
        with self._reporting("delete", path), suppress(FileNotFoundError, NotFoundError):
            await obstore.delete_async(self._store, path)

    @contextmanager
    def _reporting(self, action: str, path: str) -> Iterator[None]:
        """Whatever the store raises becomes a StorageError that says what was tried where."""
        with store_errors(
            lambda text: StorageError(f"cannot {action} {self._shown(path)}: {text}")
        ):
            yield

    def _shown(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/{path}"


def _check_regular(path: Path, shown: str) -> None:
    """The store takes a directory or a dangling link for nothing, and waits for ever for a pipe."""
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if not path.is_symlink():
            if isinstance(error, FileNotFoundError):
                return
            raise
        regular = False
    if not regular:
        raise StoredDataError(f"{shown}: no regular file")


def _directories(path: Path) -> tuple[str, ...]:
    found = []
    try:
        for entry in path.iterdir():
            with suppress(OSError, UnicodeEncodeError):  # a link loop, a name that is no text
                if entry.name.encode() and entry.is_dir():
                    found.append(entry.name)
    except FileNotFoundError:
        return ()
    return tuple(sorted(found))


def _parents(path: str) -> Iterable[str]:
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)


def _read_up_to(file: Any, wanted: int) -> bytes:
    pieces = []
    while wanted and (piece := file.read(wanted)):
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)


async def _checked_parts(
    file: Any, source: Path, size: int, digest: str, throttle: Throttle
) -> AsyncIterator[bytes]:
    """The file in parts; raises in place of the last one if the whole is not as expected."""
    hasher = blake3()
    sent = 0
    held: bytes | None = None
    while part := await asyncio.to_thread(_read_up_to, file, PART_BYTES):
        await asyncio.to_thread(hasher.update, part)
        sent += len(part)
        if held is not None:
            await throttle(len(held))
            yield held
        held = part
    if sent != size or hasher.hexdigest() != digest:
        raise StoredDataError(f"{source}: changed since its manifest was written")
    if held is not None:
        await throttle(len(held))
        yield held


def _take(fd: int | None, hasher: blake3, chunk: memoryview) -> None:
    hasher.update(chunk)
    view = chunk
    while fd is not None and view:
        view = view[os.write(fd, view) :]
