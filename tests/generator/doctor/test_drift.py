"""What counts as a difference from ``compiled/``, and what controllers and defaults may add."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from generator.diff.model import Item
from generator.doctor.diagnose import diagnose
from generator.doctor.drift import differences
from generator.doctor.ownership import appliers, writers
from generator.doctor.snapshot import kept

from .fleet import healthy, wanted

WANTED = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "q", "labels": {"app.kubernetes.io/managed-by": "stowplan"}},
    "spec": {"namespaceSelector": {}, "stopPolicy": "None"},
}
APPLIED = {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}}


def live(spec: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """The object live: applied by Argo CD, with further fields and their owners."""
    body = copy.deepcopy(WANTED)
    body["spec"] |= spec
    body["status"] = {"pendingWorkloads": 3}
    body["metadata"] |= {
        "uid": "1",
        "resourceVersion": "7",
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "managedFields": [{"manager": "argocd-controller", "fieldsV1": APPLIED}, *others],
    }
    return body


def owner(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "time": "2026-08-01T11:00:00Z", "fieldsV1": fields, **more}


def paths(found: list[Any]) -> list[str]:
    return [f"{change.op} {'.'.join(map(str, change.path))}" for change in found]


def test_a_field_that_nobody_owns_is_a_default() -> None:
    assert differences(WANTED, live({"queueingStrategy": "BestEffortFIFO"})) == []


def test_defaults_of_a_client_side_apply_belong_to_the_applier() -> None:
    fields = {**APPLIED, "f:spec": {"f:queueingStrategy": {}}}
    item = live({"queueingStrategy": "BestEffortFIFO"}, owner("kubectl-client-side-apply", fields))
    assert appliers(item) == {"argocd-controller", "kubectl-client-side-apply"}
    assert differences(WANTED, item) == []


def test_a_field_that_somebody_else_wrote_is_a_difference() -> None:
    item = live({"cohortName": "x"}, owner("kubectl-edit", {"f:spec": {"f:cohortName": {}}}))
    assert paths(differences(WANTED, item)) == ["add spec.cohortName"]


def test_a_key_in_an_atomic_map_belongs_to_the_owner_of_the_map() -> None:
    item = live(
        {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        owner("kubectl-patch", {"f:spec": {"f:namespaceSelector": {}}}),
    )
    assert paths(differences(WANTED, item)) == ["add spec.namespaceSelector.matchLabels.team"]


def test_a_status_is_nobodys_difference() -> None:
    item = live({}, owner("kueue", {"f:status": {"f:x": {}}}, subresource="status"))
    assert differences(WANTED, item) == []


@pytest.mark.parametrize("value", [False, 0, "", [], {}])
def test_a_zero_value_that_the_server_leaves_out_is_no_difference(value: Any) -> None:
    manifest = copy.deepcopy(WANTED)
    manifest["spec"]["optional"] = value
    assert differences(manifest, live({})) == []


def test_a_value_that_is_gone_is_a_difference() -> None:
    item = live({})
    del item["spec"]["stopPolicy"]
    assert paths(differences(WANTED, item)) == ["remove spec.stopPolicy"]


def test_equal_quantities_are_no_difference() -> None:
    manifest = {"kind": "CheckpointConfiguration", "spec": {"inMemoryVolumeSize": "64Gi"}}
    same = {"metadata": {}, "spec": {"inMemoryVolumeSize": "65536Mi"}}
    other = {"metadata": {}, "spec": {"inMemoryVolumeSize": "64G"}}
    assert differences(manifest, same) == []
    assert paths(differences(manifest, other)) == ["change spec.inMemoryVolumeSize"]


def test_what_kueue_writes_into_a_running_jobset_is_no_difference() -> None:
    snapshot = healthy()
    template = snapshot.objects["jobsets"][0]["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = template["template"]
    pod["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "slice"}}
    pod["spec"]["nodeSelector"]["extra"] = "value"
    pod["spec"]["tolerations"] = [*pod["spec"]["tolerations"], {"key": "k", "operator": "Exists"}]
    snapshot.objects["jobsets"][0]["spec"]["suspend"] = False
    kueue = {"f:spec": {"f:replicatedJobs": {}, "f:suspend": {}}}
    snapshot.objects["jobsets"][0]["metadata"]["managedFields"].append(owner("kueue", kueue))
    assert diagnose(snapshot, wanted()).findings == []


def test_an_image_set_by_hand_is_told_with_its_author() -> None:
    snapshot = healthy()
    job = snapshot.objects["jobsets"][0]
    containers = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "containers"
    ]
    containers[0]["image"] = "other"
    job["metadata"]["managedFields"].append(
        owner("kubectl-edit", {"f:spec": {"f:replicatedJobs": {}}})
    )
    (found,) = diagnose(snapshot, wanted()).findings
    assert found.rule == "DOC051"
    assert "image is 'other', and Git has" in found.message
    assert "(written by kubectl-edit at 2026-08-01T11:00:00Z)" in found.message
    assert found.manifest is not None
    assert "workloads/jobset-default" in found.manifest.file


def test_values_of_environment_variables_are_compared_and_never_shown() -> None:
    env = [{"name": "HF_TOKEN", "value": "hunter2"}]
    spec = {"template": {"spec": {"containers": [{"name": "c", "env": env}]}}}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    same = kept("object:x", copy.deepcopy(manifest))
    assert "hunter2" not in str(same)
    assert differences(manifest, same) == []
    changed = copy.deepcopy(manifest)
    changed["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "hunter3"
    (change,) = differences(manifest, kept("object:x", changed))
    assert str(change.new).startswith("sha256:")


def test_owners_of_list_entries_are_found_by_key_and_by_value() -> None:
    item = {
        "spec": {"list": [{"name": "a", "x": 1}, {"name": "b", "x": 2}], "set": ["u", "v"]},
        "metadata": {
            "managedFields": [
                owner("one", {"f:spec": {"f:list": {'k:{"name":"b"}': {".": {}, "f:x": {}}}}}),
                owner("two", {"f:spec": {"f:set": {'v:"v"': {}}}}),
            ]
        },
    }
    entry = Item("b", 1, 1)
    assert writers(item, ("spec", "list", entry, "x")) == [("one", "2026-08-01T11:00:00Z")]
    assert writers(item, ("spec", "list", Item("a", 0, 0), "x")) == []
    assert [name for name, _ in writers(item, ("spec", "set", Item("v", 1, 1)))] == ["two"]
