"""CheckpointConfiguration and the retention of backups."""

from __future__ import annotations

import pytest

from replicator.cli import build_parser as replicator_parser
from replicator.retention import parse_count
from schemas.inventory.checkpointing import RECOMMENDED_MOUNT_OPTIONS
from tests.conftest import Fleet

DOCS, GPU = "targets/tpu-v6e-docs.yml", "targets/gpu-h100-prod.yml"
BASE = "classes/checkpointing/base.yml"
MODEL = "      model:\n        parameters: 7e9\n        bytesPerParameter: 12\n        nodesPerReplica: 4"


def test_the_configuration_is_as_the_documents_print_it(fleet: Fleet) -> None:
    fleet.compile("-t", "tpu-v6e-docs")
    config = fleet.object("tpu-v6e-docs", "CheckpointConfiguration")
    assert "namespace" not in config["metadata"]
    assert config["spec"] == {
        "cloudStorageBucketName": "acme-training-checkpoints/tpu-v6e-docs",
        "nodeSelector": {"node.kubernetes.io/instance-type": "ct6e-standard-4t"},
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
        "inMemoryVolumeSize": "44Gi",
        "enableExternalJaxProcessIds": False,
        "gcsFuseMountOptions": list(RECOMMENDED_MOUNT_OPTIONS),
    }


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("localCheckpointSize: 64Gi", "141Gi"),
        ("localCheckpointSize: 64G", "132Gi"),
        ("inMemoryVolumeSize: 200Gi", "200Gi"),
        ("{parameters: 7000000000, bytesPerParameter: 12, nodesPerReplica: 4}", "44Gi"),
    ],
)
def test_the_size_is_given_or_derived(fleet: Fleet, given: str, size: str) -> None:
    fleet.edit(DOCS, MODEL, "      " + (given if given[0] != "{" else f"model: {given}"))
    assert fleet.compile("-t", "tpu-v6e-docs").err == ""
    config = fleet.object("tpu-v6e-docs", "CheckpointConfiguration")
    assert config["spec"]["inMemoryVolumeSize"] == size


