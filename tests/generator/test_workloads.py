"""JobSets: what follows from the rest of the inventory, and what can be overridden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Fleet

DOCS, JOBS = "targets/tpu-v6e-docs.yml", "classes/trillium-job.yml"
GPU = "targets/gpu-h100-prod.yml"


def pod(jobset: dict[str, Any], job: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = jobset["spec"]["replicatedJobs"][job]["template"]["spec"]["template"]
    return body


def container(jobset: dict[str, Any], job: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = pod(jobset, job)["spec"]["containers"][0]
    return body


class TestTpu:
    @pytest.fixture
    def jobset(self, fleet: Fleet) -> dict[str, Any]:
        assert fleet.compile("-t", "tpu-v6e-docs").code == 0
        return fleet.object("tpu-v6e-docs", "JobSet", "high-jax")

    def test_the_documents_job_is_as_they_print_it_with_the_faults_mended(
        self, jobset: dict[str, Any]
    ) -> None:
        labels, notes = jobset["metadata"]["labels"], jobset["metadata"]["annotations"]
        assert labels["kueue.x-k8s.io/queue-name"] == "default-queue"
        assert labels["kueue.x-k8s.io/priority-class"] == "high-priority-job"
        assert (
            notes["alpha.jobset.sigs.k8s.io/exclusive-topology"] == "cloud.google.com/gke-nodepool"
        )
        assert not any(key.startswith("kueue.x-k8s.io/") for key in notes)
        spec = jobset["spec"]
        assert spec["failurePolicy"] == {"maxRestarts": 10, "restartStrategy": "BlockingRecreate"}
        (job,) = spec["replicatedJobs"]
        assert (job["name"], job["replicas"]) == ("slice", 2)
        template = job["template"]["spec"]
        assert (template["parallelism"], template["completions"], template["backoffLimit"]) == (
            4,
            4,
            0,
        )
        body = pod(jobset)["spec"]
        assert body["nodeSelector"] == {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
        }
        assert body["hostNetwork"] is True
        assert body["dnsPolicy"] == "ClusterFirstWithHostNet"
        assert body["priorityClassName"] == "high-priority-job"
        assert container(jobset)["resources"]["limits"]["google.com/tpu"] == "4"

    def test_defaults_of_the_webhook_are_written_out_and_suspend_never(
        self, jobset: dict[str, Any]
    ) -> None:
        spec = jobset["spec"]
        assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
        assert spec["successPolicy"] == {"operator": "All"}
        assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
        assert spec["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
        assert pod(jobset)["spec"]["restartPolicy"] == "Never"
        assert {"suspend", "managedBy", "ttlSecondsAfterFinished"}.isdisjoint(spec)

    def test_the_checkpoint_volume_and_arguments_follow(self, jobset: dict[str, Any]) -> None:
        assert pod(jobset)["spec"]["volumes"] == [
            {"name": "checkpoint", "csi": {"driver": "multitier-checkpoint.csi.storage.gke.io"}}
        ]
        own = container(jobset)
        assert own["volumeMounts"] == [{"name": "checkpoint", "mountPath": "/checkpoint"}]
        assert own["args"][-6:] == [
            "enable_checkpointing=True",
            "enable_multi_tier_checkpointing=True",
            "local_checkpoint_directory=/checkpoint",
            "local_checkpoint_period=20",
            "multi_tier_checkpointing_backup_interval_minutes=60",
            "run_name=high-jax-trillium",
        ]


def test_an_argument_given_by_hand_wins(fleet: Fleet) -> None:
    fleet.edit(DOCS, "- steps=300\n", "- steps=300\n        - local_checkpoint_period=7\n")
    fleet.compile("-t", "tpu-v6e-docs")
    args = container(fleet.object("tpu-v6e-docs", "JobSet", "high-jax"))["args"]
    assert [a for a in args if a.startswith("local_checkpoint_period")] == [
        "local_checkpoint_period=7"
    ]


def test_backups_by_steps_use_the_steps_flag(fleet: Fleet) -> None:
    fleet.edit(
        "classes/checkpointing/base.yml",
        "intervalMinutes: ${vars:backupMinutes}",
        "intervalSteps: 50",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    args = container(fleet.object("tpu-v6e-docs", "JobSet", "low-jax"))["args"]
    assert "multi_tier_checkpointing_backup_interval_steps=50" in args
    assert not any("interval_minutes" in a for a in args)


def test_arguments_can_be_switched_off(fleet: Fleet) -> None:
    fleet.compile("-t", "shared-dev")
    job = container(fleet.object("shared-dev", "JobSet", "vit-22b"))
    assert job["args"] == ["--config=configs/vit_22b.py"]
    assert job["volumeMounts"] == [{"name": "checkpoint", "mountPath": "/checkpoint"}]


class TestPytorch:
    @pytest.fixture
    def jobset(self, fleet: Fleet) -> dict[str, Any]:
        assert fleet.compile("-t", "gpu-h100-prod").code == 0
        return fleet.object("gpu-h100-prod", "JobSet", "nemo-70b")

    def test_torchrun_finds_its_peers_through_the_jobset(self, jobset: dict[str, Any]) -> None:
        own = container(jobset)
        assert own["command"] == [
            "torchrun", "--nnodes=$(NNODES)", "--nproc-per-node=8", "--node-rank=$(NODE_RANK)",
            "--master-addr=$(MASTER_ADDR)", "--master-port=$(MASTER_PORT)",
        ]  # fmt: skip
        env = {
            v["name"]: v.get("value") or v["valueFrom"]["fieldRef"]["fieldPath"] for v in own["env"]
        }
        assert env["NNODES"] == "8"
        assert (
            env["NODE_RANK"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        )
        assert env["JOBSET_NAME"] == "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
        assert env["MASTER_ADDR"] == "$(JOBSET_NAME)-workers-0-0.$(JOBSET_NAME)"
        assert env["NCCL_DEBUG"] == "WARN"
        # $(JOBSET_NAME) expands only if it is declared before its user
        names = [v["name"] for v in own["env"]]
        assert names.index("JOBSET_NAME") < names.index("MASTER_ADDR")

    def test_nemo_gets_its_checkpoint_flags(self, jobset: dict[str, Any]) -> None:
        assert container(jobset)["args"] == [
            "train.py", "--local-ckpt-dir=/checkpoint", "--local-ckpt-interval=20",
            "--job-name=nemo-70b", "--enable-high-scale-ckpt",
        ]  # fmt: skip

    def test_the_pods_fill_whole_nodes(self, jobset: dict[str, Any]) -> None:
        resources = container(jobset)["resources"]
        assert resources["limits"] == {"nvidia.com/gpu": "8", "memory": "1000Gi"}
        assert resources["requests"] == {"cpu": "180", "nvidia.com/gpu": "8", "memory": "1000Gi"}
        body = pod(jobset)["spec"]
        assert body["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        ]
        assert {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": "200Gi"},
        } in body["volumes"]

    def test_a_command_of_ones_own_replaces_torchrun(self, fleet: Fleet) -> None:
        fleet.edit(
            "classes/teams/research.yml", "args: [train.py]", "command: [python3, launch.py]"
        )
        fleet.compile("-t", "gpu-h100-prod")
        assert container(fleet.object("gpu-h100-prod", "JobSet", "nemo-70b"))["command"] == [
            "python3", "launch.py",
        ]  # fmt: skip


def test_env_can_come_from_secrets_and_no_secret_is_in_the_output(fleet: Fleet) -> None:
    fleet.compile("-t", "shared-dev")
    assert container(fleet.object("shared-dev", "JobSet", "tokenize"))["env"] == [
        {
            "name": "HF_TOKEN",
            "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}},
        }
    ]


def test_pods_get_no_token_and_no_new_privileges(fleet: Fleet) -> None:
    fleet.compile()
    for cluster in ("tpu-v6e-docs", "gpu-h100-prod", "shared-dev"):
        for jobset in fleet.objects(cluster, "JobSet"):
            body = pod(jobset)["spec"]
            if "serviceAccountName" not in body:
                assert body["automountServiceAccountToken"] is False
            assert container(jobset)["securityContext"]["allowPrivilegeEscalation"] is False
            assert body["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


SEVERAL = """    pipeline:
      framework: custom
      nodePool: v6e
      priority: low-priority-job
      queue: default-queue
      image: registry.example/x:1
      env: {SHARED: a}
      replicatedJobs:
        head:
          nodePool: cpu
          resources: {cpu: 4, memory: 8Gi}
          replicas: 1
          parallelism: 1
          env: {ROLE: head}
          backoffLimit: 2
        train:
          resources: {cpu: 100, memory: 400Gi}
          replicas: 2
          dependsOn: {head: Ready}
          env: {SHARED: b}
