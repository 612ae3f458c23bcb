from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.diff.compare import MAX_ALIGNED, compare
from generator.diff.list_keys import BY_FIELD, BY_KIND
from generator.diff.model import MISSING, FieldChange, pointer, show_path
from tests.generator.diff import fleet

QUEUE = ("kueue.x-k8s.io", "ClusterQueue")
JOBSET = ("jobset.x-k8s.io", "JobSet")
CHECKPOINTING = ("checkpointing.gke.io", "CheckpointConfiguration")

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=25,
)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=5)


def shown(changes: list[FieldChange]) -> list[tuple[str, str]]:
    return [(show_path(change.path), change.op) for change in changes]


@settings(max_examples=40, deadline=None)
@given(objects)
def test_an_object_does_not_differ_from_its_copy(body: dict[str, Any]) -> None:
    assert compare(body, copy.deepcopy(body), "x", "Y") == []


@settings(max_examples=40, deadline=None)
@given(objects, objects)
def test_both_directions_agree_on_whether_there_is_a_difference(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert bool(compare(old, new, "x", "Y")) == bool(compare(new, old, "x", "Y"))


@settings(max_examples=40, deadline=None)
@given(objects, objects)
def test_pointers_lead_to_the_values_they_are_reported_with(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    for change in compare(old, new, "x", "Y"):
        for side, body, value in (("old", old, change.old), ("new", new, change.new)):
            place = pointer(change.path, side)
            if value is not MISSING and place is not None:
                assert follow(body, place) == value


def follow(body: Any, place: str) -> Any:
    for token in place.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        body = body[int(key)] if isinstance(body, list) else body[key]
    return body


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_and_of_keyed_lists_is_no_change(chance: random.Random) -> None:
    unordered = {
        field for field, rule in BY_FIELD.items() if not rule.ordered and rule.scalars != "sequence"
    } | {field for field, rule in BY_FIELD.items() if rule.keys and not rule.ordered}
    unordered |= {
        path.split()[-1]
        for (_, _, path), rule in BY_KIND.items()
        if not rule.ordered and (rule.keys or rule.scalars != "sequence")
    }

    def shuffle(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffle(value[key], key) for key in keys}
        if isinstance(value, list):
            entries = [shuffle(entry) for entry in value]
            if name in unordered:
                chance.shuffle(entries)
            return entries
        return value

    for body in (fleet.jobset(), fleet.cluster_queue(), fleet.checkpointing()):
        group = body["apiVersion"].rpartition("/")[0]
        assert compare(body, shuffle(body), group, body["kind"]) == []


def test_an_inserted_container_is_one_addition() -> None:
    old, new = fleet.jobset(), fleet.jobset()
    pod = new["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"].insert(0, {"name": "sidecar"})
    changes = compare(old, new, *JOBSET)
    assert shown(changes) == [
        ("spec.replicatedJobs[slice].template.spec.template.spec.containers[sidecar]", "add")
    ]


def test_flavors_are_tried_in_order_so_their_order_is_a_change() -> None:
    def queue(*names: str) -> dict[str, Any]:
        body = fleet.cluster_queue()
        one = body["spec"]["resourceGroups"][0]["flavors"][0]
        body["spec"]["resourceGroups"][0]["flavors"] = [{**one, "name": name} for name in names]
        return body

    changes = compare(queue("spot", "reserved"), queue("reserved", "spot"), *QUEUE)
    assert shown(changes) == [("spec.resourceGroups[google.com/tpu].flavors", "order")]


def test_a_group_that_covers_one_more_resource_is_matched_all_the_same() -> None:
    old, new = fleet.cluster_queue(), fleet.cluster_queue()
    new["spec"]["resourceGroups"][0]["coveredResources"].append("example.com/nic")
    assert shown(compare(old, new, *QUEUE)) == [
        (
            "spec.resourceGroups[example.com/nic,google.com/tpu].coveredResources[example.com/nic]",
            "add",
        )
    ]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("12000m", "12", True),
        (4, "4", True),
        ("1024Mi", "1Gi", True),
        ("0.5", "500m", True),
        ("64Gi", "64G", False),
        ("banana", "banana", True),
        ("banana", "64Gi", False),
        (1, True, False),
    ],
)
def test_equal_quantities_are_equal(old: Any, new: Any, same: bool) -> None:
    changes = compare(fleet.cluster_queue(old), fleet.cluster_queue(new), *QUEUE)
    assert (changes == []) is same


def test_text_that_looks_like_a_quantity_elsewhere_is_text() -> None:
    changes = compare(
        {"metadata": {"labels": {"cpu": "1000m"}}}, {"metadata": {"labels": {"cpu": "1"}}}, "", "X"
    )
    assert shown(changes) == [("metadata.labels.cpu", "change")]


