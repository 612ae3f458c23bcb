import argparse
import gzip
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import unquote

import pytest
from jsonschema import Draft7Validator, FormatChecker
from jsonschema_rs import Draft202012Validator

from generator.checks import parallel
from generator.checks.policy import policy_folder
from generator.cli import check, explain

CASES = Path(__file__).resolve().parents[2] / "cases"
WRONG = CASES / "rules" / "KUE010" / "wrong.yaml"
RIGHT = CASES / "rules" / "KUE010" / "right.yaml"


def stowplan_check(capsys, *arguments):
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    code = check.run(parser.parse_args([str(argument) for argument in arguments]))
    return code, *capsys.readouterr()


def test_a_fault_is_told_with_its_place_and_fix_and_exits_with_1(capsys):
    code, out, err = stowplan_check(capsys, WRONG)
    assert code == 1
    assert "error KUE010 ClusterQueue tpu: no namespaceSelector" in out
    assert "fix: write namespaceSelector: {}" in out
    assert err == ""


def test_a_clean_cluster_is_one_line_and_exits_with_0(capsys):
    code, out, _ = stowplan_check(capsys, CASES / "rules" / "REF020" / "right.yaml")
    assert (code, out) == (0, "11 objects in 1 file of 1 cluster: no findings\n")


@pytest.mark.parametrize(("severity", "expected"), [("error", 0), ("warning", 1), ("note", 1)])
def test_fail_on_decides_the_exit_code(capsys, severity, expected):
    wrong = CASES / "rules" / "KUE024" / "wrong.yaml"  # a warning
    assert stowplan_check(capsys, wrong, "--fail-on", severity)[0] == expected


def test_standard_input_is_read_and_a_list_is_taken_apart(capsys, monkeypatch):
    text = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
        f"  {'- ' if line.startswith('apiVersion') else '  '}{line}\n"
        for line in WRONG.read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = stowplan_check(capsys, "-")
    assert code == 1
    assert "<stdin>" in out
    assert "KUE010 ClusterQueue tpu" in out


def test_what_kubectl_prints_is_not_blamed_for_the_servers_fields(capsys, monkeypatch, tmp_path):
    text = (CASES / "rules" / "JOB005" / "wrong.yaml").read_text("utf-8")
    live = text.replace("metadata:\n", "metadata:\n  uid: 6c1f\n  resourceVersion: '7'\n", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(live.encode())))
    out = stowplan_check(capsys, "-")[1]
    assert "JOB005" not in out
    assert "OPS002" not in out
    (tmp_path / "export.yaml").write_text(live, "utf-8")
    out = stowplan_check(capsys, tmp_path)[1]
    assert "JOB005" in out
    assert "OPS002" in out


