"""``stowplan init``: a small working tree of one's own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from generator.cli.files import write_files
from schemas.inventory.cluster import Project
from schemas.names import bucket_problem, dns_label_problem

TEMPLATE = Path(__file__).resolve().parent.parent / "templates" / "init"
KAPITAN_FILES = {
    ".kapitan": "global:\n  inventory-backend: reclass-rs\n",
    "components/stowplan/__init__.py": (
        '"""Kapitan\'s way into stowplan: kapitan compile writes what stowplan compile does."""\n\n'
        'from generator.kadet import main\n\n__all__ = ["main"]\n'
    ),
    "inventory/classes/kapitan.yml": (
        "# kapitan compile on this tree writes the same files as stowplan compile.\n"
        "parameters:\n"
        "  kapitan:\n"
        "    vars:\n"
        "      target: ${_reclass_:name:short}\n"
        "    compile:\n"
        "      - input_type: kadet\n"
        "        input_paths: [components/stowplan]\n"
        "        output_path: .\n"
        "        output_type: plain\n"
    ),
}


def _checked(problem: Callable[[str], str | None], what: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        wrong = problem(text)
        if wrong:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}: it {wrong}")
        return text

    return check


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directory", metavar="DIR", help="the folder to write; made if need be")
    parser.add_argument(
        "--cluster", default="my-cluster", type=_checked(dns_label_problem, "cluster name"),
        help="the first cluster's name (default: my-cluster)",
    )  # fmt: skip
    parser.add_argument("--project", default="my-project", help="project id (default: my-project)")
    parser.add_argument("--project-number", default="100000000001", help="its number")
    parser.add_argument(
        "--bucket", default="my-project-checkpoints", type=_checked(bucket_problem, "bucket name"),
        help="the bucket of the backups (default: my-project-checkpoints)",
    )  # fmt: skip
    parser.add_argument(
        "--kapitan", action="store_true", help="add the files for kapitan compile on the same tree"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the tree, unless any of its files is there already."""
    from pydantic import ValidationError

    try:
        Project.model_validate({"id": arguments.project, "number": arguments.project_number})
    except ValidationError as error:
        for detail in error.errors():
            print(f"error: {detail['msg']}", file=sys.stderr)
        return 2
    root = Path(arguments.directory)
    files = _files(arguments)
    taken = [path for path in files if (root / path).exists()]
    if taken:
        for path in taken:
            print(f"error: {root / path} exists already", file=sys.stderr)
        print("nothing was written; choose an empty folder", file=sys.stderr)
        return 2
    if not write_files(root, files):
        return 2
    for path in files:
        print(f"wrote {root / path}")
    print(f"next: cd {root} && stowplan compile")
    return 0


def _files(arguments: argparse.Namespace) -> dict[str, str]:
    """Every file of the tree by path, the answers filled in."""
    from generator.editor_schema import inventory_schema

    answers = {
        "@CLUSTER@": arguments.cluster,
        "@PROJECT@": arguments.project,
        "@NUMBER@": arguments.project_number,
        "@BUCKET@": arguments.bucket,
    }
    files: dict[str, str] = {}
    for source in sorted(TEMPLATE.rglob("*")):
        if not source.is_file():
            continue
        text = source.read_text(encoding="utf-8")
        for token, answer in answers.items():
            text = text.replace(token, answer)
        path = source.relative_to(TEMPLATE).as_posix()
        if path == "gitignore":
            path = ".gitignore"  # a real one in the package would hide files from builds
        path = path.replace("targets/cluster.yml", f"targets/{arguments.cluster}.yml")
        files[path] = text
    files["inventory.schema.json"] = (
        json.dumps(inventory_schema(), indent=2, ensure_ascii=False) + "\n"
    )
    if arguments.kapitan:
        files |= KAPITAN_FILES
        common = "inventory/classes/common.yml"
        files[common] = files[common].replace(
            "parameters:\n", "classes: [kapitan]\nparameters:\n", 1
        )
    return files
