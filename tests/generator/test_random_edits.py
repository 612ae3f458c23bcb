"""Whatever a person mistypes: an answer with a line, never a traceback."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from generator.compile import Options, compile_fleet
from generator.findings import Severity
from tests.conftest import REPOSITORY

TREE = REPOSITORY / "generator" / "templates" / "init" / "inventory"
VALUES = [
    "y", "010", "~", '""', "[]", "{}", "-1", "1e9", "2024-01-01", "200GiB", "200 Gi", "${a:b}",
    "${cluster:name", "&x a", "*x", "!tag v", "é", "a" * 300, "<IMAGE LOCATION>", "GCS_BUCKET",
    "gs://x", ".inf", "99999999999999999999", "?{gkms:x/y}", "[1, 2]", "{a: b}", "- x", "|", ">",
    "%", "@", "0", "1.5", "../../etc", "A_b", "x-",
]  # fmt: skip


def _edited(line: str, rng: random.Random) -> list[str]:
    """One line as somebody may leave it."""
    at = rng.randrange(len(line) + 1)
    return rng.choice([
        [re.sub(r":\s.*$", lambda _: f": {rng.choice(VALUES)}", line)],
        [],
        [line, line],
        [line[:at] + line[at + 1 :]],
        [line[:at] + rng.choice("abx:-#\"'{}[]&*!|> \t0") + line[at:]],
        [" " * rng.randrange(1, 6) + line],
        [line.lstrip()],
        [re.sub(r"\S.*$", lambda _: rng.choice(VALUES), line)],
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_a_random_edit_is_taken_or_answered_with_its_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    shutil.copytree(TREE, tmp_path / "inventory")
    file = rng.choice(sorted((tmp_path / "inventory").rglob("*.yml")))
    lines = file.read_text("utf-8").split("\n")
    at = rng.randrange(len(lines))
    lines[at : at + 1] = _edited(lines[at], rng)
    file.write_text("\n".join(lines), "utf-8")
    outcome = compile_fleet(Options(tmp_path, jobs=1, cache=False, check=True))
    errors = [f for f in outcome.findings if f.severity is Severity.ERROR]
    assert bool(errors) == bool(outcome.failed)
    for error in errors:
        assert error.inventory is not None
        assert error.inventory.line > 0, error
