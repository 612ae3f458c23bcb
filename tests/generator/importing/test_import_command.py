"""The command: what has to be given, what is refused, what is left out and said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from generator.cli.main import main
from tests.conftest import REPOSITORY
from tests.generator.importing.conftest import DOCUMENTS, FACTS, HERE, Imported

Bring = Callable[..., Imported]

JOB = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team}
spec:
  failurePolicy: {maxRestarts: 10, restartStrategy: BlockingRecreate}
  replicatedJobs:
    - name: slice
      template:
        spec:
          parallelism: 4
          completions: 4
          backoffLimit: 0
          template:
            spec:
              nodeSelector:
                cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice
                cloud.google.com/gke-tpu-topology: 4x4
              containers:
                - name: jax-tpu
                  image: example.com/train:1
                  resources: {limits: {google.com/tpu: 4, memory: 100Gi}}
"""
POOL = ("--node-pool", "v6e=ct6e-standard-4t:4x4:2")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a manifest to a file."""

    def to_file(text: str, name: str = "given.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return to_file


Write = Callable[..., Path]


class TestWhatIsMissing:
    def test_every_value_that_no_manifest_holds_is_asked_for_at_once(
        self, bring: Bring, write: Write
    ) -> None:
        mine = bring([write(JOB)])
        assert mine.answer.code == 1
        for option in (
            "--project ID", "--project-number NUMBER", "--location REGION", "--gke-version VERSION",
            "--kueue-version VERSION", "--jobset-version VERSION",
            "--node-pool v6e=ct6e-standard-4t:4x4:SLICES",
        ):  # fmt: skip
            assert f"fix: add {option}" in mine.answer.err
        assert mine.answer.err.endswith("7 errors; nothing was written\n")
        assert not mine.root.exists()

    def test_with_them_it_is_written(self, bring: Bring, write: Write) -> None:
        mine = bring([write(JOB)], *FACTS, *POOL)
        assert mine.answer.code == 0
        assert mine.target["nodePools"] == {
            "v6e": {"machineType": "ct6e-standard-4t", "topology": "4x4", "slices": 2}
        }
        assert mine.target["workloads"]["train"]["slices"] == 1

    def test_placeholders_are_named_with_their_places(self, bring: Bring) -> None:
        mine = bring([DOCUMENTS / "hotswap.yaml"], *FACTS, *POOL)
        assert mine.answer.code == 1
        assert "hotswap.yaml:45:15: error IMP004" in mine.answer.err
        assert "add --set OUTPUT_BUCKET=VALUE" in mine.answer.err

    def test_a_queue_that_is_in_no_file(self, bring: Bring, write: Write) -> None:
        labelled = JOB.replace("team}", "team, labels: {kueue.x-k8s.io/queue-name: tpus}}")
        mine = bring([write(labelled)], *FACTS, *POOL)
        assert mine.answer.code == 1
        assert "LocalQueue team/tpus is in none of the files" in mine.answer.err

    def test_a_priority_class_that_is_in_no_file_can_be_given(
        self, bring: Bring, write: Write
    ) -> None:
        text = JOB.replace("              containers:", "              priorityClassName: high\n"
                           "              containers:", 1)  # fmt: skip
        mine = bring([write(text)], *FACTS, *POOL)
        assert "add its file, or --priority-class high=VALUE" in mine.answer.err
        mine = bring([write(text)], *FACTS, *POOL, "--priority-class", "high=750")
        assert mine.answer.code == 0
        assert mine.target["priorities"] == {"high": {"value": 750}}
        assert mine.target["workloads"]["train"]["priority"] == "high"

    def test_a_machine_that_two_types_could_be(self, bring: Bring, write: Write) -> None:
        text = JOB.replace("4x4", "2x4").replace(
            "google.com/tpu: 4, memory: 100Gi", "memory: 100Gi"
        )
        mine = bring([write(text)], *FACTS)
        assert "tpu-v6e-slice 2x4 is not to be known: ct6e-standard-4t, ct6e-standard-8t" in (
            mine.answer.err
        )

    def test_a_quota_that_is_no_whole_number_of_slices(self, bring: Bring, write: Write) -> None:
        queues = (
            (DOCUMENTS / "kueue.yaml").read_text().replace("nominalQuota: 32", "nominalQuota: 30")
        )
        mine = bring([write(JOB), write(queues, "queues.yaml")], *FACTS)
        assert "the quotas (30 in tpu-training-cq) are no whole number of 16" in mine.answer.err

    def test_a_ram_disk_without_a_unit_is_not_guessed(self, bring: Bring, write: Write) -> None:
        text = (
            "apiVersion: checkpointing.gke.io/v1\nkind: CheckpointConfiguration\n"
            "metadata: {name: v6e-configuration}\nspec:\n  cloudStorageBucketName: acme\n"
            "  nodeSelector: {node.kubernetes.io/instance-type: ct6e-standard-4t}\n"
            '  inMemoryVolumeSize: "200000"\n'
        )
        options = (
            *FACTS,
            *POOL,
            "--hierarchical-namespace",
            "yes",
            "--backup-interval-minutes",
            "30",
        )
        mine = bring([write(text)], *options)
        assert "given.yaml:7:3: error IMP004" in mine.answer.err
        assert "add --ram-disk v6e=SIZE" in mine.answer.err
        mine = bring([write(text)], *options, "--ram-disk", "v6e=200Gi")
        assert mine.answer.code == 0
        assert mine.target["checkpointing"]["v6e"]["inMemoryVolumeSize"] == "200Gi"

    def test_a_given_checkpoint_size_lets_the_ram_disk_be_derived(
        self, bring: Bring, write: Write
    ) -> None:
        text = (DOCUMENTS / "checkpoint.yaml").read_text()
        for word, value in (
            ("MTC_CONFIG_NAME", "v6e"), ("GCS_BUCKET", "acme"), ("TOLERATION_KEY", "google.com/tpu"),
            ("MACHINE_TYPE", "ct6e-standard-4t"), ("IN_MEMORY_VOLUME_SIZE", "141Gi"),
        ):  # fmt: skip
            text = text.replace(word, value)
        mine = bring(
            [write(text)], *FACTS, *POOL, "--hierarchical-namespace", "yes",
            "--backup-interval-minutes", "30", "--local-checkpoint-size", "v6e=64Gi",
        )  # fmt: skip
        entry = mine.target["checkpointing"]["v6e"]
        assert entry["localCheckpointSize"] == "64Gi"
        assert "inMemoryVolumeSize" not in entry

    def test_a_configuration_for_any_node_is_narrowed_where_one_machine_type_can_be_meant(
        self, bring: Bring, write: Write
    ) -> None:
        """As Cluster Toolkit's template writes it: namespaced, no selector, no tolerations."""
        text = (
            "apiVersion: checkpointing.gke.io/v1\nkind: CheckpointConfiguration\n"
            "metadata: {name: default, namespace: default}\n"
            "spec: {cloudStorageBucketName: acme, inMemoryVolumeSize: 64Gi}\n"
        )
        options = (
            *FACTS, "--hierarchical-namespace", "yes", "--backup-interval-minutes", "30"
        )  # fmt: skip
        mine = bring([write(text)], *options)
        assert "it would serve nodes of any kind" in mine.answer.err
        mine = bring([write(text)], *options, *POOL)
        assert mine.answer.code == 0
        assert "written for ct6e-standard-4t" in mine.answer.err
        assert "is cluster-scoped; its namespace is left out" in mine.answer.err
        (made,) = mine.objects().values()
        assert made["spec"]["tolerations"] == [
            {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
        ]

    def test_an_option_that_is_wrong_is_named(self, bring: Bring, write: Write) -> None:
        facts = [word.replace("us-east5", "here").replace("acme-training", "x") for word in FACTS]
        mine = bring([write(JOB)], *facts, "--node-pool", "v6e=ct6e-standard-4t:5x5:2")
        assert mine.answer.code == 1
        assert "error INV010: --project: 'x' is no project id" in mine.answer.err
        assert "error INV010: --location: 'here' is no region or zone" in mine.answer.err


class TestWhatIsRefused:
    def test_existing_files_are_not_overwritten(self, bring: Bring, write: Write) -> None:
        first = bring([write(JOB)], *FACTS, *POOL)
        target = first.root / "inventory/targets/demo.yml"
        before = target.read_bytes()
        again = bring([write(JOB.replace("train:1", "train:2"))], *FACTS, *POOL)
        assert again.answer.code == 2
        assert "targets/demo.yml exists already" in again.answer.err
        assert target.read_bytes() == before

    def test_a_dry_run_writes_nothing(self, bring: Bring, write: Write) -> None:
        mine = bring([write(JOB)], *FACTS, *POOL, "--dry-run")
        assert mine.answer.code == 0
        assert "# inventory/targets/demo.yml\n" in mine.answer.out
        assert not mine.root.exists()

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--node-pool", "v6e"), "is not NAME=MACHINE:TOPOLOGY:SLICES"),
            (("--node-pool", "v6e=ct6e-standard-4t:4x4:0"), "is not NAME=MACHINE:TOPOLOGY:SLICES"),
            (("--set", "IMAGE"), "'IMAGE' is not NAME=VALUE, for --set"),
            (("--priority-class", "high=top"), "'top' is no whole number, for --priority-class"),
            (("--checkpoint-period", "0"), "--checkpoint-period 0 is less than 1"),
        ],
    )
    def test_options_that_mean_nothing(
        self, bring: Bring, write: Write, options: tuple[str, ...], said: str
    ) -> None:
        mine = bring([write(JOB)], *FACTS, *options)
        assert mine.answer.code == 2
        assert said in mine.answer.err
        assert not mine.root.exists()

    def test_a_cluster_name_that_is_none(self, bring: Bring, write: Write) -> None:
        mine = bring([write(JOB)], *FACTS, *POOL, cluster="../x")
        assert mine.answer.code == 2
        assert "--cluster '../x' must be lower-case letters" in mine.answer.err

    def test_a_folder_that_is_no_inventory(
        self, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["import", str(write(JOB)), "--cluster", "a", "-o", str(tmp_path / "x")]) == 2
        assert "an inventory is a folder of the name inventory" in capsys.readouterr().err

    def test_files_that_do_not_exist(self, bring: Bring, tmp_path: Path) -> None:
        mine = bring([tmp_path / "none.yaml"], *FACTS)
        assert mine.answer.code == 2
        assert "there is no file or folder" in mine.answer.err

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a: [1, 2\n", "YML001"),
            ("- just\n- a list\n", "SCH001"),
            ("kind: JobSet\nmetadata: {name: x}\n", "without apiVersion, kind or name"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "no object of a training fleet"),
            (JOB.replace("parallelism: 4", "parallelism: four"), "SCH003"),
            (JOB.replace("image: example.com/train:1", "image: [x]"), "SCH003"),
            (JOB + "---\n" + JOB.replace("train:1", "train:2"), "another one of this name is at"),
            (JOB.replace("4x4", "3x3"), "is not to be known: none of the catalog"),
        ],
    )
    def test_manifests_that_cannot_be_read(
        self, bring: Bring, write: Write, text: str, said: str
    ) -> None:
        mine = bring([write(text)], *FACTS)
        assert mine.answer.code == 1
        assert said in mine.answer.err
        assert not mine.root.exists()

    def test_two_clusters_at_once(self, bring: Bring) -> None:
        mine = bring([REPOSITORY / "compiled"])
        assert mine.answer.code == 1
        assert "the files are of several clusters: gpu-h100-prod, shared-dev" in mine.answer.err

    def test_a_job_larger_than_its_pool_is_said_with_its_place(
        self, bring: Bring, write: Write
    ) -> None:
        text = JOB.replace("    - name: slice\n", "    - name: slice\n      replicas: 5\n")
        mine = bring([write(text)], *FACTS, *POOL)
        assert mine.answer.code == 1
        assert "given.yaml:1:1: error INV068: JobSet team/train: asks for 5 slices" in (
            mine.answer.err
        )
        assert not mine.root.exists()


