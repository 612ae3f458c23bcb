"""The Terraform is HCL as HashiCorp's own code formats it, and names only arguments that exist."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.build.bootstrap import plan, terraform
from generator.build.bootstrap.hcl import Block, render, string
from generator.build.bootstrap.plan import Plan
from generator.compile import fleets
from generator.inventory import discover
from tests.conftest import REPOSITORY, Fleet
from tests.generator.bootstrap.conftest import CLUSTERS, COMPILED
from tests.generator.bootstrap.hcl_tool import formatters

TABLE = yaml.safe_load((REPOSITORY / "generator/build/bootstrap/arguments.yaml").read_text())[
    "terraform"
]
FORMATTERS = formatters()
needs_a_formatter = pytest.mark.skipif(
    not FORMATTERS, reason="no terraform, tofu or hclfmt, and no Go toolchain that builds one"
)


def plan_of(root: Path, cluster: str) -> Plan:
    ((_, fleet, findings),) = fleets(discover(root), [cluster])
    assert fleet is not None, findings
    return plan(fleet)


def arguments(block: Block, above: str = "") -> Iterator[tuple[str, str]]:
    """(path of blocks, argument) of everything in a block."""
    head = block.labels[0] if block.labels and block.type != "provider" else ""
    own = head or " ".join([block.type, *block.labels])
    path = f"{above}/{block.type}" if above else own
    for item in block.body:
        if isinstance(item, Block):
            yield from arguments(item, path)
        else:
            yield path, item[0]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_argument_stands_in_the_table_with_its_source(cluster: str) -> None:
    for block in terraform.modules(plan_of(REPOSITORY, cluster)):
        for path, name in arguments(block):
            assert path in TABLE, path
            assert TABLE[path]["source"]
            assert name in TABLE[path]["arguments"], f"{path}: {name}"


@needs_a_formatter
@pytest.mark.parametrize("formatter", FORMATTERS, ids=lambda command: Path(command[0]).name)
def test_the_compiled_files_are_formatted(formatter: list[str]) -> None:
    files = sorted(map(str, COMPILED.glob("*/bootstrap/terraform/*.tf")))
    assert len(files) == 4 * len(CLUSTERS)
    answer = subprocess.run([*formatter, *files], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@needs_a_formatter
@pytest.mark.parametrize("formatter", FORMATTERS, ids=lambda command: Path(command[0]).name)
def test_texts_with_quotes_templates_and_line_breaks_stay_texts(
    formatter: list[str], tmp_path: Path
) -> None:
    hostile = ['"', '${file("/etc/passwd")}', "%{ if true }x%{ endif }", "a\nb", "\\", "ü\t#"]
    body = tuple((f"a{number}", text) for number, text in enumerate(hostile))
    file = tmp_path / "hostile.tf"
    file.write_text(render([Block("locals", body), Block("empty", ())]))
    answer = subprocess.run([*formatter, str(file)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@settings(max_examples=200)
@given(st.text())
def test_no_text_opens_a_template(text: str) -> None:
    inside = string(text)[1:-1]
    for sign in ("${", "%{"):
        assert inside.replace(sign[0] + sign, "").count(sign) == 0


def test_two_clusters_never_own_one_bucket(fleet: Fleet) -> None:
    owners = [
        cluster
        for cluster in CLUSTERS
        if 'resource "google_storage_bucket" '
        in (COMPILED / cluster / "bootstrap/terraform/storage.tf").read_text()
    ]
    assert owners == ["tpu-v5p-prod"]


def test_a_zonal_cluster_does_not_name_its_own_zone(fleet: Fleet) -> None:
    fleet.edit("targets/tpu-v5p-prod.yml", "location: us-central1\n", "location: us-central1-a\n")
    (_, cluster, *_) = (
        b for b in terraform.modules(plan_of(fleet.root, "tpu-v5p-prod")) if b.labels
    )
    names = [item[0] for item in cluster.body if not isinstance(item, Block)]
    assert "node_locations" not in names


def test_gpu_pools_carry_their_cards_and_a_driver() -> None:
    text = (COMPILED / "gpu-h100-prod/bootstrap/terraform/node-pools.tf").read_text()
    assert 'type  = "nvidia-h100-mega-80gb"\n      count = 8' in text
    assert 'gpu_driver_version = "LATEST"' in text
    assert 'values                   = ["research-h100"]' in text


def test_taints_labels_and_a_service_account_arrive(fleet: Fleet) -> None:
    fleet.edit(
        "targets/shared-dev.yml",
        "      nodes: 4\n",
        "      nodes: 4\n      labels: {team: data, example.com/rank: '1'}\n"
        "      taints: [{key: dedicated, value: data, effect: NoExecute}]\n",
    )
    fleet.edit(
        "targets/shared-dev.yml",
        "  cluster:\n",
        "  cluster:\n    nodeServiceAccount: nodes@acme-training.iam.gserviceaccount.com\n",
    )
    text = terraform.files(plan_of(fleet.root, "shared-dev"))["terraform/node-pools.tf"]
    assert '"example.com/rank" = "1"' in text
    assert 'effect = "NO_EXECUTE"' in text
    assert text.count('service_account = "nodes@acme-training.iam.gserviceaccount.com"') == 2
    storage = terraform.files(plan_of(fleet.root, "shared-dev"))["terraform/storage.tf"]
    assert '"serviceAccount:nodes@acme-training.iam.gserviceaccount.com"' in storage
