"""The gcloud script does what is missing, in order, checks it, and does nothing the second time."""

from __future__ import annotations

import copy
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.build.bootstrap.shell import Script
from tests.conftest import REPOSITORY, Fleet
from tests.generator.bootstrap.conftest import CLUSTERS, COMPILED, Lab

TABLE = yaml.safe_load((REPOSITORY / "generator/build/bootstrap/arguments.yaml").read_text())[
    "gcloud"
]
V5P = COMPILED / "tpu-v5p-prod" / "bootstrap" / "gcloud.sh"
BUCKET = {
    "hierarchicalNamespace.enabled": "True",
    "iamConfiguration.uniformBucketLevelAccess.enabled": "True",
    "bindings": [],
}
SHELLCHECK = shutil.which("shellcheck") or shutil.which(
    str(Path(sys.executable).parent / "shellcheck")
)


def command_of(call: list[str]) -> tuple[str, set[str]]:
    """The table's row of a gcloud call, and the options that it was given."""
    words = call[1:]
    names = [name for name in TABLE if " ".join(words).startswith(name + " ")]
    assert names, f"no row for gcloud {' '.join(words)}"
    return max(names, key=len), {w[2:].partition("=")[0] for w in words if w.startswith("--")}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_an_empty_project_ends_complete_and_a_second_run_changes_nothing(
    lab: Lab, cluster: str
) -> None:
    script = COMPILED / cluster / "bootstrap" / "gcloud.sh"
    if cluster != "tpu-v5p-prod":  # which makes the bucket that they share
        lab.set(buckets={"acme-training-checkpoints": BUCKET})
    first = lab.run(script)
    assert first.returncode == 0, first.stderr
    done = lab.changes()
    assert done[0] == f"gcloud container clusters create {cluster}"
    assert [line for line in done if line.startswith("kubectl apply")] == done[-2:]
    facts = yaml.safe_load((COMPILED / cluster / "cluster.yaml").read_text())["spec"]
    assert len(lab.state["pools"]) == sum(
        pool["slices"] if pool["nodesPerSlice"] > 1 and pool.get("topology") else 1
        for pool in facts["nodePools"]
    )
    second = lab.run(script)
    assert second.returncode == 0, second.stderr
    assert [line for line in lab.changes() if not line.startswith("kubectl apply")] == []
    for call in (*lab.state["calls"],):
        if call[0] == "gcloud":
            name, used = command_of(call)
            assert used <= set(TABLE[name]), f"gcloud {name}"


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_new_cluster_keeps_the_add_ons_that_are_on_by_default(cluster: str) -> None:
    """``--addons`` switches off what it does not name; Terraform's blocks do not."""
    (line,) = re.findall(
        r"--addons=(\S+)", (COMPILED / cluster / "bootstrap" / "gcloud.sh").read_text()
    )
    assert {"HorizontalPodAutoscaling", "HttpLoadBalancing"} < set(line.split(","))


def test_pools_of_a_multi_host_slice_are_made_one_a_slice_with_its_topology(lab: Lab) -> None:
    assert lab.run(V5P).returncode == 0
    assert sorted(lab.state["pools"]) == ["v5p-0", "v5p-1", "v5p-2", "v5p-3"]
    created = [
        call for call in lab.state["calls"] if call[1:4] == ["container", "node-pools", "create"]
    ]
    for call in created:
        assert {"--tpu-topology=4x4x4", "--num-nodes=16", "--reservation=foundation-v5p"} <= set(
            call
        )


def test_ironwood_is_placed_by_a_workload_policy_and_not_by_a_topology(lab: Lab) -> None:
    lab.set(buckets={"acme-training-checkpoints": BUCKET})
    answer = lab.run(COMPILED / "tpu-ironwood-prod" / "bootstrap" / "gcloud.sh")
    assert answer.returncode == 0, answer.stderr
    assert lab.state["policies"] == {"tpu-ironwood-prod-ironwood": "4x4x4"}
    options = {word for call in lab.state["calls"] if "node-pools" in call for word in call}
    assert "--placement-policy=tpu-ironwood-prod-ironwood" in options
    assert not any(word.startswith("--tpu-topology") for word in options)


def test_an_existing_cluster_gets_what_it_lacks_and_no_more(lab: Lab) -> None:
    pool = "acme-training.svc.id.goog"
    lab.set(
        clusters={
            "tpu-v5p-prod": {
                "workloadIdentityConfig.workloadPool": pool,
                "addonsConfig.gcsFuseCsiDriverConfig.enabled": "True",
                "currentMasterVersion": "1.33.1-gke.1",
            }
        }
    )
    answer = lab.run(V5P)
    assert answer.returncode == 0, answer.stderr
    updates = [call for call in lab.state["calls"] if "update" in call]
    assert [call[-1] for call in updates] == ["--update-addons=HighScaleCheckpointing=ENABLED"]
    assert "note: the control plane runs 1.33.1-gke.1" in answer.stdout


def test_plan_prints_the_commands_and_changes_nothing(lab: Lab) -> None:
    before = copy.deepcopy(lab.state)
    answer = lab.run(V5P, PLAN="1")
    assert answer.returncode == 0, answer.stderr
    assert lab.changes() == []
    assert {**lab.state, "calls": []} == {**before, "calls": []}
    assert "+ gcloud container clusters create tpu-v5p-prod" in answer.stdout
    assert answer.stdout.count("+ gcloud container node-pools create") == 4
    assert answer.stdout.count("+ gcloud storage buckets add-iam-policy-binding") == 3


