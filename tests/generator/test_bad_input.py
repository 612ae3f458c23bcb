"""Every wrong input is answered with its place, the fault and the remedy; nothing is written."""

from __future__ import annotations

import re

import pytest

from schemas.inventory import Parameters
from tests.conftest import REPOSITORY, Fleet

DOCS = "targets/tpu-v6e-docs.yml"
V6E = "classes/pools/v6e-4x4.yml"
COMMON = "classes/common.yml"
JOBS = "classes/trillium-job.yml"
MODEL = "      model:\n        parameters: 7e9\n        bytesPerParameter: 12\n        nodesPerReplica: 4"

# (what is wrong, file, text, its replacement, the place named, what the answer says)
EDITS = [
    ("key of a section", DOCS, "nodePools:", "nodePool:", f"{DOCS}:19:3", ["nodePool", "write nodePools"]),
    ("key in a class", V6E, "machineType", "machinetype", f"{V6E}:8:7", ["write machineType"]),
    ("key deep inside", DOCS, "periodSteps: 100", "periodStep: 100", f"{DOCS}:49:9", ["write periodSteps"]),
    ("key at the top", DOCS, "parameters:", "paramters:", f"{DOCS}:11:1", ["write parameters"]),
    ("unit GiB", DOCS, MODEL, "      inMemoryVolumeSize: 200GiB", f"{DOCS}:24:27", ["write 200Gi"]),
    ("space before unit", DOCS, MODEL, "      inMemoryVolumeSize: 200 Gi", f"{DOCS}:24:27", ["write 200Gi"]),
    ("no unit, number", DOCS, MODEL, "      inMemoryVolumeSize: 200000", f"{DOCS}:24:27", ["no unit", "200000 bytes"]),
    ("no unit, text", DOCS, MODEL, '      localCheckpointSize: "200000"', f"{DOCS}:24:28", ["no unit"]),
    ("fraction of a RAM disk", DOCS, MODEL, "      inMemoryVolumeSize: 1.5Gi", f"{DOCS}:24:27", ["whole number"]),
    ("duplicate key", DOCS, "  nodePools:\n", "  nodePools: {}\n  nodePools:\n", f"{DOCS}:20:3", ["'nodePools' stands twice"]),
    ("missing class", DOCS, "- priorities", "- priorites", f"{DOCS}:8:5", ["did you mean priorities?"]),
    ("missing class in a class", V6E, "- checkpointing.base", "- checkpointing.bas", f"{V6E}:4:5", ["did you mean checkpointing.base?"]),
    ("class loop", "classes/priorities.yml", "parameters:", "classes: [priorities]\nparameters:", "classes/priorities.yml:3:11", ["priorities → priorities"]),
    ("unresolved reference", V6E, "${vars:bucket}", "${vars:buckt}", f"{V6E}:16:15", ["did you mean ${vars:bucket}?"]),
    ("circular reference", COMMON, "bucket: acme-training-checkpoints", "bucket: ${vars:other}\n    other: ${vars:bucket}", f"{COMMON}:1", ["circle", "vars:bucket"]),
    ("reference that does not end", COMMON, "name: ${_reclass_:name:short}", "name: ${_reclass_:name:short", f"{COMMON}:7:11", ["no whole reference"]),
    ("unknown key of reclass' own", COMMON, "${_reclass_:name:short}", "${_reclass_:name:shrt}", f"{COMMON}:7:11", ["did you mean ${_reclass_:name:short}?"]),
    ("section that a class empties", "classes/env/dev.yml", "    environment: dev\n", "", f"{COMMON}:7:11", ["cluster has no keys at inventory/classes/env/dev.yml:4:3"]),
    ("text for a list of classes", "classes/teams/dev-jobs.yml", "  - teams.foundation", "  teams.foundation", "classes/teams/dev-jobs.yml:4:3", ["classes is not a list"]),
    ("alias of nothing", DOCS, "kueue: 0.17.0", "kueue: *x", f"{DOCS}:17:14", ["alias", "quote it"]),
    ("text for a mapping", "classes/priorities.yml", "  priorities:\n", "  priorities:\n    urgent: 5\n", "classes/priorities.yml:5:13", ["expected a mapping", "keys below it"]),
    ("YAML syntax", DOCS, "versions:", "versions: [", f"{DOCS}:18:13", ["expected ',' or ']'"]),
    ("tab", DOCS, "      kueue: 0.17.0", "\tkueue: 0.17.0", f"{DOCS}:17:1", ["a tab", "spaces"]),
    ("tag", DOCS, "kueue: 0.17.0", "kueue: !foo 0.17.0", f"{DOCS}:17:14", ["YAML tag"]),
    ("on for true", "classes/priorities.yml", "value: 1000000", "value: 1000000\n      globalDefault: on", "classes/priorities.yml:7:22", ["'on'", "write true"]),
    ("octal number", "classes/priorities.yml", "value: 1000000", "value: 010", "classes/priorities.yml:6:14", ["'010'", "whole number"]),
    ("number for text", "classes/teams/research.yml", "NCCL_DEBUG: WARN", "NCCL_DEBUG: 1", "classes/teams/research.yml", ['quote it: "1"']),
    ("float version", DOCS, "kueue: 0.17.0", "kueue: 0.17", f"{DOCS}:17:14", ["0.17.0"]),
    ("unknown Kueue", DOCS, "kueue: 0.17.0", "kueue: 0.7.1", f"{DOCS}:17:14", ["0.19.2"]),
    ("both backup intervals", "classes/checkpointing/base.yml", "intervalMinutes: ${vars:backupMinutes}", "intervalMinutes: 30\n      intervalSteps: 5", "classes/checkpointing/base.yml:11:7", ["both given", "not both"]),
    ("topology of another machine", V6E, "topology: 4x4", "topology: 4x4x4", f"{V6E}:9:17", ["no topology of ct6e-standard-4t", "4x4, 4x8"]),
    ("quota above capacity", DOCS, "tpu-v6e-slice: {}", "tpu-v6e-slice: {resources: {google.com/tpu: 128}}", f"{DOCS}:32:55", ["128", "has 64"]),
    ("gs:// in a bucket", COMMON, "bucket: acme-training-checkpoints", "bucket: gs://acme-training/x", f"{COMMON}:17:13", ["without gs://", "'acme-training'"]),
    ("impossible bucket", COMMON, "bucket: acme-training-checkpoints", "bucket: Acme_Training", f"{COMMON}:17:13", ["lower-case", "write one such as acme-training"]),
    ("placeholder bucket", COMMON, "bucket: acme-training-checkpoints", "bucket: GCS_BUCKET", f"{COMMON}:17:13", ["placeholder"]),
    ("placeholder image", JOBS, "image: ${vars:registry}/maxtext:2026-11-12", "image: <IMAGE LOCATION>", f"{JOBS}:13:14", ["'<IMAGE LOCATION>'", "placeholder"]),
    ("placeholder argument", DOCS, "gs://acme-training-output", "gs://<OUTPUT BUCKET>", f"{DOCS}:43:11", ["'<OUTPUT BUCKET>'", "placeholder"]),
    ("placeholder project", COMMON, "id: acme-training", "id: PROJECT_ID", f"{COMMON}:9:11", ["placeholder"]),
    ("cluster name of another", DOCS, "    location: us-east5", "    ~name: tpu-v5p-prod\n    location: us-east5", f"{DOCS}:13:12", ["tpu-v5p-prod"]),
    ("Autopilot", COMMON, "mode: standard", "mode: autopilot", f"{COMMON}:11:11", ["Autopilot", "Standard cluster"]),
    ("a machine of the documents only", V6E, "ct6e-standard-4t", "ct5e-hightpu-4t", f"{V6E}:8:20", ["ct5lp-hightpu-4t"]),
    ("old GKE", DOCS, "1.33.4-gke.1245000", "1.32.3-gke.1170000", f"{DOCS}:15:17", ["too old", "1.32.4-gke.1415000"]),
    ("list for mapping", DOCS, "  nodePools:\n    v6e:\n      slices: 4", "  nodePools: 5", f"{DOCS}:19:3", ["a single value here", "a mapping at"]),
    ("pod and RAM disk over the node", JOBS, "memory: 400Gi", "memory: 700Gi", f"{JOBS}:17:17", ["44Gi + pod 700Gi = 744Gi", "698.7Gi"]),
    ("RAM disk too small", DOCS, MODEL, MODEL + "\n      inMemoryVolumeSize: 40Gi", f"{DOCS}:28:27", ["2.04 times", "at least 44Gi"]),
    ("unknown queue", JOBS, "queue: default-queue", "queue: defualt-queue", f"{JOBS}:12:14", ["did you mean default-queue?"]),
    ("reserved priority", "classes/priorities.yml", "value: 2000000", "value: 2000000000", "classes/priorities.yml:9:14", ["reserved"]),
    ("peer-ranks of replicator.yaml", V6E, "nodePool: v6e\n      backup", "nodePool: v6e\n      peer-ranks: [1]\n      peers-per-node: 2\n      backup", f"{V6E}:20:7", ["unknown key 'peer-ranks'", "unknown key 'peers-per-node'", "write peers:"]),
    ("key of a manifest", JOBS, "queue: default-queue", "queueName: default-queue", f"{JOBS}:12:7", ["write queue:"]),
    ("suspend", JOBS, "slices: 2", "slices: 2\n      suspend: true", f"{JOBS}:12:7", ["Kueue owns it"]),
    ("more slices than there are", JOBS, "slices: 2", "slices: 5", f"{JOBS}:11:15", ["5 slices", "has 4"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "place", "says"),
    [case[1:] for case in EDITS],
    ids=[case[0] for case in EDITS],
)
def test_a_wrong_value_is_named_with_its_place_and_remedy(
    fleet: Fleet, file: str, old: str, new: str, place: str, says: list[str]
) -> None:
    fleet.edit(file, old, new)
    answer = fleet.compile()
    assert answer.code == 1
    assert f"inventory/{place}" in answer.err
    for part in says:
        assert part in answer.err
    assert "Traceback" not in answer.err
    assert re.search(r"^\d+ errors? .*nothing was written$", answer.err, re.MULTILINE)
    assert not (fleet.root / "compiled").exists()


def bomb() -> str:
    levels = "".join(
        f"    {chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n"
        for n in range(8)
    )
    return "parameters:\n  vars:\n    a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + levels


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", ["the file is empty"]),
        ("   \n\n", ["the file is empty"]),
        (bomb(), ["aliases expand"]),
        ("parameters:\n  vars:\n    a: " + "x" * 10_000_000, ["10,000,0", "at most"]),
        (b'parameters:\n  vars: {a: "\xe9"}\n', [":2:14", "not UTF-8"]),
        ("parameters: {a: \x01}\n", [":1", "control character"]),
        ("- a\n- b\n", ["mapping with classes: and parameters:"]),
        ("classes: common\n", [":1:10", "classes is not a list"]),
        ("parameters: 7\n", [":1:13", "parameters is not a mapping"]),
        ("parameters: {}\n---\nparameters: {}\n", ["more than one"]),
        ("parameters: " + "[" * 3000 + "\n", ["nested too deeply"]),
    ],
    ids="empty blank bomb large latin1 control list classes parameters documents deep".split(),
)
def test_a_file_that_cannot_be_an_inventory_file_is_refused(
    fleet: Fleet, data: str | bytes, says: list[str]
) -> None:
    fleet.write("targets/broken.yml", data)
    answer = fleet.compile()
    assert answer.code == 1
    assert "inventory/targets/broken.yml" in answer.err
    for part in says:
        assert part in answer.err
    assert "1 error in 1 of 6 clusters; nothing was written" in answer.err


