import json

import pytest

from schemas.kinds import codegen
from schemas.kinds.convert import build_tree, close_definition, list_payload, to_json_schema
from schemas.kinds.store import kinds_of, read_kind
from schemas.versions import JOBSET_VERSIONS, KUBERNETES_MINORS, KUEUE_VERSIONS, Versions


def test_the_converted_schemas_say_what_the_vendored_originals_say():
    assert codegen.stale() == []


def test_every_vendored_file_records_its_source_and_licence():
    sources = json.loads((codegen.UPSTREAM / "sources.json").read_text("utf-8"))
    named = {f"{s['component']}-{s['version']}.json.gz" for s in sources}
    assert named == {p.name for p in (codegen.UPSTREAM / "originals").iterdir()}
    assert all(s["licence"] == "Apache-2.0" and s["sha256_of_originals"] for s in sources)


def test_every_supported_version_has_its_kinds():
    for kueue in KUEUE_VERSIONS:
        for jobset in JOBSET_VERSIONS:
            kinds = kinds_of(Versions.of(kueue.version, jobset.version))
            assert (kueue.api_version, "ClusterQueue") in kinds
            assert (jobset.api_version, "JobSet") in kinds
    for minor in KUBERNETES_MINORS:
        kinds = kinds_of(Versions.of(kubernetes=minor))
        assert kinds["scheduling.k8s.io/v1", "PriorityClass"].namespaced is False
        assert kinds["batch/v1", "Job"].namespaced is True


def test_the_deprecated_flag_agrees_with_the_version_table():
    for release in KUEUE_VERSIONS:
        kinds = kinds_of(Versions.of(release.version))
        for api_version in release.served:
            flagged = kinds[api_version, "ClusterQueue"].deprecated
            assert flagged == (api_version in release.deprecated)


@pytest.mark.parametrize(
    ("schema", "converted"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": False,
            },
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object"},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        (
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^a$",
            },
            {"type": ["integer", "string"], "pattern": "^a$"},
        ),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "integer", "format": "int32", "minimum": 0},
            {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        ),
        ({"type": "integer", "format": "int64"}, {"type": "integer"}),
    ],
)
def test_a_structural_schema_becomes_closed_json_schema(schema, converted):
    assert to_json_schema(schema) == converted


def test_a_required_field_with_a_default_is_not_required_of_the_author():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }
    assert to_json_schema(schema)["required"] == ["b"]


def test_conditions_below_any_of_do_not_close_the_object():
    schema = {"type": "object", "anyOf": [{"required": ["a"], "type": "object"}]}
    assert to_json_schema(schema)["anyOf"] == [{"type": "object", "required": ["a"]}]


def test_core_definitions_lose_their_nulls():
    assert close_definition({"type": ["string", "null"]}) == {"type": "string"}


def test_a_recursive_definition_ends():
    definitions = {
        "A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "x-kubernetes-list-type": "set"}
    }
    assert build_tree({"$ref": "#/$defs/A"}, list_payload, definitions) == {"set": True}


def test_a_kind_carries_its_list_keys():
    ref = kinds_of(Versions.of())["jobset.x-k8s.io/v1alpha2", "JobSet"]
    lists = read_kind(ref)["lists"]
    assert lists["p"]["spec"]["p"]["replicatedJobs"]["k"] == ["name"]
