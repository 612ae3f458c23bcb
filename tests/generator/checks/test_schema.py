from datetime import date

import pytest

from generator.checks.schema import check_schema
from generator.findings import Severity
from schemas.kinds.store import kinds_of
from schemas.versions import JOBSET_VERSIONS, KUBERNETES_MINORS, KUEUE_VERSIONS, Versions
from tests.generator.checks.objects import (
    REMOVED,
    changed,
    checkpoint_configuration,
    cluster_queue,
    job,
    jobset,
)

VERSIONS = Versions.of(kueue="0.17.0", jobset="0.11.1", kubernetes="1.33")
GROUP = ("spec", "resourceGroups", 0)
RJOB = ("spec", "replicatedJobs", 0)
POD = (*RJOB, "template", "spec", "template", "spec")
MAIN = (*POD, "containers", 0)


def errors(document, versions=VERSIONS):
    return [f for f in check_schema(document, versions) if f.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    "document",
    [cluster_queue(), jobset(), checkpoint_configuration(), job()],
    ids=lambda d: d["kind"],
)
@pytest.mark.parametrize("kueue", [r.version for r in KUEUE_VERSIONS])
@pytest.mark.parametrize("jobset_version", [r.version for r in JOBSET_VERSIONS])
def test_a_valid_object_has_no_findings(document, kueue, jobset_version):
    assert errors(document, Versions.of(kueue=kueue, jobset=jobset_version)) == []


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_core_kinds_are_judged_in_every_vendored_kubernetes(minor):
    versions = Versions.of(kubernetes=minor)
    assert errors(job(), versions) == []
    [finding] = errors(changed(job(), ("spec", "backofLimit"), 0), versions)
    assert finding.rule == "SCH002"
    assert finding.fix == "write backoffLimit"