def test_json_carries_everything_as_its_schema_says(capsys):
    _, out, _ = stowplan_check(capsys, WRONG, "--format", "json")
    value = json.loads(out)
    schema = json.loads((CASES.parents[1] / "docs" / "report.schema.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(value)
    assert value["schemaVersion"] == 1
    assert value["counts"]["error"] == 1
    [finding] = [f for f in value["findings"] if f["rule"] == "KUE010"]
    assert finding["path"] == ["spec", "namespaceSelector"]
    assert finding["manifest"]["file"] == str(WRONG)
    assert finding["manifest"]["line"] > 1


def test_sarif_has_what_code_scanning_asks_for(capsys):
    _, out, _ = stowplan_check(capsys, WRONG, "--format", "sarif")
    log = json.loads(out)
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        [location] = result["locations"]
        region = location["physicalLocation"]["region"]
        assert region["startLine"] >= 1
        assert not location["physicalLocation"]["artifactLocation"]["uri"].startswith("./")
        assert len(result["partialFingerprints"]["stowplan/v1"]) == 64


@pytest.fixture(scope="module")
def sarif_schema():
    packed = (CASES.parent / "data" / "sarif-schema-2.1.0.json.gz").read_bytes()
    # Not jsonschema-rs: one of the standard's patterns has a bracket too many for a strict reader.
    return Draft7Validator(json.loads(gzip.decompress(packed)), format_checker=FormatChecker())


def sarif_log(capsys, sarif_schema, *args):
    log = json.loads(stowplan_check(capsys, *args, "--format", "sarif")[1])
    assert [f"{e.json_path}: {e.message}" for e in sarif_schema.iter_errors(log)] == []
    return log


def test_sarif_of_every_rule_is_what_the_standard_allows(capsys, sarif_schema):
    log = sarif_log(capsys, sarif_schema, CASES / "rules", CASES / "documents")
    assert len(log["runs"][0]["tool"]["driver"]["rules"]) > 100
    assert sarif_log(capsys, sarif_schema, CASES / "rules" / "KUE010" / "right.yaml")


def test_sarif_of_a_waived_finding_is_what_the_standard_allows(capsys, tmp_path, sarif_schema):
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(
        "waivers:\n- {rule: KUE010, resource: '*', reason: r, owner: o, expires: '2999-01-01'}\n"
    )
    log = sarif_log(capsys, sarif_schema, WRONG, "--waivers", waivers)
    suppressed = [r for r in log["runs"][0]["results"] if "suppressions" in r]
    assert [result["ruleId"] for result in suppressed] == ["KUE010"]


def test_sarif_names_files_of_any_name_as_references(capsys, tmp_path, sarif_schema):
    name = "a b#c?d%20é:1.yaml"
    (tmp_path / name).write_bytes(WRONG.read_bytes())
    log = sarif_log(capsys, sarif_schema, tmp_path)
    [place] = log["runs"][0]["results"][0]["locations"]
    uri = place["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == str(tmp_path / name)
    assert not set(uri) & set(" #?")


def test_junit_counts_what_it_lists(capsys):
    _, out, _ = stowplan_check(capsys, WRONG, "--format", "junit")
    root = ElementTree.fromstring(out)
    cases = root.findall(".//testcase")
    assert int(root.get("tests")) == len(cases)
    assert int(root.get("failures")) == len(root.findall(".//failure"))
    _, out, _ = stowplan_check(
        capsys, CASES / "rules" / "REF020" / "right.yaml", "--format", "junit"
    )
    assert ElementTree.fromstring(out).get("failures") == "0"


def test_github_commands_escape_what_would_end_them(capsys, tmp_path):
    (tmp_path / "a,b:c.yaml").write_text(WRONG.read_text("utf-8"), "utf-8")
    _, out, _ = stowplan_check(capsys, tmp_path, "--format", "github")
    [line] = [line for line in out.splitlines() if "KUE010" in line]
    assert line.startswith("::error file=")
    assert "a%2Cb%3Ac.yaml,line=" in line


def test_markdown_groups_equal_findings(capsys, tmp_path):
    for number in range(20):
        text = WRONG.read_text("utf-8").replace("name: tpu\n", f"name: tpu-{number}\n")
        (tmp_path / f"{number}.yaml").write_text(text, "utf-8")
    _, out, _ = stowplan_check(capsys, tmp_path, "--format", "markdown")
    rows = [line for line in out.splitlines() if "KUE010" in line]
    assert len(rows) == 1
    assert "and 12 more" in rows[0]


def test_a_report_can_go_to_a_file(capsys, tmp_path):
    target = tmp_path / "report.json"
    code, out, _ = stowplan_check(capsys, WRONG, "--format", "json", "--output", target)
    assert (code, out) == (1, "")
    assert json.loads(target.read_text("utf-8"))["findings"]


def test_colour_only_where_asked(capsys):
    assert "\x1b[31m" in stowplan_check(capsys, WRONG, "--color", "always")[1]
    assert "\x1b[" not in stowplan_check(capsys, WRONG)[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no/such/folder"], "there is no file or folder no/such/folder"),
        ([str(WRONG), "--kueue-version", "0.1.0"], "known: 0.15.0"),
        ([str(WRONG), "--waivers", "no-such.yaml"], "cannot be read"),
        ([str(WRONG), "--output", "/no/such/dir/x"], "/no/such/dir/x"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(capsys, arguments, says):
    code, out, err = stowplan_check(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_an_empty_folder_is_no_success(capsys, tmp_path):
    assert stowplan_check(capsys, tmp_path)[0] == 2


def test_unreadable_and_binary_files_are_findings(capsys, tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.yaml").write_text("- 1\n- 2\n")
    code, out, _ = stowplan_check(capsys, tmp_path)
    assert code == 1
    assert "YML001" in out
    assert "this document is no object" in out


def test_several_processes_find_what_one_finds(capsys, tmp_path):
    count = 0
    for folder in sorted((CASES / "rules").iterdir()):
        for repeat in range(2):
            for name in ("wrong.yaml", "right.yaml"):
                text = (folder / name).read_text("utf-8")
                target = tmp_path / f"{folder.name}-{repeat}" / name.removesuffix(".yaml")
                target.mkdir(parents=True)
                (target / "objects.yaml").write_text(text, "utf-8")
                count += 1
    (tmp_path / "date.yaml").write_text(
        "apiVersion: x.io/v1\nkind: F\nmetadata: {name: x}\nspec: {b: !!timestamp 2001-01-01}\n"
    )
    assert count > parallel.MIN_FILES
    outputs = [
        stowplan_check(capsys, tmp_path, "--format", "json", "--jobs", jobs)[1] for jobs in (1, 2)
    ]
    assert json.loads(outputs[0]) == json.loads(outputs[1])


def test_patches_of_a_kustomization_are_no_objects(capsys, tmp_path):
    (tmp_path / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
        "patches:\n  - path: resources.yaml\n"
    )
    (tmp_path / "resources.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {nonsense: 1}\n"
    )
    assert stowplan_check(capsys, tmp_path)[0] == 0


def test_waivers_of_a_file_hide_and_are_listed(capsys, tmp_path):
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(
        "waivers:\n  - {rule: KUE010, resource: ClusterQueue *, reason: draft, owner: me, "
        'expires: "2999-01-01"}\n'
    )
    code, out, _ = stowplan_check(capsys, WRONG, "--waivers", waivers)
    assert code == 0
    assert "KUE010 ClusterQueue tpu: draft (me, until 2999-01-01)" in out


def test_waivers_of_a_cluster_are_read_from_its_facts(capsys, tmp_path):
    (tmp_path / "cluster.yaml").write_text(
        "apiVersion: stowplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec:\n"
        "  waivers:\n  - {rule: KUE010, resource: ClusterQueue x, reason: r, owner: o, "
        'expires: "2020-01-01"}\n'
    )
    (tmp_path / "queue.yaml").write_text(WRONG.read_text("utf-8"), "utf-8")
    code, out, _ = stowplan_check(capsys, tmp_path)
    assert code == 1
    assert "WVR002" in out
    assert "cluster.yaml" in out


def test_thresholds_come_from_a_data_file(capsys, tmp_path):
    right = CASES / "rules" / "SIZ001" / "right.yaml"
    data = tmp_path / "settings.yaml"
    text = (policy_folder() / "settings.yaml").read_text("utf-8")
    data.write_text(text.replace("tpu_ram_disk_factor: 2.2", "tpu_ram_disk_factor: 3"))
    assert stowplan_check(capsys, right)[0] == 0
    assert "SIZ001" in stowplan_check(capsys, right, "--policy-data", data)[1]


def test_without_an_engine_schemas_and_references_are_still_checked(capsys):
    wrong = CASES / "rules" / "SCH004" / "wrong.yaml"
    assert "SCH004" in stowplan_check(capsys, wrong, "--engine", "none")[1]
    assert "no namespaceSelector" not in stowplan_check(capsys, WRONG, "--engine", "none")[1]


def test_explain_tells_a_rule_and_lists_all(capsys):
    parser = argparse.ArgumentParser()
    explain.add_arguments(parser)
    assert explain.run(parser.parse_args(["kue010"])) == 0
    out = capsys.readouterr().out
    assert "# KUE010" in out
    assert "## Why" in out
    assert explain.run(parser.parse_args([])) == 0
    assert capsys.readouterr().out.count("\n") > 130
    assert explain.run(parser.parse_args(["KUE110"])) == 2
    assert "KUE010" in capsys.readouterr().err


def test_many_files_leave_nothing_on_stderr(tmp_path):
    for number in range(parallel.MIN_FILES):
        (tmp_path / f"{number}.yaml").write_text(RIGHT.read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "generator.cli.main", "check", "--jobs", "2", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 1  # the same queue, many times over
