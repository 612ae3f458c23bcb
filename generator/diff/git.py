"""Ask Git, without a shell, without the network and without its hooks.

Only commands that read are run. ``core.fsmonitor`` is switched off because its value is a program
of the repository's choosing, and lazy fetching because a diff must not go on the network.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generator.findings import Location
from generator.visible import visible

_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
_BATCH = 400
"""Object ids per request to ``cat-file``; their text fits a pipe's buffer, so none blocks."""


class DiffError(Exception):
    """The two trees cannot be compared; carries a fix."""

    def __init__(self, message: str, fix: str = "", where: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.where = where


def shown_path(path: bytes) -> str:
    """Return a path as text: what is not UTF-8 or cannot be seen is written as an escape."""
    return visible(path.decode("utf-8", "backslashreplace"))


@dataclass(frozen=True, slots=True)
class Blob:
    """A file in a Git tree or index."""

    path: str
    oid: str


class Repository:
    """The Git repository around a folder."""

    def __init__(self, start: Path) -> None:
        """Find the repository.

        Raises:
            DiffError: git is not installed, or the folder is in no repository.
        """
        self._cwd = start
        answer = self._run("rev-parse", "--show-toplevel", "--show-prefix", "--absolute-git-dir")
        lines = answer.split("\n")
        if not lines[0]:
            raise DiffError(
                f"{start} is inside a Git directory or a bare repository, not in a work tree",
                "run it in a check-out, or give two folders as --base and --head",
            )
        self.root = Path(lines[0])
        self.prefix = lines[1] if len(lines) > 1 else ""
        self._cwd = self.root

    def _start(self, arguments: Sequence[str], stdin: int, stderr: int) -> subprocess.Popen[bytes]:
        command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *arguments]
        try:
            return subprocess.Popen(
                command,
                cwd=self._cwd,
                env={**os.environ, **_SETTINGS},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        except FileNotFoundError:
            raise DiffError(
                "git was not found", "install git, or give two folders as --base and --head"
            ) from None

    def _bytes(self, *arguments: str) -> tuple[int, bytes, str]:
        process = self._start(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        out, err = process.communicate()
        return process.returncode, out, err.decode("utf-8", "replace").strip()

    def _run(self, *arguments: str) -> str:
        code, out, err = self._bytes(*arguments)
        if code:
            raise DiffError(*_explain(err or f"git {arguments[0]} failed", self._cwd))
        return out.decode("utf-8", "surrogateescape").rstrip("\n")

    def is_shallow(self) -> bool:
        """Whether history was cut off when the clone was made."""
        return self._run("rev-parse", "--is-shallow-repository") == "true"

    def find(self, ref: str) -> str | None:
        """Return the commit that a name stands for, None where there is none."""
        if not ref or ref.startswith("-") or "\n" in ref or "\0" in ref:
            return None
        code, out, _ = self._bytes("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        return out.decode("ascii", "replace").strip() if code == 0 else None

    def commit(self, ref: str) -> str:
        """Return the commit that a name stands for.

        Raises:
            DiffError: no such commit; says so when the clone is shallow.
        """
        found = self.find(ref)
        if found is not None:
            return found
        fix = "check the spelling; `git fetch` first where it lives on the server"
        if self.is_shallow():
            fix = (
                "this clone is shallow: fetch the base first (`git fetch --unshallow`, or "
                "`fetch-depth: 0` for actions/checkout, `GIT_DEPTH: 0` for GitLab)"
            )
        raise DiffError(f"{ref!r} names no commit of this repository and no folder", fix)

    def merge_base(self, base: str, head: str) -> str:
        """Return the commit where two lines of history parted.

        Raises:
            DiffError: they share none, or the shallow clone does not reach it.
        """
        code, out, err = self._bytes("merge-base", base, head)
        if code == 0:
            return out.decode("ascii").split("\n")[0]
        if self.is_shallow():
            fix = "this clone is shallow: fetch more of the history (`git fetch --unshallow`)"
        else:
            fix = err or "leave --merge-base out to compare the two commits themselves"
        raise DiffError("base and head have no common ancestor here", fix)

    def list_commit(self, commit: str, folder: str) -> list[Blob]:
        """Return the regular files under a folder of a commit; paths count from the folder.

        Links and submodules are left out: what they point at is not part of the commit.
        """
        arguments = ["ls-tree", "-r", "-z", "--full-tree", commit]
        out = self._checked([*arguments, "--", f"{folder}/"] if folder else arguments)
        cut = len(folder.encode()) + 1 if folder else 0
        blobs = []
        for line in out.split(b"\0"):
            head, _, path = line.partition(b"\t")
            mode, _, rest = head.partition(b" ")
            if mode in (b"100644", b"100755"):
                oid = rest.rpartition(b" ")[2].decode("ascii")
                blobs.append(Blob(shown_path(path[cut:]), oid))
        return blobs

    def list_index(self, folder: str) -> dict[str, str]:
        """Return the blob ids of tracked files under a folder that are as the index has them.

        Files that were touched since are left out, so that the caller reads them.
        """
        cut = len(folder.encode()) + 1 if folder else 0
        scope = ["--", folder] if folder else []
        clean: dict[bytes, str] = {}
        for line in self._checked(["ls-files", "-s", "-z", "--full-name", *scope]).split(b"\0"):
            head, _, path = line.partition(b"\t")
            parts = head.split(b" ")
            if len(parts) == 3 and parts[0] in (b"100644", b"100755") and parts[2] == b"0":
                clean[path] = parts[1].decode("ascii")
        for path in self._checked(["diff-files", "--name-only", "-z", *scope]).split(b"\0"):
            clean.pop(path, None)
        return {shown_path(path[cut:]): o for path, o in clean.items()}

    def _checked(self, arguments: Sequence[str]) -> bytes:
        code, out, err = self._bytes(*arguments)
        if code:
            raise DiffError(*_explain(err, self._cwd))
        return out

    def object_format(self) -> str:
        """``sha1`` or ``sha256``."""
        return self._run("rev-parse", "--show-object-format")

    def read(self, oids: Sequence[str], limit: int) -> Iterator[tuple[str, bytes | None, int]]:
        """Read blobs in one go.

        Yields:
            id, content (None where the blob is larger than limit or not in this clone), size in
            bytes (-1 where it is not in this clone).
        """
        if not oids:
            return
        process = self._start(
            ["cat-file", "--batch"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if process.stdin is None or process.stdout is None:
            raise DiffError("git cat-file gave no pipe")
        try:
            for start in range(0, len(oids), _BATCH):
                batch = oids[start : start + _BATCH]
                process.stdin.write("".join(f"{oid}\n" for oid in batch).encode("ascii"))
                process.stdin.flush()
                for oid in batch:
                    header = process.stdout.readline().split()
                    if len(header) != 3:
                        yield oid, None, -1
                        continue
                    size = int(header[2])
                    if size > limit:
                        _skip(process, size + 1)
                        yield oid, None, size
                    else:
                        yield oid, process.stdout.read(size + 1)[:-1], size
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait()


def _skip(process: subprocess.Popen[bytes], size: int) -> None:
    """Read past a blob without keeping it."""
    stream = process.stdout
    while stream is not None and size > 0:
        part = stream.read(min(size, 1 << 20))
        if not part:
            return
        size -= len(part)


def _explain(err: str, cwd: Path) -> tuple[str, str]:
    """Turn git's message into a sentence and a fix."""
    first = err.split("\n")[0].removeprefix("fatal: ")
    if "not a git repository" in err:
        return (
            f"{cwd} is not in a Git repository",
            "run it in a check-out, or give two folders as --base and --head",
        )
    if "dubious ownership" in err:
        return (
            f"git refuses {cwd}: it belongs to another user",
            f"git config --global --add safe.directory {cwd}",
        )
    if "is outside" in err:
        return first, "give --path inside the repository"
    return f"git: {first}", ""
