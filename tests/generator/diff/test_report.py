from __future__ import annotations

import copy
from typing import Any

import pytest

from generator.diff.grouping import VARIES_FROM
from generator.diff.match import name_stem
from generator.diff.model import Impact, Report, Verb, show_path
from generator.diff.render.values import group_title
from tests.generator.diff import fleet
from tests.generator.diff.conftest import Compare

Trees = dict[str, fleet.Objects]


def fleets(*names: str, **kinds: dict[str, Any]) -> Trees:
    return {name: fleet.cluster(name) for name in names}


def verbs(report: Report) -> list[tuple[str, str, str]]:
    return sorted((c.verb.value, c.resource.kind, c.resource.name) for c in report.changes)


def test_a_tree_does_not_differ_from_itself(compare_trees: Compare) -> None:
    report = compare_trees(fleets("a", "b"), fleets("a", "b"))
    assert report.groups == ()
    assert (report.unchanged, report.clusters) == (14, 2)


def test_what_belongs_to_no_cluster_counts_as_none(compare_trees: Compare) -> None:
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "prod"},
    }
    new = {**fleets("a"), "argocd": {"project.yaml": project}}
    report = compare_trees(fleets("a"), new)
    assert (report.clusters, verbs(report)) == (1, [("add", "AppProject", "prod")])


def test_comments_and_spelling_are_no_change(compare_trees: Compare, tmp_path: Any) -> None:
    new = fleets("a")
    path = fleet.path_of(fleet.cluster_queue())
    new["a"][path] = fleet.cluster_queue("32000m")
    report = compare_trees(fleets("a"), new)
    assert report.groups == ()
    assert (report.respelled, report.unchanged) == (1, 7)


def test_a_hashed_name_is_followed_by_its_annotation(compare_trees: Compare) -> None:
    new = {"a": fleet.cluster("a", fleet.checkpointing("a09ef321", "60Gi"))}
    (change,) = compare_trees({"a": fleet.cluster("a", fleet.checkpointing())}, new).changes
    assert change.verb is Verb.REPLACE
    assert change.previous is not None
    assert change.previous.name == "v6e-7c1d09aa-configuration"
    assert [show_path(field.path) for field in change.fields] == ["spec.inMemoryVolumeSize"]


def test_a_hashed_name_is_followed_without_annotations(compare_trees: Compare) -> None:
    def tree(digest: str, size: str) -> Trees:
        body = fleet.checkpointing(digest, size)
        del body["metadata"]["annotations"]
        return {"a": fleet.cluster("a", body)}

    (change,) = compare_trees(tree("7c1d09aa", "50Gi"), tree("a09ef321", "60Gi")).changes
    assert change.verb is Verb.REPLACE


def test_fields_that_carry_the_new_name_are_set_apart(compare_trees: Compare) -> None:
    new = {"a": fleet.cluster("a", fleet.jobset("llama-70b-r2"))}
    (change,) = compare_trees({"a": fleet.cluster("a", fleet.jobset())}, new).changes
    assert [(field.new, field.follows) for field in change.fields] == [("llama-70b-r2", True)]


def test_a_run_that_is_added_beside_the_old_one_is_an_addition(compare_trees: Compare) -> None:
    old = {"a": fleet.cluster("a", fleet.jobset())}
    new = {"a": fleet.cluster("a", fleet.jobset(), fleet.jobset("llama-70b-r2"))}
    assert verbs(compare_trees(old, new)) == [("add", "JobSet", "llama-70b-r2")]


def test_an_object_under_another_name_is_a_move(compare_trees: Compare) -> None:
    old = {"a": fleet.cluster("a", fleet.cluster_queue(name="training"))}
    new = {"a": fleet.cluster("a", fleet.cluster_queue(64, name="research"))}
    (change,) = compare_trees(old, new).changes
    assert (change.verb, change.impact) == (Verb.MOVE, Impact.REQUEUE)
    assert change.previous is not None
    assert change.previous.name == "training"


