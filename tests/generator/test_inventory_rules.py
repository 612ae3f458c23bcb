"""Every rule that compile reports has its row, and every row is reported somewhere."""

from __future__ import annotations

import re

from generator.checks.inventory_rules import INVENTORY
from tests.conftest import REPOSITORY


def test_table_and_code_name_the_same_rules() -> None:
    code = "".join(
        path.read_text()
        for path in (REPOSITORY / "generator").rglob("*.py")
        if path.name != "inventory_rules.py"
    )
    reported = set(re.findall(r'"(INV\d{3})"', code))
    assert {row[0] for row in INVENTORY} == reported


def test_every_row_names_a_file_that_reports_it() -> None:
    for rule, *_, source in INVENTORY:
        assert f'"{rule}"' in (REPOSITORY / source).read_text(), rule
