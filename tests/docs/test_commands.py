"""Every command in README.md and docs runs in a scratch folder and answers what the page says.

A block fenced as ``console`` holds ``$ command`` lines (``> `` continues one) with the answer beneath.
In an answer ``…`` alone on a line stands for any lines, ``…`` inside a line for any text. A command
without an answer has to succeed. A comment in the page says in which folder its commands run::

    <!-- commands: fleet -->

``empty`` (the default), ``fleet`` (a Git repository with the example fleet, compiled and
committed), ``backups`` (that, and a bucket with two backups at ``$BACKUPS``) or ``manifests`` (the
GKE documents' manifests in ``manifests/``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.test_diff_pages import PAGES as RUN_ELSEWHERE

TIMEOUT_S = 60
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^ *```", re.S | re.M)
_SETTING = re.compile(r"<!-- commands: (\w+) -->")
_LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")


def pages() -> list[str]:
    """README.md and every page below docs."""
    found = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    return sorted(path.relative_to(REPOSITORY).as_posix() for path in found)


@dataclass
class Command:
    """One command of a page and what the page says that it answers."""

    text: str
    line: int
    answer: list[str] = field(default_factory=list)


def commands(text: str) -> list[Command]:
    """The commands of a page, in order."""
    found: list[Command] = []
    for block in _BLOCK.finditer(text):
        if block["language"] != "console":
            continue
        first = text.count("\n", 0, block.start()) + 2
        for offset, raw in enumerate(block["body"].splitlines()):
            line = raw.removeprefix(block["indent"]).rstrip()
            if line.startswith("$ "):
                found.append(Command(line[2:], first + offset))
            elif line.startswith("> ") and not found[-1].answer:
                found[-1].text += "\n" + line[2:]
            else:
                found[-1].answer.append(line)
    return found


def pattern(answer: list[str]) -> str:
    """A regular expression for an answer with its wildcards."""
    parts = []
    for line in answer:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(part) for part in line.split("…")) + r" *\n")
    return "".join(parts) + r"\n*"


def test_the_pattern_of_an_answer() -> None:
    assert re.fullmatch(pattern(["a", "…", "z…"]), "a\nb\nc\nz9\n")
    assert re.fullmatch(pattern(["a", "…", "z"]), "a\nz\n")
    assert not re.fullmatch(pattern(["a", "z"]), "a\nb\nz\n")
    assert not re.fullmatch(pattern(["a"]), "a\nb\n")
    assert re.fullmatch(pattern(["wrote …/b"]), "wrote x/b\n")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def _empty(folder: Path) -> None:
    """Nothing is there."""


def _fleet(folder: Path) -> None:
    for part in ("inventory", "compiled"):
        shutil.copytree(REPOSITORY / part, folder / part)
    (folder / ".gitignore").write_text(".stowplan/\n")
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "the fleet as it is")


def _backups(folder: Path) -> None:
    """Backups as the public replicator names them: a .meta for each worker, data by its hash."""
    _fleet(folder)
    for name, step in (("2026-11-30_09-18", 1150), ("2026-11-30_09-48", 1200)):
        backup = folder / "bucket/llama-70b" / name
        for node in range(2):
            data = "D" + f"{step}{node}".zfill(64)
            (backup / f"{data}.data").mkdir(parents=True)
            (backup / f"{data}.data/shard").write_text(f"{step} {node}")
            (backup / f"llama-70b-s{step}-n{node}-w0.meta").write_text(data)


def _manifests(folder: Path) -> None:
    shutil.copytree(REPOSITORY / "tests/cases/documents", folder / "manifests")


SETTINGS: dict[str, Callable[[Path], None]] = {
    "empty": _empty,
    "fleet": _fleet,
    "backups": _backups,
    "manifests": _manifests,
}


def environment(folder: Path) -> dict[str, str]:
    """What commands see: this environment's programs, and nothing of the person who runs them."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder.parent),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "BACKUPS": f"file://{folder}/bucket",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "Reader",
        "GIT_AUTHOR_EMAIL": "reader@example.com",
        "GIT_COMMITTER_NAME": "Reader",
        "GIT_COMMITTER_EMAIL": "reader@example.com",
    }


WITH_COMMANDS = [
    page
    for page in pages()
    if page not in RUN_ELSEWHERE and commands((REPOSITORY / page).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    setting = _SETTING.search(text)
    folder = tmp_path / "scratch"
    folder.mkdir()
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)
    SETTINGS[setting[1] if setting else "empty"](folder)
    where = folder
    for command in commands(text):
        moved = re.fullmatch(r"cd (\S+)", command.text)
        if moved:
            where = where / moved[1]
            continue
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=where, env=environment(folder), timeout=TIMEOUT_S, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        shown = f"{page}:{command.line}: $ {command.text}\n{done.stdout}"
        assert done.returncode == 0 or (done.returncode in (1, 2, 3) and command.answer), shown
        if command.answer:
            output = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
            assert re.fullmatch(pattern(command.answer), output), shown


@pytest.mark.parametrize("page", pages())
def test_stowplan_is_only_called_in_blocks_that_run(page: str) -> None:
    for block in _BLOCK.finditer((REPOSITORY / page).read_text(encoding="utf-8")):
        if block["language"] in ("", "sh", "bash", "shell"):
            assert not re.search(r"^ *(?:\$ )?stowplan ", block["body"], re.M), block[0]
    rest = _BLOCK.sub("", (REPOSITORY / page).read_text(encoding="utf-8"))
    assert not re.search(r"^ {4,}(?:\$ |.*\| )?stowplan ", rest, re.M)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    text = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ +(.+)$", text, re.M)
    }


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    path = REPOSITORY / page
    text = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{page}: {link}"
        assert target.is_relative_to(REPOSITORY), f"{page}: {link} leaves the repository"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page}: {link}"


def test_the_index_leads_to_every_page() -> None:
    text = (REPOSITORY / "docs/README.md").read_text(encoding="utf-8")
    listed = {
        (REPOSITORY / "docs" / link).resolve().relative_to(REPOSITORY).as_posix()
        for link in _LINK.findall(text)
    }
    single_rules = re.compile(r"docs/rules/[A-Z]+\d+\.md")
    assert {p for p in pages() if not single_rules.fullmatch(p)} - listed == {
        "README.md", "docs/README.md",
    }  # fmt: skip