@pytest.mark.parametrize(
    "denied",
    [
        "gcloud projects describe",
        "gcloud container clusters list",
        "gcloud container clusters create",
        "gcloud storage buckets list",
        "gcloud storage buckets get-iam-policy",
        "gcloud container node-pools list",
        "kubectl --namespace jobset-system get",
    ],
)
def test_a_refused_call_ends_the_script_there(lab: Lab, denied: str) -> None:
    if "node-pools list" in denied:
        lab.run(V5P)
    lab.set(deny=denied)
    answer = lab.run(V5P)
    assert answer.returncode != 0
    assert "permission denied" in answer.stderr
    last = lab.state["calls"][-1]
    assert " ".join(last).startswith(denied)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("hierarchicalNamespace.enabled", "", "hierarchical namespace"),
        ("iamConfiguration.uniformBucketLevelAccess.enabled", "False", "uniform access"),
    ],
)
def test_a_bucket_that_would_fail_every_backup_stops_the_script(
    lab: Lab, field: str, value: str, told: str
) -> None:
    lab.set(buckets={"acme-training-checkpoints": {**BUCKET, field: value}})
    answer = lab.run(V5P)
    assert answer.returncode == 1
    assert f'error: {told} of gs://acme-training-checkpoints is "{value}", expected "True"' in (
        answer.stderr
    )
    assert lab.state["buckets"]["acme-training-checkpoints"]["bindings"] == []


def test_a_wrong_project_number_stops_before_anything_is_made(lab: Lab) -> None:
    lab.set(projects={"acme-training": "999999999999"})
    answer = lab.run(V5P)
    assert answer.returncode == 1
    assert 'is "999999999999", expected "123456789012"' in answer.stderr
    assert lab.changes() == []


def test_a_role_with_a_condition_does_not_count(lab: Lab) -> None:
    agent = (
        "principal://iam.googleapis.com/projects/123456789012/locations/global/"
        "workloadIdentityPools/acme-training.svc.id.goog/subject/ns/gke-managed-checkpointing/"
        "sa/gke-checkpointing-multitier-node"
    )
    conditional = f"roles/storage.objectUser,{agent},until-spring"
    lab.set(buckets={"acme-training-checkpoints": {**BUCKET, "bindings": [conditional]}})
    assert lab.run(V5P).returncode == 0
    assert (
        f"roles/storage.objectUser,{agent},"
        in (lab.state["buckets"]["acme-training-checkpoints"]["bindings"])
    )


def test_the_retention_account_may_delete_only_where_retention_deletes(fleet: Fleet) -> None:
    texts = {
        cluster: (COMPILED / cluster / "bootstrap" / "gcloud.sh").read_text()
        for cluster in ("tpu-v5p-prod", "shared-dev")
    }
    member = "/ns/checkpoint-retention/sa/checkpoint-retention \\\n    --role="
    assert f"{member}roles/storage.objectUser" in texts["tpu-v5p-prod"]
    assert f"{member}roles/storage.objectViewer" in texts["shared-dev"]


def test_another_version_of_a_controller_is_left_alone_unless_asked(lab: Lab) -> None:
    lab.set(images={"kueue-controller-manager": "registry.example/kueue:v0.15.0@sha256:0"})
    answer = lab.run(V5P)
    assert answer.returncode == 0, answer.stderr
    assert "left alone: kueue v0.15.0 is installed, the inventory says v0.19.2" in answer.stdout
    assert "kueue:v0.15.0" in lab.state["images"]["kueue-controller-manager"]
    assert lab.run(V5P, UPGRADE="1").returncode == 0
    assert lab.state["images"]["kueue-controller-manager"].endswith(":v0.19.2")


def test_the_current_kubeconfig_is_never_used(lab: Lab) -> None:
    kubeconfig = lab.folder / "kubeconfig"
    kubeconfig.write_text("mine")
    answer = lab.run(V5P, KUBECONFIG=str(kubeconfig))
    assert answer.returncode == 0, answer.stderr
    assert kubeconfig.read_text() == "mine"
    script = V5P.with_name("controllers.sh").read_text()
    assert script.index("mktemp") < script.index("get-credentials")


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_shellcheck_has_nothing_to_say(cluster: str) -> None:
    assert SHELLCHECK is not None
    scripts = sorted((COMPILED / cluster / "bootstrap").glob("*.sh"))
    answer = subprocess.run(
        [SHELLCHECK, *map(str, scripts)], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout) == (0, "")


COMPLETIONS = Path("/usr/lib/google-cloud-sdk/data/cli/gcloud_completions.py")


@pytest.mark.skipif(not COMPLETIONS.exists(), reason="the Google Cloud SDK is not installed")
def test_the_table_of_options_agrees_with_the_installed_gcloud() -> None:
    tree = runpy.run_path(str(COMPLETIONS))["STATIC_COMPLETION_CLI_TREE"]
    everywhere = {"format", "project", "flatten", *(f[2:] for f in tree["flags"])}
    for command, flags in TABLE.items():
        node = tree
        for word in command.split():
            node = node["commands"][word]
        assert set(flags) <= everywhere | {flag[2:] for flag in node["flags"]}, command


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])),
        min_size=1,
        max_size=4,
    )
)
def test_any_argument_reaches_the_program_as_it_is(words: list[str]) -> None:
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    line = Script.quoted(sys.executable, "-c", program, *words)
    answer = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert json.loads(answer.stdout) == words


def test_what_a_user_may_say_cannot_become_code() -> None:
    """The inventory refuses it already; the quoting would hold without that."""
    assert shlex.split(Script.quoted("a", "$(touch x)`y`;z")) == ["a", "$(touch x)`y`;z"]