@pytest.mark.parametrize("change", ["byte-order mark", "CRLF"])
def test_a_byte_order_mark_and_crlf_change_nothing(fleet: Fleet, change: str) -> None:
    assert fleet.compile().code == 0
    before = fleet.compiled
    path = fleet.root / "inventory" / DOCS
    data = path.read_bytes()
    path.write_bytes(
        b"\xef\xbb\xbf" + data if change == "byte-order mark" else data.replace(b"\n", b"\r\n")
    )
    assert fleet.compile().code == 0
    assert fleet.compiled == before


def test_words_that_yaml_readers_disagree_on_stay_the_text_that_they_are(fleet: Fleet) -> None:
    fleet.edit("classes/teams/foundation.yml", "team: foundation", "team: y\n          code: '010'")
    assert fleet.compile("-t", "tpu-v5p-prod").code == 0
    namespace = fleet.compiled["tpu-v5p-prod/queueing/namespace-foundation.yaml"].decode()
    assert '    team: "y"\n' in namespace
    assert '    code: "010"\n' in namespace


def test_anchors_within_bounds_are_fine(fleet: Fleet) -> None:
    fleet.edit(DOCS, "  nodePools:", "  vars:\n    x: &x [1, 2]\n    y: [*x, *x]\n  nodePools:")
    assert fleet.compile("-t", "tpu-v6e-docs").code == 0