def test_an_object_with_nothing_in_common_is_not_a_move(compare_trees: Compare) -> None:
    def widget(name: str, **spec: int) -> dict[str, Any]:
        meta = {"name": name}
        return {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": meta, "spec": spec}

    old = {"a": fleet.cluster("a", widget("one", a=1, b=2))}
    new = {"a": fleet.cluster("a", widget("two", c=3, d=4))}
    assert verbs(compare_trees(old, new)) == [
        ("add", "Widget", "two"),
        ("delete", "Widget", "one"),
    ]


def test_an_object_that_changes_the_cluster_is_a_move(compare_trees: Compare) -> None:
    job = fleet.jobset()
    old = {"a": fleet.cluster("a", fleet.flavor(), job), "b": fleet.cluster("b", fleet.flavor())}
    new = {"a": fleet.cluster("a", fleet.flavor()), "b": fleet.cluster("b", fleet.flavor(), job)}
    (change,) = compare_trees(old, new).changes
    assert (change.verb, change.impact) == (Verb.MOVE, Impact.RESTART)
    assert change.previous is not None
    assert (change.previous.cluster, change.resource.cluster) == ("a", "b")


def test_what_one_of_many_clusters_drops_has_not_moved(compare_trees: Compare) -> None:
    old, new = fleets("a", "b", "c"), fleets("a", "b", "c")
    del new["a"][fleet.path_of(fleet.priority_class())]
    assert verbs(compare_trees(old, new)) == [("delete", "PriorityClass", "high")]


def test_another_file_in_the_same_folder_means_nothing(compare_trees: Compare) -> None:
    old, new = fleets("a"), fleets("a")
    new["a"]["queueing/renamed.yaml"] = new["a"].pop(fleet.path_of(fleet.flavor()))
    (change,) = compare_trees(old, new).changes
    assert (change.verb, change.impact) == (Verb.MOVE, Impact.NONE)


def test_another_folder_is_another_argo_cd_application(compare_trees: Compare) -> None:
    old, new = fleets("a"), fleets("a")
    path = fleet.path_of(fleet.checkpointing())
    new["a"]["queueing/x.yaml"] = new["a"].pop(path)
    (change,) = compare_trees(old, new).changes
    assert (change.verb, change.impact) == (Verb.MOVE, Impact.RAMDISK_LOSS)
    assert "Argo CD" in change.why[0]


def test_the_same_change_in_many_clusters_is_one_group(compare_trees: Compare) -> None:
    names = [f"c{n}" for n in range(5)]
    new = fleets(*names)
    for objects in new.values():
        objects[fleet.path_of(fleet.cluster_queue())] = fleet.cluster_queue(64)
    (group,) = compare_trees(fleets(*names), new).groups
    assert (len(group.changes), group.clusters, group.varies) == (5, tuple(names), False)


def test_various_values_of_one_field_are_one_group_from_a_number_on(
    compare_trees: Compare,
) -> None:
    def groups(count: int) -> Report:
        names = [f"c{n}" for n in range(count)]
        new = fleets(*names)
        for n, objects in enumerate(new.values()):
            objects[fleet.path_of(fleet.cluster_queue())] = fleet.cluster_queue(n + 1)
        return compare_trees(fleets(*names), new)

    assert len(groups(VARIES_FROM - 1).groups) == VARIES_FROM - 1
    (group,) = groups(VARIES_FROM).groups
    assert group.varies


def test_a_new_cluster_is_one_group(compare_trees: Compare) -> None:
    report = compare_trees(fleets("a"), fleets("a", "b"))
    (group,) = report.groups
    assert group.whole_cluster
    assert report.verbs[Verb.ADD] == 7


def test_clusters_that_come_and_go_are_said(compare_trees: Compare) -> None:
    report = compare_trees(fleets("a", "b"), fleets("a", "c"))
    ((gravest, left), _, (quiet, joined)) = report.headlines
    assert (quiet, joined) == (Impact.NONE, "1 cluster joined the tree: c.")
    assert gravest is Impact.RAMDISK_LOSS
    assert left.startswith("1 cluster left the tree: b. What runs there goes only if")
    assert left.endswith("Deleting it stops 1 job, empties the RAM disks on 16 nodes (64 chips).")


def test_the_same_rename_in_several_clusters_is_shown_once(compare_trees: Compare) -> None:
    def tree(name: str) -> Trees:
        return {c: fleet.cluster(c, fleet.cluster_queue(name=name)) for c in ("a", "b")}

    report = compare_trees(tree("training"), tree("research"))
    (group,) = report.groups
    assert (group.first.verb, group.clusters) == (Verb.MOVE, ("a", "b"))
    assert group_title(group) == "ClusterQueue training → research"


def test_a_namespace_that_goes_is_named_by_its_old_name(compare_trees: Compare) -> None:
    def tree(name: str) -> Trees:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        return {"a": fleet.cluster("a", {**space, "spec": {"finalizers": ["kubernetes"]}})}

    report = compare_trees(tree("train"), tree("core"))
    texts = [text for impact, text in report.headlines if impact is Impact.DATA_LOSS]
    assert texts == ["Everything in it is deleted: Namespace train of a."]


def test_a_new_name_that_breaks_something_in_place_is_shown(compare_trees: Compare) -> None:
    def tree(queue: str) -> Trees:
        job = fleet.jobset()
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
        local = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": queue, "namespace": "train"},
            "spec": {"clusterQueue": "training"},
        }
        return {"a": fleet.cluster("a", job, local)}

    report = compare_trees(tree("lq"), tree("other"))
    (job,) = [change for change in report.changes if change.resource.kind == "JobSet"]
    (field,) = job.fields
    assert (field.old, field.new, field.follows) == ("lq", "other", False)
    assert job.impact is Impact.BLOCKED


