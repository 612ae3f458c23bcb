"""Faults that an API server's verdict on mutated manifests taught us; see tests/e2e."""

import pytest

from generator.checks.schema import check_schema
from generator.findings import Severity
from schemas.versions import Versions
from tests.generator.checks.objects import REMOVED, changed, cluster_queue, jobset

VERSIONS = Versions.of(kueue="0.19.2", jobset="0.12.0", kubernetes="1.36")
RJOB = ("spec", "replicatedJobs", 0)
EXPRESSION = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}


def priority_class():
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 2000000,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def resource_flavor():
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "v6e"},
        "spec": {
            "nodeLabels": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"},
            "tolerations": [
                {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
        },
    }


def selecting_queue():
    return cluster_queue(namespaceSelector={"matchExpressions": [EXPRESSION]})


def cron_job():
    pod = {
        "containers": [{"name": "prune", "image": "prune:1"}],
        "restartPolicy": "Never",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "prune", "namespace": "ops"},
        "spec": {
            "schedule": "17 * * * *",
            "timeZone": "Etc/UTC",
            "successfulJobsHistoryLimit": 3,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    }


def errors(document):
    return [f for f in check_schema(document, VERSIONS) if f.severity is Severity.ERROR]


@pytest.mark.parametrize(
    "make", [priority_class, resource_flavor, selecting_queue, cron_job, jobset]
)
def test_the_good_object_passes(make):
    assert errors(make()) == []


TERM = ("spec", "namespaceSelector", "matchExpressions", 0)
CASES = [
    (selecting_queue, (*TERM, "values", 0), "team-a.", "letter or digit"),
    (selecting_queue, (*TERM, "values", 0), "x" * 70, "63"),
    (selecting_queue, (*TERM, "key"), "", "label key"),
    (selecting_queue, (*TERM, "key"), "kubernetes.io/metadata.name-", "label key"),
    (jobset, (*RJOB, "dependsOn"), [], "first replicated job"),
    (jobset, (*RJOB, "template", "spec"), REMOVED, "has no pod"),
    (jobset, (*RJOB, "template", "spec", "template", "spec"), REMOVED, "has no pod"),
    (priority_class, ("preemptionPolicy",), "Always", "PreemptLowerPriority, Never"),
    (priority_class, ("value",), 2000000.0, "write 2000000"),
    (resource_flavor, ("spec", "tolerations", 0, "key"), "-a", "toleration key"),
    (cron_job, ("spec", "timeZone"), "Mars/Olympus", "no such time zone"),
    (cron_job, ("spec", "timeZone"), "America", "no such time zone"),  # a folder of them
    (cron_job, ("spec", "timeZone"), "../passwd", "no such time zone"),
    (cron_job, ("spec", "successfulJobsHistoryLimit"), -4, "less than 0"),
    (cron_job, ("spec", "successfulJobsHistoryLimit"), 3.0, "write 3"),
]


@pytest.mark.parametrize(("make", "path", "value", "words"), CASES)
def test_what_the_server_refuses_is_an_error(make, path, value, words):
    found = errors(changed(make(), path, value))
    assert any(words in f"{f.message} {f.fix}" for f in found), found


def test_a_toleration_of_everything_needs_no_key():
    everything = [{"operator": "Exists", "effect": "NoSchedule"}]
    assert errors(changed(resource_flavor(), ("spec", "tolerations"), everything)) == []
