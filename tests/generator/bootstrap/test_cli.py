"""``stowplan bootstrap``: formats, refusals and faults."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import Fleet


def test_config_connector_gets_the_roles_and_refuses_the_rest_with_reasons(fleet: Fleet) -> None:
    answer = fleet.run("bootstrap", "tpu-v5p-prod", "--format", "kcc")
    assert answer.code == 0
    bodies = list(yaml.safe_load_all(answer.out))
    assert {body["kind"] for body in bodies} == {"IAMPolicyMember"}
    assert sorted(body["spec"]["role"] for body in bodies) == [
        "roles/storage.objectUser",
        "roles/storage.objectUser",
        "roles/storage.objectViewer",
    ]
    assert len({body["metadata"]["name"] for body in bodies}) == 3
    assert "refused: no StorageBucket: its CRD has no hierarchicalNamespace" in answer.err
    assert (
        "refused: no ContainerCluster: its addonsConfig has no highScaleCheckpointing" in answer.err
    )


@pytest.mark.parametrize("form", ["gcloud", "terraform", "kcc"])
def test_what_is_printed_is_what_is_compiled(fleet: Fleet, form: str) -> None:
    fleet.compile()
    folder = fleet.root / "compiled" / "tpu-v6e-docs" / "bootstrap"
    answer = fleet.run("bootstrap", "tpu-v6e-docs", "--format", form)
    names = {"gcloud": ["gcloud.sh"], "terraform": ["terraform/*"], "kcc": ["kcc/*"]}[form]
    for name in names:
        for path in folder.glob(name):
            lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
            assert set(lines) <= set(answer.out.splitlines())


def test_output_writes_the_controllers_as_well(fleet: Fleet, tmp_path: Path) -> None:
    answer = fleet.run("bootstrap", "tpu-v6e-docs", "-o", str(tmp_path / "out"))
    assert answer.code == 0
    written = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    assert {"gcloud.sh", "controllers.sh", "jobset/kustomization.yaml"} <= written


def test_an_output_that_cannot_be_written_is_an_error(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = fleet.run("bootstrap", "tpu-v6e-docs", "-o", str(tmp_path / "file"))
    assert answer.code == 2
    assert "error: cannot write" in answer.err


@pytest.mark.parametrize(
    ("name", "told"),
    [("nowhere", "no cluster matches 'nowhere'"), ("tpu-*", "matches 3 clusters; name one")],
)
def test_a_name_that_is_not_one_cluster_is_wrong_usage(fleet: Fleet, name: str, told: str) -> None:
    answer = fleet.run("bootstrap", name)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err


FAULTS = [
    (
        "nodeLocations: [us-central1-a]",
        "nodeLocations: [us-central1-a, us-central1-b]",
        "INV101",
        "slices of several hosts lie in one zone, us-central1-a, us-central1-b are said",
    ),
    ("nodeLocations: [us-central1-a]", "nodeLocations: []", "INV101", "none is said"),
    ("reservation: foundation-v5p", "reservation: r\n      spot: true", "INV102", "spot VMs"),
]


@pytest.mark.parametrize(("old", "new", "rule", "told"), FAULTS)
def test_what_cannot_be_bootstrapped_is_refused_with_the_remedy(
    fleet: Fleet, old: str, new: str, rule: str, told: str
) -> None:
    fleet.edit("targets/tpu-v5p-prod.yml", old, new)
    answer = fleet.run("bootstrap", "tpu-v5p-prod")
    assert (answer.code, answer.out) == (1, "")
    assert rule in answer.err
    assert told in answer.err
    assert "fix: " in answer.err


def test_manifests_are_compiled_all_the_same_and_the_old_bootstrap_goes(fleet: Fleet) -> None:
    fleet.compile()
    fleet.edit("targets/tpu-v5p-prod.yml", "nodeLocations: [us-central1-a]", "nodeLocations: []")
    answer = fleet.compile()
    assert answer.code == 0
    assert "warning INV101" in answer.err
    assert "bootstrap/ is not written" in answer.err
    assert "inventory/targets/tpu-v5p-prod.yml" in answer.err
    names = [path for path in fleet.compiled if path.startswith("tpu-v5p-prod/")]
    assert not [path for path in names if "/bootstrap/" in path]
    assert [path for path in names if "/workloads/" in path]


def test_zones_of_a_pool_say_where_its_slices_lie(fleet: Fleet) -> None:
    fleet.edit(
        "targets/tpu-v5p-prod.yml",
        "nodeLocations: [us-central1-a]",
        "nodeLocations: [us-central1-a, us-central1-b]",
    )
    fleet.edit("targets/tpu-v5p-prod.yml", "slices: 4", "slices: 4\n      zones: [us-central1-b]")
    answer = fleet.run("bootstrap", "tpu-v5p-prod")
    assert answer.code == 0
    assert answer.out.count("--node-locations=us-central1-b ") == 4


def test_nodes_that_do_not_divide_over_the_zones_are_refused(fleet: Fleet) -> None:
    fleet.edit(
        "targets/gpu-h100-prod.yml",
        "nodes: 16\n",
        "nodes: 16\n      zones: [us-east4-a, us-east4-b, us-east4-c]\n",
    )
    answer = fleet.run("bootstrap", "gpu-h100-prod")
    assert answer.code == 1
    assert "16 nodes do not divide over 3 zones" in answer.err


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("softDeleteDays: 3", "soft delete of 3 days does not exist"),
        ("location: 'us east'", "is no location of a bucket"),
    ],
)
def test_a_bucket_setting_that_does_not_exist_is_named(fleet: Fleet, edit: str, told: str) -> None:
    fleet.edit("classes/common.yml", "      location: us-central1", f"      {edit}")
    answer = fleet.compile()
    assert answer.code == 1
    assert told in answer.err


def test_a_name_that_google_cloud_refuses_is_named(fleet: Fleet) -> None:
    long = "v" * 39
    fleet.edit(
        "targets/tpu-v5p-prod.yml",
        "  nodePools:\n    v5p:",
        f"  nodePools:\n    {long}:\n      machineType: ct5p-hightpu-4t\n      topology: 2x2x4\n      slices: 1\n    v5p:",
    )
    answer = fleet.run("bootstrap", "tpu-v5p-prod")
    assert answer.code == 1
    assert "41 characters, GKE allows 40" in answer.err


SELF_HOSTED = """      provider: self-hosted
      agent:
        image: ${vars:registry}/stowplan-replicator:0.1.0
        keySecret: {name: replicator-key, key: shared}
