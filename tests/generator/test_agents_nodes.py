"""Which nodes the self-hosted agents land on, and what that means for the pools beside them."""

from __future__ import annotations

from typing import Any

import pytest

from generator.cli.main import main
from schemas.catalog import MACHINE_LABEL
from tests.conftest import Fleet
from tests.generator.self_hosted_cases import AGENT, GIVEN, SELF_HOSTED, configuration

GPU = "gpu-h100-prod"
TARGET, POOL = f"targets/{GPU}.yml", "classes/pools/h100-mega.yml"
SERVE = """    serve:
      machineType: a3-megagpu-8g
      nodes: 4
      labels: {acme.com/use: serve}
      selectBy: [acme.com/use]
      taints: [{key: acme.com/serve, value: "yes", effect: NoSchedule}]
"""
SECOND = configuration("serving", "serve", "8Gi", "serving")
USE = "acme.com/use"


@pytest.fixture
def two_pools(fleet: Fleet) -> Fleet:
    """Sixteen nodes that train, and four of the same machine type that a label tells apart."""
    fleet.edit(POOL, GIVEN, SELF_HOSTED)
    named = f"      labels: {{{USE}: train}}\n      selectBy: [{USE}]\n"
    fleet.edit(TARGET, "      nodes: 16\n", "      nodes: 16\n" + named)
    fleet.edit(TARGET, "  nodePools:\n", "  nodePools:\n" + SERVE)
    fleet.edit(TARGET, "  queueing:\n", "  queueing:\n    flavors: {serve: {nodePool: serve}}\n")
    fleet.edit(
        TARGET, "          h100-mega: {}\n", "          h100-mega: {}\n          serve: {}\n"
    )
    return fleet