def test_a_changed_bootstrap_has_to_be_run_by_somebody(compare_trees: Compare) -> None:
    old, new = fleets("a"), fleets("a")
    old["a"]["bootstrap/gcloud.sh"], new["a"]["bootstrap/gcloud.sh"] = "one\n", "two\n"
    for version, tree in (("v1", old), ("v2", new)):
        tree["a"]["bootstrap/kueue/kustomization.yaml"] = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"https://example.com/{version}.yaml"],
        }
    report = compare_trees(old, new)
    assert {change.impact for change in report.changes} == {Impact.NONE}
    texts = [text for _, text in report.headlines]
    assert texts == [
        "bootstrap/ of a changed: the merge applies the manifests, not this; "
        "somebody has to run it."
    ]


def test_another_role_under_another_name_is_granted_beside_the_old_one(
    compare_trees: Compare,
) -> None:
    """Config Connector refuses a change of the spec in place; a new object is no such change."""

    def tree(name: str, role: str) -> Trees:
        body = {
            "apiVersion": "iam.cnrm.cloud.google.com/v1beta1",
            "kind": "IAMPolicyMember",
            "metadata": {"name": name},
            "spec": {
                "member": "m",
                "role": role,
                "resourceRef": {"kind": "StorageBucket", "external": "b", "apiVersion": "v1"},
            },
        }
        return {"a": fleet.cluster("a", body)}

    (change,) = compare_trees(tree("user", "u"), tree("viewer", "v")).changes
    assert (change.verb, change.impact) == (Verb.MOVE, Impact.LIVE)
    assert "abandoned and stays" in change.why[0]
    (change,) = compare_trees(tree("user", "u"), tree("user", "v")).changes
    assert (change.verb, change.impact) == (Verb.CHANGE, Impact.BLOCKED)


