"""What the client says of a directory that it cannot use as it should; sync and async alike."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (asyncio imports it late: `nobody` may not read it)
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client_kinds import Blocking, both, names
from fake_replicator import CONFIG

from replicator.client import (
    ClientError,
    HandshakeTimeoutError,
    LocalDirectoryError,
    MarkerError,
    ReplicatorClient,
    ReplicatorFailedError,
)

NOBODY = 65534


@pytest.fixture
def local() -> Iterator[Path]:
    """A directory that another user can get to, too."""
    path = Path(tempfile.mkdtemp(prefix="client-"))
    path.chmod(0o777)
    yield path
    path.chmod(0o777)
    shutil.rmtree(path)


def unprivileged(action: Callable[[], str]) -> str:
    """What the action returns, run as a user whom permissions bind."""
    if os.geteuid() != 0:
        return action()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, action().encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as found:
        return found.read()


def outcome(action: Callable[[], Any]) -> str:
    """The error's type and text, `RAW` before what is no error of the client's."""
    try:
        return repr(action())
    except ClientError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"RAW {type(error).__name__}: {error}"


@contextmanager
def meanwhile(action: Callable[[], object], after: float = 0.3) -> Iterator[None]:
    def run() -> None:
        time.sleep(after)
        action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# ---- reports -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_a_failure_is_raised_also_where_its_file_cannot_be_moved(
    local: Path, kind: type[Blocking], mode: int
) -> None:
    if os.geteuid() != 0 and mode == 0o1777:
        pytest.skip("a sticky directory binds only other users: needs root to become one")
    (local / "replicator.failed").write_text("fatal reason\n")
    (local / "replicator.errors").write_text("a complaint\n")
    local.chmod(mode if os.geteuid() == 0 else 0o555)
    client = kind(local)
    wanted = "ReplicatorFailedError: the replicator failed:\nfatal reason"
    assert unprivileged(lambda: outcome(lambda: client.call("check"))) == wanted
    again = unprivileged(
        lambda: outcome(lambda: client.call("wait_for_restore", timeout=5)),
    )
    assert again == wanted, "not only the first time"
    assert names(local) == {"replicator.failed", "replicator.errors"}


def test_errors_that_cannot_be_moved_are_told_once(local: Path) -> None:
    errors = local / "replicator.errors"
    errors.write_text("one\n")
    local.chmod(0o1777 if os.geteuid() == 0 else 0o555)
    client = ReplicatorClient(local, CONFIG)

    def action() -> str:
        told = [client.check(), client.check()]
        return repr(told)

    assert unprivileged(action) == repr(["one\n", None])
    # What comes after is told alone.
    client.volume.reports._errors_told = "one\n"
    errors.write_text("one\ntwo\n")
    assert unprivileged(lambda: repr(client.check())) == repr("two\n")


def test_a_report_that_may_not_be_read_counts_all_the_same(local: Path) -> None:
    (local / "replicator.failed").write_text("secret")
    (local / "replicator.failed").chmod(0)
    client = ReplicatorClient(local, CONFIG)
    found = unprivileged(lambda: outcome(client.check))
    assert "ReplicatorFailedError" in found
    assert "cannot be read: Permission denied" in found
    assert names(local) == {"replicator.failed"}, "left for whoever may read it"


def test_a_report_that_cannot_be_removed_once_read_counts(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (local / "replicator.failed").write_text("boom")

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(ReplicatorFailedError, match="boom"):
            ReplicatorClient(local, CONFIG).check()


@both
@pytest.mark.parametrize("what", ["pipe", "directory", "link"])
def test_what_is_no_regular_file_neither_hangs_nor_hides_a_failure(
    local: Path, kind: type[Blocking], what: str
) -> None:
    make: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo,
        "directory": Path.mkdir,
        "link": lambda path: path.symlink_to("/etc/hostname"),
    }
    client = kind(local)
    make[what](local / "replicator.errors")
    assert "replicator.errors is there but cannot be read" in client.call("check")
    assert client.call("check") is None, "said once"
    make[what](local / "replicator.failed")
    with pytest.raises(ReplicatorFailedError, match="not a regular file"):
        client.call("check")
    make[what](local / "replicator.prerestore")
    (local / "replicator.failed").rmdir() if what == "directory" else (
        local / "replicator.failed"
    ).unlink()
    with pytest.raises(MarkerError, match="not a regular file"):
        client.call("wait_for_prerestore", timeout=5)


# ---- the handshake -----------------------------------------------------------------------------


def report_failure(local: Path) -> None:
    """Whole at once, as the agent does: nobody reads half of it."""
    temporary = local / "replicator.failed.tmp"
    temporary.write_text("boom\n")
    temporary.rename(local / "replicator.failed")


@both
def test_a_failure_ends_the_handshake_at_once(local: Path, kind: type[Blocking]) -> None:
    begun = time.monotonic()
    with (
        meanwhile(lambda: report_failure(local)),
        pytest.raises(ReplicatorFailedError, match="boom"),
    ):
        kind(local).call("handshake", timeout=60)
    assert time.monotonic() - begun < 30
    assert names(local) == set(), "the config is withdrawn"


@both
def test_a_failure_while_an_earlier_config_waits_ends_the_handshake(
    local: Path, kind: type[Blocking]
) -> None:
    (local / "replicator.yaml").write_text("earlier")
    with (
        meanwhile(lambda: report_failure(local)),
        pytest.raises(ReplicatorFailedError, match="boom"),
    ):
        kind(local).call("handshake", timeout=60)
    assert names(local) == {"replicator.yaml"}


@both
@pytest.mark.parametrize("removable", [True, False])
def test_a_failure_of_an_earlier_start_is_not_this_ones(
    local: Path, kind: type[Blocking], removable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (local / "replicator.failed").write_text("an earlier start's\n")
    rename = Path.rename

    def guarded(self: Path, target: Path) -> Path:
        if self.name == "replicator.failed" and not removable:
            raise PermissionError(1, "Operation not permitted")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", guarded)

    def take() -> None:
        (local / "replicator.failed").unlink(missing_ok=True)  # as a start of the replicator does
        (local / "replicator.yaml").unlink()

    with meanwhile(take):
        kind(local).call("handshake", timeout=10)
    with pytest.raises(HandshakeTimeoutError):
        kind(local).call("handshake", timeout=0.2)


@both
def test_a_time_out_tells_what_an_earlier_start_reported(local: Path, kind: type[Blocking]) -> None:
    (local / "replicator.failed").write_text("no backup location\n")
    with pytest.raises(HandshakeTimeoutError, match="an earlier start said: no backup location"):
        kind(local).call("handshake", timeout=0.2)


@both
@pytest.mark.parametrize("remounted", [False, True])
def test_a_volume_that_vanishes_during_the_handshake_has_not_taken_the_config(
    local: Path, kind: type[Blocking], remounted: bool
) -> None:
    volume = local / "volume"
    volume.mkdir()

    def vanish() -> None:
        volume.rename(local / "elsewhere")
        if remounted:
            volume.mkdir()

    with (
        meanwhile(vanish),
        pytest.raises(LocalDirectoryError, match=r"was the checkpoint volume|No such file"),
    ):
        kind(volume).call("handshake", timeout=10)


@both
@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_a_directory_without_permission_is_a_clear_error(
    local: Path, kind: type[Blocking], mode: int
) -> None:
    client = kind(local)
    local.chmod(mode)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("LocalDirectoryError", lambda: client.call("handshake", timeout=5)),
        ("LocalDirectoryError" if mode == 0 else "SaveError", lambda: client.save(1)),
    ]
    if mode == 0:
        calls += [
            ("LocalDirectoryError", lambda: client.call("check")),
            ("LocalDirectoryError", lambda: client.call("wait_for_restore", timeout=5)),
            ("LocalDirectoryError", lambda: client.call("wait_for_prerestore", timeout=5)),
        ]
    for error, action in calls:
        found = unprivileged(lambda action=action: outcome(action))  # type: ignore[misc]
        assert found.startswith(f"{error}: "), found
        assert "Permission denied" in found
