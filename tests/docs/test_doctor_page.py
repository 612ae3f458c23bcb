"""docs/doctor.md names every rule and only arguments that exist."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from generator.checks.live_rules import LIVE
from generator.cli import doctor

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text("utf-8")


def named_rules() -> set[str]:
    """Rules that the page names, ``DOC010 to DOC015`` spelled out."""
    rules = {row[0] for row in LIVE}
    named = set(re.findall(r"DOC\d{3}", PAGE))
    for first, last in re.findall(r"(DOC\d{3}) to (DOC\d{3})", PAGE):
        named |= {rule for rule in rules if first <= rule <= last}
    return named


def test_the_page_names_every_rule_and_no_other() -> None:
    assert named_rules() == {row[0] for row in LIVE}


def test_the_page_names_every_argument_and_no_other() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    doctor.add_arguments(parser)
    options = {text for action in parser._actions for text in action.option_strings}
    table = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(--[a-z-]+)", table)) == options - {"--color"}
