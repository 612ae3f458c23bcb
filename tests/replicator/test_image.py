"""The container image's recipe, as far as it can be tried without a container engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replicator.client import Framework, ReplicatorClient, ReplicatorConfig
from tests.replicator.test_slim_wheel import copy_distribution

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "replicator" / "Containerfile"
LOCK = ROOT / "replicator" / "image.lock"
LAUNCHER = Path(__file__).with_name("image_root.py")
USER = 65532
INSTRUCTIONS = {
    "ARG", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "STOPSIGNAL", "USER",
    "WORKDIR",
}  # fmt: skip


def instructions() -> list[tuple[str, str]]:
    """The recipe's instructions, comments dropped and continued lines joined."""
    lines = [line for line in RECIPE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(w, r) for w, _, r in (line.partition(" ") for line in joined.splitlines() if line)]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def pins(text: str) -> dict[str, dict[str, frozenset[str]]]:
    """Name → version (there may be one for each Python) → hashes of a lock file."""
    blocks = re.findall(
        r"^([\w.-]+)==([^\s;\\]+)[^\n]*\n((?:    --hash=\S+[^\n]*\n?)+)", text, re.M
    )
    found: dict[str, dict[str, frozenset[str]]] = {}
    for name, version, hashes in blocks:
        of_version = frozenset(re.findall(r"sha256:[0-9a-f]{64}", hashes))
        found.setdefault(name, {})[version] = of_version
    return found


def test_it_holds_only_instructions_that_need_no_shell() -> None:
    assert {name for name, _ in instructions()} <= INSTRUCTIONS
    for command in [*of("RUN"), *of("ENTRYPOINT")]:
        words = json.loads(command)
        assert words[0] == "python3"
        assert all(isinstance(word, str) for word in words)


def test_its_bases_are_named_by_whoever_builds_it() -> None:
    assert of("ARG") == ["BUILD_IMAGE", "RUN_IMAGE"]
    assert of("FROM") == ["${BUILD_IMAGE} AS build", "${RUN_IMAGE}"]
    assert "@sha256:<digest>" in RECIPE.read_text()


def test_it_runs_as_nobody_and_starts_the_agent() -> None:
    words = [name for name, _ in instructions()]
    assert of("USER") == [f"{USER}:{USER}"]
    assert words.index("USER") > len(words) - words[::-1].index("FROM") - 1
    assert json.loads(of("ENTRYPOINT")[0]) == ["python3", "-m", "replicator"]
    assert of("EXPOSE") == ["4242 8000"]


