"""An upgrade of a cluster: what Git, the diff and the sync do when ``driverEpoch`` is raised."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from generator.build.metadata import SYNC_OPTIONS, SYNC_WAVES
from tests.conftest import REPOSITORY, Fleet

RUNBOOK = (REPOSITORY / "docs/runbooks/upgrade-a-cluster.md").read_text()


def git(fleet: Fleet, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    answer = subprocess.run(
        ["git", *identity, *arguments], cwd=fleet.root, capture_output=True, text=True, check=True
    )
    return answer.stdout


@pytest.fixture
def upgraded(fleet: Fleet) -> Fleet:
    """The fleet as committed, and one cluster's epoch raised in the work tree."""
    (fleet.root / ".gitignore").write_text(".stowplan/\n")
    assert fleet.compile().code == 0
    git(fleet, "init", "-q", "-b", "main")
    git(fleet, "add", "-A")
    git(fleet, "commit", "-q", "-m", "The fleet")
    fleet.edit("targets/tpu-ironwood-prod.yml", "driverEpoch: 2", "driverEpoch: 3")
    assert fleet.compile().code == 0
    git(fleet, "add", "-A")
    return fleet


def test_git_sees_one_object_go_and_one_come_and_nothing_else(upgraded: Fleet) -> None:
    lines = git(upgraded, "diff", "--cached", "--no-renames", "--name-status", "compiled").split(
        "\n"
    )
    changes = dict(line.split("\t")[::-1] for line in lines if line)
    readme = changes.pop("compiled/tpu-ironwood-prod/README.md")
    assert readme == "M"
    assert sorted(changes.values()) == ["A", "D"]
    for path in changes:
        assert re.fullmatch(
            r"compiled/tpu-ironwood-prod/checkpointing/"
            r"checkpointconfiguration-ironwood-[0-9a-f]{8}-configuration\.yaml",
            path,
        )


def test_the_spec_is_the_same_so_that_only_name_and_epoch_tell_them_apart(upgraded: Fleet) -> None:
    old_path, new_path = sorted(
        git(upgraded, "diff", "--cached", "--no-renames", "--name-only", "--diff-filter=AD",
            "compiled").split(),
        key=lambda path: (upgraded.root / path).exists(),
    )  # fmt: skip
    old = yaml.safe_load(git(upgraded, "show", f"HEAD:{old_path}"))
    new = yaml.safe_load((upgraded.root / new_path).read_text())
    assert old["spec"] == new["spec"]
    notes = [body["metadata"]["annotations"] for body in (old, new)]
    assert [n.pop("stowplan.dev/driver-epoch") for n in notes] == ["2", "3"]
    assert notes[0] == notes[1]


def test_the_diff_says_that_the_ram_disks_are_emptied_and_on_how_many_nodes(
    upgraded: Fleet,
) -> None:
    answer = upgraded.run("diff", "--base", "HEAD")
    assert answer.code == 1
    assert re.search(
        r"± CheckpointConfiguration\s+ironwood-\w+-configuration → ironwood-", answer.out
    )
    assert "ramdisk-loss" in answer.out
    assert "32 nodes (tpu7x-standard-4t)" in answer.out
    assert upgraded.run("diff", "--base", "HEAD", "--fail-on", "ramdisk-loss").code == 3


def test_the_sync_asks_before_it_deletes_and_then_makes_the_new_one_in_the_same_wave(
    upgraded: Fleet,
) -> None:
    new = upgraded.object("tpu-ironwood-prod", "CheckpointConfiguration")
    notes = new["metadata"]["annotations"]
    assert notes["argocd.argoproj.io/sync-options"] == "Prune=confirm"
    # Old and new are of one kind, so of one wave, in which Argo CD prunes before it applies.
    assert notes["argocd.argoproj.io/sync-wave"] == str(SYNC_WAVES["CheckpointConfiguration"])
    assert "Replace" not in SYNC_OPTIONS["CheckpointConfiguration"]
    sets = yaml.safe_load(
        (upgraded.root / "compiled/argocd/applicationset-fleet-prod.yaml").read_text()
    )["spec"]
    assert sets["template"]["spec"]["syncPolicy"]["automated"]["prune"] is True
    (approval,) = sets["preservedFields"]["annotations"]
    assert approval in RUNBOOK


def test_under_flux_a_person_deletes_the_old_one(fleet: Fleet) -> None:
    fleet.edit("targets/shared-dev.yml", "parameters:\n", "parameters:\n  gitops: {tool: flux}\n")
    fleet.compile()
    body = fleet.object("shared-dev", "CheckpointConfiguration")
    assert body["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/prune"] == "disabled"
    assert "kubectl delete checkpointconfiguration" in RUNBOOK


def test_a_new_gke_version_alone_leaves_the_drivers_and_the_diff_says_so(fleet: Fleet) -> None:
    fleet.compile()
    before = fleet.object("tpu-ironwood-prod", "CheckpointConfiguration")["metadata"]["name"]
    git(fleet, "init", "-q", "-b", "main")
    git(fleet, "add", "-A")
    git(fleet, "commit", "-q", "-m", "The fleet")
    fleet.edit(
        "targets/tpu-ironwood-prod.yml",
        "gkeVersion: 1.34.1-gke.2037000",
        "gkeVersion: 1.34.2-gke.1000000",
    )
    fleet.compile()
    after = fleet.object("tpu-ironwood-prod", "CheckpointConfiguration")["metadata"]["name"]
    assert after == before
    assert "driverEpoch" in fleet.run("diff", "--base", "HEAD").out
