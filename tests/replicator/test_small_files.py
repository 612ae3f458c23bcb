"""File operations that others in the volume may try to lead astray, or that a full one ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from replicator.agent.files import is_full, open_beneath, read_small, remove, write_whole


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "file", b"x", scratch)
    assert list(scratch.iterdir()) == []


def test_a_small_file_is_never_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "link").symlink_to("secret")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        read_small(tmp_path / "link", 10)
    assert read_small(tmp_path / "secret", 10) == b"x"
    assert read_small(tmp_path / "missing", 10) is None


@pytest.mark.parametrize("link", ["file", "folder", "root"])
def test_what_peers_are_sent_is_below_the_shard_and_behind_no_link(
    tmp_path: Path, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    shard = tmp_path / "shard"
    if link == "root":
        shard.symlink_to(outside)
        relative = "file"
    elif link == "folder":
        shard.mkdir()
        (shard / "folder").symlink_to(outside)
        relative = "folder/file"
    else:
        shard.mkdir()
        (shard / "file").symlink_to(outside / "file")
        relative = "file"
    with pytest.raises(OSError), open_beneath(shard, relative):  # noqa: PT011
        pass
    with open_beneath(outside, "file") as fd:
        assert os.read(fd, 10) == b"secret"


def test_removing_a_link_leaves_what_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    remove(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file").exists()


@pytest.mark.parametrize(
    ("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)]
)
def test_a_quota_that_is_used_up_is_a_full_volume(number: int, full: bool) -> None:
    assert is_full(OSError(number, "")) is full