def test_a_loop_over_several_classes_names_every_step(fleet: Fleet) -> None:
    fleet.edit("classes/env/dev.yml", "parameters:", "classes: [priorities]\nparameters:")
    fleet.edit("classes/priorities.yml", "parameters:", "classes: [env.dev]\nparameters:")
    answer = fleet.compile()
    assert "env.dev → priorities → env.dev" in answer.err


def test_two_files_of_one_cluster_are_refused(fleet: Fleet) -> None:
    fleet.write("targets/more/tpu-v6e-docs.yml", "parameters: {}\n")
    answer = fleet.compile()
    assert answer.code == 2
    assert "cluster 'tpu-v6e-docs' stands in two files" in answer.err


def test_a_name_that_breaks_only_with_the_pod_suffix_says_how_long_it_may_be(fleet: Fleet) -> None:
    # <name>-<hash 8>-slice-1-3-abcde: 25 characters behind the name, 63 in all
    for length, code in ((38, 0), (39, 1)):
        name = "high-jax-trillium" + "x" * (length - 17)
        for file in (DOCS, JOBS):
            text = (REPOSITORY / "inventory" / file).read_text()
            fleet.write(file, text.replace("high-jax-trillium", name))
        answer = fleet.compile("-t", "tpu-v6e-docs")
        assert answer.code == code
        if code:
            assert "64 characters, at most 63" in answer.err
            assert "shorten the workload's name to 38 characters" in answer.err


