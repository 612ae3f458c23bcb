"""Rendered trees as they lie in a commit, a folder or the work tree.

A tree lists its files with a content id each, so that equal files of two trees are skipped before
anything is parsed, and hands out the bytes of those that are asked for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from generator.diff.git import DiffError, Repository, shown_path
from generator.findings import Finding, Location, Severity
from generator.yaml_load import MAX_FILE_BYTES

MAX_FILES = 2_000_000
"""Files listed before a folder is taken for a mistake (such as ``/``)."""

Content = bytes | Finding


class Tree(Protocol):
    """One side of a comparison.

    Attributes:
        label: how people see it, such as ``origin/main@4f2c1e9``.
        files: path under the tree → content id; equal ids mean equal bytes.
        skipped: findings on entries that are no regular files.
    """

    @property
    def label(self) -> str:
        """See above."""
        ...

    @property
    def files(self) -> dict[str, str]:
        """See above."""
        ...

    @property
    def skipped(self) -> list[Finding]:
        """See above."""
        ...

    def read(self, paths: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Yield each file's bytes, or the finding that says why they are not to be had."""
        ...


def unreadable(path: str, message: str, fix: str = "", line: int | None = None) -> Finding:
    """Say that a file of a tree cannot be compared."""
    return Finding("DIF001", Severity.ERROR, message, fix, manifest=Location(path, line))


def _too_large(path: str, size: int) -> Finding:
    return unreadable(
        path,
        f"the file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read",
        "one resource per file; a manifest of this size is a mistake",
    )


def _hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path


