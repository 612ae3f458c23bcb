"""Read YAML that people pasted: name every fault of its layout, mend it in memory, and go on.

A page or a chat changes indentation. A reader that stops at the first such line hides everything
else that is wrong, so this one reports the line, moves it to where its key can only stand, and lets
the other checks judge the rest. Files are never written. Well-formed files take the fast road and
cost nothing more than loading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

from generator.findings import Finding, Location, Severity
from generator.yaml_lines import lines_outside_blocks
from generator.yaml_load import (
    TOO_DEEP,
    Document,
    TemplateError,
    YamlError,
    load_documents,
)

MAX_REPAIRS = 60
"""Repairs of one file, after which it is called unreadable rather than broken in places."""

_SEPARATOR_LIKE = re.compile(r"^(?P<indent>[ \t]*)---(?P<tail>[ \t]+\S.*|[ \t]+)?$")
_KEY = re.compile(r"^(?P<indent> *)(?P<dashes>(?:- +)*)(?P<key>[^\s#'\"{\[&*!|>%@`-][^:]*):(?: |$)")
_ODD_INDENT = re.compile("^[ \t]*[\u00a0\u2000-\u200b\u202f\u3000]", re.M)
_ODD_SPACES = re.compile("[\u00a0\u2000-\u200b\u202f\u3000\ufeff]")


@dataclass(frozen=True, slots=True)
class Read:
    """What could be read of a text, and what is wrong with its layout.

    Attributes:
        documents: the documents; lines are the original's, columns may be those of the mended text.
        findings: the faults of the layout.
    """

    documents: list[Document]
    findings: list[Finding]


def read_documents(text: str, file: str) -> Read:
    """Load a YAML stream, mending its layout where needed. Never raises on bad content."""
    try:
        documents = load_documents(text, file)
    except YamlError as error:
        if error.message == TOO_DEEP or isinstance(error, TemplateError):
            return Read([], [_unreadable(error)])  # no indentation of a line mends that
        return _mend(text, file, error)
    if ("\n " in text and _hides_separator(text)) or _ODD_INDENT.search(text):
        # It loads, but not as what it looks like: an indented --- becomes part of a value.
        return _mend(text, file, YamlError("unreadable", Location(file)))
    return Read(documents, _odd_separators(text, file) if "---" in text else [])


def _fault(rule: str, message: str, fix: str, file: str, line: int, column: int = 1) -> Finding:
    return Finding(rule, Severity.ERROR, message, fix, manifest=Location(file, line, column))


def _hides_separator(text: str) -> bool:
    """Whether an indented --- stands outside a block of literal text."""
    if " ---" not in text:
        return False
    return any(
        match["indent"]
        for _, line in lines_outside_blocks(text)
        if (match := _SEPARATOR_LIKE.match(line))
    )


def _odd_separators(text: str, file: str) -> list[Finding]:
    """Separators that YAML reads as such but line-splitting tools do not."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _SEPARATOR_LIKE.match(line)
        if match and match["tail"] and not match["indent"]:
            # kubectl splits here all the same; conftest reads only the first document.
            found.append(
                replace(
                    _fault(
                        "YML003",
                        "text or spaces behind --- hide this separator from tools that split on it",
                        "write --- alone on the line",
                        file,
                        number,
                    ),
                    severity=Severity.WARNING,
                )
            )
    return found


def _mend(text: str, file: str, error: YamlError) -> Read:
    findings: list[Finding] = []
    lines = _clean_lines(text, file, findings)
    lines = _dedent(lines, file, findings)
    for _ in range(MAX_REPAIRS):
        mended = "\n".join(lines) + "\n"
        try:
            return Read(load_documents(mended, file), findings)
        except YamlError as next_error:
            error = next_error
        repaired = _reindent(lines, error)
        if repaired is None:
            break
        lines, finding = repaired
        findings.append(_fault("YML002", *finding, file, error.where.line or 1))
    return _split(lines, file, findings, error)


