"""The Python in docs/replicator-client.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_replicator import FakeReplicator

import replicator.client
from replicator.client import ClientError
from replicator.client.arguments import LaunchError
from replicator.client.orbax import OrbaxSetupError
from replicator.config import parse_config
from replicator.config_fields import EXPANDABLE_VARIABLES, EXPANDED_KEYS
from replicator.errors import ConfigError

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


def test_the_page_names_every_key_and_variable() -> None:
    section = PAGE.read_text().partition("## The file itself")[2].partition("\n## ")[0]
    table, _, rest = section.partition("\nAny other key")
    rows = table.strip().splitlines()[2:]
    keys = set(re.findall(r"`([a-z-]+)`", "".join(row.split("|")[1] for row in rows)))
    assert keys == EXPANDED_KEYS | {"framework", "peer-ranks"}
    named = set(re.findall(r"`([A-Z_]{4,})`", rest)) - {"REPLICATOR_JOB_", "NAME"}
    assert named == EXPANDABLE_VARIABLES


def test_the_page_names_every_error_and_all_are_client_errors() -> None:
    section = PAGE.read_text().partition("### Errors")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Za-z]+Error)`", section)) - {"ClientError"}
    exported = {
        name
        for name in replicator.client.__all__
        if isinstance(kind := getattr(replicator.client, name), type)
        and issubclass(kind, Exception)
    }
    adapters = {"LaunchError": LaunchError, "OrbaxSetupError": OrbaxSetupError}
    assert named == (exported - {"ClientError"}) | adapters.keys() | {"StartError"}
    for name in exported:
        assert issubclass(getattr(replicator.client, name), ClientError)
    assert all(issubclass(kind, ClientError) for kind in adapters.values())


def test_no_key_on_the_page_is_unknown_to_the_parser() -> None:
    keys = sorted(EXPANDED_KEYS | {"framework", "peer-ranks"})
    with pytest.raises(ConfigError) as caught:
        parse_config("".join(f"{key}: '?'\n" for key in keys).encode())
    assert "unknown key" not in str(caught.value)
    assert {p.line for p in caught.value.problems} == set(range(1, len(keys) + 1))
