"""One writer of a step at a time, whatever process or thread it is in."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from client_kinds import Blocking, both
from fake_replicator import CONFIG, FILES

from replicator.client import AsyncReplicatorClient, ReplicatorClient, ReplicatorConfig, SaveError


def left_in(local: Path) -> list[str]:
    return sorted(entry.name for entry in local.iterdir())


@pytest.mark.parametrize(("config", "name"), [(CONFIG, "5"), (FILES, "job-s5-n0-w0.save")])
def test_a_second_writer_of_a_step_is_refused_and_the_first_ones_data_stands(
    tmp_path: Path, config: ReplicatorConfig, name: str
) -> None:
    first, second = ReplicatorClient(tmp_path, config), ReplicatorClient(tmp_path, config)
    with first.save(5) as path:
        target = path if config is FILES else path / "w"
        target.write_bytes(b"first")
        with pytest.raises(SaveError, match=r"step 5 is being written to .* already"):  # noqa: SIM117
            with second.save(5):
                pytest.fail("the body must not run")
        with pytest.raises(SaveError, match="already, by another process or thread"):
            asyncio.run(save_async(AsyncReplicatorClient(tmp_path, config)))
        assert target.read_bytes() == b"first"
    assert left_in(tmp_path) == [name]


async def save_async(client: AsyncReplicatorClient) -> None:
    async with client.save(5):
        pytest.fail("the body must not run")


def test_other_steps_are_written_side_by_side(tmp_path: Path) -> None:
    first, second = ReplicatorClient(tmp_path, CONFIG), ReplicatorClient(tmp_path, CONFIG)
    with first.save(5), second.save(6):
        pass
    assert left_in(tmp_path) == ["5", "6"]


def test_other_workers_write_their_part_of_a_step_at_the_same_time(tmp_path: Path) -> None:
    client = ReplicatorClient(tmp_path, FILES)
    with client.save(5, worker=0) as path, client.save(5, worker=1) as beside:
        beside.write_bytes(b"1")
        path.write_bytes(b"0")
    found = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert found == {"job-s5-n0-w0.save": b"0", "job-s5-n0-w1.save": b"1"}


def test_tasks_of_one_loop_are_several_writers(tmp_path: Path) -> None:
    client = AsyncReplicatorClient(tmp_path, CONFIG)

    async def save() -> None:
        async with client.save(5) as path:
            (path / "w").write_text("x")
            await asyncio.sleep(0.1)

    async def scenario() -> list[BaseException | None]:
        return await asyncio.gather(save(), save(), return_exceptions=True)

    outcomes = asyncio.run(scenario())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "SaveError"]
    assert left_in(tmp_path) == ["5"]


def test_a_writer_that_was_killed_stands_in_nobodys_way(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from replicator.client import Framework, ReplicatorClient, ReplicatorConfig\n"
        "config = ReplicatorConfig('job', Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)\n"
        "with ReplicatorClient(Path(sys.argv[1]), config).save(5) as path:\n"
        "    (path / 'half').write_text('x')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    with ReplicatorClient(tmp_path, CONFIG).save(5) as path:
        (path / "w").write_text("whole")
    assert left_in(tmp_path) == ["5"]
    assert left_in(tmp_path / "5") == ["w"]


def test_a_child_that_was_forked_while_saving_does_not_keep_the_step(tmp_path: Path) -> None:
    """Data loaders are forked at any moment, and inherit every open file."""
    client = ReplicatorClient(tmp_path, CONFIG)
    stay, leave = os.pipe()
    with client.save(5):
        child = os.fork()
        if child == 0:
            os.close(leave)
            os.read(stay, 1)
            os._exit(0)
    try:
        (tmp_path / "5").rename(tmp_path / "taken")
        with client.save(5) as path:
            (path / "w").write_text("again")
    finally:
        os.close(leave)
        os.waitpid(child, 0)
        os.close(stay)
    assert left_in(tmp_path) == ["5", "taken"]


def test_a_relative_directory_is_that_of_the_clients_making(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "volume").mkdir()
    monkeypatch.chdir(tmp_path)
    client = ReplicatorClient(Path("volume"), CONFIG)
    monkeypatch.chdir("/")
    with client.save(5):
        pass
    assert left_in(tmp_path / "volume") == ["5"]


@both
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file or directory", "/data/x"), "No such file .*: /data/x"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (BrokenPipeError(), "BrokenPipeError"),
        (OSError("cannot read the batch"), "cannot read the batch"),
    ],
)
def test_what_the_body_hears_from_the_system_is_told_with_the_file_it_is_about(
    tmp_path: Path, kind: type[Blocking], error: OSError, text: str
) -> None:
    with pytest.raises(SaveError, match=f"^step 5: {text}$") as caught:
        kind(tmp_path).fail_in_save(5, error)
    assert caught.value.__cause__ is error
    assert left_in(tmp_path) == []


def test_a_file_that_the_body_cannot_open_is_named(tmp_path: Path) -> None:
    client = ReplicatorClient(tmp_path, CONFIG)
    with pytest.raises(SaveError, match=r"step 5: No such file or directory: .*/absent/w"):  # noqa: SIM117
        with client.save(5) as path:
            (path / "absent" / "w").write_text("x")
    assert left_in(tmp_path) == []
