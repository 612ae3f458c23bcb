from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generator.diff.build import build_report
from generator.diff.model import Change, Report
from generator.diff.tree import open_trees
from tests.generator.diff import fleet

Compare = Callable[[dict[str, fleet.Objects], dict[str, fleet.Objects]], Report]


@pytest.fixture
def compare_trees(tmp_path: Path) -> Compare:
    """Write two trees and return the report of their difference."""

    def run(old: dict[str, fleet.Objects], new: dict[str, fleet.Objects]) -> Report:
        base = fleet.write(tmp_path / "base", old)
        head = fleet.write(tmp_path / "head", new)
        return build_report(*open_trees(str(base), str(head), "compiled"))

    return run


@pytest.fixture
def compare_objects(compare_trees: Compare) -> Callable[..., Change]:
    """Return the one change between two states of one cluster's one object."""

    def run(old: dict[str, object] | None, new: dict[str, object] | None) -> Change:
        others = [fleet.flavor(), fleet.local_queue()]

        def tree(body: dict[str, object] | None) -> dict[str, fleet.Objects]:
            bodies = [b for b in (body, *others) if b is not None]
            return {"tpu-a": fleet.cluster("tpu-a", *bodies)}

        (change,) = compare_trees(tree(old), tree(new)).changes
        return change

    return run
