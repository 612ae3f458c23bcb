"""Values are built as PyYAML builds them, text by text; what is no YAML is said with its place."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.findings import Location
from generator.yaml_go import GoLoader
from generator.yaml_load import TemplateError, YamlError, load_documents

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFESTS = [*(REPOSITORY / "compiled").rglob("*.yaml"), *(REPOSITORY / "tests").rglob("*.yaml")]


def built(text, plain):
    """Every value of a text, or what the loader refuses; repr tells 1 from true and keeps order."""
    loader = GoLoader(text)
    loader.plain = plain
    try:
        values = []
        while loader.check_data():
            values.append(loader.get_data())
    except (yaml.YAMLError, ValueError) as error:
        return f"{type(error).__name__} {getattr(error, 'problem', error)}"
    return repr(values)


def test_it_builds_every_manifest_of_this_repository_alike():
    texts = [path.read_text("utf-8") for path in MANIFESTS]
    plain = [text for text in texts if "*" not in text and "!" not in text]
    assert len(plain) > 500
    assert [text for text in plain if built(text, True) != built(text, False)] == []


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2",
        "1: 2\n'1': 3",
        "true: 1\n'true': 2",
        "? [a]\n: b",
        "<<: {a: 1}\nb: 2",
        "{a: b, ? c}",
        "~: 1",
        "---\n---\na: b",
        "",
        "x: 09",
        "- \n- ~\n- 0o17\n- 010\n- 1_000\n- .inf\n- 1e3\n- 0b11\n- y\n- 2020-01-01\n- =\n- -.5",
    ],
)
def test_it_builds_odd_texts_alike(text):
    assert built(text, True) == built(text, False)


@given(st.text(alphabet=" :-\n'\"#{}[],?|>~&%@0123.eyno<=", max_size=40))
def test_it_builds_any_text_alike(text):
    assert built(text, True) == built(text, False)


def test_a_key_that_stands_twice_is_refused_with_its_place():
    with pytest.raises(YamlError, match=r"f:3:1: the key 'a' stands twice"):
        load_documents("a: 1\nb: 2\na: 3\n", "f")


@pytest.mark.parametrize("text", ["!!str {a: b}", "!!map x", "!!int [1]", "a: !!seq b"])
def test_a_tag_that_does_not_fit_its_node_is_no_traceback(text):
    with pytest.raises(YamlError):
        load_documents(text, "f")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", 1, 1),
        ("kind: Pod\nmetadata:\n  {{- include `labels` . }}\n", 3, 3),
        ("kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n", 3, 9),
        ("kind: Pod\nmetadata:\n  'the: name': {{ .Release.Name }}\n", 3, 16),
        ("items:\n- {{ toYaml .Values.item }}\n", 2, 3),
        ("items:\n- name: {{ .Values.item }}\n", 2, 9),
        ("args: [{{ .Values.first }}, two]\n", 1, 8),
        ("clusters:\n{% for name in clusters %}\n  - {{ name }}\n{% endfor %}\n", 2, 1),
        ("a: |\n  {{ in a block }}\nb: {{ in a value }}\n", 3, 4),
    ],
)
def test_a_template_is_called_one_with_the_place_of_its_first_action(text, line, column):
    with pytest.raises(TemplateError, match=r"a template, not YAML yet: \{[{%]") as caught:
        load_documents(text, "f")
    assert caught.value.where == Location("f", line, column)
    assert caught.value.fix.startswith("render it first")


@pytest.mark.parametrize(
    "text",
    [
        'a: "{{ x }}"\n',
        "a: '{{ x }}'\n",
        'a: "it says: {{ x }}"\n',
        "a: |\n  {{ x }}\n",
        "a: >-\n  first\n  b: {{ x }}\n",
        "a: 1  # b: {{ x }}\n",
        "a: run-{{ x }}\n",
        "a: {b: {c: 1}}\n",
    ],
)
def test_braces_in_texts_do_not_hide_what_is_wrong_elsewhere(text):
    load_documents(text, "f")
    with pytest.raises(YamlError, match="stands twice") as caught:
        load_documents(f"{text}z: 1\nz: 2\n", "f")
    assert not isinstance(caught.value, TemplateError)
