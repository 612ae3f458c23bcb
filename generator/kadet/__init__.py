"""The Kapitan front door: a kadet component that returns what ``stowplan compile`` would write.

With ``output_type: plain`` Kapitan writes each entry as it stands, so both give the same bytes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from generator.findings import SEVERITY_RANK, Severity, path_text
from generator.inventory import Classes, Rendered, Tree, discover
from generator.render import render_cluster


@cache
def _tree(inventory: str) -> tuple[Tree, Classes]:
    tree = discover(Path(inventory).resolve().parent)
    return tree, Classes.read(tree)


def rendered_target(name: str) -> tuple[Tree, Classes, Rendered]:
    """A target's parameters as Kapitan has rendered them already, and the tree that they are of."""
    from kapitan import cached

    target = cached.global_inv[name]
    tree, classes = _tree(cached.args.inventory_path)
    files = tuple(tree.classes[used] for used in target["classes"])
    return tree, classes, Rendered(name, target["parameters"], (*files, tree.targets[name]))


def main(input_params: dict[str, Any]) -> dict[str, str]:
    """Kapitan's entry point: the current target's files by path.

    Raises:
        kapitan.errors.CompileError: the target has errors; the text lists all of them.
    """
    from kapitan.errors import CompileError
    from kapitan.topics import current_target

    tree, classes, rendered = rendered_target(current_target.get())
    result = render_cluster(tree, classes, rendered)
    errors = [f for f in (*classes.findings, *result.findings) if f.severity is Severity.ERROR]
    if errors:
        errors.sort(key=lambda f: (SEVERITY_RANK[f.severity], f.sort_key))
        lines = [
            f"{f.where or path_text(f.path)}: {f.message}"
            + (f"\n    fix: {f.fix}" if f.fix else "")
            for f in errors
        ]
        raise CompileError("\n" + "\n".join(lines))
    return result.files
