"""Values of the wrong kind anywhere in a manifest: an answer, never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.checks.tolerant import read_documents
from generator.importing.options import Options
from generator.importing.run import import_manifests
from tests.conftest import REPOSITORY
from tests.generator.importing.conftest import DOCUMENTS, HERE

OPTIONS = Options(
    "demo",
    {
        ("project", "id"): "acme-training",
        ("project", "number"): "123456789012",
        ("location",): "us-east5",
        ("gkeVersion",): "1.33.4-gke.1245000",
        ("versions", "kueue"): "0.17.0",
        ("versions", "jobset"): "0.11.1",
    },
    hierarchical_namespace=True,
    placeholders={"IMAGE_LOCATION": "example.com/x:1", "OUTPUT_BUCKET": "acme"},
)
ODD: tuple[Any, ...] = (None, 7, "x y", [], {"a": [1]}, ["q"], -1, True)
STRIDE = 97
"""Every so many-eth of some 4,000 places and values, so that the test takes seconds; with 1 it is
exhaustive."""
FILES = (
    DOCUMENTS / "kueue-and-hotswap.yaml",
    HERE / "upstream/jobsets.yaml",
    HERE / "upstream/kueue.yaml",
    HERE / "xpk/cluster.yaml",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path inside a value."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_odd_value_is_answered(file: Path, tmp_path: Path) -> None:
    documents = [d.value for d in read_documents(file.read_text(), file.name).documents]
    answer_all(documents, OPTIONS, tmp_path)


def test_odd_facts_and_annotations_are_answered(tmp_path: Path) -> None:
    """What compile wrote and somebody edited by hand."""
    folder = REPOSITORY / "compiled/tpu-v6e-docs"
    files = [folder / "cluster.yaml", *sorted((folder / "checkpointing").glob("*.yaml"))]
    documents = [yaml.safe_load(path.read_text()) for path in files]
    answer_all(documents, replace(OPTIONS, settings={}), tmp_path)


def answer_all(documents: list[Any], options: Options, tmp_path: Path) -> None:
    """Put odd values in places of the documents, one at a time, and import."""
    cases = [
        (number, path, odd)
        for number, document in enumerate(documents)
        for path in places(document)
        for odd in ODD
    ]
    for number, path, odd in cases[::STRIDE]:
        changed = copy.deepcopy(documents)
        holder = changed[number]
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = odd
        given = tmp_path / "given.yaml"
        given.write_text(yaml.safe_dump_all(changed))
        result = import_manifests([str(given)], options, tmp_path / "inventory")
        assert result.findings, (path, odd)
        if result.incomplete:
            assert any(finding.severity == "error" for finding in result.findings), (path, odd)
