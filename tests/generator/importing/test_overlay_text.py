"""The overlay file: any value comes back from jsonnet as it went in, at the place it was for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from generator.importing.overlay import Overlay
from generator.manifest import Manifest
from generator.overlays import apply

FACTS = {"metadata": {"name": "demo"}}


def applied(tmp_path: Path, overlay: Overlay, body: dict[str, Any]) -> list[dict[str, Any]]:
    """What compile makes of one object with the overlay."""
    folder = tmp_path / "inventory/overlays"
    folder.mkdir(parents=True)
    (folder / "demo.jsonnet").write_text(overlay.text("demo"), encoding="utf-8")
    manifests, findings = apply(tmp_path, "demo.jsonnet", FACTS, [Manifest("queueing", body)])
    assert findings == []
    return [manifest.body for manifest in manifests]


def an_object() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "team"},
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]},
    }


@pytest.mark.parametrize(
    "value",
    [
        "it's", 'a "word"', "both ' and \"", "two\nlines\n", "tab\there", "back\\slash",
        "שלום", "%s ${x} $(Y)", "", 0, 7, -3, 1.5, True, False, [], {}, [1, 2], ["a", ["b"]],
        {"if": 1, "with space": 2, "": 3}, list(range(300)), "x" * 300,
        [{"name": "a" * 50, "value": "b" * 50}],
    ],
)  # fmt: skip
def test_a_value_comes_back_as_it_went_in(tmp_path: Path, value: Any) -> None:
    overlay = Overlay(patches={"ConfigMap team/settings": [(("spec", "odd/key", "deep"), value)]})
    (made,) = applied(tmp_path, overlay, an_object())
    assert made["spec"]["odd/key"]["deep"] == value
    assert made["spec"]["containers"] == an_object()["spec"]["containers"]


def test_list_entries_are_found_by_name_and_made_where_there_are_none(tmp_path: Path) -> None:
    main: tuple[Any, ...] = ("spec", "containers", ("name", "main"))
    overlay = Overlay(
        patches={
            "ConfigMap team/settings": [
                ((*main, "env", ("name", "A"), "value"), "2"),
                ((*main, "env", ("name", "B"), "value"), "3"),
                ((*main, "volumeMounts", ("mountPath", "/x"), "name"), "x"),
                (("spec", "containers", ("name", "side")), {"name": "side", "image": "i"}),
            ]
        }
    )
    (made,) = applied(tmp_path, overlay, an_object())
    assert made["spec"]["containers"] == [
        {
            "name": "main",
            "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
            "volumeMounts": [{"mountPath": "/x", "name": "x"}],
        },
        {"name": "side", "image": "i"},
    ]


def test_other_objects_stay_and_new_ones_are_added(tmp_path: Path) -> None:
    new = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "more"},
        "data": {"a": "b"},
    }
    overlay = Overlay(
        patches={"ConfigMap other/settings": [(("data", "a"), "b")]}, objects=[("new", new)]
    )
    assert applied(tmp_path, overlay, an_object()) == [an_object(), new]
