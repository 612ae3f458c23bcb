"""Shared fixtures: a copy of the example fleet to break, and the command line in-process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.main import main

REPOSITORY = Path(__file__).resolve().parent.parent
STOWPLAN = [sys.executable, "-m", "generator.cli.main"]
"""The command line as a process of its own, from any folder with :data:`ENVIRONMENT`."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@dataclass
class Result:
    """What a command answered."""

    code: int
    out: str
    err: str


@dataclass
class Fleet:
    """A copy of the example fleet's inventory, to be edited and compiled."""

    root: Path
    capture: pytest.CaptureFixture[str]

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text that must be there."""
        path = self.root / "inventory" / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file} does not hold {old!r}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def write(self, file: str, data: str | bytes) -> None:
        """Write a file of the inventory."""
        path = self.root / "inventory" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    def run(self, *arguments: str) -> Result:
        """Run a stowplan command on the tree."""
        self.capture.readouterr()
        try:
            code = main([*arguments, "-C", str(self.root)])
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = self.capture.readouterr()
        return Result(code, captured.out, captured.err)

    def compile(self, *arguments: str) -> Result:
        """Run ``stowplan compile`` in one process."""
        return self.run("compile", "-j", "1", *arguments)

    @property
    def compiled(self) -> dict[str, bytes]:
        """Every file of ``compiled/`` by relative path."""
        folder = self.root / "compiled"
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def objects(self, cluster: str, kind: str) -> list[dict[str, Any]]:
        """The compiled objects of a kind, in the order of their files."""
        found = []
        for path in sorted((self.root / "compiled" / cluster).rglob(f"{kind.lower()}-*.yaml")):
            if path.parent.name != "controllers":
                found.append(yaml.safe_load(path.read_text()))
        return found

    def object(self, cluster: str, kind: str, name: str = "") -> dict[str, Any]:
        """The one compiled object of a kind whose name begins so."""
        (found,) = [
            o for o in self.objects(cluster, kind) if o["metadata"]["name"].startswith(name)
        ]
        return found


@pytest.fixture
def fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fleet:
    """The example fleet's inventory, not yet compiled."""
    shutil.copytree(REPOSITORY / "inventory", tmp_path / "inventory")
    return Fleet(tmp_path, capsys)


@pytest.fixture
def stowplan(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The command line in-process, for commands that need no tree."""

    def run(*arguments: str) -> Result:
        try:
            code = main(list(arguments))
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
