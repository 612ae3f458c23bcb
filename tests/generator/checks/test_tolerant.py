import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.checks.tolerant import read_documents
from generator.findings import Location, Severity


def rules(text):
    return [(f.rule, f.manifest.line) for f in read_documents(text, "x.yaml").findings]


def values(text):
    return [document.value for document in read_documents(text, "x.yaml").documents]


GOOD = "a: 1\nb:\n  c: [1, 2]\n---\nd: 2\n"


def test_a_well_formed_text_is_read_as_it_is():
    assert rules(GOOD) == []
    assert values(GOOD) == [{"a": 1, "b": {"c": [1, 2]}}, {"d": 2}]


@pytest.mark.parametrize(
    ("text", "found", "value"),
    [
        (
            "  a: 1\n  t:\n  - k: 1\n      v: 2\n",
            [("YML002", 1), ("YML002", 4)],
            [{"a": 1, "t": [{"k": 1, "v": 2}]}],
        ),
        ("  a: 1\n  ---\n  b: 2\n", [("YML003", 2)], [{"a": 1}, {"b": 2}]),
        ("a: 1\n  ---\nb: 2\n", [("YML003", 2)], [{"a": 1}, {"b": 2}]),
        ("a: 1\n--- # next\nb: 2\n", [("YML003", 2)], [{"a": 1}, {"b": 2}]),
        (
            "t:\n- key: k\n    operator: Exists\n    effect: NoExecute\nz: 1\n",
            [("YML002", 3)],
            [{"t": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], "z": 1}],
        ),
        (
            "t:\n  - key: k\n   operator: Exists\nz: 1\n",
            [("YML002", 3)],
            [{"t": [{"key": "k", "operator": "Exists"}], "z": 1}],
        ),
        ("a:\n\tb: 1\n", [("YML002", 2)], [{"a": {"b": 1}}]),
        ("a:\n\u00a0\u00a0b: 1\n", [("YML002", 2)], [{"a": {"b": 1}}]),
        ("```yaml\na: 1\n```\n", [("YML002", 1), ("YML002", 3)], [{"a": 1}]),
    ],
    ids=[
        "all indented and one line too deep",
        "separator indented with all",
        "separator indented alone",
        "text behind a separator",
        "too deep",
        "too shallow",
        "tab",
        "no-break spaces",
        "code fence",
    ],
)
def test_a_fault_of_the_layout_is_named_and_mended(text, found, value):
    assert rules(text) == found
    assert values(text) == value


@pytest.mark.parametrize(
    "text", ["  a: 1\n  b: 2\n", "a: |\n  x\n  ---\n  y\nb: 1\n", "a:\n  - >-\n    x\n    ---\n"]
)
def test_what_is_odd_but_means_what_it_says_is_left_alone(text):
    assert rules(text) == []


def test_a_separator_that_kubectl_still_reads_is_a_warning_only():
    [finding] = read_documents("a: 1\n--- # next\nb: 2\n", "x.yaml").findings
    assert finding.severity is Severity.WARNING


def test_a_document_that_cannot_be_read_leaves_the_others():
    text = "a: 1\n---\nb: [1, 2\n---\nc: 3\n"
    read = read_documents(text, "x.yaml")
    assert [document.value for document in read.documents] == [{"a": 1}, {"c": 3}]
    [finding] = read.findings
    assert finding.rule == "YML001"
    assert finding.manifest.line in (3, 4)


def test_a_duplicate_key_is_named_with_its_line():
    [finding] = read_documents("a: 1\nb: 2\na: 3\n", "x.yaml").findings
    assert (finding.rule, finding.manifest.line) == ("YML001", 3)
    assert "stands twice" in finding.message


@pytest.mark.parametrize(
    "text", ["", "\n", "%", "- - -\n:", "a: b: c: d", "\t\t", "'", "{", "&a [*a]", "? ?", "\x00"]
)
def test_no_text_raises(text):
    read_documents(text, "x.yaml")


def test_many_faults_end_in_a_verdict_not_in_a_loop():
    text = "".join(f"- k{n}: 1\n     v: 2\n" for n in range(200))
    assert read_documents(text, "x.yaml").findings


LINES = st.lists(
    st.builds(
        "{}{}".format,
        st.sampled_from(["", " ", "  ", "   ", "    ", "\t", "\u00a0"]),
        st.sampled_from(
            [
                "a: 1",
                "- b: 2",
                "- x",
                "c:",
                "---",
                "--- x",
                "d: |",
                "e: [1",
                "}",
                "```",
                "'q",
                "%",
                "",
            ]
        ),
    ),
    max_size=12,
)


@given(LINES)
@settings(max_examples=300, deadline=None)
def test_no_layout_raises_and_every_fault_has_a_line(lines):
    read = read_documents("\n".join(lines), "x.yaml")
    assert all(f.manifest is not None and f.fix for f in read.findings)


def test_a_template_is_one_finding_and_nothing_of_it_is_mended():
    """Its layout says nothing before it is rendered."""
    text = "kind: Pod\n  metadata:\n\tlabels:\n    {{- include `labels` . }}\n"
    read = read_documents(text, "templates/job.yaml")
    [finding] = read.findings
    assert read.documents == []
    assert finding.rule == "YML001"
    assert finding.message == "this is a template, not YAML yet: {{- include `labels` . }}"
    assert finding.fix.startswith("render it first, such as helm template")
    assert finding.manifest == Location("templates/job.yaml", 4, 5)


def test_braces_inside_texts_are_no_template():
    read = read_documents('a: "{{ x }}"\nb: |\n  {{ y }}\n', "f")
    assert read.findings == []
    assert read.documents[0].value == {"a": "{{ x }}", "b": "{{ y }}\n"}
