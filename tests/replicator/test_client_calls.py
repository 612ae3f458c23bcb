"""Calls of the client that cannot be meant, and saves that no agent would take over: refused by
name, with nothing written."""

from __future__ import annotations

import decimal
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_kinds import Blocking, both, names
from fake_replicator import CONFIG, FILES
from small_volumes import needs_root, small_tmpfs

import replicator.client
from replicator.client import (
    ClientArgumentError,
    ClientConfigError,
    ClientError,
    Framework,
    HandshakeTimeoutError,
    LocalDirectoryError,
    ReplicatorClient,
    ReplicatorConfig,
    ReplicatorFailedError,
    RestoreTimeoutError,
    SaveError,
    StepExistsError,
)
from replicator.client.orbax import initialize_on_cpu
from replicator.client.volume import CheckpointVolume
from replicator.errors import ConfigError, Problem

# ---- the directory -----------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", r"the local directory is '', an empty path: expected the path of the directory where"),
        (None, "the local directory is None: expected .*, as text"),
        (b"/tmp", "the local directory is b'/tmp': expected .*, as text"),
        (5, "the local directory is 5: expected"),
    ],
)
def test_what_is_no_path_never_means_the_current_directory(
    local: Path, kind: type[Blocking], given: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(local)
    with pytest.raises(LocalDirectoryError, match=found):
        kind(given)
    with pytest.raises(LocalDirectoryError, match=found):
        CheckpointVolume(given, CONFIG)
    environ: dict[str, str] = {}
    with pytest.raises(LocalDirectoryError, match=found):
        initialize_on_cpu(
            given,
            "job",
            process_id=0,
            processes=1,
            coordinator_address="127.0.0.1:1",
            slices=1,
            environ=environ,
        )
    assert (names(local), environ) == (set(), {})


@both
def test_a_path_may_be_text_or_path_and_the_current_directory_is_told_by_a_dot(
    local: Path, kind: type[Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(local)
    for given in (str(local), local, ".", Path(), "../local"):
        found = kind(given).client.volume.directory  # type: ignore[arg-type]
        assert found.is_absolute()
        assert found.samefile(local)


@both
def test_a_file_is_no_directory(local: Path, kind: type[Blocking]) -> None:
    (local / "file").touch()
    with pytest.raises(LocalDirectoryError, match="file: not a directory; is the checkpoint"):
        kind(local / "file")
    with pytest.raises(LocalDirectoryError, match="File name too long"):
        kind(local / ("x" * 300))


# ---- time-outs ---------------------------------------------------------------------------------

WAITS = {
    "handshake": HandshakeTimeoutError,
    "wait_for_restore": RestoreTimeoutError,
    "wait_for_prerestore": RestoreTimeoutError,
}


@both
@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("timeout", [None, math.nan, "5", True, decimal.Decimal(1)])
def test_a_time_out_that_is_no_number_is_refused(
    local: Path, kind: type[Blocking], name: str, timeout: Any
) -> None:
    with pytest.raises(ClientArgumentError, match=r"timeout is .*: expected a number of seconds"):
        kind(local).call(name, timeout=timeout)
    assert names(local) == set()


@both
@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("timeout", [0, -1, -math.inf])
def test_a_time_out_that_is_over_looks_once(
    local: Path, kind: type[Blocking], name: str, timeout: float
) -> None:
    with pytest.raises(WAITS[name]):
        kind(local).call(name, timeout=timeout)
    assert names(local) == set()


@both
def test_what_is_there_is_found_without_any_time(local: Path, kind: type[Blocking]) -> None:
    (local / "x").touch()
    (local / "job-s5-n0-w0.restore").symlink_to("x")
    assert kind(local).call("wait_for_restore", timeout=0).step == 5
    assert kind(local).call("wait_for_restore", timeout=math.inf).step == 5


# ---- steps and configs -------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("config", "step", "worker"),
    [
        (CONFIG, 1.5, 0),
        (CONFIG, "../x", 0),
        (CONFIG, None, 0),
        (CONFIG, True, 0),
        (CONFIG, 1, -1),
        (CONFIG, 1, 1),
        (CONFIG, 1, 9),
        (CONFIG, 1, 0.5),
        (FILES, 1, 2),
        (FILES, 1, -1),
        (FILES, 1.5, 0),
    ],
)
def test_a_save_that_nobody_would_take_over_is_refused(
    local: Path, kind: type[Blocking], config: ReplicatorConfig, step: Any, worker: Any
) -> None:
    with pytest.raises(SaveError, match="expected"):
        kind(local, config).save(step, worker=worker)
    assert names(local) == set()


@both
def test_the_framework_may_be_given_as_text(local: Path, kind: type[Blocking]) -> None:
    client = kind(local, replace(CONFIG, framework="orbax"))  # type: ignore[arg-type]
    assert client.client.config.framework is Framework.ORBAX


@both
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"framework": "torch"}, "framework: 'torch' is not known; expected one of pytorch, "),
        ({"framework": None}, "framework: None is not known"),
        ({"backup_interval_minutes": "30"}, "cannot be written"),
        ({"job_name": b"job"}, "cannot be written"),
        ({"peer_ranks": 1}, "cannot be written"),
        ({"node_rank": True}, "node-rank: expected a whole number"),
    ],
)
def test_a_config_of_wrong_types_is_a_clear_error(
    local: Path, kind: type[Blocking], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        kind(local, replace(CONFIG, **change))
    assert isinstance(caught.value, ConfigError)


@both
@pytest.mark.parametrize("given", [None, {}, "job"])
def test_what_is_no_config_is_a_clear_error(local: Path, kind: type[Blocking], given: Any) -> None:
    with pytest.raises(ClientConfigError, match="is no ReplicatorConfig"):
        kind(local, given)


class Index:
    """As numpy's whole numbers are: no `int`, but usable as one."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize("step", [0, 2**63 - 1, Index()])
def test_any_whole_number_in_range_is_a_step(local: Path, step: Any) -> None:
    with ReplicatorClient(local, CONFIG).save(step):
        pass
    assert names(local) == {str(step.__index__())}


@both
@pytest.mark.parametrize("step", [-1, 2**63, 10**30])
def test_a_step_out_of_range_is_told_the_range(
    local: Path, kind: type[Blocking], step: int
) -> None:
    with pytest.raises(SaveError, match=f"step {step} is out of range; expected 0 to {2**63 - 1}"):
        kind(local).save(step)


def test_every_error_goes_whole_from_one_process_to_another(tmp_path: Path) -> None:
    special: dict[str, ClientError] = {
        "StepExistsError": StepExistsError(5, tmp_path),
        "ReplicatorFailedError": ReplicatorFailedError("boom\n"),
        "ClientConfigError": ClientConfigError("config", (Problem(1, 2, "bad"),)),
    }
    for name in replicator.client.__all__:
        kind = getattr(replicator.client, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            error = special.get(name) or kind("text")
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again)) == (type(error), str(error))
            assert vars(again) == vars(error)


# ---- what is handed over -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "written", "found"),
    [
        (CONFIG, Path.touch, "is a file; expected the directory that was made for it"),
        (CONFIG, lambda path: path.symlink_to("/etc"), "is a link; expected the directory"),
        (FILES, lambda path: path.symlink_to("/etc/hostname"), "is a link; expected a file or a"),
        (FILES, os.mkfifo, "is a named pipe; expected a file or a directory"),
    ],
)
def test_what_no_agent_would_take_over_is_not_handed_over(
    local: Path, config: ReplicatorConfig, written: Callable[[Path], object], found: str
) -> None:
    def save() -> None:
        with ReplicatorClient(local, config).save(5) as path:
            if config is CONFIG:
                path.rmdir()
            written(path)

    with pytest.raises(SaveError, match=found):
        save()
    assert names(local) == set()


def test_a_step_of_the_framework_pytorch_may_be_a_directory(local: Path) -> None:
    with ReplicatorClient(local, FILES).save(5) as path:
        path.mkdir()
        (path / "w").touch()
    assert (local / "job-s5-n0-w0.save" / "w").exists()


@pytest.mark.parametrize("config", [CONFIG, FILES], ids=["directory", "file"])
@pytest.mark.parametrize("remounted", [False, True])
def test_a_volume_that_vanishes_during_a_save_is_told_as_such(
    local: Path, config: ReplicatorConfig, remounted: bool
) -> None:
    def save() -> None:
        with ReplicatorClient(local, config).save(5) as path:
            (path if config is FILES else path / "w").touch()
            local.rename(local.with_name("elsewhere"))
            if remounted:
                local.mkdir()

    with pytest.raises(SaveError, match="is not there: nothing was written, or the checkpoint vol"):
        save()
    assert not remounted or names(local) == set()


@needs_root
@both
def test_a_read_only_volume_is_told_as_such(tmp_path: Path, kind: type[Blocking]) -> None:
    with small_tmpfs(tmp_path / "volume", "ro") as volume:
        client = kind(volume)
        with pytest.raises(LocalDirectoryError, match=r"replicator\.yaml: Read-only file system"):
            client.call("handshake", timeout=5)
        with pytest.raises(SaveError, match="step 5: Read-only file system"):
            client.save(5)
        assert client.call("check") is None
