"""Small file operations that survive a crash at any point and follow no symbolic link."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: bytes, scratch: Path) -> None:
    """Replace a file: written under a unique name in `scratch` (same file system), then renamed.

    A directory that is in the way goes.
    """
    temporary = scratch / f"{secrets.token_hex(8)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            temporary.replace(path)
        except IsADirectoryError:
            aside = scratch / f"{secrets.token_hex(8)}.tmp"
            path.rename(aside)
            temporary.replace(path)
            remove(aside)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


class Reserve:
    """Room that is kept on a volume so that small, vital files can be written when it is full.

    Full of bytes or of files: beside one file with room in it there are empty ones, each of which
    stands for one file that can still be made.
    """

    SIZE = 256 * 1024
    FILES = 8

    def __init__(self, path: Path) -> None:
        self._room = path
        self._files = [path.with_name(f"{path.name}-{n}") for n in range(1, self.FILES)]

    def fill(self) -> None:
        """Take what is not held yet, as far as it can be had."""
        try:
            for path, size in ((self._room, self.SIZE), *((path, 0) for path in self._files)):
                if not path.exists():
                    self._take(path, size)
        except OSError as error:
            if not is_full(error):
                raise

    @staticmethod
    def _take(path: Path, size: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        try:
            if size:
                os.posix_fallocate(fd, 0, size)
        except OSError:
            path.unlink(missing_ok=True)
        finally:
            os.close(fd)

    def write_whole(self, path: Path, content: bytes, scratch: Path) -> None:
        """As `write_whole`; gives room up where the volume is full otherwise."""
        self._with_room(lambda: write_whole(path, content, scratch))

    def replace_link(self, path: Path, target: str, scratch: Path) -> None:
        """As `replace_link`; gives room up where the volume is full otherwise."""
        self._with_room(lambda: replace_link(path, target, scratch))

    def _with_room(self, write: Callable[[], None]) -> None:
        while True:
            try:
                write()
            except OSError as error:
                if not is_full(error) or not self._give_up():
                    raise
            else:
                return

    def _give_up(self) -> bool:
        """Free a little; False where nothing is left. Room goes first, unless files are lacking."""
        held = [path for path in (self._room, *self._files) if path.exists()]
        if held:
            lacks_files = os.statvfs(self._room.parent).f_favail == 0
            held[-1 if lacks_files else 0].unlink(missing_ok=True)
        return bool(held)


def is_full(error: OSError) -> bool:
    """Whether a volume (or what its user may have of it) is full, of bytes or of files."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def read_small(path: Path, limit: int) -> bytes | None:
    """At most `limit + 1` bytes of a regular file; None where there is none.

    Raises:
        OSError: it is a link, a directory or a special file, or cannot be read.
    """
    try:
        return _read(path, limit, os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def read_given(path: Path, limit: int) -> bytes:
    """At most `limit + 1` bytes of a regular file that the operator named; links are followed.

    Kubernetes mounts ConfigMaps and Secrets as links.

    Raises:
        OSError: it is missing, a directory or a special file, or cannot be read.
    """
    return _read(path, limit, 0)


def _read(path: Path, limit: int, more_flags: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | more_flags)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe, a device or the like", str(path))
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(fd)


def replace_link(path: Path, target: str, scratch: Path) -> None:
    """Make a symbolic link, over an older one if there is one."""
    temporary = scratch / f"{secrets.token_hex(8)}.tmp"
    temporary.symlink_to(target)
    temporary.replace(path)


def sync_directory(path: Path) -> None:
    """Make renames within a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folders(tree: Path) -> None:
    """Make what stands in each directory of a tree durable; of a file there is nothing to do."""
    if tree.is_dir():
        for folder in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
            sync_directory(folder)


def remove(path: Path) -> None:
    """Delete a file, link or directory; it may be gone already."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        if path.exists():
            raise


@contextmanager
def open_beneath(root: Path, relative: str) -> Iterator[int]:
    """A descriptor of a regular file below `root`, with no link followed on the way."""
    directory = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = [root.name, *relative.split("/")] if relative else [root.name]
    try:
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(part, flags, dir_fd=directory)
            os.close(directory)
            directory = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(parts[-1], flags, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        yield fd
    finally:
        os.close(fd)


def used_bytes(root: Path) -> int:
    """Bytes of all files below a directory, as far as they can be seen."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
            except FileNotFoundError:
                continue
    return total