def compiled(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """The agents' pods by configuration, of a cluster in which nothing is wrong."""
    answer = fleet.compile("-t", GPU)
    assert answer.code == 0, answer.err
    assert main(["check", str(fleet.root / "compiled" / GPU)]) == 0
    found = fleet.objects(GPU, "DaemonSet")
    pods = {o["metadata"]["annotations"]["stowplan.dev/config"]: o["spec"] for o in found}
    return {name: spec["template"]["spec"] for name, spec in pods.items()}


def job_on_serve(fleet: Fleet, configuration: str) -> None:
    """The second job runs on the second pool."""
    fleet.edit(TARGET, "    nemo-sweep:\n      nodePool: h100\n      nodes: 8\n", "    nemo-sweep:\n      nodePool: serve\n      nodes: 4\n")  # fmt: skip
    fleet.edit(TARGET, "        configuration: h100\n        periodSteps: 100\n", f"        configuration: {configuration}\n        periodSteps: 100\n")  # fmt: skip


def memory(fleet: Fleet) -> dict[str, str]:
    """The memory quota of each flavor."""
    (group,) = fleet.object(GPU, "ClusterQueue")["spec"]["resourceGroups"]
    return {
        flavor["name"]: resource["nominalQuota"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        if resource["name"] == "memory"
    }


def test_agents_keep_to_their_pool_where_a_label_tells_it_apart(two_pools: Fleet) -> None:
    pod = compiled(two_pools)["h100"]
    assert pod["nodeSelector"] == {USE: "train", MACHINE_LABEL: "a3-megagpu-8g"}
    assert [t["key"] for t in pod["tolerations"]] == ["nvidia.com/gpu"]
    # 1827Gi allocatable; the RAM disk of 646Gi and the agent's 1Gi are on the training nodes only.
    assert memory(two_pools) == {"h100-mega": f"{16 * 1180}Gi", "serve": f"{4 * 1827}Gi"}


def test_agents_are_wherever_jobs_of_their_configuration_run(two_pools: Fleet) -> None:
    job_on_serve(two_pools, "h100")
    pod = compiled(two_pools)["h100"]
    assert pod["nodeSelector"] == {MACHINE_LABEL: "a3-megagpu-8g"}
    assert {t["key"] for t in pod["tolerations"]} == {"nvidia.com/gpu", "acme.com/serve"}
    assert memory(two_pools) == {"h100-mega": f"{16 * 1180}Gi", "serve": f"{4 * 1180}Gi"}


def test_each_pool_of_a_machine_type_may_have_agents_of_its_own(two_pools: Fleet) -> None:
    two_pools.edit(TARGET, "  checkpointing:\n", "  checkpointing:\n" + SECOND)
    job_on_serve(two_pools, "serving")
    pods = compiled(two_pools)
    uses = {name: pod["nodeSelector"][USE] for name, pod in pods.items()}
    assert uses == {"h100": "train", "serving": "serve"}
    mounts = {pod["containers"][0]["volumeMounts"][0]["subPath"] for pod in pods.values()}
    assert mounts == {"stowplan-h100", "stowplan-serving"}


def test_a_pool_that_every_replicated_job_overrides_has_no_agents(two_pools: Fleet) -> None:
    whole = "    nemo-sweep:\n      nodePool: h100\n      nodes: 8\n"
    own = "      replicatedJobs: {workers: {nodePool: h100, parallelism: 8}}\n"
    two_pools.edit(TARGET, whole, f"    nemo-sweep:\n      nodePool: serve\n{own}")
    assert compiled(two_pools)["h100"]["nodeSelector"][USE] == "train"


def test_two_agents_on_one_node_are_refused(two_pools: Fleet) -> None:
    two_pools.edit(TARGET, "  checkpointing:\n", "  checkpointing:\n" + SECOND)
    job_on_serve(two_pools, "h100")
    answer = two_pools.compile("-t", GPU)
    assert answer.code == 1
    assert "INV032" in answer.err
    assert "already serves the nodes of machine type a3-megagpu-8g" in answer.err
    assert "tell their pools apart by selectBy (one label, two values)" in answer.err
    assert "INV071" not in answer.err  # each serves these nodes: that is the fault


def test_two_configurations_for_one_pool_are_refused(two_pools: Fleet) -> None:
    second = configuration("second", "h100", "8Gi", "second", "other-agents")
    two_pools.edit(TARGET, "  checkpointing:\n", "  checkpointing:\n" + second)
    answer = two_pools.compile("-t", GPU)
    assert answer.code == 1
    assert "INV032" in answer.err
    assert "fix: keep one configuration for each machine type" in answer.err


def test_the_managed_driver_stays_selected_by_machine_type(two_pools: Fleet) -> None:
    two_pools.edit(POOL, SELF_HOSTED, GIVEN)
    assert two_pools.compile("-t", GPU).code == 0
    (driver,) = two_pools.objects(GPU, "CheckpointConfiguration")
    assert driver["spec"]["nodeSelector"] == {MACHINE_LABEL: "a3-megagpu-8g"}


def test_names_as_long_as_they_may_be_are_valid_and_apart(two_pools: Fleet) -> None:
    longest, agents = "c" * 52, "a" * 63
    added = configuration(longest, "serve", "8Gi", "serving", agents)
    two_pools.edit(TARGET, "  checkpointing:\n", "  checkpointing:\n" + added)
    job_on_serve(two_pools, longest)
    two_pools.edit(TARGET, "        periodSteps: 100\n", f"        periodSteps: 100\n        jobName: {'j' * 63}\n")  # fmt: skip
    assert set(compiled(two_pools)) == {"h100", longest}
    services = {(o["metadata"]["namespace"], o["metadata"]["name"]) for o in two_pools.objects(GPU, "Service")}  # fmt: skip
    assert (agents, f"replicator-{longest}") in services
    volumes = [o["metadata"]["name"] for o in two_pools.objects(GPU, "PersistentVolume")]
    assert len(set(volumes)) == 4  # two configurations, each for its agents and its jobs
    assert max(map(len, volumes)) == len("stowplan-checkpoint-.") + 52 + 63
    two_pools.edit(TARGET, f"    {longest}:\n", f"    {longest}c:\n")
    two_pools.edit(TARGET, f"configuration: {longest}\n", f"configuration: {longest}c\n")
    answer = two_pools.compile("-t", GPU)
    assert answer.code == 1
    assert "64 characters, at most 63 are allowed" in answer.err
    assert "shorten the name to 52 characters" in answer.err


def test_both_providers_stand_side_by_side_on_pools_of_their_own(two_pools: Fleet) -> None:
    two_pools.edit(TARGET, "machineType: a3-megagpu-8g", "machineType: a3-ultragpu-8g")
    managed = configuration("serving", "serve", "8Gi", "serving").replace(AGENT, "")
    bucket = "      hierarchicalNamespace: true\n      bucket: ${vars:bucket}\n"
    managed = managed.replace("      bucket: ${vars:bucket}\n", bucket)
    two_pools.edit(TARGET, "  checkpointing:\n", "  checkpointing:\n" + managed)
    job_on_serve(two_pools, "serving")
    assert set(compiled(two_pools)) == {"h100"}
    (driver,) = two_pools.objects(GPU, "CheckpointConfiguration")
    assert driver["spec"]["nodeSelector"] == {MACHINE_LABEL: "a3-ultragpu-8g"}
    volumes = {}
    for jobset in two_pools.objects(GPU, "JobSet"):
        pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        (volume,) = [v for v in pod["volumes"] if v["name"] == "checkpoint"]
        volumes[jobset["metadata"]["annotations"]["stowplan.dev/workload"]] = set(volume) - {"name"}
    assert volumes == {"nemo-70b": {"persistentVolumeClaim"}, "nemo-sweep": {"csi"}}
