"""Import, compile, compare: nothing that a manifest states is lost on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.main import main
from generator.manifest import LAYERS
from schemas.quantity import parse_quantity
from tests.conftest import REPOSITORY
from tests.generator.importing.conftest import DOCUMENTS, FACTS, HERE, Imported

Bring = Callable[..., Imported]
CLUSTERS = sorted(path.parent.name for path in (REPOSITORY / "compiled").glob("*/cluster.yaml"))
DOCUMENT_OPTIONS = {
    "kueue": FACTS,
    "hotswap": (
        *FACTS, "--node-pool", "v6e=ct6e-standard-4t:4x4:4",
        "--set", "IMAGE_LOCATION=example.com/maxtext:1", "--set", "OUTPUT_BUCKET=acme-out",
        "--set", "UNIQUE_RUN_NAME=first",
    ),
    "kueue-and-hotswap": (
        *FACTS, "--set", "IMAGE_LOCATION=example.com/maxtext:1", "--set", "OUTPUT_BUCKET=acme-out",
    ),
    **dict.fromkeys(
        ("checkpoint", "checkpoint-indented-page"),
        (
            *FACTS, "--node-pool", "v6e=ct6e-standard-4t:4x4:2", "--set", "MTC_CONFIG_NAME=v6e",
            "--set", "GCS_BUCKET=acme-checkpoints", "--set", "MACHINE_TYPE=ct6e-standard-4t",
            "--set", "TOLERATION_KEY=google.com/tpu", "--set", "IN_MEMORY_VOLUME_SIZE=200 Gi",
            "--hierarchical-namespace", "yes", "--backup-interval-minutes", "30",
        ),
    ),
}  # fmt: skip
"""Document → what its reader has to give."""


def lost(stated: Any, made: Any, path: str = "") -> Iterator[str]:
    """Paths of values that one object states and another does not have."""
    if isinstance(stated, dict):
        for key, value in stated.items():
            if not isinstance(made, dict) or (key not in made and value not in ({}, [], None)):
                yield f"{path}.{key}"
            else:
                yield from lost(value, made.get(key), f"{path}.{key}")
    elif isinstance(stated, list):
        for index, value in enumerate(stated):
            name = value.get("name") if isinstance(value, dict) else None
            found = [
                entry
                for entry in made or []
                if (name is not None and isinstance(entry, dict) and entry.get("name") == name)
                or not list(lost(value, entry))
            ]
            if not found:
                yield f"{path}[{name or index}]"
            elif name is not None:
                best = min((list(lost(value, f, f"{path}[{name}]")) for f in found), key=len)
                yield from best
    elif stated != made and not same_quantity(stated, made):
        yield f"{path}: {stated!r} became {made!r}"


def same_quantity(left: Any, right: Any) -> bool:
    """Whether two values are one quantity."""
    try:
        values: list[Decimal] = [parse_quantity(str(value)) for value in (left, right)]
    except ValueError:
        return False
    return values[0] == values[1]


def renamed(body: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A JobSet with containers and volumes called otherwise, wherever they are named."""
    text = yaml.safe_dump(body)
    for old, new in names.items():
        text = text.replace(f"name: {old}\n", f"name: {new}\n")
        text = text.replace(f"containerName: {old}\n", f"containerName: {new}\n")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.mark.parametrize("cluster", CLUSTERS)
class TestTheExampleFleet:
    def test_compiles_to_the_same_files(self, bring: Bring, cluster: str) -> None:
        source = REPOSITORY / "compiled" / cluster
        mine = bring([source], "--checkpoint-period", "500", cluster=cluster)
        assert mine.answer.code == 0
        assert mine.files == [f"inventory/targets/{cluster}.yml"]
        assert main(["compile", "-q", "-C", str(mine.root)]) == 0
        for path in source.rglob("*.yaml"):
            made = mine.root / "compiled" / cluster / path.relative_to(source)
            assert without_comments(made) == without_comments(path), path.name
        assert sorted(p.name for p in (mine.root / "compiled" / cluster).rglob("*.yaml")) == sorted(
            p.name for p in source.rglob("*.yaml")
        )

    def test_comes_out_of_a_running_cluster_alike(
        self, bring: Bring, cluster: str, tmp_path: Path
    ) -> None:
        """kubectl get -o yaml: one List, with what the API server and controllers wrote."""
        source = REPOSITORY / "compiled" / cluster
        plain = bring([source], "--checkpoint-period", "500", cluster=cluster, folder="plain")
        items = []
        for layer in LAYERS:
            for path in sorted((source / layer).glob("*.yaml")):
                items.append(as_served(yaml.safe_load(path.read_text())))
        dump = tmp_path / "dump.yaml"
        dump.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
        served = bring(
            [source / "cluster.yaml", dump], "--checkpoint-period", "500", cluster=cluster
        )
        assert served.answer.code == 0
        assert "status" in served.answer.err
        assert served.files == [f"inventory/targets/{cluster}.yml"]
        assert served.target == plain.target


