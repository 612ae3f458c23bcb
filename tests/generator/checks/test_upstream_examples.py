"""Upstream's own examples raise no false alarm: no error except those listed with their reason."""

import gzip
import json
from pathlib import Path

import pytest

from generator.checks.run import check_cluster
from generator.checks.schema import check_schema
from generator.checks.subject import Subject
from generator.findings import Severity
from generator.yaml_load import load_documents
from schemas.versions import Versions

DATA = Path(__file__).resolve().parents[2] / "data" / "upstream_examples.json.gz"
EXAMPLES = json.loads(gzip.decompress(DATA.read_bytes()))
VERSIONS = Versions.of(kueue="0.19.2", jobset="0.12.0", kubernetes="1.36")

REFUSED = {
    "failure-policy/restartjob-action.yaml": "needs the alpha gate RestartJob",
    "failure-policy/restartjobandignoremaxrestarts-action.yaml": "needs the alpha gate RestartJob",
    "in-place-restart/jobset-main-container-mode.yaml": "needs the alpha gate InPlaceRestart",
    "in-place-restart/jobset-sidecar-container-mode.yaml": "needs the alpha gate InPlaceRestart",
    "admin/minimal-cq.yaml": "ties a check to a flavor that the queue lacks (refused from 0.18)",
}
"""Examples that upstream's own webhooks refuse at their defaults, by the end of their path."""


def documents(path):
    return [d.value for d in load_documents(EXAMPLES[path], path) if isinstance(d.value, dict)]


def reason(path):
    return next((why for end, why in REFUSED.items() if path.endswith(end)), None)


@pytest.mark.parametrize("path", sorted(EXAMPLES))
def test_the_schema_check_agrees_with_upstream(path):
    found = [
        finding
        for document in documents(path)
        for finding in check_schema(document, VERSIONS)
        if finding.severity is Severity.ERROR
    ]
    if reason(path):
        assert {finding.rule for finding in found} == {"SCH014"}
    else:
        assert found == []


def test_every_listed_refusal_is_of_an_example_that_exists():
    for end in REFUSED:
        assert any(path.endswith(end) for path in EXAMPLES)


def test_references_of_single_examples_are_notes_not_errors():
    # An example names queues that its reader has: without the cluster's facts that is no error.
    for path in EXAMPLES:
        subjects = [Subject(document) for document in documents(path)]
        pairs = check_cluster(subjects, facts=None, versions=VERSIONS, engine=None)
        errors = [f for _, f in pairs if f.severity is Severity.ERROR and f.rule[:3] == "REF"]
        assert errors == [], path
