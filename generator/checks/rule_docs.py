"""Write ``docs/rules``: one page a rule and an index. ``--check`` fails when they are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generator.checks.rules import all_rules, index, page


def pages() -> dict[str, str]:
    """File names and contents of ``docs/rules``."""
    rules = all_rules()
    return {"README.md": index(rules.values())} | {
        f"{rule.id}.md": page(rule) for rule in rules.values()
    }


def stale(folder: Path) -> list[str]:
    """Names of pages that are missing, differ, or belong to no rule."""
    wanted = pages()
    there = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return sorted(n for n in {*wanted, *there} if wanted.get(n) != there.get(n))


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or with ``--check`` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/rules"))
    args = parser.parse_args(arguments)
    names = stale(args.folder)
    if args.check:
        if names:
            print(f"stale, run make codegen: {', '.join(names)}", file=sys.stderr)
        return 1 if names else 0
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = pages().get(name)
        if text is None:
            (args.folder / name).unlink()
        else:
            (args.folder / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
