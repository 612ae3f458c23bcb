import copy
import random

import pytest

from generator.checks.policy import PolicyError, engine_for
from generator.checks.run import check_cluster, judge, versions_of, without_values
from generator.checks.subject import Subject
from schemas.versions import Versions
from tests.generator.checks.objects import (
    changed,
    checkpoint_configuration,
    cluster_queue,
    job,
    jobset,
)

VERSIONS = Versions.of(kueue="0.17.0", jobset="0.11.1", kubernetes="1.33")
OBJECTS = [cluster_queue(), jobset(), checkpoint_configuration(), job()]
FACTS = {
    "spec": {
        "versions": {"kueue": "0.17.0", "jobset": "0.11.1"},
        "gkeVersion": "1.33.4-gke.1245000",
        "nodePools": [{"name": "v6e", "labels": {"a": "b"}, "nodes": 4, "nodesPerSlice": 4}],
    }
}


def check(*bodies, facts=None, engine=None):
    pairs = check_cluster(
        [Subject(body) for body in bodies],
        facts=facts,
        versions=VERSIONS,
        engine=engine or engine_for(),
        cluster="dev",
    )
    return [finding for _, finding in pairs]


def paths(value, path=()):
    if isinstance(value, dict):
        for key, child in value.items():
            yield (*path, key)
            yield from paths(child, (*path, key))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield (*path, position)
            yield from paths(child, (*path, position))


@pytest.mark.parametrize("body", OBJECTS, ids=lambda body: body["kind"])
def test_no_value_anywhere_makes_a_check_raise_or_a_policy_give_up(body):
    chooser = random.Random(7)
    for path in paths(body):
        for value in chooser.sample([None, 3, 2.5, "x", "", [], {}, True, ["x"], [None]], 3):
            broken = changed(body, path, value)
            others = [other for other in OBJECTS if other["kind"] != body["kind"]]
            found = check(broken, *others, facts=FACTS)
            assert "POL001" not in {finding.rule for finding in found}, (path, value)


def test_a_finding_names_cluster_and_resource():
    [finding] = [
        f for f in check(changed(jobset(), ("spec", "suspend"), True)) if f.rule == "JOB005"
    ]
    assert (finding.cluster, finding.resource) == ("dev", "JobSet team-a/train")


def test_the_arguments_are_left_as_they_were():
    bodies = [changed(body, ("metadata", "labels"), None) for body in OBJECTS]
    before = copy.deepcopy(bodies)
    check(*bodies, facts=FACTS)
    assert bodies == before


def test_an_engine_that_fails_is_reported_for_each_object_not_raised():
    class Broken:
        def judge(self, bodies):
            raise PolicyError("out of order")

    found = check(jobset(), engine=Broken())
    assert [f.message for f in found if f.rule == "POL001"] == [
        "the policies could not judge this object: out of order"
    ]


def test_a_policy_that_the_schema_check_repeats_is_reported_once():
    found = check(changed(checkpoint_configuration(), ("spec", "mountOptions"), ["x"]))
    assert [f.rule for f in found if "mountOptions" in f"{f.message}{f.path}"] == ["SCH002"]


def test_a_cluster_is_judged_by_the_versions_of_its_facts():
    chosen, findings = versions_of({"spec": {"versions": {"jobset": "0.8.1"}}}, VERSIONS)
    assert (chosen.jobset, chosen.kueue, findings) == ("0.8.0", "0.17.0", [])


def test_an_unknown_version_is_a_finding_and_the_default_is_used():
    chosen, [finding] = versions_of({"spec": {"versions": {"kueue": "0.9.0"}}}, VERSIONS)
    assert chosen == VERSIONS
    assert finding.rule == "SCH015"


def test_a_list_loses_a_bad_entry_as_a_whole():
    body = {"a": [{"b": 1}, {"b": 2}], "c": 3}
    assert without_values(body, [("a", 1)]) == {"c": 3}
    assert without_values(body, [("a", 1, "b")]) == {"a": [{"b": 1}, {}], "c": 3}
    assert without_values(body, [("x", "y")]) == body


def test_a_request_that_cannot_be_read_is_no_request_left_out():
    body = changed(
        jobset(),
        ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0),
        {
            "name": "jax",
            "image": "registry.example/maxtext:v1",
            "resources": {"limits": {"google.com/tpu": "<CHIPS>"}},
        },
    )
    found = {finding.rule for finding in check(body)}
    assert "SCH006" in found
    assert "JOB011" not in found


def partial_job(least):
    body = job()
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    if least:
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": least}
    body["spec"] |= {"parallelism": 40, "completions": 40}
    pod = body["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"requests": {"google.com/tpu": "4"}}
    return body


@pytest.mark.parametrize(
    ("least", "refused"), [(None, True), ("8", False), ("9", True), ("x", True)]
)
def test_a_job_that_starts_with_part_of_its_pods_fits_with_that_part(least, refused):
    queue = cluster_queue()  # 32 chips
    local = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "training", "namespace": "default"},
        "spec": {"clusterQueue": queue["metadata"]["name"]},
    }
    queue["spec"].pop("cohortName", None)
    found = {finding.rule for finding in check(queue, local, partial_job(least))}
    assert ("REF020" in found) is refused


def test_equal_objects_are_judged_once_and_each_keeps_its_own_name_and_place():
    engine = CountingEngine()
    bodies = [cluster_queue() for _ in range(4)]
    for number, body in enumerate(bodies):
        body["spec"].pop("namespaceSelector")
        [judged] = judge([Subject(body, file=f"{number}.yaml")], VERSIONS, engine)
        assert judged.subject.file == f"{number}.yaml"
        assert "KUE010" in {finding.rule for finding in judged.findings}
    assert engine.objects == 2  # the second is kept; the others are its equals
    other = changed(bodies[0], ("metadata", "name"), "other")
    judge([Subject(other)], VERSIONS, engine)
    assert engine.objects == 3


def test_a_live_object_is_not_taken_for_the_file_that_it_was_made_from():
    body = jobset()
    body["metadata"]["uid"] = "6c1f"
    for _ in range(3):
        judge([Subject(body, file="export.yaml")], VERSIONS, engine_for())
    [live] = judge([Subject(body, file="<stdin>")], VERSIONS, engine_for())
    assert "OPS002" not in {finding.rule for finding in live.findings}
    [exported] = judge([Subject(body, file="export.yaml")], VERSIONS, engine_for())
    assert "OPS002" in {finding.rule for finding in exported.findings}


class CountingEngine:
    """The embedded engine, counting what it is given."""

    def __init__(self):
        self.objects = 0

    def judge(self, bodies):
        self.objects += len(bodies)
        return engine_for().judge(bodies)