CASES = [
    # document, path, value, rule, words of the message or fix
    (cluster_queue, ("spec", "preemption"), {"reclaimOutOfCohort": {}}, "SCH002", "never existed"),
    (cluster_queue, ("spec", "cohort"), "all", "SCH002", "cohortName"),
    (cluster_queue, (*GROUP, "coveredResources"), REMOVED, "SCH004", "coveredResources"),
    (cluster_queue, ("spec", "stopPolicy"), "Drain", "SCH005", "HoldAndDrain"),
    (
        cluster_queue,
        (*GROUP, "flavors", 0, "resources", 1, "nominalQuota"),
        "64Gib",
        "SCH006",
        "64Gi",
    ),
    (cluster_queue, (*GROUP, "flavors", 0, "resources", 1, "nominalQuota"), 0.5, "SCH003", '"0.5"'),
    (cluster_queue, (*GROUP, "coveredResources"), ["cpu"], "SCH008", "same number of resources"),
    (
        cluster_queue,
        (*GROUP, "flavors", 0, "resources", 1, "borrowingLimit"),
        "5",
        "SCH008",
        "borrowingLimit must be nil",
    ),
    (
        cluster_queue,
        (*GROUP, "flavors", 0, "resources", 1, "lendingLimit"),
        "5",
        "SCH014",
        "lendingLimit without cohortName",
    ),
    (
        cluster_queue,
        ("spec", "preemption"),
        {"borrowWithinCohort": {"policy": "LowerPriority"}},
        "SCH008",
        "reclaimWithinCohort=Never",
    ),
    (cluster_queue, (*GROUP, "coveredResources"), ["cpu", "google.com/tpu"], "SCH014", "order"),
    (cluster_queue, ("metadata", "namespace"), "default", "SCH011", "cluster-scoped"),
    (cluster_queue, ("metadata", "name"), "Tpu_Queue", "SCH010", "lower-case"),
    (jobset, ("spec", "failurePolicy", "maxRestart"), 3, "SCH002", "maxRestarts"),
    (jobset, ("spec", "failurePolicy", "restartStrategy"), "Block", "SCH005", "BlockingRecreate"),
    (jobset, (*RJOB, "replicas"), "2", "SCH003", "remove the quotes"),
    (jobset, ("spec", "priorityClassName"), "high", "SCH002", "check the indentation"),
    (jobset, (*POD, "restartPolicy"), "Sometimes", "SCH013", "OnFailure"),
    (jobset, (*POD, "restartPolicy"), "Always", "SCH013", "refused in a Job"),
    (jobset, (*MAIN, "resources", "limits", "google.com/tpu"), "500m", "SCH013", "whole units"),
    (jobset, (*MAIN, "resources", "limits", "memory"), "12Quux", "SCH006", "not a Kubernetes"),
    (jobset, (*MAIN, "ports"), [{"containerPort": 99999}], "SCH013", "1 to 65535"),
    (jobset, (*MAIN, "volumeMounts"), [{"name": "x", "mountPath": "/x"}], "SCH013", "no volume"),
    (
        jobset,
        (*MAIN, "env"),
        [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        "SCH007",
        "refuses it",
    ),
    (jobset, ("metadata", "name"), "x" * 50, "SCH014", "leave room for"),
    (jobset, ("metadata", "name"), "1train", "SCH014", "start the JobSet's name with a letter"),
    (jobset, ("spec", "managedBy"), "kueue", "SCH014", "domain-prefixed"),
    (jobset, (*RJOB, "dependsOn"), [{"name": "x", "status": "Ready"}], "SCH014", "first"),
    (
        jobset,
        ("spec", "failurePolicy", "rules"),
        [{"name": "my-rule", "action": "FailJobSet"}],
        "SCH014",
        "my_rule",
    ),
    (
        jobset,
        ("spec", "failurePolicy", "rules"),
        [{"action": "FailJobSet", "onJobFailureReasons": ["OOMKilled"]}],
        "SCH014",
        "OOMKilled",
    ),
    (
        jobset,
        ("metadata", "labels"),
        {"kueue.x-k8s.io/max-exec-time-seconds": "1h"},
        "SCH014",
        "1h",
    ),
    (checkpoint_configuration, ("spec", "mountOptions"), [], "SCH002", "gcsFuseMountOptions"),
    (checkpoint_configuration, ("spec", "inMemoryVolumeSize"), 64, "SCH003", 'quote it: "64"'),
    (checkpoint_configuration, ("spec", "gcsFuseMountOptions"), "a,b", "SCH003", "a list"),
    (checkpoint_configuration, ("kind",), "CheckpointConfig", "SCH001", "CheckpointConfiguration"),
    (checkpoint_configuration, ("apiVersion",), "checkpointing.gke.io/v1alpha1", "SCH001", "/v1"),
    (job, ("apiVersion",), "batch/v2", "SCH001", "batch/v1"),
    (job, ("spec", "template", "spec", "restartPolicy"), REMOVED, "SCH013", "OnFailure or Never"),
    (job, ("spec", "template", "spec", "containers"), None, "SCH004", "containers"),
    (job, ("metadata",), REMOVED, "SCH010", "metadata is missing"),
]


@pytest.mark.parametrize(("make", "path", "value", "rule", "words"), CASES)
def test_a_fault_is_named_with_its_rule_and_fix(make, path, value, rule, words):
    findings = errors(changed(make(), path, value))
    assert [f.rule for f in findings if f.rule == rule], findings
    assert any(words in f"{f.message} {f.fix}" for f in findings if f.rule == rule), findings


def test_all_faults_are_reported_at_once():
    # The API server itself stops after strict decoding and shows the second fault a try later.
    document = changed(cluster_queue(), (*GROUP, "coveredResources"), REMOVED)
    document["spec"]["preemption"] = {"reclaimOutOfCohort": {"enable": True}}
    assert {f.rule for f in errors(document)} == {"SCH002", "SCH004"}


def test_a_null_in_an_optional_field_is_dropped_as_the_api_server_does():
    assert errors(changed(jobset(), ("metadata", "creationTimestamp"), None)) == []
    assert errors(changed(job(), ("spec", "activeDeadlineSeconds"), None)) == []


def test_a_null_in_a_list_is_refused():
    [finding] = errors(changed(cluster_queue(), (*GROUP, "coveredResources"), ["cpu", None]))
    assert finding.rule == "SCH003"


def test_a_required_field_that_the_mutating_webhook_fills_in_may_be_left_out():
    rules = [{"action": "FailJobSet"}]
    assert errors(changed(jobset(), ("spec", "failurePolicy", "rules"), rules)) == []


def test_v1beta1_is_accepted_with_a_warning_from_0_16_on():
    document = changed(cluster_queue(), ("apiVersion",), "kueue.x-k8s.io/v1beta1")
    assert errors(document, Versions.of(kueue="0.15.0")) == []
    [finding] = errors(document, Versions.of(kueue="0.16.2"))
    assert (finding.rule, finding.severity) == ("SCH009", Severity.WARNING)
    assert finding.fix == "write apiVersion: kueue.x-k8s.io/v1beta2"


def test_a_field_of_a_newer_jobset_is_unknown_to_an_older_one():
    document = changed(jobset(), (*RJOB, "groupName"), "workers")
    assert errors(document, Versions.of(jobset="0.10.1")) == []
    assert [f.rule for f in errors(document, Versions.of(jobset="0.8.0"))] == ["SCH002"]


def test_a_kind_without_a_schema_is_noted_never_passed_in_silence():
    document = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}}
    [finding] = check_schema(document, VERSIONS)
    assert (finding.rule, finding.severity) == ("SCH012", Severity.NOTE)


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "stowplan.dev/v1alpha1", "kind": "Cluster"},
        {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"},
    ],
)
def test_files_for_tools_are_not_judged_as_objects(document):
    assert check_schema(document, VERSIONS) == []


