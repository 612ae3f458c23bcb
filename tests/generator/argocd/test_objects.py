"""Projects, ApplicationSets and settings: what they allow, and what they can never do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from generator.build.argocd import fleet_files
from generator.build.argocd.projects import NAMESPACES
from generator.build.metadata import SYNC_WAVES
from generator.gitops import Member
from tests.conftest import REPOSITORY, Fleet

COMPILED = REPOSITORY / "compiled"
FOLDER = COMPILED / "argocd"
SELF_HOSTED = {"DaemonSet", "NetworkPolicy", "PersistentVolume", "PersistentVolumeClaim",
               "Role", "RoleBinding", "Service"}  # fmt: skip
"""Kinds of the self-hosted replicator only: rights that no other fleet needs."""
CRDS = Path.home() / "go/pkg/mod/github.com/argoproj/argo-cd/v3@v3.2.6/manifests/crds"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


def environments() -> dict[str, list[str]]:
    """Environment → clusters that Argo CD syncs, from the compiled facts."""
    found: dict[str, list[str]] = {}
    for path in sorted(COMPILED.glob("*/cluster.yaml")):
        labels = yaml.safe_load(path.read_text())["metadata"]["labels"]
        found.setdefault(labels["environment"], []).append(path.parent.name)
    return found


def objects(cluster: str) -> list[dict[str, Any]]:
    return [
        yaml.safe_load(path.read_text())
        for layer in ("queueing", "checkpointing", "workloads")
        for path in sorted((COMPILED / cluster / layer).glob("*.yaml"))
    ]


@pytest.mark.parametrize("environment", environments())
class TestEnvironment:
    def test_every_object_of_its_clusters_is_allowed(self, environment: str) -> None:
        spec = read(f"appproject-fleet-{environment}.yaml")["spec"]
        allowed = {
            scope: {(k["group"], k["kind"]) for k in spec[f"{scope}ResourceWhitelist"]}
            for scope in ("cluster", "namespace")
        }
        for cluster in environments()[environment]:
            for body in objects(cluster):
                group = body["apiVersion"].rpartition("/")[0]
                scope = "namespace" if "namespace" in body["metadata"] else "cluster"
                assert (group, body["kind"]) in allowed[scope]

    def test_nothing_is_allowed_by_a_wildcard_or_to_another_place(self, environment: str) -> None:
        spec = read(f"appproject-fleet-{environment}.yaml")["spec"]
        text = json.dumps([spec["clusterResourceWhitelist"], spec["namespaceResourceWhitelist"]])
        assert "*" not in text
        assert "Secret" not in text
        assert "Role" not in text
        assert spec["sourceRepos"] == ["https://git.example.com/platform/fleet.git"]
        assert [d["name"] for d in spec["destinations"]] == environments()[environment]
        assert {d["namespace"] for d in spec["destinations"]} == {NAMESPACES}

    def test_each_layer_that_exists_is_one_application_of_its_cluster(
        self, environment: str
    ) -> None:
        spec = read(f"applicationset-fleet-{environment}.yaml")["spec"]
        (generator,) = spec["generators"]
        paths = [entry["path"] for entry in generator["git"]["directories"]]
        assert paths == [
            f"compiled/{cluster}/{layer}"
            for cluster in environments()[environment]
            for layer in ("queueing", "checkpointing", "workloads")
        ]
        assert all((REPOSITORY / path).is_dir() for path in paths)
        names = [_filled(spec["template"]["metadata"]["name"], path) for path in paths]
        assert names[0] == f"{environments()[environment][0]}-queueing"
        assert len(set(names)) == len(names)
        destinations = [
            _filled(spec["template"]["spec"]["destination"]["name"], path) for path in paths
        ]
        assert destinations == [path.split("/")[1] for path in paths]

    def test_the_project_is_fixed_and_nothing_is_deleted_with_an_application(
        self, environment: str
    ) -> None:
        spec = read(f"applicationset-fleet-{environment}.yaml")["spec"]
        template = spec["template"]
        assert template["spec"]["project"] == f"fleet-{environment}"
        assert spec["syncPolicy"] == {
            "applicationsSync": "create-update",
            "preserveResourcesOnDeletion": True,
        }
        assert "finalizers" not in template["metadata"]
        assert spec["goTemplateOptions"] == ["missingkey=error"]

    def test_what_makes_a_running_job_anew_is_never_asked_for(self, environment: str) -> None:
        text = (FOLDER / f"applicationset-fleet-{environment}.yaml").read_text()
        assert not re.search(r"\b(Replace|Force)=true", text)
        policy = yaml.safe_load(text)["spec"]["template"]["spec"]["syncPolicy"]
        assert {"RespectIgnoreDifferences=true", "ServerSideApply=true"} <= set(
            policy["syncOptions"]
        )
        assert policy["automated"]["allowEmpty"] is False

    def test_an_approval_of_a_prune_stays_on_the_application(self, environment: str) -> None:
        spec = read(f"applicationset-fleet-{environment}.yaml")["spec"]
        assert spec["preservedFields"] == {"annotations": ["argocd.argoproj.io/deletion-approved"]}

    @pytest.mark.skipif(not CRDS.exists(), reason="Argo CD's module is not on this machine")
    @pytest.mark.parametrize("kind", ["applicationset", "appproject"])
    def test_the_crd_knows_every_field(self, environment: str, kind: str) -> None:
        crd = yaml.safe_load((CRDS / f"{kind}-crd.yaml").read_text())
        schema = _closed(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        body = read(f"{kind}-fleet-{environment}.yaml")
        body["metadata"] = {}
        errors = [str(e) for e in jsonschema_rs.validator_for(schema).iter_errors(body)]
        assert errors == []


def _filled(template: str, path: str) -> str:
    """What Argo CD's template makes of a path, for the two functions that are used."""
    segments = path.split("/")
    text = re.sub(
        r"\{\{ index \.path\.segments (\d+) \}\}", lambda m: segments[int(m[1])], template
    )
    return text.replace("{{ .path.basename }}", segments[-1])


