"""Real, unmodified Orbax multi-tier checkpointing on CPU; skipped where it is not installed."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_replicator import FakeReplicator
from worker_processes import run_workers

import replicator.client.orbax
from replicator.client import LocalDirectoryError
from replicator.client.orbax import OrbaxSetupError, distributed_variables, initialize_on_cpu

WORKER = Path(__file__).with_name("orbax_worker.py")


def run_job(action: str, directories: list[Path], step: int = 0) -> list[dict[str, object]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    commands = [
        (WORKER, action, directory, process, len(directories), port, step)
        for process, directory in enumerate(directories)
    ]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "JAX_"))}
    return [result for result, _ in run_workers(commands, 150, env)]


@pytest.mark.parametrize("processes", [1, 2])
def test_orbax_saves_and_restores_equal_values(tmp_path: Path, processes: int) -> None:
    pytest.importorskip(
        "orbax.checkpoint.experimental.emergency.replicator_checkpoint_manager",
        reason="needs the extra 'orbax'",
    )
    directories = [tmp_path / f"node{rank}" for rank in range(processes)]
    with ExitStack() as stack:
        replicators = []
        for directory in directories:
            directory.mkdir()
            replicators.append(stack.enter_context(FakeReplicator(directory)))
        for result in run_job("save", directories, 3):
            assert result["latest"] is None
        for replicator in replicators:
            replicator.wait_for_saved(3)
            config = replicator.config
            assert config is not None
            assert (config.nodes, config.assume_data_parallelism) == (processes, processes)
        assert sorted(r.config.node_rank for r in replicators if r.config) == list(range(processes))
        for result in run_job("load", directories):
            assert (result["latest"], result["equal"]) == (3, True)


def test_variables_that_place_a_process() -> None:
    found = distributed_variables(1, 2, "127.0.0.1:4000")
    assert found["SLURM_PROCID"] == "1"
    assert found["SLURM_NTASKS"] == "2"
    assert found["JAX_COORDINATOR_BIND_ADDRESS"] == "127.0.0.1:4000"


@pytest.mark.parametrize(
    ("process_id", "processes", "address"),
    [
        (2, 2, "h:1"),
        (-1, 2, "h:1"),
        (0, 0, "h:1"),
        ("0", 2, "h:1"),  # as it comes out of the environment
        (0, None, "h:1"),
        (0, 2, "host"),
        (0, 2, "host:"),
        (0, 2, ":1"),
        (0, 2, "h:x"),
        (0, 2, "h:0"),
        (0, 2, "h:65536"),
        (0, 2, None),
    ],
)
def test_places_that_cannot_be(process_id: Any, processes: Any, address: Any) -> None:
    with pytest.raises(OrbaxSetupError, match="expected"):
        distributed_variables(process_id, processes, address)


def test_bad_arguments_change_nothing(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    where = {"process_id": 0, "processes": 3, "coordinator_address": "127.0.0.1:1"}
    with pytest.raises(OrbaxSetupError, match="3 processes cannot form 2 equal slices"):
        initialize_on_cpu(tmp_path, "job", slices=2, environ=environ, **where)  # type: ignore[arg-type]
    with pytest.raises(LocalDirectoryError):
        initialize_on_cpu(tmp_path / "none", "job", slices=3, environ=environ, **where)  # type: ignore[arg-type]
    for name in ("", "../job", None):
        with pytest.raises(OrbaxSetupError, match=r"run_name .*: expected 1 to 180 letters"):
            initialize_on_cpu(tmp_path, name, slices=3, environ=environ, **where)  # type: ignore[arg-type]
    assert environ == {}


def test_without_orbax_the_extra_is_named_and_nothing_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicator.client.orbax, "find_spec", lambda name: None)
    environ: dict[str, str] = {}
    with pytest.raises(ImportError, match="install the extra 'orbax'"):
        initialize_on_cpu(
            tmp_path,
            "job",
            process_id=0,
            processes=1,
            coordinator_address="127.0.0.1:1",
            slices=1,
            environ=environ,
        )
    assert environ == {}
