"""``compiled/argocd/`` is written by runs over the whole fleet, and is as fresh as the clusters."""

from __future__ import annotations

import json

import pytest
import yaml

from generator import render
from generator.compile import Builder
from generator.inventory import Classes, discover
from tests.conftest import Fleet

PROD = "argocd/applicationset-fleet-prod.yaml"


def test_a_selection_of_clusters_leaves_it_alone(fleet: Fleet) -> None:
    fleet.compile("-t", "tpu-*")
    assert not [path for path in fleet.compiled if path.startswith("argocd/")]
    fleet.compile()
    before = fleet.compiled
    fleet.edit("targets/tpu-v5p-prod.yml", "  - env.prod", "  - env.dev")
    fleet.compile("-t", "tpu-v5p-prod")
    assert {p: t for p, t in fleet.compiled.items() if p.startswith("argocd/")} == {
        p: t for p, t in before.items() if p.startswith("argocd/")
    }
    answer = fleet.compile("--check")
    assert answer.code == 1
    assert f"compiled/{PROD}" in answer.out


def test_one_moved_cluster_is_built_and_the_others_are_remembered(fleet: Fleet) -> None:
    fleet.compile()
    fleet.edit("targets/tpu-v5p-prod.yml", "  - env.prod", "  - env.dev")
    answer = fleet.compile()
    assert "5 clusters: 1 built, 4 unchanged" in answer.out
    prod = fleet.compiled[PROD].decode()
    assert "tpu-v5p-prod" not in prod
    assert "gpu-h100-prod" in prod
    assert "tpu-v5p-prod" in fleet.compiled["argocd/applicationset-fleet-dev.yaml"].decode()


def test_a_file_changed_by_hand_is_stale_and_put_right_although_no_cluster_is_built(
    fleet: Fleet,
) -> None:
    fleet.compile()
    good = fleet.compiled[PROD]
    path = fleet.root / "compiled" / PROD
    path.write_bytes(good + b"# by hand\n")
    check = fleet.compile("--check")
    assert (check.code, check.out.split()) == (1, [f"compiled/{PROD}"])
    answer = fleet.compile()
    assert f"wrote compiled/{PROD}" in answer.out
    assert "0 built" in answer.out
    assert fleet.compiled[PROD] == good


def test_an_environment_that_is_gone_takes_its_objects_along(fleet: Fleet) -> None:
    fleet.compile()
    for name in ("tpu-v6e-docs", "shared-dev"):
        (fleet.root / f"inventory/targets/{name}.yml").unlink()
    answer = fleet.compile()
    assert "removed compiled/argocd/appproject-fleet-dev.yaml" in answer.out
    listed = yaml.safe_load(fleet.compiled["argocd/kustomization.yaml"])["resources"]
    assert not [name for name in listed if "dev" in name]


def test_a_fleet_without_gitops_has_no_such_folder(fleet: Fleet) -> None:
    fleet.compile()
    text = (fleet.root / "inventory/classes/common.yml").read_text()
    start, end = text.index("  gitops:"), text.index("  vars:")
    fleet.write("classes/common.yml", text[:start] + text[end:])
    assert fleet.compile().code == 0
    assert not (fleet.root / "compiled/argocd").exists()


def test_files_of_others_are_kept_and_reported(fleet: Fleet) -> None:
    fleet.compile()
    (fleet.root / "compiled/argocd/NOTES.md").write_text("mine\n")
    answer = fleet.compile()
    assert "note: compiled/argocd/NOTES.md is not from stowplan" in answer.err
    assert (fleet.root / "compiled/argocd/NOTES.md").read_text() == "mine\n"


def test_with_an_error_somewhere_it_stays_as_it_was(fleet: Fleet) -> None:
    fleet.compile()
    before = {p: t for p, t in fleet.compiled.items() if p.startswith("argocd/")}
    fleet.edit("targets/tpu-v5p-prod.yml", "  - env.prod", "  - env.dev")
    fleet.edit("targets/gpu-h100-prod.yml", "kueue: 0.16.2", "kueue: banana")
    assert fleet.compile("--keep-going").code == 1
    assert {p: t for p, t in fleet.compiled.items() if p.startswith("argocd/")} == before


@pytest.mark.parametrize(
    ("key", "value"),
    [("repoUrl", "https://git.example.com/other.git"), ("revision", "next"), ("path", "rendered")],
)
def test_clusters_of_one_environment_must_agree(fleet: Fleet, key: str, value: str) -> None:
    fleet.edit(
        "targets/tpu-v5p-prod.yml", "parameters:\n", f"parameters:\n  gitops:\n    {key}: {value}\n"
    )
    answer = fleet.compile()
    assert answer.code == 1
    assert "error INV110" in answer.err
    assert f"gitops.{key} differs among the clusters of environment prod" in answer.err
    assert value in answer.err
    assert "fix: " in answer.err
    assert fleet.compiled == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("repoUrl", "'https://git.example.com/{{ .path }}.git'"),
        ("repoUrl", "git.example.com"),
        ("revision", "'main {{ x }}'"),
        ("path", "../elsewhere"),
        ("path", "/compiled"),
    ],
)
def test_no_template_and_no_path_to_elsewhere_gets_in(fleet: Fleet, key: str, value: str) -> None:
    fleet.edit(
        "targets/tpu-v5p-prod.yml", "parameters:\n", f"parameters:\n  gitops:\n    {key}: {value}\n"
    )
    answer = fleet.compile()
    assert answer.code == 1
    assert "inventory/targets/tpu-v5p-prod.yml:11:" in answer.err
    assert f"{value.strip(chr(39))!r} is no " in answer.err
    assert "fix: write one such as " in answer.err


