"""A replicator knows a job by its name alone: no two of a cluster may have the same."""

from __future__ import annotations

import pytest

from tests.conftest import Fleet
from tests.generator.self_hosted_cases import GIVEN, SELF_HOSTED, configuration

CLUSTER = "tpu-v6e-docs"
DOCS, JOBS, V6E = (
    "targets/tpu-v6e-docs.yml",
    "classes/trillium-job.yml",
    "classes/pools/v6e-4x4.yml",
)
HIGH, LOW = "        periodSteps: 20\n", "        periodSteps: 100\n"
SECOND_POOL = """  nodePools:
    v5e:
      machineType: ct5lp-hightpu-4t
      topology: 4x4
      slices: 2
"""


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        (GIVEN, "at the driver's coordinator"),
        (SELF_HOSTED, "at the Lease of the agents in namespace checkpoint-replicator"),
    ],
)
def test_two_jobs_of_one_name_in_two_namespaces_are_refused(
    fleet: Fleet, provider: str, place: str
) -> None:
    fleet.edit(V6E, GIVEN, provider)
    fleet.edit(DOCS, "namespaces: [default]", "namespaces: [default, red]")
    fleet.edit(DOCS, HIGH, HIGH + "        jobName: low-jax-trillium\n")
    fleet.edit(DOCS, "      priority: high-priority-job\n", "      priority: high-priority-job\n      namespace: red\n")  # fmt: skip
    answer = fleet.compile("-t", CLUSTER)
    assert answer.code == 1
    assert "63:18: error INV074: its checkpoints go by the name 'low-jax-trillium'" in answer.err
    assert "as those of workload 'low-jax-trillium' in namespace 'default' do" in answer.err
    assert place in answer.err
    assert f"in the backups of gs://acme-training-checkpoints/{CLUSTER}" in answer.err
    assert "fix: write a jobName" in answer.err
    assert not fleet.compiled


def test_a_name_that_a_flag_gives_counts(fleet: Fleet) -> None:
    fleet.edit(DOCS, "        - steps=300\n", "        - run_name=low-jax-trillium\n")
    answer = fleet.compile("-t", CLUSTER)
    assert answer.code == 1
    assert "54:11: error INV074: its checkpoints go by the name 'low-jax-trillium'" in answer.err
    assert "fix: write a run_name of its own (it wins over jobName)" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("[run_name=low-jax-trillium, run_name=other]", 0),
        ("[run_name=other, run_name=low-jax-trillium]", 1),
        ("[run_name=, run_name]", 0),
        ("['bash', '-c', 'python3 train.py base.yml run_name=\"low-jax-trillium\"; sync']", 1),
        ("['bash', '-c', 'python3 train.py base.yml run_name=\"low-jax-trillium-$RUN\"']", 0),
        ("['bash', '-c', 'python3 train.py base.yml run_name=`date +%F/%T`']", 0),
    ],
)
def test_the_last_flag_is_the_name_also_in_a_script(
    fleet: Fleet, arguments: str, code: int
) -> None:
    high = "    high-jax-trillium:\n"
    fleet.edit(DOCS, high, f"{high}      ~command: {arguments}\n")
    answer = fleet.compile("-t", CLUSTER)
    assert answer.code == code, answer.err
    assert ("INV074" in answer.err) is bool(code)


@pytest.mark.parametrize("given", ["../../other", "llama/70b", ".."])
def test_a_name_that_is_another_folder_is_refused(fleet: Fleet, given: str) -> None:
    fleet.edit(DOCS, "        - steps=300\n", f"        - run_name={given}\n")
    answer = fleet.compile("-t", CLUSTER)
    assert answer.code == 1
    assert f"54:11: error INV075: its checkpoints go by the name {given!r}" in answer.err
    assert "fix: write a run_name that is one name, not a path" in answer.err
    assert not fleet.compiled


@pytest.mark.parametrize("given", ["--job-name=nemo-70b", "--job-name, nemo-70b"])
def test_each_framework_has_a_flag_of_its_own(fleet: Fleet, given: str) -> None:
    sweep = "    nemo-sweep:\n      nodePool: h100\n"
    for flag, code in ((given, 1), (given.replace("--job-name", "--run-name"), 0)):
        own = f"{sweep}      ~args: [train.py, {flag}]\n"
        fleet.edit("targets/gpu-h100-prod.yml", sweep, own)
        assert fleet.compile("-t", "gpu-h100-prod").code == code
        fleet.edit("targets/gpu-h100-prod.yml", own, sweep)


def test_a_name_that_is_known_in_the_pod_only_is_not_guessed(fleet: Fleet) -> None:
    for steps in ("steps=300\n", "steps=30000\n"):
        fleet.edit(DOCS, f"        - {steps}", "        - run_name=$(RUN)\n")
    assert fleet.compile("-t", CLUSTER).code == 0


@pytest.mark.parametrize(
    ("namespace", "directory", "met"),
    [
        ("other-agents", "elsewhere", None),
        ("checkpoint-replicator", "elsewhere", "at the Lease of the agents in namespace checkpoint-replicator, and"),
        ("other-agents", CLUSTER, f"in the backups of gs://acme-training-checkpoints/{CLUSTER}, and"),
    ],
)  # fmt: skip
def test_jobs_that_meet_nowhere_may_share_a_name(
    fleet: Fleet, namespace: str, directory: str, met: str | None
) -> None:
    fleet.edit(V6E, GIVEN, SELF_HOSTED)
    fleet.edit(DOCS, "  nodePools:\n", SECOND_POOL)
    second = configuration("v5e", "v5e", "4Gi", directory, namespace)
    fleet.edit(DOCS, "  checkpointing:\n", "  checkpointing:\n" + second)
    fleet.edit(
        DOCS,
        "        configuration: v6e\n" + HIGH,
        "        configuration: v5e\n" + HIGH + "        jobName: low-jax-trillium\n",
    )
    fleet.edit(DOCS, "      priority: high-priority-job\n", "      priority: high-priority-job\n      ~nodePool: v5e\n      ~queue: null\n      resources: {cpu: 50, memory: 60Gi}\n")  # fmt: skip
    answer = fleet.compile("-t", CLUSTER)
    assert (answer.code == 0) is (met is None), answer.err
    assert (met or "") in answer.err


@pytest.mark.parametrize(
    ("other", "container"), [("low-jax-trillium", "job-0"), ("job-0", "job-1")]
)
def test_backups_are_pruned_under_the_name_that_a_flag_gives(
    fleet: Fleet, other: str, container: str
) -> None:
    fleet.edit(DOCS, "        - steps=300\n", "        - run_name=Llama_70B\n")
    fleet.edit(DOCS, LOW, f"{LOW}        jobName: {other}\n")
    assert fleet.compile("-t", CLUSTER).code == 0
    spec = fleet.object(CLUSTER, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pruned = {c["args"][1]: c["name"] for c in spec["containers"]}
    assert pruned == {
        "/backups/Llama_70B": container,  # no name for a container
        f"/backups/{other}": other,
    }
