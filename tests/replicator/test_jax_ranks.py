"""The sub-command that tells JAX its process id where there is no rank service."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator.cli import main
from replicator.protocol import JAX_INIT_INFO_FILE


def ranks(
    local_dir: Path, slice_index: str, worker: str, coordinator: str = "run-0-0.run:8476"
) -> int:
    return main(
        [
            "jax-init-info", f"--local-dir={local_dir}", f"--slice={slice_index}",
            "--slice-size=4", f"--worker={worker}", f"--coordinator={coordinator}",
        ]
    )  # fmt: skip


def test_the_file_is_as_orbax_reads_it(tmp_path: Path) -> None:
    assert ranks(tmp_path, "2", "3") == 0
    process, coordinator = (tmp_path / JAX_INIT_INFO_FILE).read_text().split("\n")[:2]
    assert (int(process), coordinator) == (11, "run-0-0.run:8476")
    assert [p.name for p in tmp_path.iterdir()] == [JAX_INIT_INFO_FILE]


def test_the_ranks_of_all_workers_are_distinct_and_without_gaps(tmp_path: Path) -> None:
    seen = []
    for slice_index in range(3):
        for worker in range(4):
            assert ranks(tmp_path, str(slice_index), str(worker)) == 0
            seen.append(int((tmp_path / JAX_INIT_INFO_FILE).read_text().split("\n")[0]))
    assert seen == list(range(12))


def test_one_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / JAX_INIT_INFO_FILE).write_text("9\nold:1\n")
    assert ranks(tmp_path, "0", "0") == 0
    assert (tmp_path / JAX_INIT_INFO_FILE).read_text() == "0\nrun-0-0.run:8476\n"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / JAX_INIT_INFO_FILE).symlink_to("elsewhere")
    assert ranks(tmp_path, "0", "1") == 0
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (tmp_path / JAX_INIT_INFO_FILE).is_symlink()


@pytest.mark.parametrize(
    ("slice_index", "worker", "coordinator", "says"),
    [
        ("0", "4", "host:1", "worker 4 of slice 0 with 4 workers"),
        ("-1", "0", "host:1", "expected a slice from 0"),
        ("0", "-1", "host:1", "expected a slice from 0"),
        ("0", "0", "host", "host"),
        ("0", "0", "host:port", "host:port"),
    ],
)
def test_what_is_no_place_in_a_job_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    slice_index: str,
    worker: str,
    coordinator: str,
    says: str,
) -> None:
    assert ranks(tmp_path, slice_index, worker, coordinator) == 1
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_volume_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ranks(tmp_path / "missing", "0", "0") == 1
    assert "missing is no directory; expected the checkpoint volume" in capsys.readouterr().err
