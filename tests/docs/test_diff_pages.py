"""Every command of the pages on the diff runs, and answers what the page says."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Fleet
from tests.generator.diff import fleet as small

PAGES = {
    "docs/diff.md": (
        "targets/tpu-v6e-docs.yml",
        "tpu-v6e-slice: {}",
        "tpu-v6e-slice: {share: 0.75}",
    ),
    "docs/runbooks/upgrade-a-cluster.md": (
        "classes/pools/h100-mega.yml",
        "peers: 1",
        "peers: 1\n      driverEpoch: 2",
    ),
}
"""Page → the edit of the inventory that its commands are run after."""

BLOCK = re.compile(r"^ *```console\n(.*?)^ *```", re.S | re.M)


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Each command of a page with the lines that it is said to answer."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall((REPOSITORY / page).read_text()):
        for line in block.splitlines():
            text = line.strip()
            if text.startswith("$ "):
                found.append((text[2:], []))
            elif text:
                found[-1][1].append(text)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(fleet: Fleet, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPOSITORY / "compiled", fleet.root / "compiled")
    small.git(fleet.root, "init", "-q")
    small.commit(fleet.root)
    fleet.edit(*PAGES[page])
    assert fleet.compile().code == 0
    monkeypatch.chdir(fleet.root)
    listed = commands(page)
    assert listed
    for command, lines in listed:
        program, *arguments = shlex.split(command)
        assert program == "stowplan"
        result = fleet.run(*arguments)
        assert result.code in (0, 1, 3), result.err
        answer = re.sub(r"\s+", " ", result.out + result.err)
        for line in lines:
            pattern = r"\S*".join(re.escape(part) for part in re.sub(r"\s+", " ", line).split("…"))
            assert re.search(pattern, answer), f"{command}: no {line!r} in\n{result.out}"


@pytest.mark.parametrize(
    "page", sorted(str(p.relative_to(REPOSITORY)) for p in (REPOSITORY / "docs").rglob("*.md"))
)
def test_links_inside_the_repository_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (REPOSITORY / page).read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert ((REPOSITORY / page).parent / Path(target)).exists(), f"{page}: {target}"