def test_all_errors_of_all_clusters_come_at_once_and_sorted(fleet: Fleet) -> None:
    fleet.edit(V6E, "machineType", "machinetype")
    fleet.edit("targets/tpu-v5p-prod.yml", "slices: 4", "slices: 0")
    fleet.edit("targets/gpu-h100-prod.yml", "queue: gpus", "queue: gpu")
    answer = fleet.compile()
    clusters = re.findall(r"^\[([^\]]+)\]", answer.err, re.MULTILINE)
    assert clusters == ["gpu-h100-prod", "tpu-v5p-prod", "tpu-v6e-docs"]
    assert "3 errors in 3 of 5 clusters" in answer.err


def test_an_error_that_clusters_share_is_shown_once(fleet: Fleet) -> None:
    fleet.edit(COMMON, "mode: standard", "mode: autopilot")
    answer = fleet.compile()
    assert answer.err.count("Autopilot") == 1
    assert "[gpu-h100-prod and 4 more]" in answer.err


def test_the_place_is_that_of_the_value_behind_a_reference(fleet: Fleet) -> None:
    fleet.edit(COMMON, "bucket: acme-training-checkpoints", "bucket: A")
    answer = fleet.compile("-t", "tpu-v6e-docs")
    assert "inventory/classes/common.yml:17:13" in answer.err
    assert "through ${vars:bucket} at inventory/classes/pools/v6e-4x4.yml:16:15" in answer.err


def test_keep_going_writes_the_good_clusters_only(fleet: Fleet) -> None:
    fleet.edit(DOCS, "kueue: 0.17.0", "kueue: 0.1.0")
    answer = fleet.compile("--keep-going")
    assert answer.code == 1
    assert "other clusters were written" in answer.err
    written = {path.split("/")[0] for path in fleet.compiled}
    assert written == {"gpu-h100-prod", "shared-dev", "tpu-ironwood-prod", "tpu-v5p-prod"}


def test_an_error_leaves_what_was_compiled_before_as_it_was(fleet: Fleet) -> None:
    assert fleet.compile().code == 0
    before = fleet.compiled
    fleet.edit(DOCS, "slices: 4", "slices: four")
    fleet.edit("targets/tpu-v5p-prod.yml", "slices: 3", "slices: 2")
    assert fleet.compile().code == 1
    assert fleet.compiled == before


def test_a_folder_without_inventory_says_what_to_do(fleet: Fleet) -> None:
    (fleet.root / "inventory" / "targets").rename(fleet.root / "elsewhere")
    answer = fleet.compile()
    assert answer.code == 2
    assert "there is no inventory/targets here" in answer.err
    assert "stowplan init" in answer.err


def test_a_pattern_that_matches_no_cluster_lists_the_clusters(fleet: Fleet) -> None:
    answer = fleet.compile("-t", "tpu-v6e-dcos")
    assert answer.code == 2
    assert "no cluster matches 'tpu-v6e-dcos'" in answer.err
    assert "tpu-v6e-docs" in answer.err


GPU, DEV, JOB = "targets/gpu-h100-prod.yml", "targets/shared-dev.yml", JOBS

