"""What Argo CD is told to ignore: all that Kueue writes, and nothing that Git says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.data.argocd import IGNORED, ignore_differences, known_type_settings

jq = pytest.importorskip("jq", reason="jq is not installed")

COMPILED = Path(__file__).resolve().parents[3] / "compiled"
JOBSETS = sorted(COMPILED.glob("*/workloads/jobset-*.yaml"))


def normalised(body: dict[str, Any]) -> Any:
    """Delete the ignored fields, as Argo CD's normalizer does: one `del` per expression."""
    (entry,) = ignore_differences()
    for expression in entry["jqPathExpressions"]:
        body = jq.compile(f"del({expression})").input_value(body).first()
    return body


def admitted(body: dict[str, Any]) -> dict[str, Any]:
    """The object after Kueue's webhook and admission wrote into it."""
    live = copy.deepcopy(body)
    live["spec"]["suspend"] = False
    live["spec"]["managedBy"] = "jobset.sigs.k8s.io/jobset-controller"
    for job in live["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        meta = template.setdefault("metadata", {})
        meta.setdefault("labels", {})["kueue.x-k8s.io/podset"] = job["name"]
        meta.setdefault("annotations", {})["kueue.x-k8s.io/workload"] = "jobset-x"
        spec = template["spec"]
        spec.setdefault("nodeSelector", {})["cloud.google.com/gke-nodepool"] = "v6e-0"
        spec.setdefault("tolerations", []).append({"key": "spot", "operator": "Exists"})
        spec["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    return live


def without_empty(value: Any) -> Any:
    """Argo CD drops empty maps before it compares."""
    if isinstance(value, dict):
        items = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item not in ({}, [])}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def test_there_are_jobsets_to_look_at() -> None:
    assert len(JOBSETS) > 5


@pytest.mark.parametrize("path", JOBSETS, ids=lambda path: path.stem)
def test_an_admitted_jobset_is_in_sync(path: Path) -> None:
    body = yaml.safe_load(path.read_text())
    live = admitted(body)
    assert live != body
    assert without_empty(normalised(live)) == without_empty(normalised(body))


def _image(template: dict[str, Any]) -> None:
    template["spec"]["containers"][0]["image"] = "other"


def _label(template: dict[str, Any]) -> None:
    template.setdefault("metadata", {}).setdefault("labels", {})["team"] = "other"


@pytest.mark.parametrize("edit", [_image, _label])
def test_what_git_says_is_not_ignored(edit: Callable[[dict[str, Any]], None]) -> None:
    body = yaml.safe_load(JOBSETS[0].read_text())
    changed = copy.deepcopy(body)
    edit(changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"])
    assert normalised(changed) != normalised(body)


@pytest.mark.parametrize("body", [{}, {"spec": {}}, {"spec": {"replicatedJobs": []}}], ids=str)
def test_an_object_without_the_fields_is_left_alone(body: dict[str, Any]) -> None:
    assert normalised(body) == body


def test_known_types_are_yaml_that_argo_cd_reads() -> None:
    fields = {key: yaml.safe_load(text) for key, text in known_type_settings().items()}
    assert fields["resource.customizations.knownTypeFields.kueue.x-k8s.io_ClusterQueue"][0] == {
        "field": "spec.resourceGroups.flavors.resources.nominalQuota",
        "type": "core/Quantity",
    }
    assert all(set(entry) == {"field", "type"} for entries in fields.values() for entry in entries)


def test_every_row_says_who_writes_and_where_that_is_seen() -> None:
    assert all(row.why and row.source for row in IGNORED)