def _clean_lines(text: str, file: str, findings: list[Finding]) -> list[str]:
    """Replace characters that only look like spaces, and code fences."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if _ODD_SPACES.search(line):
            findings.append(
                _fault(
                    "YML002",
                    "a character that looks like a space but is none, as web pages use it",
                    "retype the spaces of the line",
                    file,
                    number,
                )
            )
            line = _ODD_SPACES.sub(" ", line)
        if line.strip().startswith("```"):
            findings.append(
                _fault("YML002", "a code fence of a document", "remove the line", file, number)
            )
            line = ""
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent:
            findings.append(
                _fault(
                    "YML002",
                    "a tab in the indentation",
                    "YAML indents with spaces; replace the tab",
                    file,
                    number,
                )
            )
            line = indent.replace("\t", "  ") + line.lstrip()
        lines.append(line)
    return lines


def _dedent(lines: list[str], file: str, findings: list[Finding]) -> list[str]:
    """Take away an indentation that every line shares; separators inside it are none."""
    written = [line for line in lines if line.strip()]
    common = min((len(line) - len(line.lstrip()) for line in written), default=0)
    out = []
    for number, line in enumerate(lines, 1):
        match = _SEPARATOR_LIKE.match(line)
        if match and match["indent"]:
            findings.append(
                _fault(
                    "YML003",
                    f"--- is indented by {len(match['indent'])} spaces: it parts no documents",
                    "write --- at the start of the line, and take the same indentation from all "
                    "other lines",
                    file,
                    number,
                    len(match["indent"]) + 1,
                )
            )
            line = "---"
        elif common:
            line = line[common:]
        out.append(line)
    if common and not any(f.rule == "YML003" for f in findings):
        first = next(n for n, line in enumerate(lines, 1) if line.strip())
        findings.append(
            _fault(
                "YML002",
                f"every line is indented by {common} spaces",
                f"remove {common} spaces from the start of each line",
                file,
                first,
                common + 1,
            )
        )
    return out


def _reindent(lines: list[str], error: YamlError) -> tuple[list[str], tuple[str, str]] | None:
    """Move the line that the parser refused, and those that hang on it, to a level above it.

    Returns:
        The new lines with a message and a fix, or None where no level helps.
    """
    at = (error.where.line or 0) - 1
    if not 0 <= at < len(lines):
        return None
    for position in (at, at - 1):
        if not 0 <= position < len(lines):
            continue
        match = _KEY.match(lines[position])
        if match is None:
            continue
        indent = len(match["indent"])
        for level in _levels(lines, position):
            if level == indent:
                continue
            moved = _shift(lines, position, level - indent)
            if _reaches(moved, position):
                key = match["key"].strip()
                message = (
                    f"{key!r} is indented by {indent} spaces where it can stand at {level} only"
                )
                return moved, (message, f"indent it by {level} spaces: {moved[position]!r}")
    return None


def _levels(lines: list[str], position: int) -> list[int]:
    """Columns at which keys of enclosing mappings stand, the innermost first."""
    levels: list[int] = []
    for line in reversed(lines[:position]):
        if line.startswith("---"):
            break
        match = _KEY.match(line)
        if match is None:
            continue
        own, inner = len(match["indent"]), len(match["indent"]) + len(match["dashes"])
        if not levels or inner < min(levels):
            levels.append(inner)
        if match["dashes"] and own < min(levels):
            levels.append(own)
        if own == 0:
            break
    return levels


def _shift(lines: list[str], position: int, delta: int) -> list[str]:
    """Move a line and the lines after it that are indented at least as much."""
    indent = len(lines[position]) - len(lines[position].lstrip())
    out = list(lines)
    for number in range(position, len(lines)):
        line = lines[number]
        if line.strip():
            if number > position and len(line) - len(line.lstrip()) < indent:
                break
            own = len(line) - len(line.lstrip())
            out[number] = " " * max(own + delta, 0) + line.lstrip()
    return out


def _reaches(lines: list[str], position: int) -> bool:
    """Whether a parser now gets past a line."""
    try:
        load_documents("\n".join(lines) + "\n", "")
    except YamlError as error:
        return (error.where.line or 0) - 1 > position
    return True


def _split(lines: list[str], file: str, findings: list[Finding], error: YamlError) -> Read:
    """Give up on the documents that cannot be read, keep the others."""
    documents: list[Document] = []
    starts = [0, *(n for n, line in enumerate(lines) if line.rstrip() == "---"), len(lines)]
    broken = False
    for first, last in pairwise(starts):
        # Blank lines in front keep the numbers of the lines.
        part = "\n" * first + "\n".join(lines[first:last]) + "\n"
        try:
            documents.extend(load_documents(part, file))
        except YamlError as part_error:
            broken = True
            findings.append(
                Finding(
                    "YML001",
                    Severity.ERROR,
                    part_error.message,
                    part_error.fix or "mend the line",
                    manifest=part_error.where,
                )
            )
    if not broken:
        findings.append(_unreadable(error))
    return Read(documents, findings)


def _unreadable(error: YamlError) -> Finding:
    return Finding("YML001", Severity.ERROR, error.message, error.fix, manifest=error.where)
