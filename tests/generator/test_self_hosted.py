"""Checkpointing by the project's own replicator: ``provider: self-hosted``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from generator.cli.main import main
from replicator.agent_cli import DEADLINES, parse_size
from replicator.cli import build_parser as replicator_parser
from replicator.core.model import Timing
from schemas.inventory.self_hosted import AgentTimeouts
from tests.conftest import Fleet
from tests.generator.self_hosted_cases import AGENT, GIVEN, RETENTION

TPU, GPU = "tpu-v6e-docs", "gpu-h100-prod"
POOLS = {TPU: "classes/pools/v6e-4x4.yml", GPU: "classes/pools/h100-mega.yml"}


def compiled(fleet: Fleet, cluster: str = TPU, more: str = "") -> Fleet:
    """The example cluster with its RAM disks in the replicator's hands, without a finding."""
    fleet.edit(POOLS[cluster], GIVEN, AGENT + more + RETENTION)
    answer = fleet.compile("-t", cluster)
    assert (answer.code, answer.err) == (0, "")
    return fleet


def agent_pod(fleet: Fleet, cluster: str = TPU) -> dict[str, Any]:
    pod: dict[str, Any] = fleet.object(cluster, "DaemonSet")["spec"]["template"]["spec"]
    return pod


def job_pod(fleet: Fleet, cluster: str = TPU, name: str = "") -> dict[str, Any]:
    jobset = fleet.object(cluster, "JobSet", name or "high-jax")
    job = jobset["spec"]["replicatedJobs"][0]
    pod: dict[str, Any] = job["template"]["spec"]["template"]["spec"]
    return pod


def of(container: dict[str, Any], flag: str) -> str:
    """The value of one argument."""
    (value,) = [a.partition("=")[2] for a in container["args"] if a.startswith(f"--{flag}=")]
    return str(value)


@pytest.mark.parametrize("cluster", [TPU, GPU])
def test_the_agents_stand_where_the_managed_driver_stood(fleet: Fleet, cluster: str) -> None:
    compiled(fleet, cluster)
    assert fleet.objects(cluster, "CheckpointConfiguration") == []
    assert len(fleet.objects(cluster, "DaemonSet")) == 1
    assert main(["check", str(fleet.root / "compiled")]) == 0