%s      retention:
        tool: replicator
        image: ${vars:registry}/stowplan-replicator:0.1.0
"""
CREDENTIALS = "        credentialsSecret: {name: bucket, key: json}\n"


@pytest.mark.parametrize(("more", "agents"), [("", 1), (CREDENTIALS, 0)])
def test_the_self_hosted_replicator_needs_no_add_on_and_only_its_own_role(
    fleet: Fleet, more: str, agents: int
) -> None:
    fleet.edit(
        "classes/pools/v6e-4x4.yml", "      retention: ${vars:retention}\n", SELF_HOSTED % more
    )
    fleet.edit("classes/common.yml", "createdBy: tpu-v5p-prod", "createdBy: tpu-v6e-docs")
    answer = fleet.run("bootstrap", "tpu-v6e-docs")
    assert answer.code == 0, answer.err
    assert "HighScaleCheckpointing" not in answer.out
    assert "GcsFuseCsiDriver" not in answer.out
    assert "hierarchical" not in answer.out
    assert "gke-managed-checkpointing" not in answer.out
    role = (
        "/ns/checkpoint-replicator/sa/checkpoint-replicator \\\n    --role=roles/storage.objectUser"
    )
    assert answer.out.count(role) == agents
    tf = fleet.run("bootstrap", "tpu-v6e-docs", "--format", "terraform")
    assert "hierarchical_namespace" not in tf.out
    assert "addons_config" not in tf.out


def test_its_kinds_are_allowed_to_argo_cd_only_where_it_is_used(fleet: Fleet) -> None:
    fleet.edit(
        "classes/pools/v6e-4x4.yml", "      retention: ${vars:retention}\n", SELF_HOSTED % ""
    )
    assert fleet.compile().code == 0
    kinds = {
        env: {
            entry["kind"]
            for scope in ("cluster", "namespace")
            for entry in yaml.safe_load(fleet.compiled[f"argocd/appproject-fleet-{env}.yaml"])[
                "spec"
            ][f"{scope}ResourceWhitelist"]
        }
        for env in ("dev", "prod")
    }
    assert {"DaemonSet", "RoleBinding", "PersistentVolume"} <= kinds["dev"]
    assert not {"DaemonSet", "RoleBinding", "PersistentVolume"} & kinds["prod"]
