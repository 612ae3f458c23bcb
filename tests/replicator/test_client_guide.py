"""The Python in docs/replicator-client.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_replicator import FakeReplicator

PAGE = Path(__file__).parents[2] / "docs" / "replicator-client.md"
BLOCKS = re.findall(r"(?:<!-- needs (\w+) -->\n)?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
NEEDS = {"torch": "torch", "lightning": "lightning.pytorch", "orbax": "orbax.checkpoint"}


def test_the_page_has_examples() -> None:
    assert [needs for needs, _ in BLOCKS] == ["", "torch", "", "lightning", "orbax"]


@pytest.mark.parametrize(("needs", "code"), BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_runs(needs: str, code: str, tmp_path: Path) -> None:
    if needs:
        pytest.importorskip(NEEDS[needs], reason=f"needs {needs}")
    code = code.replace("/checkpoints", str(tmp_path))
    with FakeReplicator(tmp_path) as replicator:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
        if "client.save(" in code:
            replicator.wait_for_saved(2)
            exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
            replicator.wait_for_saved(5)