class TestWhatIsLeftOut:
    def test_secrets_never_reach_the_inventory(self, bring: Bring) -> None:
        mine = bring(
            [HERE / "xpk/cluster.yaml"], *FACTS, "--hierarchical-namespace", "yes",
            "--backup-interval-minutes", "30", "--node-pool", "v6e=ct6e-standard-4t:4x4:2",
        )  # fmt: skip
        assert mine.answer.code == 0
        assert "Secret default/hugging-face: left out" in mine.answer.err
        written = "".join((mine.root / path).read_text() for path in mine.files)
        assert "bm90IGEgc2VjcmV0" not in written + mine.answer.err
        assert "team-notes" in written

    def test_what_controllers_made_is_left_to_them(self, bring: Bring, write: Write) -> None:
        made = (
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: train-slice-0\n"
            "  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train}]\n"
            "spec: {template: {spec: {containers: []}}}\n"
        )
        mine = bring([write(JOB + "---\n" + made)], *FACTS, *POOL)
        assert mine.answer.code == 0
        assert "Job train-slice-0: left out: JobSet train makes it" in mine.answer.err
        assert mine.files == ["inventory/targets/demo.yml"]

    def test_a_suspended_job_without_a_queue_is_warned_of(self, bring: Bring, write: Write) -> None:
        mine = bring(
            [write(JOB.replace("spec:\n  f", "spec:\n  suspend: true\n  f", 1))], *FACTS, *POOL
        )
        assert "given.yaml:5:3: warning IMP001: JobSet team/train: spec.suspend is left out" in (
            mine.answer.err
        )

    def test_what_compile_adds_is_listed(self, bring: Bring, write: Write) -> None:
        answer = bring([write(JOB)], *FACTS, *POOL).answer
        assert "pod automountServiceAccountToken: false" in answer.err
        assert "compile makes as well: Namespace team" in answer.err
        assert "in a cluster it is a new object" in answer.err

    def test_what_is_true_of_many_objects_is_said_once(self, bring: Bring, write: Write) -> None:
        many = "---\n".join(
            JOB.replace("name: train,", f"name: train-{n}, uid: u{n},") for n in range(6)
        )
        answer = bring([write(many)], *FACTS, *POOL).answer
        assert answer.code == 0
        said = [line for line in answer.err.splitlines() if "metadata.uid" in line]
        assert len(said) == 1
        assert said[0].endswith("(and the same of 5 more objects)")
        assert answer.err.count("in a cluster it is a new object") == 1


