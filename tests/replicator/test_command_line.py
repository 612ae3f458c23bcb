"""What users may get wrong at the command line: one clear line each, and no success."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.cli import main
from replicator.demo.cluster import DemoError
from replicator.demo.plain_copies import PLAIN, timed_copies
from replicator.protocol import JAX_INIT_INFO_FILE


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail; returns its error line."""
    try:
        status = main(list(arguments))
    except SystemExit as stopped:  # argparse
        status = int(stopped.code or 0)
    shown = capsys.readouterr()
    assert status != 0, shown.out
    lines = [line for line in shown.err.splitlines() if "error: " in line]
    assert len(lines) == 1, shown.err
    assert lines[0] == shown.err.splitlines()[-1], "nothing follows it"
    assert "Traceback" not in shown.err
    return lines[0]


INIT_INFO = ["jax-init-info", "--slice=0", "--slice-size=1", "--worker=0", "--coordinator=host:1"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("agent", f"--{name}") for name in ("local-dir", "peers", "key-file", "tls-ca")),
        ("jax-init-info", "--local-dir"),
        ("demo", "--dir"),
        *(("bench", f"--{name}") for name in ("dir", "backup-dir", "json")),
    ],
)
def test_an_empty_path_is_not_the_current_directory(
    agent: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    option: str,
) -> None:
    """The agent clears away in its volume what an earlier start left there."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    line = {"agent": agent, "jax-init-info": INIT_INFO, "demo": ["demo"], "bench": ["bench"]}[
        command
    ]
    told = refused(capsys, *line, option, "")
    assert f"argument {option}: expected a path, found ''; is a variable not set?" in told
    assert not list((tmp_path / "here").iterdir())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--port", "99999"], "--port: expected a whole number from 0 to 65535, found '99999'"),
        (["--port=-1"], "--port: expected a whole number"),
        (["--port", "\u0664\u0662"], "--port: expected a whole number"),
        (["--port", "9" * 5000], "--port: expected a whole number"),
        (["--hash-threads", "0"], "--hash-threads: expected a whole number from 1"),
        (["--join-timeout", "nan"], "--join-timeout: expected seconds, more than 0"),
        (["--restore-timeout=-1"], "--restore-timeout: expected seconds"),
        (["--round-timeout", "inf"], "--round-timeout: expected seconds"),
        (["--round-timeout", "0"], "--round-timeout: expected seconds"),
        (["--join-timeout", "soon"], "--join-timeout: expected seconds"),
        (["--bind", "a b"], "--bind: expected a host's address, found 'a b'"),
        (["--bind", "a..b"], "--bind: expected a host's address, found 'a..b'"),
        (["--bind", ""], "--bind: expected a host's address, found ''"),
        (["--advertise", "a\nb:80"], r"--advertise: expected HOST:PORT, found 'a\nb:80'"),
        (["--job-uid", "run 7"], "--job-uid: expected letters, digits"),
        (["--http", "\udcff:80"], r"--http: expected HOST:PORT, found '\udcff:80'"),
        (["--http", "8000"], "--http: expected HOST:PORT, found '8000'"),
        (
            ["--http", "192.0.2.1:4999", "--port", "0"],
            "error: cannot listen on 192.0.2.1 port 4999: Can",
        ),
        (
            ["--http", "nowhere.invalid:80", "--port", "0"],
            "error: cannot listen on nowhere.invalid port 80: ",
        ),
        (["--backup-credentials", "anonymous"], "--backup-credentials: expected with --backup URL"),
        (["--service", "agents:4242"], "--service: not for --platform static"),
        (["--platform", "gke"], "--peers: not for --platform gke"),
        (["--backup", "file://[x"], "the backup URL"),
        (["--backup", "gs://[x/y", "--backup-credentials", "anonymous"], "the backup URL"),
        (["--backup", "user:topsecret@bucket"], "expected one of"),
        (["--peers", "/dev/zero"], "a pipe, a device or the like"),
        (["--key-file", "/dev/zero"], "key file /dev/zero: it is a pipe, a device"),
        (["--key-file", "/dev"], "Is a directory"),
        (["--bind", "192.0.2.1", "--port", "4999"], "error: cannot listen on 192.0.2.1 port 4999"),
    ],
)
def test_an_agent_that_cannot_run_as_asked(
    agent: list[str], capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    line = refused(capsys, *agent, *options)
    assert expected in line
    assert "topsecret" not in line


def test_a_pipe_as_a_key_or_certificate_is_refused_and_not_waited_for(
    agent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "a pipe, a device" in refused(capsys, *agent, "--key-file", str(pipe))
    for option in ("--tls-cert", "--tls-key", "--tls-ca"):
        files = {name: str(tmp_path / "key") for name in ("--tls-cert", "--tls-key", "--tls-ca")}
        files[option] = str(pipe)
        options = [word for pair in files.items() for word in pair]
        assert f"TLS: {pipe}: no regular file" in refused(capsys, *agent, *options)


def test_a_name_in_certificates_that_no_host_may_have_is_refused(
    agent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, *agent, "--tls-name", ".leading.dot")
    assert "--tls-name: expected a DNS name, found '.leading.dot'" in line


def test_a_key_file_may_be_a_link_as_a_mounted_secret_is(
    agent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "linked").symlink_to("key")
    line = refused(capsys, *agent, "--key-file", str(tmp_path / "linked"), "--bind", "0.0.0.0")
    assert "needs --advertise" in line  # the key was read before, without complaint


@pytest.mark.parametrize(
    "credentials",
    [
        json.dumps({"type": "service_account"}).encode("utf-16"),
        b'{"bearer_token": "\xff"}',
        b'{"access_key_id": "a", "secret_access_key": "b", "endpoint": "http://[x"}',
        b'{"access_key_id": "a", "secret_access_key": "b", "endpoint": "http://u:SECRET@h"}',
    ],
)
def test_credentials_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], credentials: bytes
) -> None:
    path = tmp_path / "credentials.json"
    path.write_bytes(credentials)
    line = refused(
        capsys,
        *("backups", "ls", "--job", "j", "--backup", "s3://bucket/x"),
        *("--backup-credentials", str(path)),
    )
    assert str(path) in line
    assert "SECRET" not in line


# ---- status -------------------------------------------------------------------------------------


@pytest.fixture
def answering() -> Iterator[tuple[list[bytes], str]]:
    """A server that answers every connection with the same bytes, then closes."""
    answer = [b""]
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(answer[0])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield answer, f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def http(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, body)


STATUS = {"address": "h:1", "phase": "idle", "copies": [{"run": 1, "step": 2}]}


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-x\r\n",
        b"",
        http(b'{"copies', 50),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{",
        http(b"[" * 100_000),
        http(b"[]"),
        http(b"null"),
        http(b'{"copies": 1}'),
        http(b'{"coordinator": 1}'),
        http(json.dumps({**STATUS, "copies": 1}).encode()),
        http(json.dumps({**STATUS, "copies": [1]}).encode()),
        http(json.dumps({**STATUS, "copies": [{}]}).encode()),
        http(json.dumps({**STATUS, "coordinator": 1}).encode()),
        b"HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\n\r\n",
    ],
)
def test_something_else_than_an_agent_answers(
    answering: tuple[list[bytes], str], capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    answers, address = answering
    answers[0] = answer
    for form in ("text", "json"):
        line = refused(capsys, "status", "--http", address, "--format", form)
        assert f"no agent answers at {address}: " in line


def test_the_status_of_an_agent_without_a_coordinator_is_shown(
    answering: tuple[list[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    answers, address = answering
    answers[0] = http(json.dumps({**STATUS, "coordinator": None}).encode())
    assert main(["status", "--http", address]) == 0
    assert "copies: step 2 (run 1)" in capsys.readouterr().out


def test_a_proxy_is_not_asked_for_an_agents_status(
    answering: tuple[list[bytes], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, address = answering
    answers[0] = http(json.dumps(STATUS).encode())
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr("urllib.request._opener", None)  # it remembers the proxies of its first use
    assert main(["status", "--http", address]) == 0
    assert "copies: step 2 (run 1)" in capsys.readouterr().out


@pytest.mark.parametrize("address", ["bad host:80", "a..b:80", "\udcff:80", "a:" + "1" * 5000, "x"])
def test_no_address_to_ask(capsys: pytest.CaptureFixture[str], address: str) -> None:
    line = refused(capsys, "status", "--http", address)
    assert line == f"error: --http: expected HOST:PORT, found {address[:80]!a}"


def test_no_agent_at_all_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    line = refused(capsys, "status", "--http", address)
    assert line == f"error: no agent answers at {address}: Connection refused"


# ---- jax-init-info ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "coordinator"),
    [
        ("0", "\udcff:80"),
        ("0", "a\nb:80"),
        ("999999999999999999999999", "a:80"),
        (str(2**31), "a:80"),
    ],
)
def test_a_rank_that_cannot_be_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, coordinator: str
) -> None:
    where = ["--local-dir", str(tmp_path), "--slice-size", "1", "--worker", "0"]
    refused(capsys, "jax-init-info", *where, "--slice", place, "--coordinator", coordinator)
    assert list(tmp_path.iterdir()) == []


def test_a_volume_whose_name_is_no_text_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    volume = tmp_path / os.fsdecode(b"\xfe")
    volume.mkdir()
    where = ["--local-dir", str(volume), "--slice-size", "1", "--worker", "0", "--slice", "3"]
    assert main(["jax-init-info", *where, "--coordinator", "a:80"]) == 0
    assert (volume / JAX_INIT_INFO_FILE).read_text() == "3\na:80\n"


# ---- the others ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--seeds", "0"], "--seeds: expected a whole number from 1"),
        (["--seeds=-3"], "--seeds: expected a whole number from 1"),
        (["--processes", "0"], "--processes: expected a whole number from 1"),
        (["--first-seed=-5"], "--first-seed: expected a whole number from 0"),
        (["--replay=-1"], "--replay: expected a whole number from 0"),
        (["--nodes", "65"], "--nodes: expected a whole number from 1 to 64"),
    ],
)
def test_a_simulation_of_nothing_is_no_success(
    capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    assert expected in refused(capsys, "simulate", *options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["demo", "--nodes", "17"], "--nodes: expected a whole number from 2 to 16, found '17'"),
        (["demo", "--kill=-1"], "--kill: expected a whole number from 0 to 16, found '-1'"),
        (["demo", "--nodes", "3", "--kill", "4"], "at most the 3 nodes that there are, found 4"),
        (["bench", "--nodes", "1"], "--nodes: expected a whole number from 2 to 64, found '1'"),
        (["bench", "--rounds", "0"], "--rounds: expected a whole number from 1 to 1000, found '0'"),
        (["bench", "--warm-up=-1"], "--warm-up: expected a whole number from 0 to 1000"),
        (["bench", "--dir", "/nowhere"], "/nowhere: expected a directory that is there"),
        (["bench", "--backup-dir", "/nowhere"], "/nowhere: expected a directory that is there"),
        (["bench", "--json", "/nowhere/x"], "/nowhere/x: No such file or directory"),
        (["bench", "--idle-seconds=-1"], "--idle-seconds: expected a whole number from 0"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_with_what_was_found(
    capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    assert expected in refused(capsys, *options)


def test_it_says_which_version_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert capsys.readouterr().out == f"stowplan {project['version']}\n"


def test_a_benchmark_whose_disk_is_full_ends_with_the_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A worker that fails does not leave the others waiting at their barrier."""
    source, target = tmp_path / "source", tmp_path / "copy1"
    source.mkdir()
    target.mkdir()  # in the way, as anything else that keeps a copy from being written
    with pytest.raises(DemoError, match=r"a plain copy within .* failed"):
        timed_copies([PLAIN["file"]] * 2, [source, source], tmp_path, 1)
    assert f"error: {target}: File exists" in capfd.readouterr().err


