"""The short way of building values says what PyYAML's own constructor says, text by text."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.yaml_load import GoLoader, YamlError, load_documents

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
