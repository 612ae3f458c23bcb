"""``stowplan schema``: JSON Schema for editors."""

from __future__ import annotations

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments (none)."""


def run(arguments: argparse.Namespace) -> int:
    """Print the schema of an inventory file."""
    from generator.editor_schema import inventory_schema

    print(json.dumps(inventory_schema(), indent=2, ensure_ascii=False))
    return 0
