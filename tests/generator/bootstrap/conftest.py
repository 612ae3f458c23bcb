"""The compiled example fleet, and a cloud to run its scripts against."""

from __future__ import annotations

import copy
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.generator.bootstrap.fake_cloud import STAND_IN, Server

COMPILED = REPOSITORY / "compiled"
CLUSTERS = sorted(path.parent.name for path in COMPILED.glob("*/cluster.yaml"))


@dataclass
class Lab:
    """A cloud, and a folder with the programs that talk to it."""

    folder: Path
    state: dict[str, Any]

    def set(self, **values: Any) -> None:
        """Change the cloud's state."""
        self.state.update(copy.deepcopy(values))

    def run(self, script: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script with the stand-ins on PATH; the log begins anew."""
        self.set(calls=[])
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": str(self.folder), **variables}
        return subprocess.run(
            ["bash", str(script)], env=environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    def changes(self) -> list[str]:
        """Calls that change something, as ``gcloud container clusters create`` and so on."""
        verbs = {"create", "update", "add-iam-policy-binding", "apply"}
        return [
            " ".join(word for word in call if not word.startswith("--"))
            for call in self.state["calls"]
            if verbs & set(call)
        ]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """An empty project acme-training."""
    folder = tmp_path / "cloud"
    (folder / "bin").mkdir(parents=True)
    with Server() as server:
        for program in ("gcloud", "kubectl"):
            stand_in = folder / "bin" / program
            stand_in.write_text(STAND_IN.format(port=server.server_address[1], program=program))
            stand_in.chmod(0o755)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield Lab(folder, server.state)
        server.shutdown()
