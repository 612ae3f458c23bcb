"""``stowplan doctor`` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from generator.cli.main import main
from generator.doctor.snapshot import Snapshot, dump

from .faults.placement import spread
from .fleet import FOLDER, healthy

Capture = pytest.CaptureFixture[str]


def saved(folder: Path, snapshot: Snapshot) -> str:
    path = folder / "seen.json"
    path.write_text(dump(snapshot))
    return f"--from={path}"


def test_a_healthy_cluster_ends_with_0(tmp_path: Path, capsys: Capture) -> None:
    assert main(["doctor", str(FOLDER), saved(tmp_path, healthy())]) == 0
    assert (
        "live objects of gke_acme-training_us-east5_train-1: no findings" in capsys.readouterr().out
    )


def test_errors_end_with_1_and_show_the_fix(tmp_path: Path, capsys: Capture) -> None:
    snapshot = healthy()
    spread(snapshot)
    assert main(["doctor", str(FOLDER), saved(tmp_path, snapshot)]) == 1
    out = capsys.readouterr().out
    assert "error DOC031 JobSet default/high-jax-trillium-7ca82b14: slice slice-0 is spread" in out
    assert "fix: kubectl --context gke_acme-training_us-east5_train-1 -n default patch" in out


def test_fail_on_decides_what_counts(tmp_path: Path) -> None:
    snapshot = healthy()
    snapshot.objects["clusterqueues"][0]["spec"]["stopPolicy"] = "Hold"
    source = saved(tmp_path, snapshot)
    assert main(["doctor", str(FOLDER), source]) == 0
    assert main(["doctor", str(FOLDER), source, "--fail-on=warning"]) == 1


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_the_other_forms_say_the_same(tmp_path: Path, capsys: Capture, form: str) -> None:
    snapshot = healthy()
    spread(snapshot)
    main(["doctor", str(FOLDER), saved(tmp_path, snapshot), f"--format={form}"])
    out = capsys.readouterr().out
    if form == "json":
        assert {f["rule"] for f in json.loads(out)["findings"]} == {"DOC031"}
    else:
        assert out.startswith("### stowplan doctor\n")
        assert "| error | DOC031 |" in out


def test_the_report_goes_to_a_file(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "report.txt"
    main(["doctor", str(FOLDER), saved(tmp_path, healthy()), f"--output={target}"])
    assert "no findings" in target.read_text()
    assert capsys.readouterr().out == ""


def test_roles_are_printed_without_a_cluster(capsys: Capture) -> None:
    assert main(["doctor", "--rbac", "--subject=User:ada"]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {d["kind"] for d in documents} == {
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    }
    assert {d["subjects"][0]["name"] for d in documents if "subjects" in d} == {"ada"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rbac", "--subject=nobody"], "expected Group:NAME"),
        (["--from=/nowhere/seen.json"], "/nowhere/seen.json: No such file"),
        (["no/such/folder"], "there is no file or folder no/such/folder"),
        ([str(FOLDER.parent)], "expected the folder of one cluster"),
        ([str(FOLDER / "queueing")], "found none"),
        ([str(FOLDER / "cluster.yaml")], "expected the folder of one cluster, such as"),
        (["--kubeconfig=/nowhere/kube"], "/nowhere/kube: there is no such kubeconfig"),
        (["--kubectl=/nowhere/kubectl"], "/nowhere/kubectl cannot be run"),
    ],
)
def test_bad_input_is_one_line_and_2(capsys: Capture, arguments: list[str], said: str) -> None:
    assert main(["doctor", *arguments]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert answer.err.startswith("stowplan doctor: ")
    assert said in answer.err


def test_a_snapshot_that_was_tampered_with_is_no_traceback(tmp_path: Path, capsys: Capture) -> None:
    snapshot = healthy()
    snapshot.objects["jobpods"][0]["metadata"]["labels"] = "none"
    assert main(["doctor", saved(tmp_path, snapshot)]) == 2
    assert "a damaged snapshot" in capsys.readouterr().err


def test_a_time_out_must_be_sensible(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--timeout=0"])
    assert caught.value.code == 2
