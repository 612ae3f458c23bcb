"""The demo on this machine: it recovers, and however it ends it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import replicator


@pytest.mark.parametrize("kill", [1, 2])
def test_the_demo_recovers_and_says_how_long_it_took(tmp_path, kill, monkeypatch):
    """With one node lost from its peer, with both lost from the backup; behind a proxy or not."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    odd = tmp_path / "ü b%20#1"
    odd.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(Path(replicator.__file__).parents[1]))
    command = [
        *(sys.executable, "-m", "replicator", "demo", "--nodes", "2", "--size", "1Mi"),
        *("--kill", str(kill), "--dir", odd.name),  # a relative one
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "every byte compared: equal to what was saved" in done.stdout
    assert f"recovery from the loss of {kill} of 2 nodes took" in done.stdout.splitlines()[-1]
    assert list(odd.iterdir()) == []


def _running_demo(tmp_path: Path, **options: Any) -> subprocess.Popen[str]:
    """A demo that has begun to train."""
    command = [
        *(sys.executable, "-m", "replicator", "demo", "--nodes", "2", "--size", "64Mi"),
        *("--dir", str(tmp_path)),
    ]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    assert demo.stdout is not None
    while "training starts" not in demo.stdout.readline():
        assert demo.poll() is None
    return demo


def _nothing_is_left(tmp_path: Path) -> bool:
    running = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not any(str(tmp_path).encode() in line for line in running)
    return list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_told_to_stop_leaves_no_agents_behind(tmp_path, how):
    demo = _running_demo(tmp_path)
    demo.send_signal(how)
    demo.send_signal(signal.SIGTERM)  # an impatient one does not cut the cleaning short
    assert demo.wait(30) == 128 + how
    assert _nothing_is_left(tmp_path)


def test_a_demo_under_nohup_goes_on_after_a_hangup(tmp_path):
    def ignore_hangup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    demo = _running_demo(tmp_path, preexec_fn=ignore_hangup)
    demo.send_signal(signal.SIGHUP)
    out, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0
    assert "recovery from the loss of 1 of 2 nodes took" in out


def test_a_demo_whose_reader_goes_away_leaves_nothing_behind_and_says_nothing(tmp_path):
    demo = _running_demo(tmp_path, stderr=subprocess.PIPE)
    assert demo.stdout is not None
    assert demo.stderr is not None
    demo.stdout.close()
    assert demo.wait(60) == 1
    assert demo.stderr.read() == ""
    assert _nothing_is_left(tmp_path)


def test_a_demo_whose_output_cannot_be_written_says_so_and_leaves_nothing_behind(tmp_path):
    command = [
        *(sys.executable, "-m", "replicator", "demo", "--nodes", "2", "--size", "1Mi"),
        *("--dir", str(tmp_path)),
    ]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: output not written: No space left on device\n"
    assert _nothing_is_left(tmp_path)


def test_a_demo_without_standard_output_is_played_all_the_same(tmp_path):
    code = (
        "import os, sys; os.close(1); os.execv(sys.executable, "
        "[sys.executable, '-m', 'replicator', 'demo', '--nodes', '2', '--size', '1Mi', "
        f"'--dir', {str(tmp_path)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert _nothing_is_left(tmp_path)


def test_a_benchmark_that_is_interrupted_ends_its_workers_without_a_word(tmp_path):
    command = [
        *(sys.executable, "-m", "replicator", "bench", "--nodes", "2", "--sizes", "64Mi"),
        *("--dir", str(tmp_path)),
    ]
    bench = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("bench-*/copy0/*")):
        assert bench.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(bench.pid, signal.SIGINT)  # as a terminal does
    _, errors = bench.communicate(timeout=30)
    assert (bench.returncode, errors) == (130, b"")
    assert _nothing_is_left(tmp_path)


def test_a_demo_in_a_directory_that_is_not_there_is_one_clear_line(tmp_path):
    command = [*(sys.executable, "-m", "replicator", "demo"), "--dir", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path / 'none'}: No such file or directory\n"