def test_a_deeper_folder_moves_the_segment_of_the_clusters_name(fleet: Fleet) -> None:
    fleet.edit(
        "classes/common.yml", "    revision: main\n", "    revision: main\n    path: deploy/out\n"
    )
    assert fleet.compile().code == 0
    spec = yaml.safe_load(fleet.compiled[PROD])["spec"]
    assert spec["template"]["spec"]["destination"]["name"] == "{{ index .path.segments 2 }}"
    first = spec["generators"][0]["git"]["directories"][0]["path"]
    assert first == "deploy/out/gpu-h100-prod/queueing"


def test_the_memory_of_an_older_version_only_costs_time(fleet: Fleet) -> None:
    fleet.compile()
    memory = fleet.root / ".stowplan/state.json"
    data = json.loads(memory.read_text())
    for entry in data["clusters"].values():
        del entry["member"]
    memory.write_text(json.dumps(data))
    before = fleet.compiled
    answer = fleet.compile()
    assert answer.code == 0, answer.err
    assert fleet.compiled == before


def test_a_clusters_entry_needs_neither_checks_nor_files(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Kapitan's target for the fleet asks of each cluster is not a second rendering."""
    fleet.write(
        "overlays/quota.jsonnet",
        """function(cluster, manifests) manifests + [{
          apiVersion: 'v1', kind: 'ResourceQuota', metadata: {name: 'q', namespace: 'default'},
          spec: {hard: {pods: '10'}},
        }]
        """,
    )
    fleet.edit(
        "targets/tpu-v6e-docs.yml", "parameters:\n", "parameters:\n  overlays: [quota.jsonnet]\n"
    )
    tree = discover(fleet.root)
    classes = Classes.read(tree)
    builder = Builder(tree, classes)
    rendered = [builder.render(name) for name in sorted(tree.targets)]
    assert len(rendered) == 5
    whole = []
    for parameters in rendered:
        assert not isinstance(parameters, list), parameters
        whole.append(render.render_cluster(tree, classes, parameters).member)

    def refuse(*_: object) -> None:
        raise AssertionError("checked or written")

    monkeypatch.setattr(render, "_checked", refuse)
    monkeypatch.setattr(render, "_files", refuse)
    quick = [render.cluster_member(tree, parameters) for parameters in rendered]  # type: ignore[arg-type]
    assert quick == [(entry, []) for entry in whole]
    assert ("", "ResourceQuota", True) in next(
        m for m in whole if m.cluster == "tpu-v6e-docs"
    ).kinds


class TestFlux:
    @pytest.fixture(autouse=True)
    def synced_by_flux(self, fleet: Fleet) -> None:
        text = "parameters:\n  gitops:\n    tool: flux\n"
        fleet.edit("targets/shared-dev.yml", "parameters:\n", text)

    def test_going_back_to_argo_cd_takes_its_objects_along(self, fleet: Fleet) -> None:
        fleet.compile()
        assert (fleet.root / "compiled/shared-dev/flux").exists()
        fleet.edit("targets/shared-dev.yml", "    tool: flux\n", "    tool: argocd\n")
        fleet.compile()
        assert not (fleet.root / "compiled/shared-dev/flux").exists()
        assert b"shared-dev" in fleet.compiled["argocd/applicationset-fleet-dev.yaml"]

    def test_its_cluster_is_not_argo_cds(self, fleet: Fleet) -> None:
        fleet.compile()
        for path, data in fleet.compiled.items():
            if path.startswith("argocd/"):
                assert b"shared-dev" not in data

    def test_layers_follow_each_other_and_are_never_forced(self, fleet: Fleet) -> None:
        fleet.compile()
        specs = {
            path.rsplit(".", 2)[1]: yaml.safe_load(data)["spec"]
            for path, data in fleet.compiled.items()
            if path.startswith("shared-dev/flux/kustomization-")
        }
        assert [list(specs), [s["path"] for s in specs.values()]] == [
            ["fleet-checkpointing", "fleet-queueing", "fleet-workloads"],
            [
                f"./compiled/shared-dev/{layer}"
                for layer in ("checkpointing", "queueing", "workloads")
            ],
        ]
        assert specs["fleet-workloads"]["dependsOn"] == [
            {"name": "fleet-queueing"},
            {"name": "fleet-checkpointing"},
        ]
        for spec in specs.values():
            assert (spec["force"], spec["wait"], spec["deletionPolicy"]) == (False, False, "Orphan")

    def test_what_costs_jobs_or_ram_disks_is_never_pruned_by_it(self, fleet: Fleet) -> None:
        fleet.compile()
        key = "kustomize.toolkit.fluxcd.io/prune"
        for kind in ("CheckpointConfiguration", "ClusterQueue", "JobSet", "Namespace"):
            for body in fleet.objects("shared-dev", kind):
                assert body["metadata"]["annotations"][key] == "disabled"
        for body in fleet.objects("shared-dev", "LocalQueue"):
            assert key not in body["metadata"]["annotations"]
        for body in fleet.objects("tpu-v5p-prod", "JobSet"):
            assert key not in body["metadata"]["annotations"]

    def test_a_tag_is_written_as_a_full_ref(self, fleet: Fleet) -> None:
        fleet.edit(
            "targets/shared-dev.yml",
            "    tool: flux\n",
            "    tool: flux\n    revision: refs/tags/v3\n",
        )
        fleet.compile()
        (source,) = (d for p, d in fleet.compiled.items() if "gitrepository-" in p)
        assert yaml.safe_load(source)["spec"]["ref"] == {"name": "refs/tags/v3"}
