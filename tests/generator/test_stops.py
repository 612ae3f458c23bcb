"""A compile that is stopped, or whose workers are: nothing is left half done."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ENVIRONMENT, STOWPLAN, Fleet


def heeds_signals() -> None:
    """Undo what a shell does to a job in the background, which ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children(process: int) -> set[int]:
    """The processes that a process has begun."""
    try:
        return set(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        return set()


def left_over(fleet: Fleet) -> list[str]:
    """Commands of processes that still work in a fleet's folder, once they had time to end."""
    for _ in range(200):
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "cwd").readlink().is_relative_to(fleet.root):
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        if not found:
            break
        time.sleep(0.05)
    return found


def endless_fleet(fleet: Fleet) -> None:
    """Twelve more clusters, and one that is never ready: a run does not end before it is stopped."""
    source = (fleet.root / "inventory/targets/tpu-v6e-docs.yml").read_text()
    for index in range(12):
        fleet.write(f"targets/copy-{index:03}.yml", source)
    fleet.write("targets/never.yml", source + "  overlays: [endless.jsonnet]\n")
    fleet.write(
        "overlays/endless.jsonnet",
        "local on(n) = if n == 0 then 0 else on(n - 1) + on(n - 1);\n"
        "function(cluster, manifests) on(99)\n",
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stop_half_way_leaves_whole_clusters(fleet: Fleet, number: int, code: int) -> None:
    fleet.compile()
    before = fleet.compiled
    endless_fleet(fleet)
    process = subprocess.Popen(
        [*STOWPLAN, "compile", "-j", "2"], cwd=fleet.root, preexec_fn=heeds_signals,
        env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(list((fleet.root / "compiled").glob(".stowplan-*/copy-*"))) < 12:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert not left_over(fleet)
    now = {p: d for p, d in fleet.compiled.items() if not p.startswith(".stowplan-")}
    assert now == before
    (fleet.root / "inventory/targets/never.yml").unlink()
    assert fleet.compile().code == 0
    assert not list((fleet.root / "compiled").glob(".stowplan-*"))
    assert len({p.split("/")[0] for p in fleet.compiled} - {"argocd"}) == 17


def test_a_cluster_that_ends_its_process_is_named_and_the_others_are_built(fleet: Fleet) -> None:
    endless_fleet(fleet)
    process = subprocess.Popen(
        [*STOWPLAN, "compile", "-j", "2", "--keep-going"], cwd=fleet.root,
        env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    killed = set[int]()
    deadline = time.monotonic() + 60
    while process.poll() is None:
        assert time.monotonic() < deadline
        for worker in children(process.pid) - killed:
            # Only the one that waits for the overlay has a process of its own.
            if children(worker):
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        time.sleep(0.01)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert len(killed) == 2
    assert "inventory/targets/never.yml: error INV095: the cluster could not be built" in errors
    assert "its process was ended by SIGKILL" in errors
    built = {path.split("/")[0] for path in fleet.compiled}
    assert len(built - {"argocd"}) == 17
    assert "never" not in built
    assert not left_over(fleet)
