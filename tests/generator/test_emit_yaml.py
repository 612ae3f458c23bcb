"""The emitter writes YAML that Go and Python read back as the same values."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.emit_yaml import dump, scalar
from generator.yaml_load import load_documents

# pyyaml#247 and the values that spec research found PyYAML to leave bare.
HAZARDS = (
    "y n Y N yes no on off true False null ~ 1e3 12e4 7e10 1E5 0.1e3 08 0o17 010 0x1f 1_000 "
    "+.5 .5 -1 1:20 12:30:45 2020-01-01 = << .inf .nan -.inf NaN 0b1 1. +1 - ? : # & * ! | > "
    "% @ ` { } [ ] , --- ..."
).split()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.sampled_from(HAZARDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=25,
)


def readers(text: str) -> list[object]:
    return [load_documents(text, "t")[0].value, yaml.safe_load(text)]


@pytest.mark.parametrize(
    "value",
    [
        *HAZARDS,
        "",
        " ",
        " a",
        "a ",
        "a: b",
        "a #b",
        "x\n",
        "\n",
        "a\nb",
        "a\n\nb\n\n",
        "é",
        "\x85",
        "\ufeff",
        "'",
        '"',
        "\\",
    ],
)
def test_a_hazardous_string_reads_back_as_the_same_string_in_every_place(value: str) -> None:
    wanted = {"key": value, "list": [value, {value: value}], "args": [[value]]}
    for read in readers(dump(wanted)):
        assert read == wanted


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=5))
def test_any_json_object_reads_back_equal(value: dict[str, object]) -> None:
    for read in readers(dump(value)):
        assert read == value


@pytest.mark.parametrize(
    "value",
    [
        "gcr.io/acme/train:v1.2",
        "metadata-cache:ttl-secs:-1",
        "/checkpoint",
        "write:enable-streaming-writes:true",
        "a=b",
        "4x4x4 slice",
    ],
)
def test_everyday_strings_stay_plain(value: str) -> None:
    assert scalar(value) == (value if not value[0].isdigit() else f'"{value}"')


def test_what_is_no_json_value_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        dump({"a": {1}})
    with pytest.raises(ValueError, match=r"not JSON compliant|Out of range"):
        dump({"a": float("nan")})


def test_layout_is_fixed() -> None:
    assert dump({"a": {"b": [1, {"c": "d", "e": []}], "f": {}}, "t": "x\ny\n"}) == (
        "a:\n  b:\n    - 1\n    - c: d\n      e: []\n  f: {}\nt: |\n  x\n  y\n"
    )
