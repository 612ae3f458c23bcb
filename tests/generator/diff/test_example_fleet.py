"""The diff on the example fleet: what a reviewer of a change to a class reads."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from generator.diff.reference import reference
from tests.conftest import REPOSITORY, Fleet
from tests.generator.diff import fleet as small


@pytest.fixture
def committed(fleet: Fleet) -> Fleet:
    """The example fleet as a repository, its compiled tree committed."""
    shutil.copytree(REPOSITORY / "compiled", fleet.root / "compiled")
    small.git(fleet.root, "init", "-q")
    small.commit(fleet.root)
    return fleet


def test_the_committed_tree_has_no_difference(committed: Fleet) -> None:
    result = committed.run("diff")
    assert (result.code, result.err) == (0, "")
    assert "no differences, 158 resources" in result.out


def test_a_two_line_edit_of_classes_is_a_comment_to_act_on(committed: Fleet) -> None:
    committed.edit("classes/teams/foundation.yml", "maxtext:2026-11-12", "maxtext:2026-12-01")
    committed.edit("classes/env/prod.yml", "backupMinutes: 30", "backupMinutes: 60")
    assert committed.compile().code == 0
    result = committed.run("diff", "--format", "markdown", "--fail-on", "restart")
    assert result.code == 3
    text = result.out
    assert text.startswith("<!-- stowplan-diff:v1 -->\n\n### Rendered manifests: 3 changed, 4 repl")
    assert re.search(r"> - 4 jobs on 448 chips of .* stop if running: foundation/", text)
    assert "+ spec.replicatedJobs[slice]…containers[jax-tpu].image: " in text
    assert "together 96 pods, 384 chips" in text
    assert "in tpu-v5p-prod: foundation/ablations-" in text
    assert "⚪ cosmetic | 3 clusters" in text
    assert len(text) < 6_000


def test_the_upgrade_of_a_cluster_is_a_new_driver_epoch(committed: Fleet) -> None:
    """What Git and the diff do is here; what the sync does is in docs/runbooks."""
    committed.edit("classes/pools/h100-mega.yml", "peers: 1", "peers: 1\n      driverEpoch: 2")
    assert committed.compile().code == 0
    result = committed.run("diff", "--format", "json")
    document = json.loads(result.out)
    (change,) = document["changes"]
    assert (change["verb"], change["impact"]) == ("replace", "ramdisk-loss")
    assert change["previous"]["name"] != change["resource"]["name"]
    assert (change["nodes"], change["chips"]) == (16, 128)
    assert [field["path"] for field in change["fields"]] == [
        "metadata.annotations[stowplan.dev/driver-epoch]"
    ]


def test_a_larger_ram_disk_says_whether_it_fits(committed: Fleet) -> None:
    committed.edit("targets/tpu-v6e-docs.yml", "parameters: 7e9", "parameters: 14e9")
    assert committed.compile().code == 0
    result = committed.run("diff")
    assert re.search(r"spec\.inMemoryVolumeSize +\d+Gi → \d+Gi", result.out)
    assert "of a 42G local checkpoint, at least 2.2× needed" in result.out
    assert "RAM disks on 16 nodes (64 chips) of tpu-v6e-docs will be emptied" in result.out


def test_nothing_in_the_example_fleet_is_unknown(committed: Fleet) -> None:
    """Every kind that the generator writes has rows for its coming and going."""
    for name in ("shared-dev", "gpu-h100-prod"):
        shutil.rmtree(committed.root / "compiled" / name)
    document = json.loads(committed.run("diff", "--format", "json").out)
    assert document["summary"]["delete"] > 40
    assert [c["id"] for c in document["changes"] if c["impact"] == "unknown"] == []
    small.commit(committed.root)
    document = json.loads(committed.run("diff", "--base", "HEAD", "--head", "HEAD~1",
                                        "--format", "json").out)  # fmt: skip
    assert document["summary"]["add"] > 40
    assert [c["id"] for c in document["changes"] if c["impact"] == "unknown"] == []


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (REPOSITORY / "docs/impact.md").read_text() == reference()