class TestTheFileThatIsWritten:
    def test_it_says_where_each_entry_came_from(self, bring: Bring, write: Write) -> None:
        path = write(JOB)
        mine = bring([path], *FACTS, *POOL)
        text = (mine.root / "inventory/targets/demo.yml").read_text()
        assert text.startswith(f"# Imported by stowplan import from {path} (1 object).\n")
        assert f"    # JobSet team/train, {path}:1\n    train:\n      framework: jax\n" in text
        assert "{" not in text.replace("{}", "")

    def test_what_classes_say_has_not_to_be_given(
        self, bring: Bring, write: Write, tmp_path: Path
    ) -> None:
        shared = tmp_path / "mine/inventory/classes/common.yml"
        shared.parent.mkdir(parents=True)
        shared.write_text(
            "parameters:\n"
            "  cluster:\n"
            "    environment: prod\n"
            "    project: {id: acme-training, number: '123456789012'}\n"
            "    versions: {kueue: 0.19.2, jobset: 0.12.0}\n"
            "  priorities: {high: {value: 750}}\n"
            "  nodePools:\n"
            "    shared: {machineType: ct6e-standard-4t, topology: 4x4, slices: 2}\n"
        )
        text = JOB.replace("              containers:", "              priorityClassName: high\n"
                           "              containers:", 1)  # fmt: skip
        mine = bring([write(text)], "--class", "common")
        assert "2 errors; nothing was written" in mine.answer.err
        mine = bring(
            [write(text)], "--class", "common", "--location", "us-east5",
            "--gke-version", "1.33.4-gke.1245000",
        )  # fmt: skip
        assert mine.answer.code == 0
        assert list(mine.target) == ["cluster", "workloads"]
        assert list(mine.target["cluster"]) == ["name", "location", "gkeVersion"]
        assert mine.target["workloads"]["train"]["nodePool"] == "shared"
        assert main(["compile", "-q", "-C", str(mine.root)]) == 0
        facts = yaml.safe_load((mine.root / "compiled/demo/cluster.yaml").read_text())
        assert facts["metadata"]["labels"]["environment"] == "prod"

    def test_a_class_that_is_not_there(self, bring: Bring, write: Write) -> None:
        mine = bring([write(JOB)], *FACTS, *POOL, "--class", "comon")
        assert mine.answer.code == 1
        assert "comon" in mine.answer.err
        assert not mine.root.exists()

    def test_standard_input_is_read(self, bring: Bring, monkeypatch: pytest.MonkeyPatch) -> None:
        import io
        import sys

        class Piped:
            buffer = io.BytesIO(JOB.encode())

        monkeypatch.setattr(sys, "stdin", Piped())
        mine = bring(["-"], *FACTS, *POOL)
        assert mine.answer.code == 0
        assert "from standard input" in (mine.root / "inventory/targets/demo.yml").read_text()
