"""The page of scenarios: self-contained, complete, safe; and the mutations that others rely on."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from pathlib import Path

from .documents import fleet
from .mutation import Mutator
from .page import load, render, save
from .timeline import Mark, Span, Timeline


def story() -> Timeline:
    return Timeline(
        "A node <b>fails</b> & returns",
        [
            Span("node-0", "Node", "1", "Ready", "pool-a", 0, 10),
            Span("high-0-0", "Pod", "2", "Pending", "", 1, 2),
            Span("high-0-0", "Pod", "2", "Running", "pool-a", 2, None),
            Span("high", "Workload", "3", "Evicted", "Preempted", 4, 6),
        ],
        [Mark(4, 'lost: "node-0"'), Mark(4.01, "seen")],
        12,
        "What is told.",
    )


class _Tags(HTMLParser):
    """Counts tags that are left open, and collects attributes that load something."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [
            str(value)
            for name, value in attrs
            # A fragment is a place on the same page.
            if name in ("src", "href", "srcset") and not str(value).startswith("#")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_loads_nothing_and_closes_every_tag() -> None:
    page = render([story()], "Versions.")
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.loads == []
    assert not re.search(r"https?://|<script|@import|url\(", page)


def test_names_from_a_cluster_are_shown_as_text() -> None:
    tags = _Tags()
    tags.feed(render([story()], ""))
    assert "A node <b>fails</b> & returns" in tags.texts
    assert "b" not in tags.open


def test_marks_close_together_do_not_cover_each_other() -> None:
    page = render([story()], "")
    dots = [float(x) for x in re.findall(r'class="dot" cx="([\d.]+)"', page)]
    assert len(dots) == 2
    assert dots[1] - dots[0] >= 16


def test_the_page_follows_the_colour_scheme_of_the_reader() -> None:
    page = render([story()], "")
    assert "color-scheme: light dark" in page
    assert "prefers-color-scheme: dark" in page


def test_a_saved_time_line_is_read_back(tmp_path: Path) -> None:
    assert load(save(story(), tmp_path)) == story()


def test_the_same_seed_makes_the_same_mutations_and_spares_the_original() -> None:
    manifests = fleet()
    before = copy.deepcopy(manifests)
    runs = [
        [mutator.mutate(manifest) for manifest in manifests * 20]
        for mutator in (Mutator({}, 7), Mutator({}, 7))
    ]
    assert runs[0] == runs[1]
    assert manifests == before
    assert all(one.manifest != old for one, old in zip(runs[0], manifests * 20, strict=True))


def test_the_contents_lead_to_every_scenario() -> None:
    titles = ("Fair sharing", "Hotswap: a whole node pool is lost", "<b> & co")
    page = render([Timeline(title) for title in titles], "")
    links = re.findall(r'href="#([^"]*)"', page)
    assert len(set(links)) == len(titles)
    assert [page.count(f'<section id="{link}">') for link in links] == [1] * len(titles)
