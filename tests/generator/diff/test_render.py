from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from generator.diff.model import Impact, Report
from generator.diff.render.html import render_html
from generator.diff.render.json import render_json
from generator.diff.render.markdown import (
    LEVELS,
    MARKER,
    MIN_BUDGET,
    code,
    escape,
    fence,
    render_markdown,
)
from generator.diff.render.text import render_text
from tests.generator.diff import fleet
from tests.generator.diff.conftest import Compare

HOSTILE = (
    "</code></pre><script>alert(1)</script>\x1b[31m\u202e```\n| @team [x](javascript:1) <!-- `"
)


@pytest.fixture
def mixed(compare_trees: Compare) -> Report:
    """Every verb, many impacts, a group, a new cluster, a long text."""
    names = [f"c{n}" for n in range(6)]
    script = "\n".join(f"line {n}" for n in range(30))

    def config(text: str) -> dict[str, Any]:
        meta = {"name": "script"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a.sh": text}}

    old = {
        name: fleet.cluster(
            name,
            fleet.checkpointing(),
            fleet.flavor(),
            fleet.cluster_queue(),
            fleet.local_queue(),
            fleet.jobset(),
            fleet.priority_class(),
            config(script),
        )
        for name in names
    }
    new = {
        name: fleet.cluster(
            name,
            fleet.checkpointing("a09ef321", "60Gi") if name == "c0" else fleet.checkpointing(),
            fleet.flavor(),
            fleet.cluster_queue(40 + n),
            fleet.local_queue("foundation"),
            fleet.jobset("llama-70b-r2", 50) if name == "c1" else fleet.jobset(),
            *([] if name == "c2" else [fleet.priority_class(5 if name == "c3" else 2_000_000)]),
            config(script.replace("line 15", "line fifteen")),
        )
        for n, name in enumerate(names)
    }
    new["c4"]["queueing/moved.yaml"] = new["c4"].pop(fleet.path_of(fleet.flavor()))
    new["new"] = fleet.cluster("new")
    return compare_trees(old, new)


@pytest.fixture
def hostile(compare_trees: Compare) -> Report:
    """Names and values that try to break out of each format."""

    def widget(value: str) -> dict[str, Any]:
        return {
            "apiVersion": "x.io/v1",
            "kind": "Widget" + HOSTILE,
            "metadata": {"name": HOSTILE, "namespace": HOSTILE, "labels": {HOSTILE: value}},
            "spec": {HOSTILE: value, "list": [{"name": HOSTILE, "a": value}], "long": value * 3},
        }

    old, new = (fleet.cluster("a", widget(v)) for v in (HOSTILE, HOSTILE + HOSTILE))
    old, new = (
        {path: body for path, body in objects.items() if path == "cluster.yaml"}
        | {"queueing/widget.yaml": widget(value)}
        for objects, value in ((old, HOSTILE), (new, HOSTILE + "2"))
    )
    new["cluster.yaml"]["spec"]["waivers"] = [{"rule": HOSTILE, "reason": HOSTILE}]
    return compare_trees({"a": old}, {"a": new})


# Text


def test_text_says_what_happens(mixed: Report) -> None:
    text = render_text(mixed)
    assert "RAM disks on 16 nodes (64 chips) of c0 will be emptied" in text
    assert "spec.inMemoryVolumeSize" in text
    assert re.search(r"50Gi → 60Gi +2× → 2.4× of a 25Gi local checkpoint", text)
    assert "immutable (JobSet CEL: Value is immutable)" in text
    assert "same change in 6 clusters" in text
    assert "- line 15" in text
    assert "+ line fifteen" in text
    assert "\x1b" not in text


def test_a_number_stands_beside_its_own_field_only(compare_trees: Compare) -> None:
    def tree(quota: int) -> dict[str, fleet.Objects]:
        queue = fleet.cluster_queue(quota)
        resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        resources[1]["nominalQuota"] = quota * 90
        return {"a": fleet.cluster("a", fleet.flavor(), queue)}

    text = render_text(compare_trees(tree(32), tree(48)))
    assert text.count("64 on the nodes of v6e; all queues together 48") == 1


def test_a_number_that_differs_over_a_group_says_so(compare_trees: Compare) -> None:
    """The same new quota fits one cluster and not the other."""

    def tree(quota: int) -> dict[str, fleet.Objects]:
        out = {n: fleet.cluster(n, fleet.flavor(), fleet.cluster_queue(quota)) for n in "ab"}
        out["b"]["cluster.yaml"]["spec"]["nodePools"][0]["nodes"] = 8
        return out

    report = compare_trees(tree(16), tree(48))
    text = render_text(report)
    assert "in a: 64 on the nodes of v6e; all queues together 48 (differs by place, " in text
    assert "out of bounds in 1 of 2 places" in text
    assert "16 MORE THAN there are (ClusterQueue tpu of b)" in text


def test_text_folds_cosmetic_changes_and_opens_them(mixed: Report) -> None:
    folded, opened = render_text(mixed), render_text(mixed, unfold=True)
    assert "research → foundation" not in folded
    assert "research → foundation" in opened


def test_colours_only_colour(mixed: Report) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", render_text(mixed, colour=True))
    assert plain == render_text(mixed)


def test_text_lets_no_control_character_through(hostile: Report) -> None:
    text = render_text(hostile, unfold=True)
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


# Markdown


def blocks(text: str) -> list[str]:
    """The fenced blocks as a CommonMark parser sees them."""
    return [t.content for t in MarkdownIt("commonmark").parse(text) if t.type == "fence"]


def test_markdown_can_be_acted_on(mixed: Report) -> None:
    text = render_markdown(mixed)
    assert text.startswith(MARKER + "\n")
    assert "> [!CAUTION]" in text
    assert "| 🔴 ramdisk-loss | c0 |" in text
    assert "- spec.inMemoryVolumeSize: 50Gi\n+ spec.inMemoryVolumeSize: 60Gi\n" in text
    assert text.count("<details>") == text.count("</details>") == len(mixed.groups)


@pytest.mark.parametrize("budget", [MIN_BUDGET, 3_000, 4_000, 6_000, 9_000, 60_000])
def test_markdown_keeps_to_its_budget_without_cutting(mixed: Report, budget: int) -> None:
    text = render_markdown(mixed, budget=budget, report_url="https://ci.example/diff.html")
    assert len(text) <= budget
    assert text.startswith(MARKER)
    assert "full report" in text
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0
    assert text.rstrip().endswith("</sub>")


def test_every_level_says_less_than_the_one_before(mixed: Report) -> None:
    lengths = [60_000]
    while lengths[-1] > MIN_BUDGET:
        lengths.append(len(render_markdown(mixed, budget=lengths[-1] - 1)))
    assert lengths == sorted(set(lengths), reverse=True)
    assert len(lengths) > 4
    assert all(level.note for level in LEVELS[1:])


def test_a_table_cell_shows_where_two_long_values_differ(compare_trees: Compare) -> None:
    def tree(tag: str) -> dict[str, fleet.Objects]:
        job = fleet.jobset(f"llama-r{tag[-1]}")
        pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["containers"][0]["image"] = f"europe-docker.pkg.dev/acme-training/images/maxtext:{tag}"
        return {"a": fleet.cluster("a", job)}

    text = render_markdown(compare_trees(tree("2026-11-11"), tree("2026-11-12")))
    (row,) = [line for line in text.splitlines() if line.startswith("| 🟠")]
    assert "`…2026-11-11 → …2026-11-12`" in row


def test_the_gravest_changes_fill_what_room_there_is(compare_trees: Compare) -> None:
    def trees(size: int) -> dict[str, fleet.Objects]:
        """Clusters in which each change is of a shape of its own, so that none are grouped."""
        found = {}
        for n in range(40):
            job, queue = fleet.jobset(), fleet.cluster_queue()
            job["spec"]["replicatedJobs"][0]["template"]["spec"][f"odd{n}"] = size
            queue["spec"][f"odd{n}"] = {"text": "x" * 500 * size}
            found[f"c{n:02d}"] = fleet.cluster("c", job, queue)
        return found

    report = compare_trees(trees(1), trees(2))
    whole = render_markdown(report, budget=1_000_000)
    assert whole.count("<details>") == 80
    text = render_markdown(report, budget=len(whole) // 3)
    assert "only the gravest changes are shown in full" in text
    blocks = re.findall(r"<summary>(\S+)", text)
    assert 5 < len(blocks) < 80
    assert blocks == re.findall(r"<summary>(\S+)", whole)[: len(blocks)]
    assert len(whole) // 3 - len(text) < 2_000


def test_the_smallest_budget_holds_any_report(compare_trees: Compare) -> None:
    names = [f"cluster-with-a-rather-long-name-{n:04d}" for n in range(60)]
    old = {name: fleet.cluster(name) for name in names}
    new = {
        name: fleet.cluster(name, fleet.checkpointing("a09ef321"), fleet.jobset(f"x{n}-r9"))
        for n, name in enumerate(names)
    }
    assert len(render_markdown(compare_trees(old, new), budget=MIN_BUDGET)) <= MIN_BUDGET


def test_markdown_of_hostile_values_is_inert(hostile: Report) -> None:
    text = render_markdown(hostile)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    outside = re.sub(r"<(pre|code)[ >].*?</\1>", "", rendered, flags=re.S)
    assert "<script" not in outside
    assert "<a href" not in outside
    assert not re.search(r"@\w", outside)
    assert text.count("<details>") == text.count("</details>") == len(hostile.groups)
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


@given(st.text(max_size=60))
@settings(max_examples=150, deadline=None)
def test_a_fence_holds_any_text(body: str) -> None:
    lines = body.splitlines()
    (content,) = blocks(fence(["+ " + line for line in lines]))
    assert content.count("+ ") >= len(lines)


@given(st.text(alphabet="`ab |\\", min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_code_span_holds_any_text(body: str) -> None:
    wanted = " ".join(body.split())
    tokens = MarkdownIt("commonmark").parseInline(code(body))[0].children or []
    assert [token.type for token in tokens] == ["code_inline"]
    assert tokens[0].content.strip() == wanted.strip()


@given(st.text(alphabet="*_`[]()<>#|~!\\ab&@", max_size=25))
@settings(max_examples=150, deadline=None)
def test_escaped_text_is_text(body: str) -> None:
    rendered = MarkdownIt("commonmark", {"html": True}).renderInline(escape("x" + body))
    shown = html.unescape(rendered).replace("\u200b", "")
    assert shown == "x" + " ".join(("x" + body).split())[1:]


# HTML


class Checker(HTMLParser):
    """Counts what a browser would act on, and sees that tags are balanced."""

    VOID = frozenset({"meta", "input", "col"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: dict[str, int] = {}
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
            if name.startswith("on") or name == "style":
                self.active.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def test_html_is_whole_and_self_contained(mixed: Report) -> None:
    found = checked(render_html(mixed))
    assert found.tags["article"] == len(mixed.groups)
    assert all(link.startswith("#") for link in found.links)
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert found.active == []


def test_the_comment_links_to_anchors_of_the_page(mixed: Report) -> None:
    ids = set(checked(render_html(mixed)).ids)
    comment = render_markdown(mixed, report_url="https://ci.example/diff.html")
    anchors = re.findall(r"\(https://ci\.example/diff\.html#(c-[0-9a-f]+)\)", comment)
    assert len(anchors) == len(mixed.groups)
    assert set(anchors) <= ids


def test_html_of_hostile_values_is_inert(hostile: Report) -> None:
    found = checked(render_html(hostile))
    assert found.tags["script"] == 1
    assert found.active == []


def test_html_allows_only_its_own_style_and_script(mixed: Report) -> None:
    page = render_html(mixed)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium")
def test_the_page_runs_in_a_browser(mixed: Report, tmp_path: Path) -> None:
    """The script runs under the page's own policy: it counts the cards that are shown."""
    page = tmp_path / "page.html"
    page.write_text(render_html(mixed))
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    cards = len(mixed.groups)
    assert f'<output id="shown">{cards} of {cards} shown</output>' in done.stdout


def test_html_shows_both_sides(mixed: Report) -> None:
    page = render_html(mixed)
    assert "<mark>5</mark>0Gi" in page
    assert "<mark>6</mark>0Gi" in page


# JSON


def schema() -> Any:
    return json.loads(resources.files("generator.diff").joinpath("diff.schema.json").read_text())


@pytest.mark.parametrize("name", ["mixed", "hostile"])
def test_json_follows_its_schema(name: str, request: pytest.FixtureRequest) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    document = json.loads(render_json(request.getfixturevalue(name)))
    jsonschema.validate(document, schema(), cls=jsonschema.Draft202012Validator)


def test_json_members_name_changes(mixed: Report) -> None:
    document = json.loads(render_json(mixed))
    ids = [change["id"] for change in document["changes"]]
    assert sorted(m for group in document["groups"] for m in group["members"]) == sorted(ids)
    assert all(sentence for change in document["changes"] for sentence in change["why"])
    counted = document["summary"]
    assert sum(counted["impact"].values()) == len(ids)
    assert sum(counted[v] for v in ("add", "change", "replace", "delete", "move")) == len(ids)


def test_json_holds_what_yaml_knows_and_json_does_not(compare_trees: Compare) -> None:
    def tree(value: float) -> dict[str, fleet.Objects]:
        body = {"apiVersion": "x.io/v1", "kind": "W", "metadata": {"name": "w"}, "spec": {"a": 1}}
        return {"a": {"w.yaml": body | {"spec": {"a": value}}}}

    report = compare_trees(tree(1.5), tree(2.5))
    (field,) = report.changes[0].fields
    object.__setattr__(field, "new", float("inf"))
    assert json.loads(render_json(report))["changes"][0]["fields"][0]["new"] == "inf"


# All


@pytest.mark.parametrize(
    "render", [render_text, render_markdown, render_html, render_json], ids=lambda f: f.__name__
)
def test_no_difference(compare_trees: Compare, render: Any) -> None:
    tree = {"a": fleet.cluster("a")}
    text = render(compare_trees(tree, tree))
    assert text.endswith("\n")
    if render is not render_json:
        assert "no differences" in text or "mean the same" in text


def test_every_impact_has_a_badge_a_colour_and_a_meaning(mixed: Report) -> None:
    page = render_html(mixed)
    css = resources.files("generator.diff.render").joinpath("page.css").read_text()
    for impact in Impact:
        assert f"i-{impact.value}" in css
        assert f'class="badge i-{impact.value}"' in page
