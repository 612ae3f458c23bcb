"""Jsonnet overlays: what they may do, and how their faults are shown."""

from __future__ import annotations

import pytest

from tests.conftest import Fleet

DOCS = "targets/tpu-v6e-docs.yml"


def with_overlay(fleet: Fleet, text: str, name: str = "edit.jsonnet") -> None:
    fleet.write(f"overlays/{name}", text)
    fleet.edit(DOCS, "  nodePools:", f"  overlays: [{name}]\n  nodePools:")


def test_an_overlay_edits_adds_and_removes(fleet: Fleet) -> None:
    with_overlay(
        fleet,
        """
        function(cluster, manifests)
          [m for m in manifests if m.kind != 'CronJob' && m.kind != 'ServiceAccount'] + [{
            apiVersion: 'v1', kind: 'ConfigMap',
            metadata: { name: 'site', namespace: 'default' },
            data: { project: cluster.spec.project.id, chips: '%d' % (cluster.spec.nodePools[0].nodes * 4) },
          }]
        """,
    )
    assert fleet.compile("-t", "tpu-v6e-docs").code == 0
    assert fleet.objects("tpu-v6e-docs", "CronJob") == []
    assert fleet.object("tpu-v6e-docs", "ConfigMap")["data"] == {
        "project": "acme-training", "chips": "64",
    }  # fmt: skip
    assert "tpu-v6e-docs/queueing/configmap-default.site.yaml" in fleet.compiled


def test_an_edit_of_a_jobset_gives_it_a_new_run(fleet: Fleet) -> None:
    fleet.compile("-t", "tpu-v6e-docs")
    before = fleet.object("tpu-v6e-docs", "JobSet", "high")["metadata"]["name"]
    with_overlay(
        fleet,
        "function(cluster, manifests) [if m.kind == 'JobSet' then"
        " m {spec+: {failurePolicy+: {maxRestarts: 3}}} else m for m in manifests]",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    after = fleet.object("tpu-v6e-docs", "JobSet", "high")
    assert after["spec"]["failurePolicy"]["maxRestarts"] == 3
    assert after["metadata"]["name"] != before


def test_an_annotation_chooses_the_layer_of_a_new_object(fleet: Fleet) -> None:
    with_overlay(
        fleet,
        "function(cluster, manifests) manifests + [{apiVersion: 'v1', kind: 'Secret', metadata:"
        " {name: 's', annotations: {'stowplan.dev/layer': 'workloads'}}}]",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    assert "tpu-v6e-docs/workloads/secret-s.yaml" in fleet.compiled


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("function(cluster, manifests) manifests +", ["edit.jsonnet:1:41"]),
        ("function(cluster, manifests) manifests.x", ["edit.jsonnet:1"]),
        ("function(cluster, manifests) error 'not here'", ["edit.jsonnet:1:30", "not here"]),
        ("function(cluster, manifests) {}", ["returned a dict, not a list"]),
        ("function(cluster, manifests) [1]", ["entry 0 of the overlay's result has no apiVersion"]),
        ("function(cluster, manifests) manifests + manifests", ["twice"]),
        ("function(manifests) manifests", ["function(cluster, manifests)"]),
        ("[]", ["function(cluster, manifests)"]),
        (
            "function(cluster, manifests) import '../../secret.libsonnet'",
            ["not below inventory/overlays"],
        ),
        ("function(cluster, manifests) importstr '/etc/passwd'", ["not below inventory/overlays"]),
        (
            "function(cluster, manifests) [{apiVersion: 'v1', kind: 'X', metadata: {name: 'x',"
            " annotations: {'stowplan.dev/layer': 'else'}}}]",
            ["'else'; the layers are queueing"],
        ),
    ],
)
def test_a_faulty_overlay_is_named_and_nothing_written(
    fleet: Fleet, text: str, says: list[str]
) -> None:
    (fleet.root / "secret.libsonnet").write_text("[]")
    with_overlay(fleet, text)
    answer = fleet.compile("-t", "tpu-v6e-docs")
    assert answer.code == 1
    assert "inventory/overlays/edit.jsonnet" in answer.err
    for part in says:
        assert part in answer.err
    assert "Traceback" not in answer.err
    assert not (fleet.root / "compiled").exists()


@pytest.mark.parametrize("name", ["missing.jsonnet", "../x.jsonnet", "/etc/passwd", "x.yaml"])
def test_an_overlay_file_that_is_not_there_is_named(fleet: Fleet, name: str) -> None:
    fleet.edit(DOCS, "  nodePools:", f"  overlays: [{name}]\n  nodePools:")
    answer = fleet.compile("-t", "tpu-v6e-docs")
    assert answer.code == 1
    assert name in answer.err


def test_an_overlay_that_never_ends_is_stopped(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("generator.jsonnet.TIME_LIMIT_S", 1)
    with_overlay(
        fleet,
        "local on(n) = if n == 0 then 0 else on(n - 1) + on(n - 1);\n"
        "function(cluster, manifests) on(99)\n",
    )
    answer = fleet.compile("--keep-going")
    assert answer.code == 1
    assert "error INV080: the overlay was not done after 1 seconds" in answer.err
    assert not any(path.startswith("tpu-v6e-docs/") for path in fleet.compiled)
    assert any(path.startswith("shared-dev/") for path in fleet.compiled)


def test_an_overlay_that_overflows_the_interpreter_is_an_error_of_its_own(fleet: Fleet) -> None:
    with_overlay(
        fleet,
        "local on(n) = on(n + 1) tailstrict;\nfunction(cluster, manifests) on(0)\n",
    )
    fleet.write("overlays/good.jsonnet", "function(cluster, manifests) manifests")
    fleet.edit("targets/shared-dev.yml", "  nodePools:", "  overlays: [good.jsonnet]\n  nodePools:")
    answer = fleet.compile("--keep-going")
    assert answer.code == 1
    assert "the overlay cannot be evaluated: its process " in answer.err
    assert "a recursion without end" in answer.err
    assert "Traceback" not in answer.err
    assert "goroutine" not in answer.err
    assert any(path.startswith("shared-dev/") for path in fleet.compiled)