def test_data_loss_is_said_by_reason(compare_trees: Compare) -> None:
    names = ["a", "b"]

    def tree(digest: str, bucket: str, *more: dict[str, Any]) -> Trees:
        body = fleet.checkpointing(digest)
        body["spec"]["cloudStorageBucketName"] = bucket
        return {name: fleet.cluster(name, body, *more) for name in names}

    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "train"}}
    report = compare_trees(tree("7c1d09aa", "old", space), tree("a09ef321", "new"))
    text = next(text for impact, text in report.headlines if impact is Impact.DATA_LOSS)
    assert "CheckpointConfiguration v6e-a09ef321-configuration of a, b." in text
    assert "Everything in it is deleted: Namespace train of a, b." in text


def test_graver_groups_come_first(compare_trees: Compare) -> None:
    new = fleets("a", "b")
    new["a"][fleet.path_of(fleet.local_queue())] = fleet.local_queue("other")
    new["b"].pop(fleet.path_of(fleet.jobset()))
    impacts = [group.impact for group in compare_trees(fleets("a", "b"), new).groups]
    assert impacts == [Impact.RESTART, Impact.COSMETIC]


def test_the_report_does_not_depend_on_the_order_of_clusters(compare_trees: Compare) -> None:
    def change(tree: Trees) -> Trees:
        out = copy.deepcopy(tree)
        for n, objects in enumerate(sorted(out)):
            out[objects][fleet.path_of(fleet.cluster_queue())] = fleet.cluster_queue(n + 40)
        return out

    one = compare_trees(fleets("a", "b", "c"), change(fleets("a", "b", "c")))
    two = compare_trees(fleets("c", "a", "b"), change(fleets("c", "b", "a")))
    assert one.groups == two.groups


def test_numbers_beside_a_ram_disk(compare_trees: Compare) -> None:
    old = {"a": fleet.cluster("a", fleet.checkpointing(size="50Gi"))}
    new = {"a": fleet.cluster("a", fleet.checkpointing("a09ef321", "60Gi"))}
    report = compare_trees(old, new)
    (change,) = report.changes
    numbers = {line.name: line for line in change.derived}
    assert (numbers["ramdisk-ratio"].old, numbers["ramdisk-ratio"].new) == (2.0, 2.4)
    assert numbers["node-memory"].new == pytest.approx(560 / 706 * 100, abs=0.01)
    assert (change.nodes, change.chips) == (16, 64)
    assert report.headlines[0][0] is Impact.RAMDISK_LOSS
    assert "16 nodes (64 chips) of a" in report.headlines[0][1]


@pytest.mark.parametrize("field", ["local-checkpoint-size", "pod-memory"])
def test_numbers_name_only_sizes_that_can_be_read(compare_trees: Compare, field: str) -> None:
    odd = fleet.checkpointing()
    odd["metadata"]["annotations"][f"stowplan.dev/{field}"] = "\x1b[2J"
    report = compare_trees({"a": fleet.cluster("a")}, {"a": fleet.cluster("a", odd)})
    texts = [line.text for change in report.changes for line in change.derived]
    assert texts
    assert all(text.isprintable() for text in texts)


def test_a_ram_disk_that_is_too_small_is_said(compare_trees: Compare) -> None:
    old = {"a": fleet.cluster("a", fleet.checkpointing(size="60Gi"))}
    new = {"a": fleet.cluster("a", fleet.checkpointing("a09ef321", "50Gi"))}
    report = compare_trees(old, new)
    assert any("LESS THAN the 2.2× needed" in text for _, text in report.headlines)


def test_nodes_of_one_pool_count_once(compare_trees: Compare) -> None:
    def tree(digest: str, size: str) -> Trees:
        two = fleet.checkpointing(digest, size)
        two["metadata"]["name"] = f"second-{digest}-configuration"
        two["metadata"]["annotations"]["stowplan.dev/config"] = "second"
        return {"a": fleet.cluster("a", fleet.checkpointing(digest, size), two)}

    report = compare_trees(tree("7c1d09aa", "50Gi"), tree("a09ef321", "60Gi"))
    assert "on 16 nodes (64 chips)" in report.headlines[0][1]


