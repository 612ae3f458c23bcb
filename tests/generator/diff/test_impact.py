from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generator.diff.build import build_report
from generator.diff.conditions import CONDITIONS
from generator.diff.immutable import ROWS
from generator.diff.impact_table import TABLE
from generator.diff.model import Change, Impact, Verb
from generator.diff.tree import open_trees
from tests.generator.diff import fleet

One = Callable[[Any, Any], Change]
Body = dict[str, Any]


def edit(body: Body, path: str, value: Any) -> Body:
    """Return a copy with one value set; `path` has dots, numbers for list entries."""
    out = copy.deepcopy(body)
    place: Any = out
    *parents, name = path.split(".")
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    last = int(name) if isinstance(place, list) else name
    if value is None:
        del place[last]
    else:
        place[last] = value
    return out


def flavor(**spec: Any) -> Body:
    body = fleet.flavor()
    return {**body, "metadata": {"name": "other"}, "spec": {**body["spec"], **spec}}


def topology(*levels: str) -> Body:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": "gke"},
        "spec": {"levels": [{"nodeLabel": level} for level in levels]},
    }


def simple(api: str, kind: str, **fields: Any) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, **fields}


POD = "spec.replicatedJobs.0.template.spec.template"
QUOTA = "spec.resourceGroups.0.flavors.0.resources.0"

IN_PLACE = [
    # Kueue
    (fleet.cluster_queue(), f"{QUOTA}.nominalQuota", 64, Impact.LIVE),
    (fleet.cluster_queue(), f"{QUOTA}.borrowingLimit", 4, Impact.LIVE),
    (fleet.cluster_queue(), "spec.cohortName", "all", Impact.REQUEUE),
    (fleet.cluster_queue(), "spec.queueingStrategy", "StrictFIFO", Impact.REQUEUE),
    (fleet.cluster_queue(), "spec.namespaceSelector", None, Impact.REQUEUE),
    (fleet.cluster_queue(), "spec.stopPolicy", "Hold", Impact.REQUEUE),
    (fleet.cluster_queue(), "spec.stopPolicy", "HoldAndDrain", Impact.RESTART),
    (fleet.cluster_queue(), "spec.preemption.reclaimWithinCohort", "Any", Impact.RESTART),
    (fleet.cluster_queue(), "spec.preemption.withinClusterQueue", "Never", Impact.LIVE),
    (fleet.cluster_queue(), "spec.fairSharing.weight", 2, Impact.LIVE),
    (fleet.cluster_queue(), "spec.inventedHere", 1, Impact.BLOCKED),
    (fleet.cluster_queue(), "spec.preemption.reclaimOutOfCohort", {"on": True}, Impact.BLOCKED),
    (fleet.cluster_queue(), "spec.fairSharing", {"wait": "2"}, Impact.BLOCKED),
    (fleet.cluster_queue(), "spec.fairSharing", {"weight": "2"}, Impact.LIVE),
    (fleet.cluster_queue(), "metadata.generateName", "x-", Impact.UNKNOWN),
    (fleet.cluster_queue(), "metadata.labels.team", "x", Impact.COSMETIC),
    (fleet.local_queue("b"), "spec.clusterQueue", "other", Impact.BLOCKED),
    (fleet.local_queue("b"), "spec.stopPolicy", "HoldAndDrain", Impact.RESTART),
    (flavor(), "spec.nodeLabels.zone", "a", Impact.REQUEUE),
    (flavor(), "spec.topologyName", "gke", Impact.REQUEUE),
    (flavor(topologyName="gke"), "spec.topologyName", "other", Impact.BLOCKED),
    (flavor(topologyName="gke"), "spec.topologyName", None, Impact.BLOCKED),
    (flavor(topologyName="gke"), "spec.nodeLabels.zone", "a", Impact.BLOCKED),
    (flavor(topologyName="gke"), "spec.nodeTaints", [], Impact.REQUEUE),
    (topology("block", "rack"), "spec.levels.1.nodeLabel", "row", Impact.BLOCKED),
    (
        topology("block", "kubernetes.io/hostname"),
        "spec.levels.0.nodeLabel",
        "rack",
        Impact.REQUEUE,
    ),
    (
        simple("kueue.x-k8s.io/v1beta2", "AdmissionCheck", spec={"controllerName": "a"}),
        "spec.controllerName",
        "b",
        Impact.BLOCKED,
    ),
    (
        simple("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", value=1),
        "value",
        2,
        Impact.LIVE,
    ),
    # Kubernetes
    (fleet.priority_class(), "value", 5, Impact.BLOCKED),
    (fleet.priority_class(), "description", "for people", Impact.COSMETIC),
    (simple("v1", "ConfigMap", data={"a": "1"}), "data.a", "2", Impact.LIVE),
    (simple("v1", "ConfigMap", data={"a": "1"}, immutable=True), "data.a", "2", Impact.BLOCKED),
    (
        simple("v1", "ConfigMap", data={"a": "1"}, immutable=True),
        "metadata.labels.a",
        "b",
        Impact.COSMETIC,
    ),
    (simple("apps/v1", "Deployment", spec={"replicas": 1}), "spec.replicas", 2, Impact.LIVE),
    (
        simple("apps/v1", "Deployment", spec={"selector": {"matchLabels": {"a": "b"}}}),
        "spec.selector.matchLabels.a",
        "c",
        Impact.BLOCKED,
    ),
    # JobSet
    (fleet.jobset(), "spec.failurePolicy.maxRestarts", 50, Impact.BLOCKED),
    (fleet.jobset(), "spec.failurePolicy", None, Impact.LIVE),
    (fleet.jobset(), "spec.successPolicy.operator", "Any", Impact.LIVE),
    (fleet.jobset(), "spec.replicatedJobs.0.replicas", 4, Impact.BLOCKED),
    (fleet.jobset(), f"{POD}.spec.containers.0.image", "x:2", Impact.BLOCKED),
    (fleet.jobset(), f"{POD}.metadata.labels.a", "b", Impact.BLOCKED),
    (fleet.jobset(), "spec.managedBy", "a.example/b", Impact.BLOCKED),
    (fleet.jobset(), "spec.ttlSecondsAfterFinished", 60, Impact.LIVE),
    (fleet.jobset(), "spec.suspend", True, Impact.RESTART),
    # CheckpointConfiguration: the API takes it, the controller ignores it
    (fleet.checkpointing(), "spec.inMemoryVolumeSize", "60Gi", Impact.BLOCKED),
    (fleet.checkpointing(), "metadata.annotations.note", "x", Impact.COSMETIC),
    # any
    (fleet.jobset(), "metadata.annotations.note", "x", Impact.COSMETIC),
    (simple("example.com/v1", "Widget", spec={"a": 1}), "spec.a", 2, Impact.UNKNOWN),
    (simple("example.com/v1", "Widget", spec={"a": 1}), "metadata.labels.a", "b", Impact.COSMETIC),
]


