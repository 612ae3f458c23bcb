"""The examples that Kueue and JobSet publish, imported as they are, come out of compile again."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.yaml_load import load_documents
from tests.conftest import REPOSITORY
from tests.generator.importing.conftest import Imported
from tests.generator.importing.test_round_trip import lost, without_nulls

Bring = Callable[..., Imported]

DATA = REPOSITORY / "tests/data/upstream_examples.json.gz"
KINDS = frozenset(
    "JobSet ClusterQueue LocalQueue ResourceFlavor Cohort Topology WorkloadPriorityClass "
    "AdmissionCheck".split()
)
FACTS = (
    "--project", "acme-training", "--project-number", "123456789012", "--location", "us-east5",
    "--gke-version", "1.36.1-gke.1000000", "--kueue-version", "0.19.2", "--jobset-version", "0.12.0",
    "--set", "CHANGE_ME=example.com/agent:1",
)  # fmt: skip
COMPANIONS = {
    "tpu-multislice/v6e-jax-workload.yaml": "tpu-multislice/kueue-config.yaml",
    "jobs/sample-jobset": "admin/single-clusterqueue-setup.yaml",
}
"""Example → another one that has the queue which it names."""
CLASSES = {
    "high-priority-jobset.yaml": "high-priority=9",
    "low-priority-jobset.yaml": "low-priority=1",
}
"""Example → the priority class that it names."""
MISSING = {
    "admin/minimal-cq.yaml": "it has no quotas (resourceGroups)",
    "onjobfailurereasons-present-podfailurepolicy.yaml": "its pods would be called",
}
"""Examples of which nothing is written → what is said."""
CORRECTED = re.compile(
    r"\.(?:spec\.(?:suspend|ttlSecondsAfterFinished)|metadata\.generateName)$"
    r"|\.globalDefault$|\.spec\.admissionChecks$"
)
"""Values that are put right or mean the default, as the import says of each."""


def unique_examples() -> dict[str, str]:
    """Path → text of the examples with objects of ours; the two sites hold each of them twice."""
    texts: dict[str, str] = json.loads(gzip.decompress(DATA.read_bytes()))
    found: dict[str, str] = {}
    for path, text in sorted(texts.items()):
        kinds = set(re.findall(r"^kind: *(\w+)", text, re.M))
        if kinds & KINDS and text not in found.values():
            found[path] = text
    return found


EXAMPLES = unique_examples()


def ending(table: dict[str, str], path: str) -> str | None:
    """The entry whose key the path holds."""
    return next((value for key, value in table.items() if key in path), None)


def take_container_names(body: dict[str, Any], made: dict[str, Any]) -> None:
    """Call the one container of each job that compile names as compile does (IMP005)."""
    sides = [side.get("spec", {}).get("replicatedJobs", []) for side in (body, made)]
    pairs = zip(*sides, strict=True)
    for stated, built in pairs:
        ours, theirs = (
            [c["name"] for c in job["template"]["spec"]["template"]["spec"]["containers"]]
            for job in (stated, built)
        )
        renamed = dict(zip(set(ours) - set(theirs), set(theirs) - set(ours), strict=True))
        for container in stated["template"]["spec"]["template"]["spec"]["containers"]:
            container["name"] = renamed.get(container["name"], container["name"])
        for rule in stated["template"]["spec"].get("podFailurePolicy", {}).get("rules", []):
            codes = rule.get("onExitCodes", {})
            if codes.get("containerName") in renamed:
                codes["containerName"] = renamed[codes["containerName"]]


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_comes_out_as_it_went_in(bring: Bring, tmp_path: Path, path: str) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(EXAMPLES[path])
    files = [file]
    if companion := ending(COMPANIONS, path):
        files.append(tmp_path / "companion.yaml")
        files[1].write_text(next(t for p, t in EXAMPLES.items() if p.endswith(companion)))
    given = ending(CLASSES, path)
    mine = bring(files, *FACTS, *(("--priority-class", given) if given else ()))
    assert "Traceback" not in mine.answer.err
    if said := ending(MISSING, path):
        assert (mine.answer.code, mine.files) == (1, [])
        assert said in mine.answer.err
        return
    assert "error IMP" not in mine.answer.err
    made = mine.objects()
    for document in load_documents(EXAMPLES[path], path):
        body: dict[str, Any] = document.value or {}
        if body.get("kind") not in KINDS:
            continue
        metadata = body["metadata"]
        name = metadata.pop("name", None) or metadata["generateName"].rstrip("-")
        space = metadata.get("namespace") or (
            "default" if body["kind"] in ("JobSet", "LocalQueue") else ""
        )
        here = made[body["kind"], space, name]
        del body["apiVersion"]
        text = yaml.safe_dump(without_nulls(body)).replace("<CHANGE ME>", "example.com/agent:1")
        body = yaml.safe_load(text)
        take_container_names(body, here)
        rest = [place for place in lost(body, here) if not CORRECTED.search(place)]
        assert rest == []
