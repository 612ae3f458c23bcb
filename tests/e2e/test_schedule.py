"""How the end-to-end tests are spread over processes; without a control plane."""

from __future__ import annotations

import pytest

from .schedule import group_of, place_of

HERE = "tests/e2e"
DRY_RUN, APPLY = "test_every_file_passes_a_strict_server_side_dry_run", "test_a_second_apply"


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("test_doctor.py::test_a", "test_doctor.py::test_b", True),
        ("test_doctor.py::test_a", "test_self_hosted.py::test_a", False),
        ("test_gitops.py::test_a[x]", "test_gitops.py::test_a[y]", True),
        ("test_hotswap.py::test_a", "test_hotswap.py::test_b", False),
        ("test_hotswap.py::test_a[one node]", "test_hotswap.py::test_a[the pool]", False),
        (
            f"test_acceptance.py::{DRY_RUN}[shared-dev]",
            f"test_acceptance.py::{APPLY}[shared-dev]",
            True,
        ),
        (
            f"test_acceptance.py::{APPLY}[shared-dev]",
            f"test_acceptance.py::{APPLY}[tpu-v5p-prod]",
            True,
        ),
        (
            f"test_acceptance.py::{APPLY}[gpu-h100-prod]",
            f"test_acceptance.py::{APPLY}[shared-dev]",
            False,
        ),
        (
            "test_agreement.py::test_a[kueue-v0.16.2]",
            "test_agreement.py::test_a[kueue-v0.17.0]",
            False,
        ),
    ],
)
def test_tests_that_share_a_plane_stay_together(one: str, other: str, together: bool) -> None:
    assert (group_of(f"{HERE}/{one}") == group_of(f"{HERE}/{other}")) is together


def test_what_takes_minutes_is_begun_first() -> None:
    names = ("test_plane.py::test_a", "test_hotswap.py::test_a", "test_gitops.py::test_a")
    ordered = sorted((f"{HERE}/{name}" for name in names), key=place_of)
    assert [name.rpartition("/")[2] for name in ordered] == list(reversed(names))
