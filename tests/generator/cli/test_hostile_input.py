"""Whatever is fed to ``stowplan check``, it answers with findings and an exit code."""

import argparse
import io
import sys

import pytest

from generator.checks import reading
from generator.cli import check

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(8)
)


def answer(capsys, *arguments):
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    code = check.run(parser.parse_args([str(argument) for argument in arguments]))
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


REFUSED = {
    "flow-nested": "a: " + "[" * 20_000,
    "flow-nested-closed": "a: " + "[" * 3_000 + "]" * 3_000,
    "block-nested": "".join("  " * depth + "a:\n" for depth in range(1_500)),
    "object-nested": CONFIG_MAP + "data: " + '{"a": ' * 600 + "1" + "}" * 600,
    "bytes": bytes(range(256)) * 10,
    "zero": b"a: \0\n",
    "utf-16": "kind: Pod\n".encode("utf-16"),
    "latin-1": b"kind: caf\xe9\n",
    "too-large": b"a: " + b"x" * (9 * 1024 * 1024),
    "alias-bomb": BOMB,
    "cycle": "a: &a\n  b: *a\n",
    "python-object": "!!python/object/apply:os.system ['true']",
    "odd-tag": CONFIG_MAP + "data: !foo {a: b}\n",
    "not-a-number": CONFIG_MAP + "data: {a: .nan, b: .inf}\n",
    "very-long-number": "value: " + "9" * 6_000,
    "sequence": "- a\n- b\n",
    "text": "hello\n",
    "list-of-anything": "apiVersion: v1\nkind: List\nitems: [{}, {kind: List, items: [{kind: Pod}]}]",
    "items-of-a-typed-list": "apiVersion: v1\nkind: PodList\nitems: [{spec: {}}]\n",
    "odd-keys": "1: a\ntrue: b\nnull: c\n[1, 2]: d\n",
    "typed-header": "apiVersion: [v1]\nkind: {a: b}\nmetadata: 3\n",
    "typed-metadata": "apiVersion: v1\nkind: Pod\nmetadata: [a]\nspec: x\n",
    "control-characters": CONFIG_MAP.replace("x", '"x\\u0000\\x1b[31m"'),
    "unknown-directive": "%FOO bar\n---\na: b\n",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github", "markdown"])
def test_what_cannot_be_right_is_a_finding(capsys, tmp_path, name, form):
    content = REFUSED[name]
    path = tmp_path / f"{name}.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out = answer(capsys, path, "--format", form)
    assert code == 1
    assert "\x1b" not in out


FINE = {
    "nothing": "",
    "comments": "# a\n---\n# Source: chart/templates/a.yaml\n---\n---\n# b\n",
    "byte-order-mark": "\ufeff" + CONFIG_MAP,
    "windows": (CONFIG_MAP + "---\n" + CONFIG_MAP.replace("x", "z")).replace("\n", "\r\n"),
    "one-long-line": CONFIG_MAP + "data: {a: " + "x" * 1_000_000 + "}\n",
    "version-directive": "%YAML 1.1\n---\n" + CONFIG_MAP,
    "empty-list": "apiVersion: v1\nkind: List\nitems: []\n",
    "dates": CONFIG_MAP + "data: {a: '2020-01-01'}\n",
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_only_odd_is_read(capsys, tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(FINE[name], "utf-8", newline="")
    assert answer(capsys, path)[0] == 0


@pytest.mark.parametrize("name", [*REFUSED, *FINE])
def test_standard_input_is_judged_like_a_file(capsys, monkeypatch, tmp_path, name):
    content = {**REFUSED, **FINE}[name]
    data = content if isinstance(content, bytes) else content.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert answer(capsys, "-")[0] == (1 if name in REFUSED else 0)


def test_a_stream_of_very_many_documents_is_read_to_its_end(capsys, tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text("---\n".join(CONFIG_MAP.replace("x", f"c{i}") for i in range(3_000)))
    code, out = answer(capsys, path)
    assert (code, out.strip()) == (0, "3,000 objects in 1 file: no findings")


KINDS = {
    "kueue.x-k8s.io/v1beta2": (
        "AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "ProvisioningRequestConfig",
        "ResourceFlavor", "Topology", "WorkloadPriorityClass",
    ),
    "jobset.x-k8s.io/v1alpha2": ("JobSet",),
    "batch/v1": ("CronJob", "Job"),
    "v1": ("Pod",),
    "apps/v1": ("DaemonSet", "Deployment"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "checkpointing.gke.io/v1": ("CheckpointConfiguration",),
    "stowplan.dev/v1alpha1": ("Cluster",),
    "argoproj.io/v1alpha1": ("Application",),
}  # fmt: skip
SPECS = (
    "null", "3", "[]", "x", "{a: b}", "[null]",
    "{containers: 3, template: [], replicatedJobs: [null, 3, x, {}], preemption: 3, waivers: 3, "
    "resourceGroups: [null, {flavors: [null, 3, {resources: [null, 4]}], coveredResources: 3}], "
    "nodeLabels: 4, nodeTaints: [null], tolerations: [3], levels: [null], "
    "nodePools: [3, {name: 4, labels: 3}]}",
)  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_of_any_shape_is_judged_in_every_kind(capsys, tmp_path, spec):
    objects = [
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{generateName: x-}}\nspec: {spec}\n"
        for version, kinds in KINDS.items()
        for kind in kinds
    ]
    (tmp_path / "all.yaml").write_text("---\n".join(objects))
    code, out = answer(capsys, tmp_path)
    assert code == 1
    assert "POL001" not in out


@pytest.mark.parametrize("patches", ["patches: 3", "patches: [3, {a: b}]", "patchesJson6902: x"])
def test_a_kustomization_of_any_shape_is_passed_over(capsys, tmp_path, patches):
    (tmp_path / "kustomization.yaml").write_text(f"{patches}\npatchesStrategicMerge: [3, {{}}]\n")
    (tmp_path / "a.yaml").write_text(CONFIG_MAP)
    assert "1 file" in answer(capsys, tmp_path / "a.yaml")[1]
    assert answer(capsys, tmp_path)[0] == 1  # a kustomization without apiVersion and kind


@pytest.mark.parametrize("form", ["text", "github", "markdown"])
def test_a_name_cannot_write_a_line_of_its_own_into_a_report(capsys, tmp_path, form):
    name = "x\\n::error::forged\\x1b[2J"
    (tmp_path / "a.yaml").write_text(CONFIG_MAP.replace("x}", f'"{name}"}}'))
    code, out = answer(capsys, tmp_path, "--format", form)
    assert code == 1
    assert not any(line.startswith("::error::forged") for line in out.splitlines())
    assert "\\n::error::forged\\x1b[2J" in out


def test_a_stream_beyond_the_limit_is_refused_whole(capsys, monkeypatch):
    monkeypatch.setattr(reading, "MAX_STDIN_BYTES", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONFIG_MAP.encode() * 3)))
    code, out = answer(capsys, "-")
    assert code == 1
    assert "more than 100 bytes; none of it was judged" in out