def test_a_gpu_with_one_peer_needs_6_6_times(fleet: Fleet) -> None:
    fleet.compile("-t", "gpu-h100-prod")
    config = fleet.object("gpu-h100-prod", "CheckpointConfiguration")
    assert config["spec"]["inMemoryVolumeSize"] == "646Gi"  # 105e9 bytes x 6.6
    assert config["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_a_policy_can_judge_the_file_alone(fleet: Fleet) -> None:
    fleet.compile("-t", "gpu-h100-prod")
    notes = fleet.object("gpu-h100-prod", "CheckpointConfiguration")["metadata"]["annotations"]
    own = {
        k.removeprefix("stowplan.dev/"): v
        for k, v in notes.items()
        if k.startswith("stowplan.dev/")
    }
    assert own == {
        "accelerator": "gpu",
        "backup-interval-minutes": "30",
        "bucket-hierarchical-namespace": "true",
        "config": "h100",
        "driver-epoch": "1",
        "gke-mode": "standard",
        "gke-version": "1.33.5-gke.1080000",
        "local-checkpoint-size": "105G",
        "machine-type": "a3-megagpu-8g",
        "node-allocatable-memory": "1827Gi",
        "peers": "1",
        "pod-memory": "1000Gi",
        "retention": "backup-warden",
    }


def test_the_driver_tolerates_every_taint_of_the_nodes_that_it_serves(fleet: Fleet) -> None:
    fleet.edit(
        DOCS,
        "      slices: 4",
        "      slices: 4\n      taints: [{key: team, value: a, effect: NoExecute}]",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    config = fleet.object("tpu-v6e-docs", "CheckpointConfiguration")
    assert {"key": "team", "operator": "Exists", "effect": "NoExecute"} in config["spec"][
        "tolerations"
    ]
    for jobset in fleet.objects("tpu-v6e-docs", "JobSet"):
        pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert pod["tolerations"] == config["spec"]["tolerations"]


class TestRetention:
    def test_each_job_of_the_configuration_is_pruned_with_the_documents_periods(
        self, fleet: Fleet
    ) -> None:
        fleet.compile("-t", "gpu-h100-prod")
        cron = fleet.object("gpu-h100-prod", "CronJob")
        pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert [c["name"] for c in pod["containers"]] == ["nemo-70b", "nemo-sweep"]
        assert pod["containers"][0]["args"] == [
            "-p", "/backups/nemo-70b", "--hourly", "24", "--daily", "7", "--weekly", "5",
            "--monthly", "always", "--yearly", "always", "--prefer-recent", "--delete",
        ]  # fmt: skip
        assert pod["volumes"][0]["csi"]["volumeAttributes"] == {
            "bucketName": "acme-training-checkpoints",
            "mountOptions": "implicit-dirs,uid=65532,gid=65532,only-dir=gpu-h100-prod",
        }

    def test_the_replicators_own_pruner_understands_its_arguments(self, fleet: Fleet) -> None:
        fleet.edit(BASE, "tool: backup-warden", "tool: replicator")
        fleet.compile("-t", "gpu-h100-prod")
        pod = fleet.object("gpu-h100-prod", "CronJob")["spec"]["jobTemplate"]["spec"]["template"][
            "spec"
        ]
        assert "volumes" not in pod
        parsed = replicator_parser().parse_args(pod["containers"][0]["args"])
        assert parsed.backup == "gs://acme-training-checkpoints/gpu-h100-prod"
        assert parsed.job == "nemo-70b"
        assert (parsed.hourly, parsed.yearly) == (parse_count("24"), parse_count("always"))
        assert parsed.delete is True

    def test_without_delete_it_only_lists(self, fleet: Fleet) -> None:
        fleet.compile("-t", "tpu-v6e-docs")
        pod = fleet.object("tpu-v6e-docs", "CronJob")["spec"]["jobTemplate"]["spec"]["template"][
            "spec"
        ]
        assert all("--delete" not in c["args"] for c in pod["containers"])

    def test_a_job_name_of_its_own_is_the_one_that_is_pruned(self, fleet: Fleet) -> None:
        fleet.compile("-t", "tpu-ironwood-prod")
        cron = fleet.object("tpu-ironwood-prod", "CronJob")
        pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"][1] == "/backups/frontier"

    def test_it_has_an_account_of_its_own_and_no_privileges(self, fleet: Fleet) -> None:
        fleet.compile("-t", "gpu-h100-prod")
        account = fleet.object("gpu-h100-prod", "ServiceAccount")
        pod = fleet.object("gpu-h100-prod", "CronJob")["spec"]["jobTemplate"]["spec"]["template"][
            "spec"
        ]
        assert pod["serviceAccountName"] == account["metadata"]["name"] == "checkpoint-retention"
        assert (
            pod["automountServiceAccountToken"] is account["automountServiceAccountToken"] is False
        )
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }

    def test_the_tool_none_makes_nothing(self, fleet: Fleet) -> None:
        fleet.edit(BASE, "tool: backup-warden", "tool: none")
        fleet.compile("-t", "gpu-h100-prod")
        assert fleet.objects("gpu-h100-prod", "CronJob") == []
        assert "checkpoint-retention" not in {
            n["metadata"]["name"] for n in fleet.objects("gpu-h100-prod", "Namespace")
        }

    def test_a_tool_needs_an_image(self, fleet: Fleet) -> None:
        fleet.edit(BASE, "      image: ${vars:registry}/backup-warden:1.4.0\n", "")
        answer = fleet.compile()
        assert "no image is given" in answer.err


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("classes/pools/v6e-4x4.yml", "hierarchicalNamespace: true", "hierarchicalNamespace: false", "every backup fails"),
        ("classes/pools/v6e-4x4.yml", "directory: ${cluster:name}", "directory: ../x", "no directory inside a bucket"),
        (DOCS, MODEL, MODEL + "\n      localCheckpointSize: 1Gi", "both given"),
        (DOCS, MODEL, "      peers: 1", "no size is given"),
        (DOCS, MODEL, "      peers: 9", "found 9, expected at most 8"),
        (DOCS, MODEL, "      localCheckpointSize: 400Gi", "does not fit a node of ct6e-standard-4t"),
        (BASE, "      intervalMinutes: ${vars:backupMinutes}", "      {}", "no interval is given"),
        (DOCS, "  checkpointing:\n", "  checkpointing:\n    other: {bucket: abc, hierarchicalNamespace: true, nodePool: v6e, localCheckpointSize: 1Gi, backup: {intervalMinutes: 30}, retention: {tool: none}}\n", "two drivers on one node conflict"),
        (DOCS, "  checkpointing:\n", f"  checkpointing:\n    {'x' * 43}: {{bucket: abc, hierarchicalNamespace: true, nodePool: v6e, localCheckpointSize: 1Gi, backup: {{intervalMinutes: 30}}, retention: {{image: 'a:1'}}}}\n", "shorten the name to 42 characters"),
        (DOCS, "  checkpointing:\n", f"  checkpointing:\n    {'x' * 41}: {{bucket: abc, hierarchicalNamespace: true, nodePool: v6e, localCheckpointSize: 1Gi, backup: {{intervalMinutes: 30}}, retention: {{tool: none}}}}\n", "64 characters; the controller uses the name as a label value"),
    ],
)  # fmt: skip
def test_what_would_sink_a_run_is_refused(
    fleet: Fleet, file: str, old: str, new: str, says: str
) -> None:
    fleet.edit(file, old, new)
    answer = fleet.compile("-t", "tpu-v6e-docs")
    assert answer.code == 1
    assert says in answer.err
