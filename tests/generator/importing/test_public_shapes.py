"""Shapes in which public recipes and examples come: variables, templates, generated names, parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.main import main
from tests.generator.importing.conftest import FACTS, Imported

Bring = Callable[..., Imported]
Write = Callable[[str], Path]

RECIPE = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: "${WORKLOAD_NAME}"}
spec:
  replicatedJobs:
    - name: slice-job
      replicas: ${SLICES}
      template:
        spec:
          parallelism: 16
          completions: 16
          backoffLimit: 0
          template:
            spec:
              nodeSelector:
                cloud.google.com/gke-tpu-accelerator: tpu7x
                cloud.google.com/gke-tpu-topology: 4x4x4
              containers:
                - name: left
                  image: "${IMAGE}"
                  command: [sh, -c, "train --out ${OUT} --name ${WORKLOAD_NAME} --rank ${RANK}"]
                  resources: {limits: {google.com/tpu: 2}}
                - name: right
                  image: "${IMAGE}"
                  resources: {limits: {google.com/tpu: 2}}
"""
QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: training}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: elsewhere}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: empty}
spec: {namespaceSelector: {}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "given.yaml"
        path.write_text(text)
        return path

    return to_file


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["template"]["spec"]["template"]["spec"]
    return spec


class TestVariablesOfRecipes:
    POOL = ("--node-pool", "tpu7x=tpu7x-standard-4t:4x4x4:2")
    GIVEN = ("--set", "WORKLOAD_NAME=llama", "--set", "IMAGE=example.com/a:1", "--set", "SLICES=2")

    def test_each_that_no_shell_reads_is_asked_for(self, bring: Bring, write: Write) -> None:
        mine = bring([write(RECIPE)], *FACTS, *self.POOL)
        assert mine.answer.code == 1
        for name in ("WORKLOAD_NAME", "IMAGE", "SLICES"):
            assert f"${{{name}}} is a variable that a script fills in" in mine.answer.err
            assert f"fix: add --set {name}=VALUE" in mine.answer.err
        assert "--set RANK=VALUE" not in mine.answer.err
        assert "is not a whole number" not in mine.answer.err
        assert mine.files == []

    def test_given_ones_are_filled_in_everywhere_and_the_rest_is_named(
        self, bring: Bring, write: Write
    ) -> None:
        mine = bring([write(RECIPE)], *FACTS, *self.POOL, *self.GIVEN, "--set", "OUT=gs://b")
        assert mine.answer.code == 0, mine.answer.err
        assert "${RANK}: left to the shell in the container" in mine.answer.err
        body = mine.objects()["JobSet", "default", "llama"]
        (job,) = body["spec"]["replicatedJobs"]
        assert job["replicas"] == 2
        (left, _) = pod_of(job)["containers"]
        assert left["image"] == "example.com/a:1"
        assert left["command"][2] == "train --out gs://b --name llama --rank ${RANK}"

    def test_containers_that_share_a_nodes_chips_keep_their_shares(
        self, bring: Bring, write: Write
    ) -> None:
        """The inventory gives one container all chips; request and limit have to follow both."""
        mine = bring([write(RECIPE)], *FACTS, *self.POOL, *self.GIVEN)
        body = mine.objects()["JobSet", "default", "llama"]
        for container in pod_of(body["spec"]["replicatedJobs"][0])["containers"]:
            chips = {str(side["google.com/tpu"]) for side in container["resources"].values()}
            assert chips == {"2"}, container["name"]


def test_a_template_is_called_one(bring: Bring, write: Write) -> None:
    text = "apiVersion: v1\nkind: JobSet\nmetadata:\n  name: {{ .Values.name }}\n"
    mine = bring([write(text)], *FACTS)
    assert mine.answer.code == 1
    assert "YML001: this is a template, not YAML yet: {{ .Values.name }}" in mine.answer.err
    assert "fix: render it first, such as helm template CHART" in mine.answer.err


def test_a_key_that_stands_twice_beside_a_quoted_template_is_what_is_said(
    bring: Bring, write: Write
) -> None:
    text = 'kind: Rule\nsummary: "{{ $labels.node }} is away"\nkind: Rule\n'
    assert "stands twice" in bring([write(text)], *FACTS).answer.err


def test_a_generated_name_becomes_a_name(bring: Bring, write: Write) -> None:
    text = RECIPE.replace('name: "${WORKLOAD_NAME}"', "generateName: sleep-job-")
    mine = bring([write(text)], *FACTS, *TestVariablesOfRecipes.POOL, *TestVariablesOfRecipes.GIVEN)
    assert mine.answer.code == 0, mine.answer.err
    assert "generateName sleep-job- makes another object with every kubectl create" in (
        mine.answer.err
    )
    body = mine.objects()["JobSet", "default", "sleep-job"]
    assert "generateName" not in body["metadata"]


def test_what_objects_name_and_no_file_has_is_asked_for_at_once(bring: Bring, write: Write) -> None:
    path = write(QUEUES)
    mine = bring([path], *FACTS)
    assert mine.answer.code == 1
    for said in (
        f"{path}:6:3: error IMP004: ClusterQueue training: ResourceFlavor spot is in none of",
        f"{path}:13:8: error IMP004: LocalQueue team/lq: ClusterQueue elsewhere is in none of",
        f"{path}:18:1: error IMP004: ClusterQueue empty: it has no quotas (resourceGroups)",
    ):
        assert said in mine.answer.err
    assert mine.answer.err.count("kubectl get localqueues,clusterqueues,resourceflavors") == 2
    assert mine.files == []


def test_queues_of_a_class_need_not_be_in_the_files(
    bring: Bring, write: Write, tmp_path: Path
) -> None:
    shared = tmp_path / "mine/inventory/classes/queues.yml"
    shared.parent.mkdir(parents=True)
    flavors = {"spot": {"nodeLabels": {"cloud.google.com/gke-spot": "true"}}}
    shared.write_text(yaml.safe_dump({"parameters": {"queueing": {"flavors": flavors}}}))
    first = QUEUES.partition("---")[0]
    mine = bring([write(first)], *FACTS, "--class", "queues")
    assert mine.answer.code == 0, mine.answer.err
    assert "flavors" not in mine.target["queueing"]


@pytest.mark.parametrize(
    ("policy", "version", "refused"),
    [
        ("rules: [{name: r, action: RestartJob}]", "0.12.0", "behind an alpha feature gate"),
        ("rules: [{name: r, action: RestartJob}]", "0.11.1", "action is the string 'RestartJob'"),
        ("restartStrategy: InPlaceRestart", "0.11.1", "behind an alpha feature gate"),
    ],
)
def test_a_policy_of_newer_versions_is_judged_by_the_clusters(
    bring: Bring, write: Write, policy: str, version: str, refused: str
) -> None:
    text = RECIPE.replace("spec:\n", f"spec:\n  failurePolicy: {{maxRestarts: 3, {policy}}}\n", 1)
    facts = [version if fact == "0.11.1" else fact for fact in FACTS]
    mine = bring([write(text)], *facts, *TestVariablesOfRecipes.POOL, *TestVariablesOfRecipes.GIVEN)
    assert mine.answer.code == 1
    assert refused in mine.answer.err
    assert "IMP004" not in mine.answer.err
    made = mine.objects()["JobSet", "default", "llama"]["spec"]["failurePolicy"]
    key, _, value = policy.replace("[", "").replace("]", "").partition(": ")
    assert key in made
    assert value.rstrip("}").split()[-1] in str(made[key])


def test_mounts_of_volume_claim_policies_come_back(bring: Bring, write: Write) -> None:
    text = RECIPE.replace(
        "  replicatedJobs:",
        "  volumeClaimPolicies:\n"
        "    - templates:\n"
        "        - metadata: {name: model}\n"
        "          spec:\n"
        "            accessModes: [ReadWriteOnce]\n"
        "            resources: {requests: {storage: 1Gi}}\n"
        "  replicatedJobs:",
    )
    text = text.replace(
        '                  command: [sh', "                  volumeMounts: [{name: model, mountPath: /model}]\n"
        "                  command: [sh",
    )  # fmt: skip
    mine = bring([write(text)], *FACTS, *TestVariablesOfRecipes.POOL, *TestVariablesOfRecipes.GIVEN)
    assert mine.answer.code == 0, mine.answer.err
    body = mine.objects()["JobSet", "default", "llama"]
    (claim,) = body["spec"]["volumeClaimPolicies"]
    assert claim["templates"][0]["metadata"]["name"] == "model"
    left = pod_of(body["spec"]["replicatedJobs"][0])["containers"][0]
    assert left["volumeMounts"] == [{"name": "model", "mountPath": "/model"}]
    assert main(["compile", "-q", "-C", str(mine.root)]) == 0


def test_a_head_and_workers_keep_one_container_each(bring: Bring, write: Write) -> None:
    """Several jobs have one framework, so that compile names all containers alike."""
    head = """\
    - name: head
      template:
        spec:
          backoffLimit: 0
          template:
            spec:
              initContainers: [{name: proxy, image: "example.com/p:1", restartPolicy: Always}]
              containers: [{name: workload, image: "example.com/h:1"}]
"""
    text = RECIPE.replace("  replicatedJobs:\n", f"  replicatedJobs:\n{head}")
    mine = bring([write(text)], *FACTS, *TestVariablesOfRecipes.POOL, *TestVariablesOfRecipes.GIVEN)
    assert mine.answer.code == 0, mine.answer.err
    jobs = mine.objects()["JobSet", "default", "llama"]["spec"]["replicatedJobs"]
    names = [[c["name"] for c in pod_of(job)["containers"]] for job in jobs]
    assert names == [["main"], ["main", "right"]]
    assert [c["name"] for c in pod_of(jobs[0])["initContainers"]] == ["proxy"]


def test_a_queued_job_without_a_priority_is_asked_for_one(bring: Bring, write: Write) -> None:
    ladder = (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 9\n"
    )
    queues = QUEUES.replace("elsewhere", "training").partition("---\n")[2].partition("---\n")[0]
    job = RECIPE.replace(
        '"${WORKLOAD_NAME}"', "llama, namespace: team, labels: {kueue.x-k8s.io/queue-name: lq}"
    )
    flavor = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: spot}\n"
    parts = [QUEUES.partition("---")[0], queues, flavor, ladder, job]
    mine = bring(
        [write("---\n".join(parts))],
        *FACTS,
        *TestVariablesOfRecipes.POOL,
        *TestVariablesOfRecipes.GIVEN,
    )
    assert mine.answer.code == 1
    assert "IMP004: JobSet team/llama: it has a queue but no priority" in mine.answer.err
    assert "fix: write priorityClassName in its pods: high" in mine.answer.err