def test_the_replicators_own_parser_understands_the_agents_arguments(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        bandwidth: 2Gi\n")
    (container,) = agent_pod(fleet)["containers"]
    assert "command" not in container
    parsed = replicator_parser().parse_args(container["args"])
    assert parsed.platform == "kubernetes"
    assert parsed.backup == "gs://acme-training-checkpoints/tpu-v6e-docs"
    assert parsed.backup_credentials == "platform"
    assert parsed.namespace == "checkpoint-replicator"
    assert parsed.service == "replicator-v6e.checkpoint-replicator.svc:4242"
    assert parsed.bind == "$(POD_IP)"
    assert (parsed.port, parsed.http) == (4242, "$(POD_IP):8000")
    assert parsed.capacity == parse_size("44Gi")
    assert parsed.bandwidth == parse_size("2Gi")
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    assert str(parsed.local_dir) == mounts["ram-disk"]["mountPath"]
    assert str(parsed.key_file) == mounts["key"]["mountPath"] + "/shared"


def test_deadlines_are_the_agents_own_unless_they_are_given(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        timeouts: {round: 1800, backup: 20000}\n")
    (container,) = agent_pod(fleet)["containers"]
    assert [a for a in container["args"] if "timeout" in a] == [
        "--round-timeout=1800",
        "--backup-timeout=20000",
    ]
    parsed = replicator_parser().parse_args(container["args"])
    assert (parsed.round_timeout, parsed.backup_timeout, parsed.transfer_timeout) == (
        1800,
        20000,
        Timing().transfer,
    )
    assert set(AgentTimeouts.model_fields) == set(DEADLINES)


def test_jobs_and_agent_share_one_directory_of_the_nodes_memory(fleet: Fleet) -> None:
    compiled(fleet)
    seen = set()
    for namespace, pod in (
        ("checkpoint-replicator", agent_pod(fleet)),
        ("default", job_pod(fleet)),
    ):
        (volume,) = [v for v in pod["volumes"] if "persistentVolumeClaim" in v]
        (claim,) = [
            c
            for c in fleet.objects(TPU, "PersistentVolumeClaim")
            if c["metadata"]["namespace"] == namespace
        ]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (disk,) = [
            v
            for v in fleet.objects(TPU, "PersistentVolume")
            if v["metadata"]["name"] == claim["spec"]["volumeName"]
        ]
        reference = disk["spec"]["claimRef"]
        assert (reference["namespace"], reference["name"]) == (
            namespace,
            claim["metadata"]["name"],
        )
        assert disk["spec"]["accessModes"] == claim["spec"]["accessModes"]
        assert disk["spec"]["storageClassName"] == claim["spec"]["storageClassName"] == ""
        for container in pod["containers"]:
            for mount in container["volumeMounts"]:
                if mount["name"] == volume["name"]:
                    path = disk["spec"]["hostPath"]["path"]
                    seen.add((path, mount["subPath"], pod["securityContext"]["runAsUser"]))
    assert seen == {("/dev/shm", "stowplan-v6e", 65532)}


def test_no_pod_names_a_path_of_the_node_or_asks_for_a_privilege(fleet: Fleet) -> None:
    compiled(fleet)
    for pod in (agent_pod(fleet), job_pod(fleet)):
        assert not any("hostPath" in volume for volume in pod["volumes"])
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert "privileged" not in container["securityContext"]
    (agent,) = agent_pod(fleet)["containers"]
    assert agent["securityContext"]["readOnlyRootFilesystem"] is True
    assert agent["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "hostNetwork" not in agent_pod(fleet)


def test_an_image_that_trains_as_root_has_its_agent_as_root_without_rights(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        user: 0\n")
    for pod in (agent_pod(fleet), job_pod(fleet)):
        assert pod["securityContext"]["runAsUser"] == 0
        assert "runAsNonRoot" not in pod["securityContext"]
    (agent,) = agent_pod(fleet)["containers"]
    assert agent["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_scheduler_reserves_the_ram_disk_with_the_agent(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        memory: 2Gi\n        cpu: 500m\n")
    (agent,) = agent_pod(fleet)["containers"]
    assert agent["resources"] == {
        "limits": {"memory": "46Gi"},
        "requests": {"cpu": "500m", "memory": "46Gi"},
    }


def test_what_a_job_saves_counts_against_its_limit_and_not_its_request(fleet: Fleet) -> None:
    compiled(fleet)
    resources = job_pod(fleet)["containers"][0]["resources"]
    assert resources["requests"]["memory"] == "400Gi"
    assert resources["limits"]["memory"] == "444Gi"


def test_quotas_leave_out_ram_disk_and_agent(fleet: Fleet) -> None:
    def quotas() -> tuple[str, str]:
        (group,) = fleet.object(TPU, "ClusterQueue")["spec"]["resourceGroups"]
        (flavor,) = group["flavors"]
        found = {r["name"]: str(r["nominalQuota"]) for r in flavor["resources"]}
        return found["memory"], found["cpu"]

    fleet.compile("-t", TPU)
    assert quotas() == (f"{16 * 654}Gi", f"{16 * 179}")  # 698.7Gi allocatable, less 44Gi
    compiled(fleet)
    assert quotas() == (f"{16 * 653}Gi", f"{16 * 178}")  # and less the agent's 1Gi and core


def test_a_pod_that_leaves_the_agent_no_core_is_refused(fleet: Fleet) -> None:
    fleet.edit("classes/trillium-job.yml", "cpu: 100", "cpu: 179")
    assert fleet.compile("-t", TPU).code == 0  # GKE's driver asks for none
    fleet.edit(POOLS[TPU], GIVEN, AGENT + RETENTION)
    answer = fleet.compile("-t", TPU)
    assert answer.code == 1
    assert "INV035: agent 1 + pod 179 = 180 cores, but a node of ct6e-standard-4t has" in answer.err
    assert "fix: ask for at most 178, or lower the agent's cpu" in answer.err
    fleet.edit(POOLS[TPU], "      agent:\n", "      agent:\n        cpu: 400m\n")
    assert fleet.compile("-t", TPU).code == 0
    fleet.edit(POOLS[TPU], "        cpu: 400m\n", "        cpu: 300\n")
    answer = fleet.compile("-t", TPU)
    assert answer.code == 1
    assert "23:14: error INV035: an agent of 300 cores leaves pods none" in answer.err
    assert answer.err.count("INV035") == 1


@pytest.mark.parametrize(("peers", "size"), [(0, "323Gi"), (1, "646Gi")])
def test_gpu_nodes_have_room_for_their_own_copy_and_one_for_each_peer(
    fleet: Fleet, peers: int, size: str
) -> None:
    fleet.edit(POOLS[GPU], "peers: 1", f"peers: {peers}")
    fleet.edit(POOLS[GPU], GIVEN, AGENT + RETENTION)
    answer = fleet.compile("-t", GPU)
    assert answer.code == 0
    assert "error" not in answer.err
    assert agent_pod(fleet, GPU)["containers"][0]["args"][-1] == f"--capacity={size}"


@pytest.mark.parametrize(
    ("peers", "size", "short"),
    [
        (0, "216269Mi", None),  # 3.3 * 64Gi = 216268.8Mi
        (0, "216268Mi", "216268Mi is 3.29 times the local checkpoint of 64Gi; 3.3 times is needed (derived)\n    fix: write at least 212Gi"),
        (1, "432538Mi", None),
        (1, "432537Mi", "432537Mi is 6.59 times the local checkpoint of 64Gi; 6.6 times is needed\n    fix: write at least 423Gi"),
    ],
)  # fmt: skip
def test_the_least_ram_disk_is_exact_to_the_mebibyte(
    fleet: Fleet, peers: int, size: str, short: str | None
) -> None:
    model = "      model:\n        parameters: 70e9\n        bytesPerParameter: 12\n        nodesPerReplica: 8\n"  # fmt: skip
    sizes = f"      localCheckpointSize: 64Gi\n      inMemoryVolumeSize: {size}\n"
    fleet.edit(f"targets/{GPU}.yml", model, sizes)
    fleet.edit(POOLS[GPU], "peers: 1", f"peers: {peers}")
    answer = fleet.compile("-t", GPU)
    assert answer.code == (0 if short is None else 1), answer.err
    assert (short or "") in answer.err


def test_the_agents_outrank_every_job_and_keep_to_their_nodes(fleet: Fleet) -> None:
    compiled(fleet)
    pod = agent_pod(fleet)
    classes = {c["metadata"]["name"]: c["value"] for c in fleet.objects(TPU, "PriorityClass")}
    assert classes.pop(pod["priorityClassName"]) > max(classes.values())
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "ct6e-standard-4t"}
    assert {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"} in pod[
        "tolerations"
    ]


def test_the_role_allows_what_the_platform_module_asks_and_no_more(fleet: Fleet) -> None:
    compiled(fleet)
    role, binding = fleet.object(TPU, "Role"), fleet.object(TPU, "RoleBinding")
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["create", "get", "update"],
        }
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (subject,) = binding["subjects"]
    assert subject["name"] == agent_pod(fleet)["serviceAccountName"]
    account = fleet.object(TPU, "ServiceAccount", subject["name"])
    assert account["automountServiceAccountToken"] is False
    assert agent_pod(fleet)["automountServiceAccountToken"] is True


def test_peers_find_each_other_and_nobody_else_gets_in(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        port: 5000\n        metricsPort: 9000\n")
    (agent,) = agent_pod(fleet)["containers"]
    ports = {p["name"]: p["containerPort"] for p in agent["ports"]}
    assert ports == {"peers": 5000, "metrics": 9000}
    template = fleet.object(TPU, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    service = fleet.object(TPU, "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == template
    assert service["spec"]["ports"][0]["port"] == 5000
    policy = fleet.object(TPU, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == template
    peers, metrics = policy["ingress"]
    assert peers["from"] == [{"podSelector": {"matchLabels": template}}]
    assert peers["ports"] == [{"port": 5000, "protocol": "TCP"}]
    assert metrics["ports"] == [{"port": 9000, "protocol": "TCP"}]
    for probe in ("livenessProbe", "readinessProbe"):
        assert agent[probe]["httpGet"] == {"path": "/healthz", "port": "metrics", "scheme": "HTTP"}


def test_the_key_is_named_and_never_written(fleet: Fleet) -> None:
    compiled(fleet)
    assert fleet.objects(TPU, "Secret") == []
    (key,) = [v for v in agent_pod(fleet)["volumes"] if v["name"] == "key"]
    assert key["secret"] == {
        "secretName": "replicator-key",
        "defaultMode": 0o440,
        "items": [{"key": "shared", "path": "shared"}],
    }
    assert agent_pod(fleet)["securityContext"]["fsGroup"] == 65532


def test_agents_may_have_mutual_tls_on_top_of_their_key(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        tls: {secret: replicator-tls, dnsName: replicator.internal}\n")
    pod = agent_pod(fleet)
    (container,) = pod["containers"]
    parsed = replicator_parser().parse_args(container["args"])
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "tls"]
    folder = mount["mountPath"]
    assert mount["readOnly"] is True
    assert parsed.tls_cert == Path(folder, "tls.crt")
    assert parsed.tls_key == Path(folder, "tls.key")
    assert parsed.tls_ca == Path(folder, "ca.crt")
    assert parsed.tls_name == "replicator.internal"
    assert parsed.key_file is not None
    (volume,) = [v for v in pod["volumes"] if v["name"] == "tls"]
    assert volume["secret"] == {
        "secretName": "replicator-tls",
        "defaultMode": 0o440,  # the agent refuses a key that everybody may read
        "items": [{"key": k, "path": k} for k in ("tls.crt", "tls.key", "ca.crt")],
    }


def test_a_bucket_may_have_credentials_of_its_own(fleet: Fleet) -> None:
    compiled(fleet, TPU, "        credentialsSecret: {name: bucket, key: account.json}\n")
    cron = fleet.object(TPU, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for pod in (agent_pod(fleet), cron):
        (container, *_) = pod["containers"]
        parsed = replicator_parser().parse_args(container["args"])
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "credentials"]
        assert parsed.backup_credentials == mount["mountPath"] + "/account.json"
        (volume,) = [v for v in pod["volumes"] if v["name"] == "credentials"]
        assert volume["secret"]["secretName"] == "bucket"


def test_backups_are_pruned_by_the_replicator(fleet: Fleet) -> None:
    compiled(fleet)
    cron = fleet.object(TPU, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert "volumes" not in cron
    parsed = replicator_parser().parse_args(cron["containers"][0]["args"])
    assert parsed.backup == of(agent_pod(fleet)["containers"][0], "backup")
    assert parsed.delete is True


def test_jax_learns_its_process_id_before_it_starts(fleet: Fleet) -> None:
    compiled(fleet)
    pod = job_pod(fleet)
    (ranks,) = pod["initContainers"]
    variables = {"$(SLICE)": "1", "$(WORKER)": "3", "$(JOBSET_NAME)": "run"}
    arguments = []
    for argument in ranks["args"]:
        for name, value in variables.items():
            argument = argument.replace(name, value)
        arguments.append(argument)
    parsed = replicator_parser().parse_args(arguments)
    assert (parsed.slice, parsed.slice_size, parsed.worker) == (1, 4, 3)
    assert parsed.coordinator == "run-slice-0-0.run:8476"
    assert {v["name"] for v in ranks["env"]} == {"SLICE", "WORKER", "JOBSET_NAME"}
    (mount,) = ranks["volumeMounts"]
    assert mount == pod["containers"][0]["volumeMounts"][0]
    assert str(parsed.local_dir) == mount["mountPath"]


def runs(fleet: Fleet) -> set[str]:
    return {jobset["metadata"]["name"] for jobset in fleet.objects(TPU, "JobSet")}


def test_agents_change_their_image_under_jax_jobs_whose_ranks_keep_theirs(fleet: Fleet) -> None:
    compiled(fleet)
    first = runs(fleet)
    image = "        image: ${vars:registry}/stowplan-replicator:"
    fleet.edit(POOLS[TPU], image + "0.1.0\n", image + "0.2.0\n")
    assert fleet.compile("-t", TPU).code == 0
    assert runs(fleet).isdisjoint(first)  # the template of every job has another image
    kept = image.replace("image", "ranksImage") + "0.1.0\n"
    fleet.edit(POOLS[TPU], image + "0.2.0\n", image + "0.2.0\n" + kept)
    assert fleet.compile("-t", TPU).code == 0
    assert runs(fleet) == first
    (agent,) = agent_pod(fleet)["containers"]
    assert agent["image"].endswith(":0.2.0")


def test_what_else_of_the_agents_changes_leaves_the_jobs_alone(fleet: Fleet) -> None:
    compiled(fleet)
    first = runs(fleet)
    more = (
        "        port: 5000\n        metricsPort: 9000\n        bandwidth: 1Gi\n        cpu: 500m\n"
    )
    fleet.edit(POOLS[TPU], "      agent:\n", "      agent:\n" + more)
    assert fleet.compile("-t", TPU).code == 0
    assert runs(fleet) == first
    size = "      inMemoryVolumeSize: 50Gi\n"
    fleet.edit(POOLS[TPU], "      backup:", size + "      backup:")
    assert fleet.compile("-t", TPU).code == 0
    assert runs(fleet).isdisjoint(first)  # their limits leave room for what they save


def test_the_page_for_people_says_who_serves_it(fleet: Fleet) -> None:
    compiled(fleet)
    page = (fleet.root / "compiled" / TPU / "README.md").read_text()
    assert "| v6e (self-hosted) | 19.6Gi | 2.2x | 44Gi | 1 |" in page


def test_the_sum_of_a_nodes_memory_shows_the_agent(fleet: Fleet) -> None:
    fleet.edit(POOLS[TPU], GIVEN, AGENT + RETENTION)
    answer = fleet.run("size", TPU)
    assert "agent               1Gi (self-hosted replicator)" in answer.out
    assert "left for pods       653.7Gi" in answer.out


def test_a_diff_says_what_another_node_path_would_do(fleet: Fleet) -> None:
    compiled(fleet)
    shutil.copytree(fleet.root / "compiled", fleet.root / "before" / "compiled")
    fleet.edit(POOLS[TPU], "      agent:\n", "      agent:\n        nodePath: /mnt/checkpoints\n")
    assert fleet.compile("-t", TPU).code == 0
    fleet.capture.readouterr()
    command = ["diff", "--base", str(fleet.root / "before"), "--head", str(fleet.root)]
    assert main([*command, "--fail-on", "blocked"]) == 3
    said = fleet.capture.readouterr().out
    assert "the source of a volume is immutable" in said
    assert "/dev/shm → /mnt/checkpoints" in said


def test_torch_has_its_ranks_from_torchrun(fleet: Fleet) -> None:
    compiled(fleet, GPU)
    assert "initContainers" not in job_pod(fleet, GPU, "nemo-70b")


def test_the_sizes_follow_the_same_rules(fleet: Fleet) -> None:
    compiled(fleet, GPU)
    notes = fleet.object(GPU, "DaemonSet")["metadata"]["annotations"]
    assert notes["stowplan.dev/ram-disk-size"] == "646Gi"  # 105e9 bytes x 6.6
    assert notes["stowplan.dev/local-checkpoint-size"] == "105G"


def test_every_object_has_its_place_in_the_order_of_syncs(fleet: Fleet) -> None:
    compiled(fleet)
    wave = {
        kind: int(fleet.objects(TPU, kind)[0]["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        for kind in ("Namespace", "PriorityClass", "PersistentVolume", "PersistentVolumeClaim",
                     "Role", "RoleBinding", "ServiceAccount", "Service", "DaemonSet", "JobSet")
    }  # fmt: skip
    assert wave["Namespace"] < wave["PersistentVolume"] < wave["PersistentVolumeClaim"]
    assert wave["Role"] < wave["RoleBinding"] < wave["DaemonSet"]
    assert (
        max(wave["PersistentVolumeClaim"], wave["ServiceAccount"], wave["PriorityClass"])
        < wave["DaemonSet"]
        < wave["JobSet"]
    )
    for kind in ("DaemonSet", "PersistentVolume", "PersistentVolumeClaim"):
        options = fleet.objects(TPU, kind)[0]["metadata"]["annotations"]
        assert options["argocd.argoproj.io/sync-options"] == "Prune=confirm"


@pytest.mark.parametrize(
    ("agent", "says", "fix"),
    [
        ("      agent: {image: 'a:1', keySecret: {name: k, key: k}}\n" + GIVEN, "agent is for provider self-hosted", "write provider: self-hosted"),
        ("      provider: self-hosted\n" + RETENTION, "provider self-hosted needs agent", "with its image and keySecret"),
        (AGENT + GIVEN, "backup-warden does not know which backups", "write tool: replicator"),
        (AGENT + RETENTION + "      driverEpoch: 2\n", "driverEpoch is for provider gke", "remove it, or write provider: gke"),
        (AGENT + RETENTION + "      mountOptions: [implicit-dirs]\n", "mountOptions is for provider gke", "remove it"),
        (AGENT + RETENTION + "      csiEphemeralLimit: 1Gi\n", "csiEphemeralLimit is for provider gke", "remove it"),
        (AGENT + RETENTION + "      enableExternalJaxProcessIds: true\n", "enableExternalJaxProcessIds is for provider gke", "remove it"),
        (AGENT + "        port: 80\n" + RETENTION, "found 80", "at least 1024"),
        (AGENT + "        metricsPort: 4242\n" + RETENTION, "port and metricsPort are both 4242", "different"),
        (AGENT + "        nodePath: dev/shm\n" + RETENTION, "no absolute path", "/checkpoint"),
        (AGENT + "        nodePath: /\n" + RETENTION, "all of the node", "/dev/shm"),
        (AGENT.replace("key: shared", "key: .") + RETENTION, "no key of a Secret", "letters"),
        (AGENT + "        timeouts: {round: 0}\n" + RETENTION, "found 0, expected at least 1", ""),
        (AGENT + "        bandwidth: fast\n" + RETENTION, "'fast' is no whole number", "such as 2Gi"),
        (AGENT.replace("key: shared", "key: ../shared") + RETENTION, "no key of a Secret", "letters"),
        (AGENT.replace("        keySecret: {name: replicator-key, key: shared}\n", "") + RETENTION, "keySecret", ""),
    ],
)  # fmt: skip
def test_what_a_provider_has_no_use_for_is_refused_with_the_fix(
    fleet: Fleet, agent: str, says: str, fix: str
) -> None:
    fleet.edit(POOLS[TPU], GIVEN, agent)
    answer = fleet.compile("-t", TPU)
    assert answer.code == 1
    assert says in answer.err
    assert fix in answer.err
    assert not (fleet.root / "compiled" / TPU).exists()


def test_all_misplaced_keys_are_named_at_once(fleet: Fleet) -> None:
    more = "      driverEpoch: 2\n      csiEphemeralLimit: 1Gi\n"
    fleet.edit(POOLS[TPU], GIVEN, AGENT + RETENTION + more)
    answer = fleet.compile("-t", TPU)
    assert "driverEpoch is" in answer.err
    assert "csiEphemeralLimit is" in answer.err


def test_the_managed_driver_needs_to_know_the_bucket(fleet: Fleet) -> None:
    fleet.edit(POOLS[TPU], "      hierarchicalNamespace: true\n", "")
    answer = fleet.compile("-t", TPU)
    assert answer.code == 1
    assert "provider gke needs hierarchicalNamespace" in answer.err


def test_the_replicator_needs_no_hierarchical_namespace_and_no_new_gke(fleet: Fleet) -> None:
    fleet.edit(POOLS[TPU], "hierarchicalNamespace: true", "hierarchicalNamespace: false")
    fleet.edit(f"targets/{TPU}.yml", "gkeVersion: 1.33.4-gke.1245000", "gkeVersion: 1.32.1-gke.1")
    compiled(fleet)


@pytest.mark.parametrize(("path", "fits"), [("/dev/shm", False), ("/mnt/checkpoints", True)])
def test_a_ram_disk_above_half_of_the_memory_needs_a_tmpfs_of_its_own(
    fleet: Fleet, path: str, fits: bool
) -> None:
    model = "      model:\n        parameters: 7e9\n        bytesPerParameter: 12\n        nodesPerReplica: 4"
    fleet.edit(f"targets/{TPU}.yml", model, "      inMemoryVolumeSize: 365Gi")
    fleet.edit("classes/trillium-job.yml", "memory: 400Gi", "memory: 300Gi")
    fleet.edit(POOLS[TPU], GIVEN, AGENT + f"        nodePath: {path}\n" + RETENTION)
    answer = fleet.compile("-t", TPU)
    if fits:
        assert (answer.code, answer.err) == (0, "")
        return
    assert answer.code == 1
    assert "365Gi does not fit /dev/shm of a ct6e-standard-4t" in answer.err
    assert "agent.nodePath" in answer.err


def test_a_pod_that_leaves_no_room_for_the_agent_is_refused(fleet: Fleet) -> None:
    fleet.edit("classes/trillium-job.yml", "memory: 400Gi", "memory: 654Gi")
    assert fleet.compile("-t", TPU).code == 0  # beside the managed driver it just fits
    fleet.edit(POOLS[TPU], GIVEN, AGENT + RETENTION)
    answer = fleet.compile("-t", TPU)
    assert answer.code == 1
    assert "RAM disk 44Gi + agent 1Gi + pod 654Gi = 699Gi" in answer.err
    assert "ask for at most 653Gi" in answer.err


def test_a_name_too_long_for_a_service_is_refused(fleet: Fleet) -> None:
    name = "x" * 53
    fleet.edit(POOLS[TPU], "  checkpointing:\n    v6e:", f"  checkpointing:\n    {name}:")
    fleet.edit(POOLS[TPU], GIVEN, AGENT + "      retention: {tool: none}\n")
    for _ in range(2):
        fleet.edit(f"targets/{TPU}.yml", "configuration: v6e", f"configuration: {name}")
    fleet.edit(f"targets/{TPU}.yml", "  checkpointing:\n    v6e:", f"  checkpointing:\n    {name}:")
    answer = fleet.compile("-t", TPU)
    assert answer.code == 1
    assert "shorten the name to 52 characters" in answer.err


class TestPolicies:
    """Overlays that undo what the generator does right."""

    def refuse(self, fleet: Fleet, kind: str, change: str, rule: str) -> None:
        fleet.edit(POOLS[TPU], GIVEN, AGENT + RETENTION)
        fleet.write(
            "overlays/undo.jsonnet",
            "function(cluster, manifests) [\n"
            f"  if m.kind == '{kind}' then m + {change} else m for m in manifests\n]\n",
        )
        fleet.edit(
            f"targets/{TPU}.yml", "parameters:\n", "parameters:\n  overlays: [undo.jsonnet]\n"
        )
        answer = fleet.compile("-t", TPU)
        assert answer.code == 1
        assert rule in answer.err

    def test_an_agent_without_the_ram_disk_in_its_request(self, fleet: Fleet) -> None:
        change = "{metadata+: {annotations+: {'stowplan.dev/ram-disk-size': '46Gi'}}}"
        self.refuse(fleet, "DaemonSet", change, "SIZ010")

    def test_an_agent_that_is_kept_off_the_accelerators(self, fleet: Fleet) -> None:
        change = "{spec+: {template+: {spec+: {tolerations: []}}}}"
        self.refuse(fleet, "DaemonSet", change, "REF024")

    def test_a_job_whose_nodes_no_agent_serves(self, fleet: Fleet) -> None:
        change = "{metadata+: {annotations+: {'stowplan.dev/provider': 'other'}}}"
        self.refuse(fleet, "DaemonSet", change, "REF025")
