"""Reading and writing a shard's bytes where somebody else can write too.

Files are read in chunks rather than mapped: a checkpoint that shrinks while it is read must be an
error, not a SIGBUS, and chunks were measured faster as well. Symbolic links and special files are
refused wherever they are: a shard is its own bytes and nothing else.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blake3 import blake3

from replicator.errors import ReplicatorError
from replicator.manifest import ManifestFile, check_relative_path

CHUNK_BYTES: Final = 512 * 1024
PARALLEL_FILE_BYTES: Final = 64 * 1024 * 1024
"""From this size on several threads may hash one file."""
PAUSE_BYTES: Final = 4 * 1024 * 1024
"""About a millisecond of hashing."""
PAUSE_SECONDS: Final = 1e-6
"""Long enough to leave the core; the kernel makes about 50 microseconds of it."""
MAX_DEPTH: Final = 64


class DataError(ReplicatorError):
    """Checkpoint data cannot be read as such: a link, a special file, or it changes meanwhile."""


@dataclass(frozen=True, slots=True)
class ShardContent:
    """What a shard consists of, with each file's hash; paths as in `ShardManifest`."""

    is_directory: bool
    files: tuple[ManifestFile, ...]
    empty_directories: tuple[str, ...]


# O_NONBLOCK: opening a FIFO that someone planted must not hang.
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hash_file(path: Path, *, threads: int = 1, pauses: bool = False) -> tuple[int, str]:
    """Size in bytes and BLAKE3 of a regular file.

    Raises:
        DataError: no regular file, or it changes while it is read.
        OSError: it cannot be opened or read.
    """
    with _opened(path.name, path.parent, _OPEN_FILE) as fd:
        return _hash_open(fd, path, threads, pauses=pauses)


def _hash_below(
    root: int, name: str, shown: Path, threads: int, *, pauses: bool
) -> tuple[int, str]:
    """As `hash_file`, for a path below an open directory; no part of the path may be a link."""
    with ExitStack() as stack:
        parent = root
        *folders, last = name.split("/")
        for folder in folders:
            parent = stack.enter_context(_opened(folder, parent, _OPEN_DIRECTORY))
        fd = stack.enter_context(_opened(last, parent, _OPEN_FILE))
        return _hash_open(fd, shown / name, threads, pauses=pauses)


@contextmanager
def _opened(name: str, parent: Path | int, flags: int) -> Iterator[int]:
    """A descriptor of `name` in a directory given by path or descriptor.

    Whoever can write to the volume may swap what stands there between two looks at it, so links are
    refused by the opening itself, at every level.
    """
    dir_fd = parent if isinstance(parent, int) else None
    target = name if isinstance(parent, int) else os.fspath(parent / name)
    try:
        fd = os.open(target, flags, 0o644, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(target, dir_fd):
            raise DataError(f"{target}: a symbolic link inside checkpoint data") from error
        raise
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def new_file(root: Path, name: str) -> Iterator[int]:
    """A descriptor to write a new file with, `name` below the directory `root`, or `root` itself.

    Folders on the way must be there; no link is followed from `root` on, and none may be `root`.

    Raises:
        DataError: a link on the way.
        OSError: it is there already, or cannot be made.
    """
    if not name:
        with _opened(root.name, root.parent, _CREATE_FILE) as fd:
            yield fd
        return
    with ExitStack() as stack:
        parent = stack.enter_context(_opened(root.name, root.parent, _OPEN_DIRECTORY))
        *folders, last = name.split("/")
        for folder in folders:
            parent = stack.enter_context(_opened(folder, parent, _OPEN_DIRECTORY))
        yield stack.enter_context(_opened(last, parent, _CREATE_FILE))


def make_folders(root: Path, names: Iterable[str]) -> None:
    """Make the directory `root` and, below it, the given ones with those above them.

    Raises:
        DataError: a link on the way.
        OSError: `root` is there already, or one cannot be made.
    """
    root.mkdir()
    with _opened(root.name, root.parent, _OPEN_DIRECTORY) as top:
        for name in sorted(names):
            with ExitStack() as stack:
                parent = top
                for folder in name.split("/"):
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=parent)
                    parent = stack.enter_context(_opened(folder, parent, _OPEN_DIRECTORY))