def _closed(node: Any) -> Any:
    """The schema with unknown fields refused wherever fields are listed."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _closed(value) for key, value in node.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def test_every_kind_that_has_a_sync_wave_is_allowed_before_it_is_used() -> None:
    member = Member(
        "c", "dev", "https://git.example.com/f.git", "main", "compiled", "argocd", ("queueing",), ()
    )
    body = yaml.safe_load(fleet_files([member])["appproject-fleet-dev.yaml"])
    kinds = {
        entry["kind"]
        for scope in ("cluster", "namespace")
        for entry in body["spec"][f"{scope}ResourceWhitelist"]
    }
    assert kinds == set(SYNC_WAVES) - SELF_HOSTED


def test_the_settings_hold_only_keys_of_kinds_that_are_ours() -> None:
    data = read("configmap-argocd-cm.yaml")["data"]
    assert len(data) == 6
    for key in data:
        assert re.fullmatch(
            r"resource\.customizations\.(health|knownTypeFields)\."
            r"(jobset\.x-k8s\.io|kueue\.x-k8s\.io|checkpointing\.gke\.io)_\w+",
            key,
        )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    ("folder", "namespace"), [("argocd", "argocd"), ("shared-dev/flux", "flux-system")]
)
def test_kubectl_reads_the_kustomization_and_every_object_has_its_namespace(
    fleet: Fleet, folder: str, namespace: str
) -> None:
    fleet.edit("targets/shared-dev.yml", "parameters:\n", "parameters:\n  gitops: {tool: flux}\n")
    assert fleet.compile().code == 0
    compiled = fleet.root / "compiled" / folder
    answer = subprocess.run(
        ["kubectl", "kustomize", str(compiled)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    bodies = list(yaml.safe_load_all(answer.stdout))
    files = {path.name for path in compiled.glob("*.yaml")} - {"kustomization.yaml"}
    assert len(bodies) == len(files)
    assert {body["metadata"]["namespace"] for body in bodies} == {namespace}


def test_a_kind_of_an_overlay_is_allowed_too(fleet: Fleet) -> None:
    fleet.write(
        "overlays/check.jsonnet",
        "function(cluster, manifests) manifests + [{apiVersion: 'kueue.x-k8s.io/v1beta2', "
        "kind: 'ProvisioningRequestConfig', metadata: {name: 'p'}, spec: {provisioningClassName: 'q'}}]",
    )
    fleet.edit(
        "targets/tpu-v5p-prod.yml", "parameters:\n", "parameters:\n  overlays: [check.jsonnet]\n"
    )
    answer = fleet.compile()
    assert answer.code == 0, answer.err
    spec = yaml.safe_load((fleet.root / "compiled/argocd/appproject-fleet-prod.yaml").read_text())
    assert {"group": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig"} in (
        spec["spec"]["clusterResourceWhitelist"]
    )
