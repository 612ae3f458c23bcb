"""``stowplan explain``: what a rule asks for, why, and how to mend it."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches

HELP = "explain a rule, or list all of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("rule", nargs="?", help="a rule's id, such as KUE010; none lists all")


def run(args: argparse.Namespace) -> int:
    """Print the rule's page, or the list.

    Returns:
        0, or 2 for an unknown rule.
    """
    from generator.checks.rules import all_rules, page

    rules = all_rules()
    if not args.rule:
        for known in rules.values():
            print(f"{known.id}  {known.severity:<7}  {known.title}")
        return 0
    rule = rules.get(args.rule.upper())
    if rule is None:
        near = get_close_matches(args.rule.upper(), rules, 3, 0.6)
        hint = f"; did you mean {', '.join(near)}?" if near else "; stowplan explain lists all"
        print(f"stowplan explain: there is no rule {args.rule!r}{hint}", file=sys.stderr)
        return 2
    print(page(rule), end="")
    return 0
