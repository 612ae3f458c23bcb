"""A new run may evict jobs of lower priority while the old run's pods end; the diff names them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Fleet

TARGET = "targets/tpu-v6e-docs.yml"
LOW_ARGS, HIGH_ARGS = ("steps=30000", "steps=40000"), ("- steps=300\n", "- steps=600\n")


@pytest.fixture
def reviewed(fleet: Fleet, tmp_path: Path) -> Any:
    """Edit the documents' cluster and return what the diff says may be evicted, hashes left out."""
    assert fleet.compile("-t", "tpu-v6e-docs").code == 0
    shutil.copytree(tmp_path / "compiled", tmp_path / "base")

    def review(*edits: tuple[str, str, str]) -> dict[str, str]:
        for file, old, new in edits:
            fleet.edit(file, old, new)
        answer = fleet.compile("-t", "tpu-v6e-docs")
        assert answer.code == 0, answer.err
        return evicted(fleet, tmp_path)

    return review


def evicted(fleet: Fleet, root: Path) -> dict[str, str]:
    """New run → what it may evict, hashes left out."""
    out = fleet.run("diff", "--base", str(root / "base"), "--format", "json").out
    return {
        change["resource"]["name"].rpartition("-")[0]: re.sub("-[0-9a-f]{8}", "", line["text"])
        for change in json.loads(out)["changes"]
        for line in change["derived"]
        if line["name"] == "may-evict"
    }


def test_a_new_run_endangers_the_job_below_it(reviewed: Any) -> None:
    assert reviewed((TARGET, *HIGH_ARGS)) == {
        "high-jax-trillium": "while its old pods end, the new ones may evict those of "
        "default/low-jax-trillium (lower priority)"
    }


def test_a_new_run_endangers_none_of_its_own_or_a_higher_priority(reviewed: Any) -> None:
    assert reviewed((TARGET, *LOW_ARGS)) == {}


def test_jobs_that_stop_anyway_are_not_named(reviewed: Any) -> None:
    assert reviewed((TARGET, *HIGH_ARGS), (TARGET, *LOW_ARGS)) == {}


def test_a_class_that_never_preempts_endangers_nobody(reviewed: Any) -> None:
    ladder = ("classes/priorities.yml", "    high-priority-job:\n      value: 2000000\n")
    never = f"{ladder[1]}      preemptionPolicy: Never\n"
    assert reviewed((TARGET, *HIGH_ARGS), (*ladder, never)) == {}


def test_a_job_on_other_machines_is_safe(reviewed: Any, tmp_path: Path, fleet: Fleet) -> None:
    assert reviewed((TARGET, *HIGH_ARGS)) != {}
    for side in ("base", "compiled"):
        (low,) = (tmp_path / side / "tpu-v6e-docs/workloads").glob("*low-jax*")
        text = low.read_text()
        assert "gke-tpu-accelerator: tpu-v6e-slice" in text
        low.write_text(text.replace("gke-tpu-accelerator: tpu-v6e-slice", "gke-tpu-accelerator: x"))
    assert evicted(fleet, tmp_path) == {}