# (rule, file, text, its replacement): one fault for each rule that no other test provokes.
FAULTS = [
    ("INV012", DOCS, "    gkeVersion: 1.33.4-gke.1245000\n", ""),
    ("INV015", DOCS, "parameters: 7e9", "parameters: .inf"),
    ("INV025", GPU, "      nodes: 16", "      slices: 16"),
    ("INV025", GPU, "      nodes: 16\n", ""),
    ("INV025", DOCS, "      slices: 4", "      nodes: 16"),
    ("INV025", V6E, "      topology: 4x4\n", ""),
    (
        "INV031",
        DEV,
        "      nodePool: v5e\n      localCheckpointSize",
        "      nodePool: cpu\n      localCheckpointSize",
    ),
    (
        "INV040",
        "classes/priorities.yml",
        "    low-priority-job:",
        "    system-low: {value: 1}\n    low-priority-job:",
    ),
    (
        "INV048",
        DEV,
        "      cpu:\n        nodePool: cpu\n        topology: pools",
        "      cpu:\n        nodeLabels: {a: b}",
    ),
    ("INV061", DOCS, "      priority: low-priority-job\n", ""),
    ("INV062", JOB, "      image: ${vars:registry}/maxtext:2026-11-12\n", ""),
    ("INV063", JOB, "      nodePool: v6e\n", ""),
    (
        "INV073",
        DOCS,
        "      priority: low-priority-job\n",
        "      workloadPriorityClass: low-priority-job\n",
    ),
]


@pytest.mark.parametrize(
    ("rule", "file", "old", "new"), FAULTS, ids=[f"{f[0]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_each_rule_is_provoked_by_its_fault(
    fleet: Fleet, rule: str, file: str, old: str, new: str
) -> None:
    fleet.edit(file, old, new)
    answer = fleet.compile("--keep-going")
    assert answer.code == 1
    assert f"error {rule}: " in answer.err
    assert re.search(r"inventory/\S+:\d+:\d+: error " + rule, answer.err)


def model_keys() -> set[str]:
    """Every key that the inventory models know, at any depth."""
    schema = Parameters.model_json_schema(by_alias=True)
    models = [schema, *schema["$defs"].values()]
    return {key for model in models for key in model.get("properties", {})}


def keys_of(file: str) -> list[tuple[int, str]]:
    """The lines of a file that set a key of the models, with the key."""
    known = model_keys()
    lines = (REPOSITORY / "inventory" / file).read_text().splitlines()
    found = [(n, m[1]) for n, line in enumerate(lines) if (m := re.match(r" +(\w+):", line))]
    return [(number, key) for number, key in found if key in known]


@pytest.mark.parametrize(("line", "key"), keys_of(DOCS), ids=lambda v: str(v))
def test_a_typo_in_any_key_is_found_at_its_line(fleet: Fleet, line: int, key: str) -> None:
    lines = (REPOSITORY / "inventory" / DOCS).read_text().splitlines()
    wrong = key[:-1] + ("x" if key[-1] != "x" else "y") + key[-1]
    lines[line] = lines[line].replace(f"{key}:", f"{wrong}:", 1)
    fleet.write(DOCS, "\n".join(lines) + "\n")
    answer = fleet.compile("-t", "tpu-v6e-docs")
    assert answer.code == 1
    assert re.search(rf"{DOCS}:{line + 1}:\d+: error INV011: unknown key '{wrong}'", answer.err)
    assert f"fix: write {key}\n" in answer.err


def test_a_tpu_that_the_catalog_does_not_know_can_be_described_by_hand(fleet: Fleet) -> None:
    fleet.edit(
        V6E,
        "machineType: ct6e-standard-4t",
        """machineType: ct9x-standard-4t
      machine:
        accelerator: {type: tpu, name: tpu-v9x-slice, perNode: 4}
        vcpus: 200
        memory: 800Gi
        topologies: [2x2, 4x4]""",
    )
    assert fleet.compile("-t", "tpu-v6e-docs").code == 0
    (flavor,) = fleet.objects("tpu-v6e-docs", "ResourceFlavor")
    assert flavor["spec"]["nodeLabels"]["cloud.google.com/gke-tpu-accelerator"] == "tpu-v9x-slice"
    (queue,) = fleet.objects("tpu-v6e-docs", "ClusterQueue")
    chips, cpu, _ = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert (chips["nominalQuota"], cpu["nominalQuota"]) == ("64", str(16 * 199))
    fleet.edit(V6E, "topology: 4x4", "topology: 8x8")
    assert "it has 2x2, 4x4" in fleet.compile("-t", "tpu-v6e-docs").err
