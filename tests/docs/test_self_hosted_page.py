"""docs/replicator-self-hosted.md: what it shows compiles, and its tables are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generator.checks.rules import all_rules
from schemas.inventory.self_hosted import Agent
from tests.conftest import Fleet

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "replicator-self-hosted.md").read_text()
CLUSTER = "tpu-v6e-docs"
V6E = "classes/pools/v6e-4x4.yml"


def first_yaml() -> str:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    "tls", ["", "        tls: {secret: replicator-tls, dnsName: replicator.internal}\n"]
)
def test_the_inventory_at_the_top_of_the_page_compiles(fleet: Fleet, tls: str) -> None:
    shown = first_yaml().replace("@sha256:…", "@sha256:" + "0" * 64)
    assert "…" not in shown
    fleet.write("classes/page.yml", shown.replace("      agent:\n", "      agent:\n" + tls))
    path = fleet.root / "inventory" / V6E
    text = path.read_text()
    path.write_text(text[: text.index("  checkpointing:")])
    docs = f"targets/{CLUSTER}.yml"
    fleet.edit(docs, "  - trillium-job\n", "  - trillium-job\n  - page\n")
    text = (fleet.root / "inventory" / docs).read_text()
    model = text[text.index("  checkpointing:") : text.index("  queueing:")]
    fleet.edit(docs, model, "")
    answer = fleet.compile("-t", CLUSTER)
    assert (answer.code, answer.err) == (0, "")
    agents = fleet.object(CLUSTER, "DaemonSet")
    assert agents["metadata"]["annotations"]["stowplan.dev/ram-disk-size"] == "141Gi"


def rows() -> list[tuple[list[str], list[str]]]:
    """The keys and the defaults of each row of the table."""
    table = PAGE[PAGE.index("| key of `agent` |") : PAGE.index("## Before the first sync")]
    found = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE)
    return [(re.findall(r"`([\w.]+)`", keys), re.findall(r"[^`, ]+", d)) for keys, d in found]


def test_the_table_of_keys_is_that_of_the_model() -> None:
    shown = {key for keys, _ in rows() for key in keys} - {"tls.secret", "tls.dnsName"} | {"tls"}
    assert shown == {field.alias or name for name, field in Agent.model_fields.items()}


def test_the_defaults_in_the_table_are_the_models() -> None:
    wanted = {
        field.alias or name: str(field.default)
        for name, field in Agent.model_fields.items()
        if not field.is_required() and field.default is not None
    }
    shown = {k: d for keys, defaults in rows() for k, d in zip(keys, defaults, strict=False)}
    assert {key: shown[key] for key in wanted} == wanted


def test_every_rule_that_the_page_names_exists() -> None:
    named = set(re.findall(r"\b(?:INV|MTC|SIZ|SEC)\d{3}\b", PAGE))
    assert {"INV035", "INV074", "MTC032"} <= named <= set(all_rules())
