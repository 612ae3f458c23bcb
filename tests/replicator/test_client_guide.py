"""The Python in docs/replicator-client.md does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import replicator.client
from replicator.client import ClientError
from replicator.client.arguments import LaunchError
from replicator.client.orbax import OrbaxSetupError
from replicator.config import parse_config
from replicator.config_fields import EXPANDABLE_VARIABLES, EXPANDED_KEYS
from replicator.demo.cluster import DemoCluster, free_ports
from replicator.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "replicator-client.md"
BLOCKS = re.findall(r"(?:<!-- needs (\w+) -->\n)?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
NEEDS = {"torch": "torch", "lightning": "lightning.pytorch", "orbax": "orbax.checkpoint"}


def test_the_page_has_examples() -> None:
    assert [needs for needs, _ in BLOCKS] == ["", "torch", "", "lightning", "orbax"]


PROLOGUE = """
from replicator.client import Framework, ReplicatorClient, ReplicatorConfig
config = ReplicatorConfig("job", Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)
"""
DRIVERS = {
    "torch": PROLOGUE
    + """
model = torch.nn.Linear(2, 1)
train(ReplicatorClient("/checkpoints", config), model)
print(model.weight.tolist())
""",
    "lightning": PROLOGUE
    + """
import torch

class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def on_train_epoch_end(self):
        self.trainer.should_stop = True

    def training_step(self, batch, index):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(4, 2))

model = Line()
fit(ReplicatorClient("/checkpoints", config), model)
print(model.trainer.global_step)
""",
    "orbax": "start(0, 1)\n",
}
"""What calls the functions that an example only defines."""
SAVED = {"": (2, 5), "torch": (40, 40), "lightning": (4, 8)}
"""The step that the agent holds after a first and after a second run of an example that saves."""


def run_example(needs: str, code: str, local: Path) -> str:
    """Run it as printed, but for the place of the volume; what it printed last."""
    code = f"{code}{DRIVERS.get(needs, '')}"
    for place in ("/checkpoints/{rank}", "/checkpoints"):
        code = code.replace(place, str(local))
    (port,) = free_ports(1)
    launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": ""}
    loopback = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "JAX_"))}
    done = subprocess.run(
        [sys.executable, "-c", code.replace("127.0.0.1:8476", f"127.0.0.1:{port}")],
        capture_output=True,
        text=True,
        timeout=150,
        cwd=local.parent,
        env={**environ, **launched, **loopback, "PYTHONPATH": str(PAGE.parents[1])},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return (done.stdout.splitlines() or [""])[-1]


@pytest.mark.parametrize(("needs", "code"), BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_runs_with_a_real_agent_and_again_after_its_restart(
    needs: str, code: str, tmp_path: Path
) -> None:
    if needs:
        pytest.importorskip(NEEDS[needs], reason=f"needs {needs}")
    with DemoCluster(tmp_path / "cluster", 1) as cluster:
        cluster.start_all()
        local = cluster.nodes[0].local
        steps = SAVED.get(needs, ()) if needs or "client.save(" in code else ()
        printed = []
        for step in steps or (None,):
            printed.append(run_example(needs, code, local))
            if step is not None:
                cluster.wait_replicated(step)
        if needs == "torch":
            assert printed[0] == printed[1], "the second run has loaded what the first saved"
        if needs == "lightning":
            assert printed == ["4", "8"], "the second run went on where the first had ended"


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
