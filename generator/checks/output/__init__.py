"""The forms of a report: each module has one function, ``render(report, context)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from generator.checks.report import Report
from generator.spelling import plural

FORMATS = ("text", "json", "sarif", "junit", "github", "markdown")


@dataclass(frozen=True, slots=True)
class Context:
    """What a renderer may want to know besides the report.

    Attributes:
        color: whether the text form may use colour.
        version: the tool's version.
    """

    color: bool = False
    version: str = "0"


def renderer(name: str) -> Callable[[Report, Context], Iterator[str]]:
    """The renderer of a format."""
    module = import_module(f"generator.checks.output.{name}_form")
    render: Callable[[Report, Context], Iterator[str]] = module.render
    return render


def summary(report: Report) -> str:
    """One line: what was judged and what stands."""
    from generator.findings import Severity

    counts = [
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in (
            (report.count(Severity.ERROR), "error"),
            (report.count(Severity.WARNING), "warning"),
            (report.count(Severity.NOTE), "note"),
            (len(report.waived), "waived finding"),
        )
        if count
    ]
    what = report.scope or (f"{plural(report.objects, 'object')} in {plural(report.files, 'file')}")
    if report.clusters and not report.scope:
        what += f" of {plural(len(report.clusters), 'cluster')}"
    return f"{what}: {', '.join(counts) or 'no findings'}"
