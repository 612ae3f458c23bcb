"""Any two trees of readable files give a report in every format, never a traceback."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.diff.build import build_report
from generator.diff.model import IMPACT_RANK, Report, Verb
from generator.diff.render.html import render_html
from generator.diff.render.json import document
from generator.diff.render.markdown import MIN_BUDGET, render_markdown
from generator.diff.render.text import render_text
from generator.diff.tree import open_trees
from tests.generator.diff import fleet
from tests.generator.diff.test_render import checked, schema

SCHEMA = jsonschema.Draft202012Validator(schema())
REAL = (
    fleet.checkpointing(),
    fleet.flavor(),
    fleet.cluster_queue(),
    fleet.local_queue(),
    fleet.jobset(),
    fleet.priority_class(),
    fleet.facts("a"),
)

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "64Gi", "12000m", "always", "Never", "a\nb\nc\nd\n", "±`|<b>\x1b[0m"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["name", "key", "a.b/c"]), st.integers(0, 3), max_size=2),
)


def mutate(draw: st.DrawFn, original: dict[str, Any]) -> Any:
    """A copy with a few values replaced, removed or doubled anywhere."""
    body = copy.deepcopy(original)
    for _ in range(draw(st.sampled_from([1, 0, 2, 4]))):
        place: Any = body
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if place is body and draw(st.sampled_from([True, True, True, False])):
                keys = [key for key in keys if key not in ("apiVersion", "kind")]
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            inner = place[key]
            deeper = draw(st.sampled_from([True, True, True, True, False]))
            if isinstance(inner, dict | list) and inner and deeper:
                place = inner
                continue
            change = draw(st.sampled_from(["set", "drop", "double"]))
            if change == "drop":
                del place[key]
            elif change == "double" and isinstance(place, list):
                place.append(copy.deepcopy(inner))
            else:
                place[key] = draw(odd)
            break
    return body


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    return mutate(draw, draw(st.sampled_from(REAL)))


@st.composite
def edited(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cluster before and after a few edits."""
    old = {f"a/{path}": body for path, body in fleet.cluster("a").items()}
    return old, {path: mutate(draw, body) for path, body in old.items()}


trees = st.dictionaries(
    st.sampled_from(
        ["a/x.yaml", "a/cluster.yaml", "a/q/y.yaml", "b/x.yaml", "b/z.json", "top.yml"]
    ),
    st.one_of(mutated(), mutated(), mutated(), odd),
    min_size=1,
    max_size=5,
)

sides = st.one_of(edited(), st.tuples(trees, trees))


def report_of(old: dict[str, Any], new: dict[str, Any]) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        for side, files in (("old", old), ("new", new)):
            root = Path(folder, side)
            root.mkdir()
            (root / "marker.md").write_text("so that neither side is empty")
            for path, body in files.items():
                file = root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(body))  # which is YAML as well
        return build_report(*open_trees(f"{folder}/old", f"{folder}/new", "compiled"))


@given(sides)
@settings(max_examples=60, deadline=None)
def test_every_format_of_any_two_trees(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    report = report_of(*both)
    SCHEMA.validate(json.loads(json.dumps(document(report), allow_nan=False)))
    assert [c for c in render_text(report, unfold=True) if not c.isprintable() and c != "\n"] == []
    for budget in (MIN_BUDGET, 60_000):
        assert len(render_markdown(report, budget=budget)) <= budget
    checked(render_html(report))


@given(sides)
@settings(max_examples=30, deadline=None)
def test_what_holds_of_every_report(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    old, new = both
    there, back = report_of(old, new), report_of(new, old)
    assert bool(there.groups) == bool(back.groups)
    assert there.verbs[Verb.ADD] == back.verbs[Verb.DELETE]
    assert there.verbs[Verb.DELETE] == back.verbs[Verb.ADD]
    ranks = [IMPACT_RANK[group.impact] for group in there.groups]
    assert ranks == sorted(ranks)
    assert sum(there.impacts.values()) == sum(there.verbs.values()) == len(there.changes)
    assert report_of(new, new).groups == ()