@pytest.mark.parametrize(
    "document",
    [{}, {"kind": 3}, {"apiVersion": ["x"], "kind": "Y"}, {"apiVersion": "v1", "kind": {}}],
)
def test_what_is_no_object_is_an_error_not_a_traceback(document):
    [finding] = check_schema(document, VERSIONS)
    assert finding.rule == "SCH001"


@pytest.mark.parametrize(
    "spec", [None, [], "x", 3, {"replicatedJobs": "x"}, {"replicatedJobs": [3]}]
)
def test_a_spec_of_the_wrong_type_is_a_finding(spec):
    assert errors(changed(jobset(), ("spec",), spec)) or spec is None


def test_every_rule_of_every_schema_compiles():
    from generator.checks.cel import compiled
    from schemas.kinds.store import read_kind

    def rules(tree):
        yield from tree.get("r", [])
        for child in [*tree.get("p", {}).values(), tree.get("i"), tree.get("a")]:
            if child:
                yield from rules(child)

    seen = 0
    for kueue in KUEUE_VERSIONS:
        for release in JOBSET_VERSIONS:
            for ref in kinds_of(Versions.of(kueue.version, release.version)).values():
                for rule in rules(read_kind(ref)["cel"]):
                    seen += 1
                    assert not isinstance(compiled(rule["rule"]), str), rule
    assert seen > 100


@pytest.mark.parametrize("depth", [100, 300, 900])
def test_an_object_that_nests_too_deeply_is_a_finding(depth):
    value = None
    for _ in range(depth):
        value = [value]
    findings = errors(changed(job(), ("metadata", "annotations"), {"x": value}))
    assert {finding.rule for finding in findings} == {"SCH003"}


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        ({1: "x", False: "y"}, set()),
        ({None: "x"}, set()),
        ({"a": b"text"}, set()),
        ({"a": date(2026, 12, 1)}, set()),
        ({"a": {"b", "c"}}, {"SCH003"}),
        ({"a": float("inf")}, {"SCH003"}),
        ({"a": 10**40}, {"SCH003"}),
    ],
    ids=["keys", "null key", "binary", "date", "set", "infinity", "huge"],
)
def test_what_only_yaml_can_say_is_judged_as_the_json_that_go_makes_of_it(data, rules):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
    assert {finding.rule for finding in check_schema(document, VERSIONS)} == rules