"""
CPU = "  nodePools:\n    cpu: {machineType: n2-standard-8, machine: {vcpus: 8, memory: 32Gi}, nodes: 2}\n"


class TestSeveralReplicatedJobs:
    @pytest.fixture
    def several(self, fleet: Fleet) -> Fleet:
        fleet.edit(DOCS, "  nodePools:\n", CPU)
        fleet.edit(DOCS, "  workloads:\n", "  workloads:\n" + SEVERAL)
        return fleet

    def test_each_takes_from_the_workload_what_it_does_not_say(self, several: Fleet) -> None:
        assert several.compile("-t", "tpu-v6e-docs").err == ""
        jobset = several.object("tpu-v6e-docs", "JobSet", "pipeline")
        head, train = jobset["spec"]["replicatedJobs"]
        assert [head["name"], train["name"]] == ["head", "train"]
        assert head["template"]["spec"]["backoffLimit"] == 2
        assert train["dependsOn"] == [{"name": "head", "status": "Ready"}]
        assert train["template"]["spec"]["parallelism"] == 4
        assert container(jobset, 0)["env"] == [
            {"name": "SHARED", "value": "a"}, {"name": "ROLE", "value": "head"},
        ]  # fmt: skip
        assert container(jobset, 1)["env"] == [{"name": "SHARED", "value": "b"}]
        assert "volumes" not in pod(jobset, 0)["spec"]
        assert "hostNetwork" not in pod(jobset, 0)["spec"]
        assert pod(jobset, 0)["spec"]["nodeSelector"] == {
            "node.kubernetes.io/instance-type": "n2-standard-8"
        }

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            (
                "      replicatedJobs:\n        head:",
                "      checkpoint: {configuration: v6e, periodSteps: 1}\n      replicatedJobs:\n        head:",
                "2 replicated jobs in a workload with a checkpoint",
            ),
            ("{head: Ready}", "{haed: Ready}", "no earlier replicated job is called 'haed'"),
            (
                "replicas: 2\n",
                "replicas: 2\n          parallelism: 3\n",
                "a slice of 4x4 on ct6e-standard-4t has 4 nodes",
            ),
            ("replicas: 2\n", "replicas: 9\n", "asks for 9 slices"),
        ],
    )
    def test_contradictions_are_named(self, several: Fleet, old: str, new: str, says: str) -> None:
        several.edit(DOCS, old, new)
        answer = several.compile("-t", "tpu-v6e-docs")
        assert answer.code == 1
        assert says in answer.err


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (JOBS, "framework: jax", "framework: pytorch", "pytorch runs on GPU here"),
        (GPU, "nodes: 8\n      queue: gpus\n      priority: high", "slices: 8\n      queue: gpus\n      priority: high", "has no slices"),
        (GPU, "      nodes: 8\n      queue", "      nodes: 17\n      queue", "asks for 17 nodes, but node pool 'h100' has 16"),
        (JOBS, "queue: default-queue", "queue: default-queue\n      namespace: lab", "is not in namespace 'lab'"),
        (DOCS, "priority: low-priority-job", "priority: lowest", "no priority class is called 'lowest'"),
        (JOBS, "nodePool: v6e", "nodePool: v6", "did you mean v6e?"),
        (JOBS, "slices: 2", "slices: 2\n      volumes: [{name: checkpoint, emptyDir: {}}]", "is the checkpoint volume"),
        (JOBS, "slices: 2", "slices: 2\n      volumeMounts: [{name: data, mountPath: /data}]", "no volume is called 'data'"),
        (JOBS, "slices: 2", "slices: 2\n      exclusivePlacement: true\n      topologyAware: {preferred: x}", "both given"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(fleet: Fleet, file: str, old: str, new: str, says: str) -> None:
    fleet.edit(file, old, new)
    answer = fleet.compile()
    assert answer.code == 1
    assert says in answer.err


def test_a_run_counter_takes_the_place_of_the_hash(fleet: Fleet) -> None:
    fleet.edit(
        DOCS,
        "      priority: high-priority-job",
        "      run: 12\n      priority: high-priority-job",
    )
    fleet.compile("-t", "tpu-v6e-docs")
    assert (
        fleet.object("tpu-v6e-docs", "JobSet", "high-jax")["metadata"]["name"]
        == "high-jax-trillium-r12"
    )


def test_what_may_change_in_place_keeps_the_run(fleet: Fleet) -> None:
    fleet.compile("-t", "tpu-v6e-docs")
    name = fleet.object("tpu-v6e-docs", "JobSet", "high-jax")["metadata"]["name"]
    fleet.edit("classes/priorities.yml", "value: 2000000", "value: 2000001")
    fleet.compile("-t", "tpu-v6e-docs")
    assert fleet.object("tpu-v6e-docs", "JobSet", "high-jax")["metadata"]["name"] == name


def test_an_older_jobset_gets_no_field_that_it_does_not_know(fleet: Fleet) -> None:
    fleet.edit(DOCS, "jobset: 0.11.1", "jobset: 0.8.0")
    fleet.compile("-t", "tpu-v6e-docs")
    for jobset in fleet.objects("tpu-v6e-docs", "JobSet"):
        assert "groupName" not in jobset["spec"]["replicatedJobs"][0]


def test_topology_aware_placement_is_asked_for_on_the_pods(fleet: Fleet) -> None:
    fleet.edit(
        JOBS,
        "slices: 2",
        "slices: 2\n      topologyAware: {sliceRequired: cloud.google.com/gke-nodepool}",
    )
    assert fleet.compile("-t", "tpu-v6e-docs").code == 0
    jobset = fleet.object("tpu-v6e-docs", "JobSet", "high-jax")
    assert "alpha.jobset.sigs.k8s.io/exclusive-topology" not in jobset["metadata"]["annotations"]
    assert pod(jobset)["metadata"]["annotations"] == {
        "kueue.x-k8s.io/podset-slice-required-topology": "cloud.google.com/gke-nodepool",
        "kueue.x-k8s.io/podset-slice-size": "4",
    }