def without_comments(path: Path) -> str:
    """A file's text without its head."""
    return "".join(line for line in path.read_text().splitlines(True) if not line.startswith("#"))


def as_served(body: dict[str, Any]) -> dict[str, Any]:
    """An object as ``kubectl get -o yaml`` prints it."""
    served = copy.deepcopy(body)
    served["metadata"] |= {
        "creationTimestamp": "2026-11-01T08:00:00Z",
        "generation": 2,
        "managedFields": [{"manager": "argocd-controller", "operation": "Apply"}],
        "resourceVersion": "4711",
        "uid": "9f0c7a52-0d1c-4a55-8a0e-1f2a3b4c5d6e",
    }
    notes = served["metadata"].setdefault("annotations", {})
    notes["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
    notes["argocd.argoproj.io/tracking-id"] = "training:v1/x"
    if served["kind"] not in ("PriorityClass", "WorkloadPriorityClass", "ServiceAccount"):
        served["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    if served["kind"] == "JobSet":
        served["spec"]["suspend"] = False
        for job in served["spec"]["replicatedJobs"]:
            template = job["template"]["spec"]["template"]
            metadata = template.setdefault("metadata", {})
            metadata["creationTimestamp"] = None
            metadata.setdefault("labels", {})["jobset.sigs.k8s.io/jobset-name"] = "x"
    if served["kind"] == "Namespace":
        served["metadata"]["labels"]["kubernetes.io/metadata.name"] = served["metadata"]["name"]
        served["spec"] = {"finalizers": ["kubernetes"]}
    return served


class TestTheDocuments:
    @pytest.mark.parametrize("name", DOCUMENT_OPTIONS)
    def test_what_readers_paste_is_imported_and_compiles(self, bring: Bring, name: str) -> None:
        mine = bring([DOCUMENTS / f"{name}.yaml"], *DOCUMENT_OPTIONS[name])
        assert mine.answer.code == 0, mine.answer.err
        assert mine.files == ["inventory/targets/demo.yml"]
        assert main(["compile", "-C", str(mine.root)]) == 0

    @pytest.mark.parametrize(
        ("name", "line", "said"),
        [
            ("checkpoint", 11, "YML002: 'operator' is indented by 8 spaces"),
            ("checkpoint", 13, "'200 Gi' is no quantity"),
            ("kueue-and-hotswap", 8, "YML003: --- is indented"),
            ("kueue-and-hotswap", 17, "v1beta1 is written as kueue.x-k8s.io/v1beta2"),
            ("kueue-and-hotswap", 29, "without a namespaceSelector"),
            ("kueue-and-hotswap", 31, "without coveredResources"),
            ("kueue-and-hotswap", 39, "reclaimOutOfCohort never existed"),
            ("kueue-and-hotswap", 51, "2 slices of 4x4 by the quotas (32 in tpu-training-cq)"),
            ("kueue-and-hotswap", 56, "reads kueue.x-k8s.io/queue-name as a label"),
            ("kueue-and-hotswap", 73, "does not read kueue.x-k8s.io/managed-by"),
            ("kueue-and-hotswap", 74, "does not read kueue.x-k8s.io/priority-class"),
        ],
    )
    def test_each_mistake_is_named_at_its_line(
        self, bring: Bring, name: str, line: int, said: str
    ) -> None:
        file = DOCUMENTS / f"{name}.yaml"
        mine = bring([file], *DOCUMENT_OPTIONS[name])
        (found,) = {
            text.split(":")[1]
            for text in mine.answer.err.splitlines()
            if said in text and text.startswith(f"{file}:{line}:")
        }
        assert found == str(line)

    def test_the_fleet_in_its_right_form(self, bring: Bring) -> None:
        name = "kueue-and-hotswap"
        objects = bring([DOCUMENTS / f"{name}.yaml"], *DOCUMENT_OPTIONS[name]).objects()
        queue = objects["ClusterQueue", "", "tpu-training-cq"]
        assert queue["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert queue["spec"]["resourceGroups"] == [
            {
                "coveredResources": ["google.com/tpu"],
                "flavors": [
                    {
                        "name": "tpu-v6e-slice",
                        "resources": [{"name": "google.com/tpu", "nominalQuota": "32"}],
                    }
                ],
            }
        ]
        assert queue["spec"]["preemption"]["withinClusterQueue"] == "Never"
        assert queue["spec"]["namespaceSelector"]["matchExpressions"][0]["values"] == ["default"]
        for priority in ("low", "high"):
            job = objects["JobSet", "default", f"{priority}-jax-trillium"]
            labels = job["metadata"]["labels"]
            assert labels["kueue.x-k8s.io/queue-name"] == "default-queue"
            assert labels["kueue.x-k8s.io/priority-class"] == f"{priority}-priority-job"
            template = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
            assert "metadata" not in template
            assert template["spec"]["priorityClassName"] == f"{priority}-priority-job"
            assert job["spec"]["failurePolicy"] == {
                "maxRestarts": 10,
                "restartStrategy": "BlockingRecreate",
            }

    def test_the_checkpoint_configuration_in_its_right_form(self, bring: Bring) -> None:
        objects = bring([DOCUMENTS / "checkpoint.yaml"], *DOCUMENT_OPTIONS["checkpoint"]).objects()
        spec = objects["CheckpointConfiguration", "", "v6e"]["spec"]
        assert spec["inMemoryVolumeSize"] == "200Gi"
        assert spec["cloudStorageBucketName"] == "acme-checkpoints"
        assert spec["tolerations"] == [
            {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
        ]
        assert len(spec["gcsFuseMountOptions"]) == 8


class TestUpstreamShapes:
    FILES = (HERE / "upstream/kueue.yaml", HERE / "upstream/jobsets.yaml")

    def test_nothing_that_is_stated_is_lost(self, bring: Bring) -> None:
        objects = bring(self.FILES, *FACTS).objects()
        for file in self.FILES:
            for body in yaml.safe_load_all(file.read_text()):
                metadata = body["metadata"]
                made = objects[body["kind"], metadata.get("namespace", ""), metadata["name"]]
                del metadata["name"]
                body.get("spec", {}).pop("suspend", None)
                body = renamed(body, {"worker": "main"})
                if body["kind"] == "JobSet" and "successPolicy" in body["spec"]:
                    # The container called driver, not the replicated job of that name.
                    driver = body["spec"]["replicatedJobs"][0]
                    driver["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "main"
                assert list(lost(body, made)) == []

    def test_what_has_no_field_is_in_the_overlay(self, bring: Bring) -> None:
        mine = bring(self.FILES, *FACTS)
        assert mine.target["overlays"] == ["demo.jsonnet"]
        text = (mine.root / "inventory/overlays/demo.jsonnet").read_text()
        assert "kind: 'ProvisioningRequestConfig'" in text
        assert "{ name: 'log-shipper', image: 'registry.example.com/shipper:2.1' }" in text
        for word in ("ProvisioningRequestConfig capacity", "containers[log-shipper]"):
            assert word in mine.answer.err

    def test_a_shell_variable_is_no_reference_of_the_inventory(self, bring: Bring) -> None:
        objects = bring(self.FILES, *FACTS).objects()
        (driver, _) = objects["JobSet", "team-a", "driver-and-workers"]["spec"]["replicatedJobs"]
        (container,) = driver["template"]["spec"]["template"]["spec"]["containers"]
        assert container["command"][2] == "echo ${HOSTNAME} is the driver; sleep 20"

    def test_importing_what_was_compiled_changes_nothing_more(
        self, bring: Bring, tmp_path: Path
    ) -> None:
        first = bring(self.FILES, *FACTS, folder="first")
        assert main(["compile", "-q", "-C", str(first.root)]) == 0
        second = bring([first.root / "compiled/demo"], folder="second")
        assert second.answer.code == 0
        assert second.objects() == first.objects()


class TestXpk:
    FOLDER = HERE / "xpk"
    OPTIONS = (*FACTS, "--hierarchical-namespace", "yes")

    def test_nothing_that_xpk_states_is_lost(self, bring: Bring) -> None:
        objects = bring([self.FOLDER], *self.OPTIONS).objects()
        for name, names in (
            ("tpu-mtc", {"cache": "checkpoint"}),
            ("tpu-ramdisk", {}),
            ("gpu", {"dshm": "shared-memory", "gpu-image": "main"}),
        ):
            body = yaml.safe_load((self.FOLDER / f"workload-{name}.yaml").read_text())
            made = objects["JobSet", "default", body["metadata"].pop("name")]
            del body["spec"]["ttlSecondsAfterFinished"]
            pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
            del pod["imagePullSecrets"]
            for key in ("serviceAccountName", "schedulerName", "nodeSelector"):
                if pod.get(key) in (None, "default-scheduler"):
                    pod.pop(key, None)
            assert list(lost(renamed(without_nulls(body), names), made)) == []

    def test_a_privileged_container_is_not_told_two_things_at_once(self, bring: Bring) -> None:
        """The API server refuses privileged: true beside allowPrivilegeEscalation: false."""
        objects = bring([self.FOLDER], *self.OPTIONS).objects()
        (job,) = objects["JobSet", "default", "llama-tpu"]["spec"]["replicatedJobs"]
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        assert container["securityContext"] == {"privileged": True}

    def test_what_xpk_gets_wrong_is_said(self, bring: Bring) -> None:
        answer = bring([self.FOLDER], *self.OPTIONS).answer
        for said in (
            "the field mountOptions does not exist",
            "CheckpointConfiguration is cluster-scoped",
            "'64GiB' is no quantity",
            "imagePullSecrets names no Secret",
            "a finished job that Git still holds is made again",
            "no driver is called phase1-checkpoint.csi.storage.gke.io",
            "SEC001",
        ):
            assert said in answer.err
        assert answer.code == 1
        assert "stowplan compile will refuse demo until" in answer.err

    def test_without_the_ram_disk_job_only_privileges_keep_it_from_compiling(
        self, bring: Bring
    ) -> None:
        mine = bring(
            [self.FOLDER / "cluster.yaml", self.FOLDER / "workload-tpu-mtc.yaml"], *self.OPTIONS
        )
        assert errors_of(mine) == {"SEC001"}

    def test_a_policy_on_pod_failures_follows_the_containers_new_name(self, bring: Bring) -> None:
        objects = bring([self.FOLDER], *self.OPTIONS).objects()
        (job,) = objects["JobSet", "default", "llama-gpu"]["spec"]["replicatedJobs"]
        spec = job["template"]["spec"]
        named = spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"]
        assert named == spec["template"]["spec"]["containers"][0]["name"] == "main"


def without_nulls(value: Any) -> Any:
    """A value without the keys that hold nothing."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


class TestGcluster:
    FOLDER = HERE / "gcluster"

    @pytest.fixture
    def mine(self, bring: Bring) -> Imported:
        return bring([self.FOLDER], *FACTS)

    @pytest.mark.parametrize(
        ("file", "container"), [("tpu", "jax-tpu"), ("gpu", "main"), ("cpu", "main")]
    )
    def test_nothing_that_gcluster_states_is_lost(
        self, mine: Imported, file: str, container: str
    ) -> None:
        body = yaml.safe_load((self.FOLDER / f"workload-{file}.yaml").read_text())
        made = mine.objects()["JobSet", "default", body["metadata"].pop("name")]
        del body["spec"]["ttlSecondsAfterFinished"]
        body = renamed(without_nulls(body), {"workload-container": container})
        assert list(lost(body, made)) == []

    def test_pods_that_name_no_priority_get_the_clusters_default(self, mine: Imported) -> None:
        priorities = {n: job.get("priority") for n, job in mine.target["workloads"].items()}
        assert priorities == {"llama-tpu": "high", "llama-gpu": "medium", "prep": "medium"}
        assert "JobSet default/prep: priority medium: the cluster's globalDefault" in (
            mine.answer.err
        )

    def test_a_queue_that_splits_pods_over_flavors_keeps_it_from_compiling(
        self, mine: Imported
    ) -> None:
        assert errors_of(mine) == {"KUE018"}
        assert mine.answer.code == 1

    def test_with_a_queue_for_tpus_alone_it_compiles(self, bring: Bring, tmp_path: Path) -> None:
        bodies = list(yaml.safe_load_all((self.FOLDER / "cluster.yaml").read_text()))
        (queue,) = [body for body in bodies if body["kind"] == "ClusterQueue"]
        del queue["spec"]["resourceGroups"][1:]
        bodies = [body for body in bodies if body["metadata"]["name"] not in ("h100", "other")]
        cluster = tmp_path / "cluster.yaml"
        cluster.write_text(yaml.safe_dump_all(bodies))
        mine = bring([cluster, self.FOLDER / "workload-tpu.yaml"], *FACTS)
        assert errors_of(mine) == set()
        assert main(["compile", "-q", "-C", str(mine.root)]) == 0


def errors_of(mine: Imported) -> set[str]:
    """The rules of the errors that were said."""
    lines = [line for line in mine.answer.err.splitlines() if ": error " in line]
    return {line.split(": error ")[1].split(":")[0] for line in lines}