def test_integers_and_strings_differ_outside_quantities() -> None:
    assert shown(compare({"spec": {"a": 1}}, {"spec": {"a": "1"}}, "", "X")) == [
        ("spec.a", "change")
    ]


def test_null_is_the_same_as_nothing() -> None:
    assert compare({"spec": {"a": None}}, {"spec": {}}, "", "X") == []


def test_an_empty_map_is_not_the_same_as_nothing() -> None:
    """`namespaceSelector: {}` selects every namespace, and leaving it out none."""
    old, new = fleet.cluster_queue(), fleet.cluster_queue()
    del new["spec"]["namespaceSelector"]
    assert shown(compare(old, new, *QUEUE)) == [("spec.namespaceSelector", "remove")]


def test_a_mount_option_is_matched_by_its_name() -> None:
    old, new = fleet.checkpointing(), fleet.checkpointing()
    new["spec"]["gcsFuseMountOptions"] = [
        "read_ahead_kb=2048",
        "metadata-cache:negative-ttl-secs:0",
        "implicit-dirs",
    ]
    (change,) = compare(old, new, *CHECKPOINTING)
    assert (change.old, change.new) == ("read_ahead_kb=1024", "read_ahead_kb=2048")


def test_an_argument_that_changes_is_one_change() -> None:
    def job(*args: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "c", "args": list(args)}]}}

    changes = compare(job("a", "steps=1", "b=2"), job("a", "steps=2", "c=3", "b=2"), "", "Pod")
    assert [(change.old, change.new) for change in changes] == [
        ("steps=1", "steps=2"),
        (MISSING, "c=3"),
    ]


def test_arguments_in_another_order_are_a_change() -> None:
    old = {"spec": {"containers": [{"name": "c", "args": ["a", "b"]}]}}
    new = {"spec": {"containers": [{"name": "c", "args": ["b", "a"]}]}}
    assert shown(compare(old, new, "", "Pod")) == [("spec.containers[c].args", "order")]


def test_two_ports_of_one_number_are_told_apart_by_protocol() -> None:
    def pod(*ports: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "c", "ports": list(ports)}]}}

    udp = {"containerPort": 53, "protocol": "UDP"}
    changes = compare(pod({"containerPort": 53}, udp), pod(udp, {"containerPort": 53}), "", "Pod")
    assert changes == []


def test_entries_that_share_a_key_are_aligned_as_a_text_is() -> None:
    old = {"spec": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}}
    new = {"spec": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]}}
    (change,) = compare(old, new, "", "Pod")
    assert (change.old, change.new) == ("2", "3")


def test_a_very_long_list_is_compared_by_place() -> None:
    old = {"spec": {"items": list(range(MAX_ALIGNED + 1))}}
    new = {"spec": {"items": [*range(MAX_ALIGNED), 7]}}
    (change,) = compare(old, new, "", "X")
    assert (change.old, change.new) == (MAX_ALIGNED, 7)


def test_a_block_that_comes_is_reported_leaf_by_leaf() -> None:
    old, new = fleet.jobset(), fleet.jobset()
    del old["spec"]["failurePolicy"]
    assert shown(compare(old, new, *JOBSET)) == [
        ("spec.failurePolicy.maxRestarts", "add"),
        ("spec.failurePolicy.restartStrategy", "add"),
    ]


def test_every_row_of_the_list_tables_names_its_source() -> None:
    assert all(rule.source for rule in [*BY_KIND.values(), *BY_FIELD.values()])


def arguments(*words: Any) -> dict[str, Any]:
    body = fleet.jobset()
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["args"] = list(words)
    return body


@pytest.mark.parametrize(
    ("old", "new", "place", "sides"),
    [
        (["a=1", "steps=300"], ["a=1", "steps=600"], "steps", ("300", "600")),
        (["--keep", "24"], ["--keep", "48"], "--keep", ("24", "48")),
        (["a=1", "--delete"], ["a=1"], "--delete", ("--delete", MISSING)),
        (["a=1"], ["a=1", "b=2"], "b", (MISSING, "b=2")),
        (["x", {"a": 1}], ["x"], "1", ({"a": 1}, MISSING)),
        (["https://a/v1"], ["https://a/v2"], "0", ("https://a/v1", "https://a/v2")),
        (["out=gs://a"], ["out=gs://b"], "out", ("gs://a", "gs://b")),
    ],
)
def test_an_argument_is_named_and_its_name_is_not_said_twice(
    old: list[Any], new: list[Any], place: str, sides: tuple[Any, Any]
) -> None:
    (change,) = compare(arguments(*old), arguments(*new), *JOBSET)
    assert show_path(change.path[-1:]) == f"[{place}]"
    assert change.sides == sides