@dataclass(slots=True)
class CommitTree:
    """The tree in a commit."""

    repository: Repository
    commit: str
    folder: str
    label: str
    files: dict[str, str] = field(default_factory=dict)
    skipped: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = {
            blob.path: blob.oid
            for blob in self.repository.list_commit(self.commit, self.folder)
            if not _hidden(blob.path)
        }

    def read(self, paths: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Yield each file's bytes; equal blobs are read once."""
        wanted: dict[str, list[str]] = {}
        for path in paths:
            wanted.setdefault(self.files[path], []).append(path)
        for oid, data, size in self.repository.read(list(wanted), MAX_FILE_BYTES):
            for path in wanted[oid]:
                if data is not None:
                    yield path, data
                elif size >= 0:
                    yield path, _too_large(path, size)
                else:
                    yield (
                        path,
                        unreadable(
                            path,
                            f"its content ({oid[:12]}) is not in this clone",
                            "fetch it: a diff does not go on the network",
                        ),
                    )


@dataclass(slots=True)
class FolderTree:
    """The tree in a folder on disk.

    Attributes:
        root: the folder.
        known: content ids that need no reading (from Git's index).
        digest: names the hash of :attr:`known`, ``sha1`` or ``sha256``.
    """

    root: Path
    label: str
    known: dict[str, str] = field(default_factory=dict)
    digest: str = "sha1"
    files: dict[str, str] = field(default_factory=dict)
    skipped: list[Finding] = field(default_factory=list)
    _places: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, entry in self._walk():
            self._places[path] = entry.path
            self.files[path] = self.known.get(path) or self._blob_id(path, entry)

    def _walk(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield regular files; hidden ones are passed over, links are reported and not followed."""
        folders = [("", str(self.root))]
        count = 0
        while folders:
            prefix, folder = folders.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                self.skipped.append(
                    unreadable(prefix or ".", f"cannot be listed: {error.strerror}")
                )
                continue
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = prefix + shown_path(os.fsencode(entry.name))
                if entry.is_symlink():
                    self.skipped.append(
                        Finding(
                            "DIF002",
                            Severity.WARNING,
                            "a symbolic link is not followed",
                            "rendered trees hold plain files",
                            manifest=Location(path),
                        )
                    )
                elif entry.is_dir(follow_symlinks=False):
                    folders.append((path + "/", entry.path))
                elif entry.is_file(follow_symlinks=False):
                    count += 1
                    if count > MAX_FILES:
                        raise DiffError(
                            f"{self.root} holds more than {MAX_FILES:,} files",
                            "give the rendered tree itself",
                        )
                    yield path, entry

    def _blob_id(self, path: str, entry: os.DirEntry[str]) -> str:
        """Hash a file as Git does, so that ids compare with those of a commit."""
        try:
            with Path(entry.path).open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                digest = hashlib.new(self.digest, usedforsecurity=False)
                digest.update(b"blob %d\0" % size)
                while part := stream.read(1 << 20):
                    digest.update(part)
                return digest.hexdigest()
        except OSError as error:
            return f"unreadable: {error.strerror}: {self.label}"

    def read(self, paths: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Yield each file's bytes."""
        for path in paths:
            try:
                with Path(self._places[path]).open("rb") as stream:
                    size = os.fstat(stream.fileno()).st_size
                    data = b"" if size > MAX_FILE_BYTES else stream.read(MAX_FILE_BYTES + 1)
            except OSError as error:
                yield path, unreadable(path, f"cannot be read: {error.strerror}")
                continue
            if max(size, len(data)) > MAX_FILE_BYTES:
                yield path, _too_large(path, max(size, len(data)))
            else:
                yield path, data


@dataclass(frozen=True, slots=True)
class EmptyTree:
    """A side that has no tree yet."""

    label: str
    files: dict[str, str] = field(default_factory=dict)
    skipped: list[Finding] = field(default_factory=list)

    def read(self, paths: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Yield nothing: there is no file to ask for."""
        return iter(())


def _looks_like_folder(text: str) -> bool:
    return text.startswith((".", "/")) or text.endswith("/")


def _folder(text: str, inside: str) -> FolderTree:
    """Read a folder given by the user: the rendered tree itself, or a check-out that holds one."""
    root = Path(text)
    if not root.is_dir():
        raise DiffError(f"{text} is no folder", "check the path")
    if not _leaves_folder(inside) and (root / inside).is_dir():
        root = root / inside
    return FolderTree(root, text.rstrip("/") or "/")


def _leaves_folder(path: str) -> bool:
    """Whether a path is absolute or climbs out of where it starts."""
    return os.path.isabs(path) or os.path.normpath(path).startswith("..")  # noqa: PTH117


def open_trees(
    base: str, head: str | None, inside: str, *, merge_base: bool = False, cwd: Path | None = None
) -> tuple[Tree, Tree]:
    """Open both sides.

    Args:
        base: a Git ref, or a folder (a value that begins with ``.`` or ``/``, or exists as one).
        head: the same, or None for the work tree.
        inside: the rendered tree's path, counted from cwd.
        merge_base: compare with the commit where head left base instead of with base itself.
        cwd: the folder to start from, the process's by default.

    Raises:
        DiffError: neither a ref nor a folder, both, no repository, or no tree on either side.
    """
    start = cwd or Path.cwd()
    opener = _Opener(start, inside)
    if merge_base:
        base = opener.merge_base(base, head)
    old, new = opener.open(base), opener.open(head)
    if not new.files and not isinstance(new, FolderTree):
        raise DiffError(f"{new.label} has no {inside}/", "give the rendered tree's path: --path")
    if not old.files:
        if not new.files:
            raise DiffError(
                f"neither {old.label} nor {new.label} has {inside}/ with files in it",
                "run stowplan compile, or give the rendered tree's path: --path",
            )
        old = EmptyTree(old.label)
    return old, new


class _Opener:
    """Finds the repository at most once, and only when a side needs it."""

    def __init__(self, start: Path, inside: str) -> None:
        self._start = start
        self._inside = inside.rstrip("/") or inside
        self._repository: Repository | None = None

    @property
    def repository(self) -> Repository:
        if self._repository is None:
            self._repository = Repository(self._start)
        return self._repository

    def _in_repository(self) -> str:
        """The tree's path counted from the repository's root, POSIX style."""
        target = os.path.normpath(Path(self.repository.prefix, self._inside))
        if _leaves_folder(target):
            raise DiffError(
                f"--path {self._inside} is outside the repository {self.repository.root}",
                "give a path inside it, or two folders as --base and --head",
            )
        return "" if target == "." else target

    def merge_base(self, base: str, head: str | None) -> str:
        if any(_looks_like_folder(side) for side in (base, head or "")):
            raise DiffError("--merge-base needs two Git refs", "leave it out for folders")
        repository = self.repository
        return repository.merge_base(repository.commit(base), repository.commit(head or "HEAD"))

    def open(self, text: str | None) -> Tree:
        if text is None:
            return self._work_tree()
        if not text:
            raise DiffError("'' names no commit and no folder", "give a Git ref or a folder")
        path = self._start / text
        if _looks_like_folder(text):
            return _labelled(_folder(str(path), self._inside), text)
        if path.is_dir():
            if self._is_ref(text):
                raise DiffError(
                    f"{text!r} names both a folder and a commit",
                    f"write ./{text} for the folder or refs/heads/{text} for the branch",
                )
            return _labelled(_folder(str(path), self._inside), text)
        commit = self.repository.commit(text)
        label = commit[:12] if commit.startswith(text) else f"{text}@{commit[:7]}"
        return CommitTree(self.repository, commit, self._in_repository(), label)

    def _is_ref(self, text: str) -> bool:
        try:
            return self.repository.find(text) is not None
        except DiffError:
            return False

    def _work_tree(self) -> FolderTree:
        root = self._start / self._inside
        if not root.is_dir():
            raise DiffError(
                f"there is no {self._inside}/ here",
                "run stowplan compile, or give the rendered tree's path: --path",
            )
        try:
            repository = self.repository
        except DiffError:  # fine beside a base that is a folder; a base that is a ref said so
            return FolderTree(root, "work tree")
        known = repository.list_index(self._in_repository())
        return FolderTree(root, "work tree", known, repository.object_format())


def _labelled(tree: FolderTree, label: str) -> FolderTree:
    tree.label = label.rstrip("/") or "/"
    return tree
