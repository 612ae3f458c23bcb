"""Import into a folder of its own and compile what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.main import main
from generator.importing.trial import attempt
from tests.conftest import REPOSITORY, Result

DOCUMENTS = REPOSITORY / "tests/cases/documents"
HERE = Path(__file__).parent
FACTS = (
    "--project", "acme-training", "--project-number", "123456789012", "--location", "us-east5",
    "--gke-version", "1.33.4-gke.1245000", "--kueue-version", "0.17.0", "--jobset-version", "0.11.1",
)  # fmt: skip
"""What no manifest holds, as options."""


@dataclass
class Imported:
    """A folder that was imported into."""

    root: Path
    cluster: str
    answer: Result

    @property
    def target(self) -> dict[str, Any]:
        """The parameters of the target that was written."""
        path = self.root / f"inventory/targets/{self.cluster}.yml"
        parameters: dict[str, Any] = yaml.safe_load(path.read_text())["parameters"]
        return parameters

    @property
    def files(self) -> list[str]:
        """Every file below the folder."""
        return sorted(
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file()
        )

    def objects(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """What compile makes, also where checks refuse it: kind, namespace, workload or name."""
        inventory = self.root / "inventory"
        files = {
            path.relative_to(inventory).as_posix(): path.read_text()
            for path in inventory.rglob("*")
            if path.is_file()
        }
        scratch = self.root / "scratch"
        trial = attempt(scratch, inventory, self.cluster, files)
        assert trial.compiled is not None, trial.findings
        return {(m.kind, m.namespace, steady(m.body)): m.body for m in trial.compiled.manifests}


def steady(body: dict[str, Any]) -> str:
    """An object's name without the hash that compile adds."""
    notes = body["metadata"].get("annotations") or {}
    name: str = notes.get("stowplan.dev/workload") or body["metadata"]["name"]
    if body["kind"] == "CheckpointConfiguration":
        name = notes["stowplan.dev/config"]
    return name


@pytest.fixture
def bring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Imported]:
    """Run ``stowplan import`` into a fresh folder."""

    def run(
        files: Sequence[Path | str], *options: str, cluster: str = "demo", folder: str = "mine"
    ) -> Imported:
        capsys.readouterr()
        root = tmp_path / folder
        arguments = ["import", *map(str, files), "--cluster", cluster]
        arguments += ["-o", str(root / "inventory"), *options]
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Imported(root, cluster, Result(code, captured.out, captured.err))

    return run
