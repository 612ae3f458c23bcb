"""The slim distribution `stowplan-replicator`, built and used in an otherwise empty environment."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from replicator.console import AGENT_REQUIREMENTS, CLIENT_REQUIREMENTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="needs the extra 'dev'")
    pytest.importorskip("hatchling", reason="needs the extra 'dev'")
    target = tmp_path_factory.mktemp("wheel")
    command = [
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--outdir", str(target), str(ROOT / "replicator")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def empty_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without pip that holds the wheel and what it requires, and nothing else.

    The requirements are copied from this environment: tests do not download.
    """
    home = tmp_path_factory.mktemp("env")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (metadata,) = site.glob("stowplan_replicator-*.dist-info")
    required = importlib.metadata.Distribution.at(metadata).requires or []
    for requirement in required:
        if "extra ==" not in requirement:
            copy_distribution(re.split(r"[^A-Za-z0-9_.-]", requirement)[0], site)
    return home / "bin" / "python"


def copy_distribution(name: str, site: Path) -> None:
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        source, target = Path(str(distribution.locate_file(file))), site / file
        if ".." not in file.parts and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def run(python: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(python), "-I", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_client_works_with_what_the_wheel_requires(empty_python: Path, tmp_path: Path) -> None:
    program = """
import sys
from replicator.client import Framework, HandshakeTimeoutError, ReplicatorClient, ReplicatorConfig
import replicator.client.arguments, replicator
config = ReplicatorConfig("job", Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)
client = ReplicatorClient(sys.argv[1], config)
with client.save(4) as path:
    (path / "w").write_bytes(b"4")
try:
    client.handshake(timeout=0.2)
except HandshakeTimeoutError:
    print(replicator.__file__)
"""
    found = run(empty_python, program, str(tmp_path))
    assert Path(found).is_relative_to(empty_python.parents[1]), "not this checkout's"
    assert (tmp_path / "4" / "w").read_bytes() == b"4"


def test_nothing_of_the_generator_comes_along(empty_python: Path) -> None:
    program = """
import importlib.util
names = ["generator", "schemas", "policies", "pydantic", "reclass_rs", "obstore", "torch", "jax"]
print([name for name in names if importlib.util.find_spec(name)])
"""
    assert run(empty_python, program) == "[]"


def test_an_adapter_without_its_framework_is_an_import_error_that_names_it(
    empty_python: Path,
) -> None:
    program = """
for name in ("dcp", "lightning"):
    try:
        __import__(f"replicator.client.{name}")
    except ImportError as error:
        print(error)
import replicator.client.orbax
"""
    lines = run(empty_python, program).splitlines()
    assert lines[0] == "No module named 'torch'"
    assert "lightning.pytorch" in lines[1]


def test_the_agents_command_without_its_extra_says_which_one(empty_python: Path) -> None:
    (site,) = empty_python.parents[1].glob("lib/python*/site-packages")
    (metadata,) = site.glob("stowplan_replicator-*.dist-info")
    (script,) = importlib.metadata.Distribution.at(metadata).entry_points
    module, _, function = script.value.partition(":")
    program = f"import sys, {module}; sys.exit({module}.{function}())"
    done = subprocess.run(
        [str(empty_python), "-I", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "stowplan-replicator[agent]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    as_module = subprocess.run(
        [str(empty_python), "-I", "-m", "replicator", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (as_module.returncode, as_module.stderr) == (2, done.stderr)


def import_names(requirements: list[str]) -> set[str]:
    names = {re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in requirements}
    return {name.replace("-", "_").replace("pyyaml", "yaml") for name in names}


@pytest.mark.parametrize(
    ("folder", "extra"), [(ROOT, "replicator"), (ROOT / "replicator", "agent")]
)
def test_the_extra_names_what_the_command_looks_for(folder: Path, extra: str) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert import_names(project["optional-dependencies"][extra]) == AGENT_REQUIREMENTS
    assert import_names(project["dependencies"]) >= CLIENT_REQUIREMENTS
    assert project["scripts"]["stowplan-replicator"] == "replicator.console:main"


def test_what_the_client_needs_is_what_the_slim_wheel_requires() -> None:
    project = tomllib.loads((ROOT / "replicator" / "pyproject.toml").read_text())["project"]
    assert import_names(project["dependencies"]) == CLIENT_REQUIREMENTS


def test_the_wheel_holds_the_whole_package_and_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "replicator"
    modules = {
        f"replicator/{path.relative_to(package)}"
        for path in package.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert names == modules | {"replicator/py.typed", "replicator/LICENSE"}


def test_both_distributions_have_one_version() -> None:
    versions = {
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
        for folder in (ROOT, ROOT / "replicator")
    }
    assert len(versions) == 1
