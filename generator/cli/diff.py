"""``stowplan diff``: what a change of the rendered tree means, before it is merged."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from generator.cli.terminal import colour_wanted, print_findings
from generator.diff.build import UnreadableHeadError, build_report
from generator.diff.git import DiffError
from generator.diff.model import Impact, Report
from generator.diff.render.html import render_html
from generator.diff.render.json import render_json
from generator.diff.render.markdown import BUDGET, MIN_BUDGET, render_markdown
from generator.diff.render.text import render_text
from generator.diff.tree import open_trees

HELP = "compare two rendered trees and say what the change does to running clusters"

FORMATS = ("text", "markdown", "html", "json")
SUFFIXES = {
    ".txt": "text",
    ".md": "markdown",
    ".html": "html",
    ".json": "json",
}

EQUAL, DIFFERENT, ERROR, FAILED = 0, 1, 2, 3
"""Exit codes: no difference, differences, usage or unreadable input, ``--fail-on`` hit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--base", default="HEAD", metavar="REF|DIR", help="the side before (default: HEAD)"
    )
    parser.add_argument("--head", metavar="REF|DIR", help="the side after (default: the work tree)")
    parser.add_argument(
        "--merge-base",
        action="store_true",
        help="compare with the commit where head left base, as a pull request does",
    )
    parser.add_argument(
        "-C",
        "--directory",
        default=".",
        type=Path,
        metavar="DIR",
        help="the folder to start from (default: here)",
    )
    parser.add_argument(
        "--path",
        default="compiled",
        metavar="DIR",
        help="the rendered tree inside each side (default: compiled)",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="format on stdout (default: text)"
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="also write FILE, its format told by .txt, .md, .html or .json; may be repeated",
    )
    parser.add_argument(
        "--fail-on",
        default="",
        metavar="IMPACT,…",
        help="exit 3 when a change has one of these classes: " + ", ".join(Impact),
    )
    parser.add_argument(
        "--all", action="store_true", help="show cosmetic changes instead of counting them"
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours on stdout (default: auto; NO_COLOR switches them off)",
    )
    parser.add_argument(
        "--budget",
        type=int,
        default=BUDGET,
        metavar="N",
        help=f"most characters of the markdown comment (default: {BUDGET:,})",
    )
    parser.add_argument(
        "--report-url", default="", metavar="URL", help="link to the full report, for the comment"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        fail_on = _fail_on(args.fail_on)
        formats = [(path, _format_of(path)) for path in args.output]
        if args.budget < MIN_BUDGET:
            raise DiffError(f"--budget {args.budget} is too small", f"at least {MIN_BUDGET}")
        if args.report_url and not args.report_url.startswith(("https://", "http://")):
            raise DiffError(f"--report-url {args.report_url!r} is no http(s) address")
        if not args.directory.is_dir():
            raise DiffError(f"--directory {args.directory} is no folder", "check the path")
        base, head = open_trees(
            args.base,
            args.head,
            args.path,
            merge_base=args.merge_base,
            cwd=Path(os.path.abspath(args.directory)),  # noqa: PTH100 - links stay as given
        )
        report = build_report(base, head)
        for path, kind in formats:
            _write(path, _render(report, kind, args, colour=False))
    except DiffError as error:
        _complain(error.message, error.fix)
        return ERROR
    except UnreadableHeadError as error:
        print_findings(error.findings)
        return ERROR
    _print(_render(report, args.format, args, colour=_colour(args.color)))
    if fail_on & set(report.impacts):
        hit = ", ".join(impact for impact in Impact if impact in fail_on & set(report.impacts))
        print(f"stowplan diff: --fail-on: {hit}", file=sys.stderr)
        return FAILED
    return DIFFERENT if report.groups else EQUAL


def _render(report: Report, kind: str, args: argparse.Namespace, *, colour: bool) -> str:
    renderers: dict[str, Callable[[], str]] = {
        "text": lambda: render_text(report, colour=colour, unfold=args.all),
        "markdown": lambda: render_markdown(report, budget=args.budget, report_url=args.report_url),
        "html": lambda: render_html(report),
        "json": lambda: render_json(report),
    }
    return renderers[kind]()


def _fail_on(text: str) -> set[Impact]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in set(Impact)]
    if unknown:
        raise DiffError(
            f"--fail-on: {', '.join(map(repr, unknown))} is no impact class",
            "one or more of " + ", ".join(Impact),
        )
    return {Impact(name) for name in names}


def _format_of(path: Path) -> str:
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise DiffError(
            f"--output {path}: the suffix names no format", "one of " + ", ".join(SUFFIXES)
        )
    return kind


def _colour(choice: str) -> bool:
    return colour_wanted(sys.stdout) if choice == "auto" else choice == "always"


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise DiffError(f"cannot write {path}: {error.strerror}", "check the folder") from None


def _print(text: str) -> None:
    """Write to stdout whatever its encoding is."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _complain(message: str, fix: str) -> None:
    tail = f"\n  fix: {fix}" if fix else ""
    print(f"stowplan diff: {message}{tail}", file=sys.stderr)