@pytest.mark.parametrize(
    ("body", "path", "value", "impact"),
    IN_PLACE,
    ids=[f"{body['kind']}:{path}={value}" for body, path, value, _ in IN_PLACE],
)
def test_a_change_in_place(
    compare_objects: One, body: Body, path: str, value: Any, impact: Impact
) -> None:
    if body["kind"] == "LocalQueue":
        body["metadata"]["name"] = "apart"
    change = compare_objects(body, edit(body, path, value))
    assert (change.verb, change.impact) == (Verb.CHANGE, impact)


@pytest.mark.parametrize("label", ["kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"])
def test_kueue_labels_of_a_job(compare_objects: One, label: str) -> None:
    old, new = fleet.jobset(), fleet.jobset()
    new["metadata"]["labels"][label] = "other"
    expected = Impact.BLOCKED if label.endswith("queue-name") else Impact.REQUEUE
    assert compare_objects(old, new).impact is expected
    del new["metadata"]["labels"][label]
    assert compare_objects(old, new).impact is Impact.BLOCKED


@pytest.mark.parametrize(
    ("body", "added", "deleted"),
    [
        (fleet.jobset(), Impact.LIVE, Impact.RESTART),
        (fleet.checkpointing(), Impact.LIVE, Impact.RAMDISK_LOSS),
        (fleet.cluster_queue(), Impact.LIVE, Impact.REQUEUE),
        (flavor(), Impact.LIVE, Impact.REQUEUE),
        (fleet.priority_class(), Impact.LIVE, Impact.LIVE),
        (simple("v1", "Namespace"), Impact.LIVE, Impact.DATA_LOSS),
        (simple("v1", "PersistentVolumeClaim"), Impact.LIVE, Impact.DATA_LOSS),
        (simple("v1", "PersistentVolume"), Impact.LIVE, Impact.DATA_LOSS),
        (simple("argoproj.io/v1alpha1", "Application"), Impact.LIVE, Impact.RESTART),
        (simple("example.com/v1", "Widget"), Impact.UNKNOWN, Impact.UNKNOWN),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else None,
)
def test_coming_and_going(compare_objects: One, body: Body, added: Impact, deleted: Impact) -> None:
    come, gone = compare_objects(None, body), compare_objects(body, None)
    assert (come.verb, come.impact) == (Verb.ADD, added)
    assert (gone.verb, gone.impact) == (Verb.DELETE, deleted)


def test_a_blocked_change_names_its_rule_and_a_remedy(compare_objects: One) -> None:
    (field,) = compare_objects(fleet.jobset(), fleet.jobset(restarts=50)).fields
    assert field.immutable is not None
    assert "JobSet CEL" in field.immutable.rule
    assert "new name" in field.immutable.remedy


def test_a_new_run_restarts_and_is_not_blocked(compare_objects: One) -> None:
    change = compare_objects(fleet.jobset(), fleet.jobset("llama-70b-r2", restarts=50))
    assert (change.verb, change.impact) == (Verb.REPLACE, Impact.RESTART)
    assert all(field.impact is not Impact.BLOCKED for field in change.fields)


def test_a_new_bucket_loses_the_backups(compare_objects: One) -> None:
    new = edit(fleet.checkpointing("a09ef321"), "spec.cloudStorageBucketName", "other")
    change = compare_objects(fleet.checkpointing(), new)
    assert (change.verb, change.impact) == (Verb.REPLACE, Impact.DATA_LOSS)


def test_another_job_name_loses_sight_of_the_backups(compare_objects: One) -> None:
    """Backups are filed under the name that the application gives the replicator."""
    new = edit(fleet.jobset("llama-70b-r2"), f"{POD}.spec.containers.0.args.2", "run_name=r2")
    change = compare_objects(fleet.jobset(), new)
    assert (change.verb, change.impact) == (Verb.REPLACE, Impact.DATA_LOSS)


def retention(*args: str) -> Body:
    job = {"template": {"spec": {"containers": [{"name": "llama", "args": list(args)}]}}}
    body = simple("batch/v1", "CronJob", spec={"jobTemplate": {"spec": job}})
    return {**body, "metadata": {"name": "retention-v6e"}}


@pytest.mark.parametrize(
    ("before", "after", "impact"),
    [
        (("--hourly", "24"), ("--hourly", "12"), Impact.DATA_LOSS),
        (("--hourly", "12"), ("--hourly", "24"), Impact.LIVE),
        (("--monthly", "always"), ("--monthly", "6"), Impact.DATA_LOSS),
        (("--monthly", "6"), ("--monthly", "always"), Impact.LIVE),
        (("--hourly", "24"), ("--hourly", "24", "--delete"), Impact.DATA_LOSS),
        (("--hourly", "24", "--delete"), ("--hourly", "24"), Impact.LIVE),
    ],
)
def test_a_retention_job_that_keeps_fewer_backups(
    compare_objects: One, before: tuple[str, ...], after: tuple[str, ...], impact: Impact
) -> None:
    assert compare_objects(retention(*before), retention(*after)).impact is impact


def test_an_argument_is_named_by_its_flag(compare_objects: One) -> None:
    change = compare_objects(retention("-p", "/a", "--hourly", "24"), retention("--hourly", "12"))
    paths = [field.path[-1] for field in change.fields]
    assert "--hourly" in [getattr(part, "key", "") for part in paths]


@pytest.mark.parametrize(
    ("path", "impact"),
    [
        ("controllers/patch.yaml", Impact.LIVE),
        ("bootstrap/run.sh", Impact.NONE),
        ("bootstrap/main.tf", Impact.NONE),
        ("queueing/patch.yaml", Impact.UNKNOWN),
    ],
)
def test_files_that_are_no_objects(tmp_path: Path, path: str, impact: Impact) -> None:
    for side, text in (("old", "- value: 1\n"), ("new", "- value: 2\n")):
        file = tmp_path / side / "a" / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    trees = open_trees(str(tmp_path / "old"), str(tmp_path / "new"), "compiled")
    assert [change.impact for change in build_report(*trees).changes] == [impact]


@pytest.mark.parametrize(
    ("version", "field", "impact"),
    [
        ("0.16.4", "nodeTaints", Impact.BLOCKED),
        ("0.19.2", "nodeTaints", Impact.REQUEUE),
        ("0.19.2", "nodeLabels", Impact.BLOCKED),
        ("0.20.0", "nodeLabels", Impact.REQUEUE),
        ("", "nodeLabels", Impact.BLOCKED),
    ],
)
def test_what_is_fixed_in_a_flavor_depends_on_the_clusters_kueue(
    compare_trees: Any, version: str, field: str, impact: Impact
) -> None:
    def tree(value: Any) -> dict[str, fleet.Objects]:
        body = flavor(topologyName="gke", **{field: value})
        objects = fleet.cluster("a", body)
        objects["cluster.yaml"]["spec"]["versions"]["kueue"] = version
        return {"a": objects}

    old, new = (
        ({"a": "b"}, {"a": "c"})
        if field == "nodeLabels"
        else ([], [{"key": "a", "value": "b", "effect": "NoSchedule"}])
    )
    (change,) = compare_trees(tree(old), tree(new)).changes
    assert change.impact is impact


@pytest.mark.parametrize("row", [*TABLE, *ROWS], ids=lambda row: f"{row.kind} {row.path}")
def test_every_row_has_a_source_and_a_known_condition(row: Any) -> None:
    assert row.source
    assert row.when in CONDITIONS


def test_every_condition_is_used() -> None:
    assert {row.when for row in [*TABLE, *ROWS]} == set(CONDITIONS)