def test_a_benchmark_that_is_interrupted_while_it_starts_its_workers_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would wait at their barrier, and the interpreter for them."""
    source, begin = tmp_path / "source", multiprocessing.Process.start
    source.mkdir()

    def interrupted(worker: multiprocessing.Process) -> None:
        if multiprocessing.active_children():
            raise KeyboardInterrupt
        begin(worker)

    monkeypatch.setattr(multiprocessing.Process, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        timed_copies([PLAIN["file"]] * 3, [source] * 3, tmp_path, 1)
    left = multiprocessing.active_children()
    for worker in left:
        worker.join(10)
    alive = [worker for worker in left if worker.is_alive()]
    for worker in alive:
        worker.kill()
    assert not alive


def test_a_demo_larger_than_the_disk_is_refused_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--nodes", "2", "--size", "9999999999999Ti"]
    line = refused(capsys, "demo", *size, "--dir", str(tmp_path))
    assert f"{tmp_path} has " in line
    assert "a smaller --size or a --dir with more room" in line
    assert list(tmp_path.iterdir()) == []
    assert "a smaller --size" in refused(capsys, "demo", *size)


def test_a_job_without_backups_is_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job").mkdir()
    where = ["--job", "typo", "--backup", f"file://{tmp_path}"]
    for command in (["backups", "ls"], ["prune", "--daily", "1", "--delete"]):
        assert main([*command, *where]) == 0  # nothing was asked of it that did not happen
        assert "there are no backups of job typo" in capsys.readouterr().err


def test_a_world_of_less_than_one_node_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--job", "job", "--backup", f"file://{tmp_path}"]
    for option in ("--nodes", "--workers-per-node"):
        line = refused(capsys, "backups", "verify", "latest", *where, f"{option}=-3")
        assert f"{option}: expected a whole number from 1" in line
