from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from generator.cli.main import main
from generator.diff.model import Impact
from tests.generator.diff import fleet


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders whose only difference is a quota."""
    fleet.write(tmp_path / "old", {"a": fleet.cluster("a")})
    fleet.write(
        tmp_path / "new",
        {"a": fleet.cluster("a", fleet.flavor(), fleet.cluster_queue(64), fleet.local_queue())},
    )
    fleet.write(
        tmp_path / "old",
        {"a": fleet.cluster("a", fleet.flavor(), fleet.cluster_queue(32), fleet.local_queue())},
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


ARGS = ("--base", "old", "--head", "new")


def test_exit_codes(sides: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--base", "old", "--head", "old"]) == 0
    assert main(["diff", *ARGS]) == 1
    assert main(["diff", "--base", "nowhere", "--head", "new"]) == 2
    assert main(["diff", *ARGS, "--fail-on", "restart,live"]) == 3
    assert "--fail-on: live" in capsys.readouterr().err
    assert main(["diff", *ARGS, "--fail-on=restart,ramdisk-loss,data-loss,blocked"]) == 1


def test_fail_on_does_not_fail_without_a_difference(sides: Path) -> None:
    assert main(["diff", "--base", "old", "--head", "old", "--fail-on", ",".join(Impact)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fail-on", "restart,boom"], "'boom' is no impact class"),
        (["-o", "report.pdf"], "the suffix names no format"),
        (["-o", "missing/report.md"], "cannot write missing/report.md"),
        (["--budget", "10"], "--budget 10 is too small"),
        (["--report-url", "javascript:alert(1)"], "is no http(s) address"),
    ],
)
def test_bad_usage(
    sides: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["diff", *ARGS, *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_bad_yaml_exits_2_and_names_every_place(
    sides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("x", "y"):
        (sides / f"new/a/{name}.yaml").write_text("a: [1\n")
    assert main(["diff", *ARGS]) == 2
    err = capsys.readouterr().err
    assert "a/x.yaml:2" in err
    assert "a/y.yaml:2" in err
    assert "Traceback" not in err


def test_formats_on_stdout_and_in_files_agree(
    sides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"text": "r.txt", "markdown": "r.md", "html": "r.html", "json": "r.json"}
    outputs = [part for name in files.values() for part in ("-o", name)]
    assert main(["diff", *ARGS, *outputs]) == 1
    capsys.readouterr()
    for kind, name in files.items():
        assert main(["diff", *ARGS, "--format", kind]) == 1
        assert capsys.readouterr().out == (sides / name).read_text()
    assert json.loads((sides / "r.json").read_text())["schema"] == "stowplan.diff/v1"


def test_two_runs_write_the_same_bytes(sides: Path) -> None:
    command = [sys.executable, "-c", "from generator.cli.main import main; main()", "diff"]
    outputs = {
        subprocess.run(
            [*command, *ARGS, "--format", "json"],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd())},
            cwd=sides,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("choice", "no_color", "coloured"),
    [("auto", "", False), ("always", "", True), ("never", "", False), ("always", "1", True)],
)
def test_colours_are_for_terminals(
    sides: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    no_color: str,
    coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    main(["diff", *ARGS, "--color", choice])
    assert ("\x1b[" in capsys.readouterr().out) is coloured


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_counts_on_a_terminal(
    sides: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    no_color: str,
    coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    main(["diff", *ARGS])
    assert ("\x1b[" in capsys.readouterr().out) is coloured


def test_a_terminal_that_knows_no_unicode_still_gets_the_report(sides: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from generator.cli.main import main; main()", "diff", *ARGS],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd())},
        cwd=sides,
    )
    assert b"32 \\u2192 64" in done.stdout