def _is_link(name: str, dir_fd: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _hash_open(fd: int, shown: Path, threads: int, *, pauses: bool) -> tuple[int, str]:
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        raise DataError(f"{shown}: not a regular file")
    hasher = blake3(max_threads=threads)
    buffer = memoryview(bytearray(min(CHUNK_BYTES, max(before.st_size, 1))))
    size = 0
    while count := os.readv(fd, [buffer]):
        hasher.update(buffer[:count])
        size += count
        if pauses and size % PAUSE_BYTES == 0:
            time.sleep(PAUSE_SECONDS)
    after = os.fstat(fd)
    if size != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
        raise DataError(f"{shown}: changed while it was read")
    return size, hasher.hexdigest()


def _list_tree(root: int, shown: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Every file (path, size) and every empty directory below an open directory, both sorted."""
    files: list[tuple[str, int]] = []
    empty: list[str] = []
    _walk(root, "", shown, 0, files, empty)
    return sorted(files), sorted(empty)


def _walk(
    directory: int,
    path: str,
    shown: Path,
    depth: int,
    files: list[tuple[str, int]],
    empty: list[str],
) -> None:
    if depth > MAX_DEPTH:
        raise DataError(f"{shown}: directories nested deeper than {MAX_DEPTH}")
    with os.scandir(directory) as found:
        entries = list(found)
    if not entries and path:
        empty.append(path)
    for entry in entries:
        name = f"{path}/{entry.name}" if path else entry.name
        mode = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(mode.st_mode):
            with _opened(entry.name, directory, _OPEN_DIRECTORY) as inner:
                _walk(inner, name, shown, depth + 1, files, empty)
        elif stat.S_ISREG(mode.st_mode):
            files.append((name, mode.st_size))
        elif stat.S_ISLNK(mode.st_mode):
            raise DataError(f"{shown / name}: a symbolic link inside checkpoint data")
        else:
            raise DataError(f"{shown / name}: not a regular file")


def read_content(path: Path, *, threads: int = 1, pauses: bool = False) -> ShardContent:
    """Hash a shard, file or directory, with up to `threads` threads.

    With `pauses` whoever waits for a core gets it within about a millisecond, where the scheduler
    would let the hashing go on for several; it costs 5 % of the speed.

    Raises:
        DataError: links, special files, too deep, or changing meanwhile.
        ManifestError: a path that could not be restored safely elsewhere.
        OSError: something cannot be read.
    """
    if path.is_symlink():
        raise DataError(f"{path}: a symbolic link where checkpoint data was expected")
    if not path.is_dir():
        size, digest = hash_file(path, threads=threads, pauses=pauses)
        return ShardContent(False, (ManifestFile("", size, digest),), ())
    with _opened(path.name, path.parent, _OPEN_DIRECTORY) as root:
        listed, empty = _list_tree(root, path)
        for name in (*(name for name, _ in listed), *empty):
            check_relative_path(name)
        hashes = _hash_many(root, path, listed, threads, pauses=pauses)
    files = tuple(ManifestFile(name, *hashes[name]) for name, _ in listed)
    return ShardContent(True, files, tuple(empty))


def _hash_many(
    root: int, shown: Path, listed: list[tuple[str, int]], threads: int, *, pauses: bool
) -> dict[str, tuple[int, str]]:
    """Files side by side, the largest first; several threads in one only where files are too few.

    One thread a file is twice as fast as all threads in one file after the other: only the hashing
    itself is shared in a file, the reading is not.
    """
    large = sum(size >= PARALLEL_FILE_BYTES for _, size in listed)
    share = max(threads // large, 1) if large else 1

    def hashed(item: tuple[str, int]) -> tuple[int, str]:
        name, size = item
        own = share if size >= PARALLEL_FILE_BYTES else 1
        return _hash_below(root, name, shown, own, pauses=pauses)

    if threads == 1 or len(listed) < 2:
        return {item[0]: hashed(item) for item in listed}
    by_size = sorted(listed, key=lambda item: item[1], reverse=True)
    with ThreadPoolExecutor(threads, thread_name_prefix="hash") as pool:
        names = [name for name, _ in by_size]
        return dict(zip(names, pool.map(hashed, by_size), strict=True))


def list_shard(path: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Every file (path, size) and every empty directory of a shard that is a directory, sorted.

    Raises:
        DataError: links, special files, or too deep.
        OSError: something cannot be read.
    """
    with _opened(path.name, path.parent, _OPEN_DIRECTORY) as root:
        return _list_tree(root, path)
