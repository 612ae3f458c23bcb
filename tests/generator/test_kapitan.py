"""``kapitan compile`` on the same tree writes the same bytes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Fleet

KAPITAN = Path(sys.executable).parent / "kapitan"
pytestmark = pytest.mark.skipif(not KAPITAN.exists(), reason="the kapitan extra is not installed")


def kapitan(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(KAPITAN), *arguments], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip


def front_door(fleet: Fleet) -> None:
    for package in ("generator", "schemas", "policies"):
        (fleet.root / package).symlink_to(REPOSITORY / package)
    shutil.copy(REPOSITORY / ".kapitan", fleet.root)


def test_kapitan_writes_the_bytes_of_stowplan_for_the_whole_fleet(fleet: Fleet) -> None:
    fleet.compile()
    ours = fleet.compiled
    front_door(fleet)
    shutil.rmtree(fleet.root / "compiled")
    answer = kapitan(fleet.root, "compile")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert fleet.compiled == ours


def test_refs_pass_through_both_as_they_stand(fleet: Fleet) -> None:
    front_door(fleet)
    reference = fleet.root / "refs" / "team" / "token"
    written = kapitan(
        fleet.root, "refs", "--write", "base64:team/token", "-f", str(fleet.root / ".kapitan")
    )
    assert written.returncode == 0, written.stderr
    assert reference.exists()
    probe = fleet.root / "probe.py"
    probe.write_text(
        "from kapitan.refs.base import RefController\n"
        "print(RefController('refs')['?{base64:team/token}'].compile())\n"
    )
    token = subprocess.run(
        [sys.executable, "probe.py"], cwd=fleet.root, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert token.startswith("?{base64:team/token:")
    fleet.edit(
        "classes/teams/research.yml",
        "NCCL_DEBUG: WARN",
        f"NCCL_DEBUG: WARN\n        TOKEN: {token!r}",
    )
    assert fleet.compile().err == ""
    ours = fleet.compiled
    assert any(token.encode() in data for data in ours.values())
    shutil.rmtree(fleet.root / "compiled")
    answer = kapitan(fleet.root, "compile")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert fleet.compiled == ours


def test_a_ref_without_its_hash_is_warned_of_and_left_as_it_stands(fleet: Fleet) -> None:
    fleet.edit("classes/teams/research.yml", "NCCL_DEBUG: WARN", 'TOKEN: "?{gkms:team/token}"')
    answer = fleet.compile()
    assert answer.code == 0
    assert "warning INV090: the ref ?{gkms:team/token} has no hash" in answer.err
    assert any(b'"?{gkms:team/token}"' in data for data in fleet.compiled.values())


def test_an_error_shows_the_same_places_in_kapitan(fleet: Fleet) -> None:
    front_door(fleet)
    fleet.edit("classes/pools/v6e-4x4.yml", "machineType", "machinetype")
    answer = kapitan(fleet.root, "compile")
    assert answer.returncode != 0
    text = answer.stdout + answer.stderr
    assert "inventory/classes/pools/v6e-4x4.yml:8:7: unknown key 'machinetype'" in text
    assert "fix: write machineType" in text
