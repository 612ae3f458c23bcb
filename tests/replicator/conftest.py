"""What more than one module of these tests begins with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def agent(tmp_path: Path) -> list[str]:
    """A command line of an agent that would run."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "peers.yaml").write_text("agents: ['127.0.0.1:4999']\n")
    key = tmp_path / "key"
    key.write_text("k" * 44)
    key.chmod(0o600)
    return [
        *("agent", "--local-dir", str(tmp_path / "volume")),
        *("--peers", str(tmp_path / "peers.yaml"), "--key-file", str(key)),
    ]


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A checkpoint volume of one node."""
    path = tmp_path / "local"
    path.mkdir()
    return path
