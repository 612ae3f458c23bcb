"""init, size, schema and the command line itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from generator.cli.main import COMMANDS
from tests.conftest import REPOSITORY, Fleet, Result

Run = Callable[..., Result]


class TestInit:
    def test_the_tree_compiles_as_it_stands(self, stowplan: Run, tmp_path: Path) -> None:
        assert stowplan("init", str(tmp_path / "mine"), "--cluster", "first").code == 0
        answer = stowplan("compile", "-C", str(tmp_path / "mine"))
        assert answer.code == 0
        assert answer.err == ""
        assert (tmp_path / "mine/compiled/first/README.md").exists()

    def test_answers_reach_the_manifests(self, stowplan: Run, tmp_path: Path) -> None:
        stowplan(
            "init", str(tmp_path), "--project", "acme-lab", "--project-number", "123456789",
            "--bucket", "acme-lab-mtc", "--cluster", "lab",
        )  # fmt: skip
        stowplan("compile", "-C", str(tmp_path))
        facts = yaml.safe_load((tmp_path / "compiled/lab/cluster.yaml").read_text())
        assert facts["spec"]["project"] == {"id": "acme-lab", "number": "123456789"}
        (config,) = (tmp_path / "compiled/lab/checkpointing").glob("checkpointconfiguration-*")
        assert "cloudStorageBucketName: acme-lab-mtc/lab\n" in config.read_text()

    def test_what_is_there_already_is_kept(self, stowplan: Run, tmp_path: Path) -> None:
        (tmp_path / "README.md").write_text("mine\n")
        answer = stowplan("init", str(tmp_path))
        assert answer.code == 2
        assert "README.md exists already" in answer.err
        assert [p.name for p in tmp_path.iterdir()] == ["README.md"]
        assert (tmp_path / "README.md").read_text() == "mine\n"

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--bucket", "gs://x"], "without gs://"),
            (["--cluster", "My_Cluster"], "no cluster name"),
            (["--project", "PROJECT_ID"], "placeholder"),
            (["--project-number", "12a"], "digits only"),
        ],
    )
    def test_impossible_answers_are_refused(
        self, stowplan: Run, tmp_path: Path, arguments: list[str], says: str
    ) -> None:
        answer = stowplan("init", str(tmp_path / "new"), *arguments)
        assert answer.code == 2
        assert says in answer.err
        assert not (tmp_path / "new").exists()


class TestSize:
    @pytest.mark.parametrize(
        ("machine", "least", "factor"),
        [
            ("ct6e-standard-4t", "141Gi", "2.2 (TPU; GKE documentation)"),
            ("a3-megagpu-8g", "423Gi", "6.6 (GPU, 1 peer; GKE documentation)"),
        ],
    )
    def test_a_checkpoint_of_64Gi(  # noqa: N802 - a size is written so
        self, stowplan: Run, machine: str, least: str, factor: str
    ) -> None:
        answer = stowplan("size", "--machine", machine, "--checkpoint", "64Gi")
        assert answer.code == 0
        assert f"RAM disk, least     {least}\n" in answer.out
        assert factor in answer.out

    def test_more_peers_are_marked_as_derived(self, stowplan: Run) -> None:
        answer = stowplan(
            "size", "--machine", "a3-megagpu-8g", "--checkpoint", "64Gi", "--peers", "2"
        )
        assert "9.9 (GPU, 2 peers; derived: 3.3 for each copy)" in answer.out
        assert "RAM disk, least     634Gi" in answer.out

    def test_a_model_gives_its_checkpoint(self, stowplan: Run) -> None:
        answer = stowplan(
            "size",
            "--machine",
            "ct6e-standard-4t",
            "--parameters",
            "7e9",
            "--nodes-per-replica",
            "4",
        )
        assert "local checkpoint    19.6Gi a node" in answer.out
        assert "RAM disk, least     44Gi" in answer.out

    def test_too_much_memory_fails_and_shows_by_how_much(self, stowplan: Run) -> None:
        answer = stowplan(
            "size", "--machine", "a3-megagpu-8g", "--checkpoint", "64Gi", "--pod-memory", "1500Gi"
        )
        assert answer.code == 1
        assert "pods ask for        1500Gi: 95.3Gi TOO MUCH" in answer.out

    def test_how_many_peers_fit(self, stowplan: Run) -> None:
        answer = stowplan("size", "--machine", "a3-megagpu-8g", "--checkpoint", "64Gi")
        # 8 copies of 3.3 x 64Gi are 1690Gi of 1827Gi; a ninth would not fit
        assert "peers that fit      7\n" in answer.out
        answer = stowplan("size", "--machine", "a3-megagpu-8g", "--checkpoint", "600Gi")
        assert answer.code == 1
        assert "peers that fit      none" in answer.out

    def test_a_cluster_of_the_inventory_is_explained(self, fleet: Fleet) -> None:
        answer = fleet.run("size", "gpu-h100-prod")
        assert answer.code == 0
        assert "gpu-h100-prod: checkpointing.h100" in answer.out
        assert "70e9 parameters x 12 bytes / 8 nodes" in answer.out
        assert "RAM disk, least     646Gi" in answer.out

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--checkpoint", "64Gi"], "--machine is missing"),
            (["--machine", "a3-mega", "--checkpoint", "64Gi"], "not in the catalog"),
            (["--machine", "a3-megagpu-8g", "--checkpoint", "64GiB"], "write 64Gi"),
            (["--machine", "a3-megagpu-8g", "--checkpoint", "64"], "no unit"),
            (["--machine", "a3-megagpu-8g", "--parameters", "nan"], "no number above zero"),
            (["--machine", "a3-megagpu-8g"], "give --checkpoint"),
        ],
    )
    def test_wrong_questions_are_answered_with_the_right_one(
        self, stowplan: Run, arguments: list[str], says: str
    ) -> None:
        answer = stowplan("size", *arguments)
        assert answer.code == 2
        assert says in answer.err


class TestSchema:
    def test_the_committed_schema_is_the_models_own(self, stowplan: Run) -> None:
        committed = REPOSITORY / "schemas" / "inventory.schema.json"
        assert stowplan("schema").out == committed.read_text(encoding="utf-8")

    def test_every_example_file_is_valid_and_names_the_schema(self) -> None:
        path = REPOSITORY / "schemas" / "inventory.schema.json"
        validator = jsonschema_rs.validator_for(json.loads(path.read_text()))
        files = sorted((REPOSITORY / "inventory").rglob("*.yml"))
        assert len(files) > 20
        for file in files:
            text = file.read_text()
            named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
            assert (file.parent / named).resolve() == path
            errors = [e.message for e in validator.iter_errors(yaml.safe_load(text))]
            assert errors == [], file

    @pytest.mark.parametrize(
        ("text", "valid"),
        [
            ("parameters: {nodePools: {a: {machineType: x, slices: 2}}}", True),
            ("parameters: {nodePools: {a: {machinetype: x}}}", False),
            ("parameters: {nodePools: {a: {slices: '${vars:n}'}}}", True),
            ("parameters: {nodePools: {a: {slices: two}}}", False),
            ("parameters: {nodePools: {a: {~taints: []}}}", True),
            ("parameters: {workloads: '${vars:all}'}", True),
            ("parameters: {workloads: {a: '${vars:one}'}}", True),
            ("parameters: {workloads: {a: {framework: tensorflow}}}", False),
            ("paramters: {}", False),
        ],
    )
    def test_the_schema_knows_models_and_reclass(self, text: str, valid: bool) -> None:
        path = REPOSITORY / "schemas" / "inventory.schema.json"
        validator = jsonschema_rs.validator_for(json.loads(path.read_text()))
        assert validator.is_valid(yaml.safe_load(text)) is valid


class TestCommandLine:
    def test_help_lists_every_command_and_the_exit_codes(self, stowplan: Run) -> None:
        answer = stowplan("--help")
        assert answer.code == 0
        for command in COMMANDS:
            assert re.search(rf"^    {command}\s", answer.out, re.MULTILINE)
        assert "exit codes:" in answer.out

    @pytest.mark.parametrize("command", sorted(COMMANDS))
    def test_every_command_has_help(self, stowplan: Run, command: str) -> None:
        answer = stowplan(command, "--help")
        assert answer.code == 0
        assert f"usage: stowplan {command}" in answer.out

    def test_help_loads_no_library(self) -> None:
        code = (
            "import sys; from generator.cli.main import main\n"
            "try: main(['--help'])\n"
            "except SystemExit: pass\n"
            "heavy = {'pydantic', 'yaml', 'reclass_rs', 'jsonschema_rs', 'regorus'}\n"
            "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def test_an_unknown_command_is_refused(self, stowplan: Run) -> None:
        assert stowplan("complie").code == 2

    def test_a_reader_that_goes_away_is_no_error(self) -> None:
        done = subprocess.run(
            f"{sys.executable} -m generator.cli.main schema | head -1",
            shell=True, cwd=REPOSITORY, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == "{\n"
        assert done.stderr == ""

    @pytest.mark.parametrize("command", ["explain", "schema", "check compiled", "size"])
    def test_an_output_that_is_full_is_one_line_and_no_success(self, command: str) -> None:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "generator.cli.main", *command.split()],
                cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].endswith("output not written: No space left on device")
        assert "Traceback" not in done.stderr
        assert "ignored" not in done.stderr

    @pytest.mark.parametrize("command", ["explain", "schema", "check compiled", "size"])
    def test_a_closed_output_is_no_error(self, command: str) -> None:
        code = (
            "import os, sys; os.close(1); "
            "os.execv(sys.executable, [sys.executable, '-m', 'generator.cli.main', *sys.argv[1:]])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *command.split()],
            cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_closed_input_is_an_empty_one(self) -> None:
        code = (
            "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "-m", "generator.cli.main", "check", "-"],
            cwd=REPOSITORY, capture_output=True, text=True, check=False,
        )  # fmt: skip
        empty = subprocess.run(
            [sys.executable, "-m", "generator.cli.main", "check", "-"],
            cwd=REPOSITORY, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (
            empty.returncode, empty.stdout, empty.stderr,
        )  # fmt: skip
        assert "Traceback" not in done.stderr

    def test_an_output_that_is_full_leaves_no_half_a_tree(self, tmp_path: Path) -> None:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-u", "-m", "generator.cli.main", "init", str(tmp_path / "mine")],
                cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr == "stowplan: output not written: No space left on device\n"
        assert (tmp_path / "mine/inventory/targets/my-cluster.yml").is_file()
        assert (tmp_path / "mine/inventory.schema.json").is_file()

    def test_a_full_disk_is_told_with_the_files_name(
        self, stowplan: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: Path, *args: object, **kwargs: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_text", full)
        answer = stowplan("init", str(tmp_path / "mine"))
        assert answer.code == 2
        assert answer.out == ""
        assert answer.err.startswith(f"error: cannot write {tmp_path}/mine/")
        assert answer.err.endswith(": No space left on device\n")