def test_what_it_copies_is_there_and_let_through() -> None:
    ignored = (ROOT / "replicator" / "Containerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    sources = {rest.split()[0] for rest in of("COPY") if not rest.startswith("--from=")}
    assert sources == allowed
    assert "*" in ignored
    version = tomllib.loads((ROOT / "replicator/pyproject.toml").read_text())["project"]["version"]
    assert Path(f"dist/stowplan_replicator-{version}-py3-none-any.whl").match(
        next(source for source in sources if source.startswith("dist/"))
    )
    assert LOCK.is_file()


def test_its_lock_is_the_projects_own_and_complete() -> None:
    project = tomllib.loads((ROOT / "replicator/pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *extras["agent"], *extras["agent-orbax"][1:]]
    assert extras["agent-orbax"][0] == f"{project['name']}[agent]"
    names = {re.split(r"[^\w.-]", r)[0].lower().replace("_", "-") for r in required}
    locked, all_locked = pins(LOCK.read_text()), pins((ROOT / "requirements.lock").read_text())
    # typing-extensions is what blake3 and obstore need on Python 3.11, the others tensorstore.
    assert set(locked) == names | {"typing-extensions", "numpy", "ml-dtypes"}
    for name, versions in locked.items():
        assert versions == all_locked[name]
        assert all(versions.values())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with /app as the recipe makes it: the wheel and what its lock names, nothing else.

    The requirements are copied from this environment: tests do not download.
    """
    pytest.importorskip("build", reason="needs the extra 'dev'")
    folder = tmp_path_factory.mktemp("image")
    (folder / "app").mkdir()
    dist = tmp_path_factory.mktemp("dist")
    command = [
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--outdir", str(dist), str(ROOT / "replicator")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "app")
    for name in pins(LOCK.read_text()):
        copy_distribution(name, folder / "app")
    return folder


@pytest.fixture
def ram_disk() -> Iterator[Path]:
    """A directory as the kubelet makes it in /dev/shm: writable for everybody."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="stowplan-image-", dir=place))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


def inside(image: Path, ram_disk: Path, *arguments: str) -> list[str]:
    """The command that runs ``python3 ARGUMENTS`` in the image's root."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare of util-linux")
    probe = [unshare, "--user", "--map-root-user", "--mount", "mount", "--make-rprivate", "/"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody make user and mount namespaces")
    return [
        *(unshare, "--user", "--map-root-user", "--mount", sys.executable, str(LAUNCHER)),
        *(str(image), str(ram_disk), str(USER), *arguments),
    ]


PROBE = """
import os, pathlib, shutil
try:
    pathlib.Path("/app/x").write_text("x")
    print("writable")
except OSError as error:
    print(os.strerror(error.errno))
print(os.getuid(), os.getgid())
capabilities = [l for l in open("/proc/self/status") if l.startswith("CapEff")]
print(int(capabilities[0].split()[1], 16))
print(shutil.which("sh", path="/bin:/usr/bin:/usr/local/bin"), os.path.exists("/bin/sh"))
pathlib.Path("/ram-disk/x").write_text("x")
"""


def test_the_stand_in_for_a_container_is_as_strict_as_one(image: Path, ram_disk: Path) -> None:
    done = subprocess.run(
        inside(image, ram_disk, "-c", PROBE), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Read-only file system", f"{USER} {USER}", "0", "None False",
    ]  # fmt: skip
    assert (ram_disk / "x").read_text() == "x"


def test_it_tells_equal_orbax_values(image: Path, ram_disk: Path) -> None:
    """So that replicas on TPU need no copies, for which their RAM disks have no room."""
    (recorded,) = (Path(__file__).parent / "fixtures/reference/fixture-orbax").glob("*/*.data")
    shutil.copytree(recorded, ram_disk / "7")
    program = "from replicator.digest import orbax_hash; import pathlib; "
    program += "print(orbax_hash(pathlib.Path('/ram-disk/7')))"
    checked_by_the_build = json.loads(of("RUN")[-1])
    done = subprocess.run(
        inside(image, ram_disk, *checked_by_the_build[1:]), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "tensorstore" in checked_by_the_build[-1]
    done = subprocess.run(
        inside(image, ram_disk, "-c", program), capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == recorded.stem, done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def start(image: Path, ram_disk: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    """Starts the recipe's entry point as an agent; gives the process and its address for HTTP."""
    key, peers = image / "key", image / "peers.yaml"
    if not key.exists():
        key.write_text("k" * 40)
        key.chmod(0o440)
    (ram_disk / "backups").mkdir(mode=0o777)
    started: list[subprocess.Popen[str]] = []
    port = free_port()
    peers.write_text(f"agents: ['127.0.0.1:{port}']\n")

    def run() -> tuple[subprocess.Popen[str], str]:
        http = f"127.0.0.1:{free_port()}"
        arguments = [
            *("agent", "--local-dir=/ram-disk", "--platform=static", "--peers=/peers.yaml"),
            *("--key-file=/key", "--bind=127.0.0.1", f"--port={port}", f"--http={http}"),
            *("--backup=file:///ram-disk/backups", "--capacity=64Mi"),
        ]
        entry = json.loads(of("ENTRYPOINT")[0])[1:]
        agent = subprocess.Popen(
            inside(image, ram_disk, *entry, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(agent)
        return agent, f"http://{http}"

    yield run
    for agent in started:
        if agent.poll() is None:
            agent.kill()
            agent.communicate()


Start = Callable[[], tuple[subprocess.Popen[str], str]]


def test_the_entry_point_serves_without_root_shell_or_a_writable_root(
    start: Start, ram_disk: Path
) -> None:
    agent, http = start()
    assert answer(f"{http}/healthz", agent) == b"ok\n"
    assert b"stowplan" in answer(f"{http}/metrics", agent)
    assert (ram_disk / ".stowplan" / "lock").exists()
    agent.send_signal(signal.SIGTERM)
    output, _ = agent.communicate(timeout=30)
    assert agent.returncode == 0, output
    assert "Traceback" not in output


def test_what_was_saved_outlives_the_agent_and_the_job(start: Start, ram_disk: Path) -> None:
    config = ReplicatorConfig("job", Framework.PYTORCH_DISTRIBUTED, 0, 1, None, 0, 30, None)
    agent, http = start()
    answer(f"{http}/healthz", agent)
    client = ReplicatorClient(ram_disk, config)
    assert client.start(handshake_timeout=60, restore_timeout=60) is None
    with client.save(4) as path:
        (path / "weights").write_bytes(b"4" * 1000)
    wait_until(lambda: any(ram_disk.glob("*.data")), "the agent to take the step")
    agent.kill()  # its container is gone, and so is the job's; the node's memory is not
    agent.communicate()
    agent, http = start()
    answer(f"{http}/healthz", agent)
    restored = ReplicatorClient(ram_disk, config).start(handshake_timeout=60, restore_timeout=60)
    assert restored is not None
    assert restored.step == 4
    assert (restored.path / "weights").read_bytes() == b"4" * 1000


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)


def answer(url: str, agent: subprocess.Popen[str], seconds: float = 60) -> bytes:
    """A page of the agent, once it is up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as page:
                return bytes(page.read())
        except OSError:
            assert agent.poll() is None, agent.stdout and agent.stdout.read()
            assert time.monotonic() < deadline, "no answer"
            time.sleep(0.1)
