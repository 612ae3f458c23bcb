"""Every rule of ``stowplan doctor`` has its fault planted on a real plane; without a plane."""

from __future__ import annotations

import ast
from pathlib import Path

from generator.checks.live_rules import LIVE

HERE = Path(__file__).parent


def rules_waited_for() -> set[str]:
    """Rules that a test of the plane waits for, and fails unless the doctor tells them there."""
    return {
        call.args[0].value
        for file in HERE.glob("test_*.py")
        for test in ast.parse(file.read_text()).body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        for call in ast.walk(test)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "wait_for"
        and isinstance(call.args[0], ast.Constant)
    }


def test_every_rule_of_the_doctor_is_planted_on_a_plane() -> None:
    assert rules_waited_for() == {row[0] for row in LIVE}