def test_quota_stands_against_capacity(compare_trees: Compare) -> None:
    def tree(quota: int) -> Trees:
        other = fleet.cluster_queue(16, name="other")
        return {"a": fleet.cluster("a", fleet.flavor(), fleet.cluster_queue(quota), other)}

    report = compare_trees(tree(32), tree(64))
    (line,) = report.changes[0].derived
    assert (line.old, line.new, line.exceeded) == (32, 64, True)
    assert line.text == "64 on the nodes of v6e; all queues together 80, 16 MORE THAN there are"


def test_a_deleted_priority_class_names_the_jobs_that_need_it(compare_trees: Compare) -> None:
    new = fleets("a")
    new["a"].pop(fleet.path_of(fleet.priority_class()))
    (change,) = compare_trees(fleets("a"), new).changes
    assert [line.new for line in change.derived] == [1]
    assert "train/llama-70b-r1" in change.derived[0].text


def test_a_waiver_is_a_headline(compare_trees: Compare) -> None:
    new = fleets("a")
    new["a"]["cluster.yaml"]["spec"]["waivers"] = [
        {
            "rule": "JOB012",
            "resource": "JobSet train/*",
            "reason": "old image",
            "owner": "team-a",
            "expires": "2027-03-31",
        }
    ]
    report = compare_trees(fleets("a"), new)
    assert report.headlines[-1][1] == (
        "New waiver: JOB012 for JobSet train/*, by team-a, until 2027-03-31: old image (a)"
    )


def test_a_new_driver_epoch_replaces_and_empties(compare_trees: Compare) -> None:
    """The upgrade of a cluster: nothing but the epoch changes, so the name does."""
    body = fleet.checkpointing("a09ef321")
    body["metadata"]["annotations"]["stowplan.dev/driver-epoch"] = "2"
    old = {"a": fleet.cluster("a", fleet.checkpointing())}
    report = compare_trees(old, {"a": fleet.cluster("a", body)})
    (change,) = report.changes
    assert (change.verb, change.impact) == (Verb.REPLACE, Impact.RAMDISK_LOSS)
    assert [show_path(f.path) for f in change.fields] == [
        "metadata.annotations[stowplan.dev/driver-epoch]"
    ]
    assert "16 nodes (64 chips) of a will be emptied" in report.headlines[0][1]


def test_a_new_gke_version_without_a_new_epoch_is_said(compare_trees: Compare) -> None:
    def tree(version: str) -> Trees:
        body = fleet.checkpointing()
        body["metadata"]["annotations"]["stowplan.dev/gke-version"] = version
        return {"a": fleet.cluster("a", body)}

    report = compare_trees(tree("1.33.4-gke.1"), tree("1.33.5-gke.2"))
    assert report.changes[0].impact is Impact.COSMETIC
    ((_, text),) = report.headlines
    assert text.startswith("GKE goes from 1.33.4-gke.1 to 1.33.5-gke.2 on a")
    assert "driverEpoch" in text


def test_more_nodes_are_counted(compare_trees: Compare) -> None:
    new = fleets("a")
    new["a"]["cluster.yaml"]["spec"]["nodePools"][0]["nodes"] = 32
    (change,) = compare_trees(fleets("a"), new).changes
    assert change.impact is Impact.NONE
    assert [line.text for line in change.derived] == ["16 → 32 nodes, 64 → 128 chips in all pools"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("v6e-7c1d09aa-configuration", "v6e-configuration"),
        ("llama-70b-r12", "llama-70b"),
        ("llama-70b-1a2b3c4d", "llama-70b"),
        ("default-queue", "default-queue"),
        ("feedface", "feedface"),
        ("team-deadbeef", "team-deadbeef"),
        ("tpu-v6e", "tpu-v6e"),
    ],
)
def test_what_counts_as_generated_in_a_name(name: str, stem: str) -> None:
    assert name_stem(name) == stem
