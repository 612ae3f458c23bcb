"""The wheel, installed into an empty environment and used from an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), ".",
        cwd=REPOSITORY,
    )  # fmt: skip
    (built,) = out.glob("stowplan-*.whl")
    return built


def test_the_wheel_holds_the_packages_their_data_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {n.split("/")[0] for n in names if not re.match(r"stowplan-[\d.]+\.dist-info", n)} == {
        "generator", "schemas", "policies", "replicator",
    }  # fmt: skip
    assert "schemas/catalog/machines.yaml" in names
    assert "generator/templates/init/gitignore" in names
    assert "generator/py.typed" in names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert not any("test" in n.split("/")[0] for n in names)
    builds = re.compile(r"(pyproject\.toml|Containerfile.*|image\.lock|Makefile)$")
    assert [n for n in names if builds.search(n)] == []


@pytest.mark.timeout(300)
def test_it_works_from_an_empty_folder_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    # The versions of the lock file, so that the test does not change with the registry.
    pins = re.findall(
        r"^([A-Za-z0-9_.\-]+==[^\s;\\]+)", (REPOSITORY / "requirements.lock").read_text(), re.M
    )
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n")
    binaries = environment / "bin"
    run(
        str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--constraint", str(constraints), str(wheel), cwd=tmp_path,
    )  # fmt: skip
    stowplan = str(binaries / "stowplan")
    work = tmp_path / "work"
    work.mkdir()
    assert re.fullmatch(r"stowplan \d+\.\d+\.\d+\n", run(stowplan, "--version", cwd=work))
    run(stowplan, "init", "fleet", cwd=work)
    out = run(stowplan, "compile", cwd=work / "fleet")
    assert "1 cluster: 1 built" in out
    assert run(stowplan, "compile", "--check", cwd=work / "fleet") == ""
    assert "1 cluster: no findings" in run(stowplan, "check", cwd=work / "fleet")
    assert "RAM disk, least" in run(stowplan, "size", cwd=work / "fleet")
    # Without any extra: what training imports, and an agent that says what it lacks.
    client = "import replicator.client, replicator.client.arguments as a; print(a.__file__)"
    found = run(str(binaries / "python"), "-I", "-c", client, cwd=work)
    assert Path(found.strip()).is_relative_to(environment)
    agent = subprocess.run(
        [str(binaries / "stowplan-replicator"), "--help"],
        cwd=work, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert agent.returncode == 2
    assert agent.stderr.count("\n") == 1
    assert agent.stderr.endswith("need the extra: pip install 'stowplan[replicator]'\n")
