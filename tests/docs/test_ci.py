from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs/ci/comment.py"
TOKEN = "token-for-the-test-server-only"
MARKER = "<!-- stowplan-diff:v1 -->"


class Server(ThreadingHTTPServer):
    """A stand-in for the two hosts' comment APIs on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.answer = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: object) -> None:
        pass

    def _send(self, value: object, status: int = 200, **headers: str) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server, parts = self.server, urlsplit(self.path)
        given = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        if not given.endswith(TOKEN):
            return self._send({}, 401)
        server.calls.append(f"{self.command} {parts.path}")
        if server.answer:
            location = {"Location": f"{server.address}/elsewhere"} if server.answer == 302 else {}
            return self._send({}, server.answer, **location)
        if parts.path.endswith("/user"):
            return self._send({"username": "bot"})
        if self.command == "GET":
            query = parse_qs(parts.query)
            page, size = int(query["page"][0]), int(query["per_page"][0])
            return self._send(server.comments[(page - 1) * size : page * size])
        text = json.loads(body)["body"]
        if self.command == "POST":
            comment = {"id": len(server.comments) + 1, "body": text, **author("bot")}
            server.comments.append(comment)
            return self._send(comment, 201)
        number = int(parts.path.rsplit("/", 1)[1])
        (comment,) = [c for c in server.comments if c["id"] == number]
        comment["body"] = text
        return self._send(comment)

    do_GET = do_POST = do_PATCH = do_PUT = _handle  # noqa: N815 - names of the base class


def author(name: str) -> dict[str, Any]:
    return {"user": {"login": name}, "author": {"username": name}}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(params=["github", "gitlab"])
def host(request: pytest.FixtureRequest, server: Server) -> dict[str, str]:
    """The environment of a job."""
    if request.param == "github":
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": server.address,
            "GITHUB_REPOSITORY": "acme/fleet",
            "PULL_REQUEST": "7",
            "GITHUB_TOKEN": TOKEN,
            "COMMENT_AUTHOR": "bot",
        }
    return {
        "CI_API_V4_URL": server.address,
        "CI_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "7",
        "GITLAB_TOKEN": TOKEN,
    }


def post(
    tmp_path: Path, environment: dict[str, str], text: str
) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "diff.md"
    file.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(file)],
        env={"PATH": os.environ["PATH"], "no_proxy": "*", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_first_run_adds_and_the_next_renews(
    tmp_path: Path, server: Server, host: dict[str, str]
) -> None:
    assert post(tmp_path, host, f"{MARKER}\none ±\n").stdout == "comment added\n"
    assert post(tmp_path, host, f"{MARKER}\ntwo ±\n").stdout == "comment renewed\n"
    assert post(tmp_path, host, f"{MARKER}\ntwo ±\n").stdout == "comment unchanged\n"
    assert [comment["body"] for comment in server.comments] == [f"{MARKER}\ntwo ±\n"]


def test_its_comment_is_found_behind_many_others(
    tmp_path: Path, server: Server, host: dict[str, str]
) -> None:
    server.comments = [{"id": n, "body": "hello", **author("x")} for n in range(1, 251)]
    post(tmp_path, host, f"{MARKER}\none\n")
    assert post(tmp_path, host, f"{MARKER}\ntwo\n").stdout == "comment renewed\n"
    assert len(server.comments) == 251


def test_nobody_elses_comment_is_overwritten(
    tmp_path: Path, server: Server, host: dict[str, str]
) -> None:
    server.comments = [{"id": 1, "body": f"{MARKER}\nmine", **author("somebody")}]
    assert post(tmp_path, host, f"{MARKER}\none\n").stdout == "comment added\n"
    assert server.comments[0]["body"] == f"{MARKER}\nmine"


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_is_said_without_the_token(
    tmp_path: Path, server: Server, host: dict[str, str], status: int
) -> None:
    server.answer = status
    done = post(tmp_path, host, f"{MARKER}\none\n")
    assert done.returncode == 1
    assert str(status) in done.stderr
    assert "Traceback" not in done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_a_redirect_is_not_followed(tmp_path: Path, server: Server, host: dict[str, str]) -> None:
    server.answer = 302
    assert post(tmp_path, host, f"{MARKER}\none\n").returncode == 1
    assert len(server.calls) == 1


def test_a_text_without_marker_is_refused(
    tmp_path: Path, server: Server, host: dict[str, str]
) -> None:
    done = post(tmp_path, host, "hello\n")
    assert (done.returncode, server.comments) == (1, [])
    assert "no marker" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"GITHUB_API_URL": "http://api.example"}, "https is needed"),
        ({"PULL_REQUEST": "7/../8"}, "malformed"),
        ({"GITHUB_REPOSITORY": "a/b/c"}, "malformed"),
        ({"GITHUB_TOKEN": ""}, "not set: GITHUB_TOKEN"),
    ],
)
def test_a_bad_environment(tmp_path: Path, change: dict[str, str], message: str) -> None:
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": "https://127.0.0.1:1",
        "GITHUB_REPOSITORY": "acme/fleet",
        "PULL_REQUEST": "7",
        "GITHUB_TOKEN": TOKEN,
        **change,
    }
    done = post(tmp_path, environment, f"{MARKER}\none\n")
    assert done.returncode == 1
    assert message in done.stderr


def test_wrong_usage() -> None:
    for arguments in ([], ["/nonexistent/diff.md"]):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


# The pipelines


def workflow() -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github/workflows/stowplan.yml").read_text())


def test_actions_are_pinned_and_rights_are_least() -> None:
    text = (ROOT / ".github/workflows/stowplan.yml").read_text()
    uses = re.findall(r"uses: (\S+)", text)
    assert uses
    assert all(re.search(r"@[0-9a-f]{40}$", use) for use in uses)
    assert workflow()["permissions"] == {}
    assert "pull_request_target" not in text


ACTIONLINT = shutil.which("actionlint")


@pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not installed")
def test_actionlint_has_nothing_to_say() -> None:
    assert ACTIONLINT is not None
    done = subprocess.run(
        [ACTIONLINT, ".github/workflows/stowplan.yml"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_no_step_builds_a_command_from_what_a_contributor_wrote() -> None:
    """`${{ }}` inside a script is pasted into it; values go through the environment instead."""
    (job,) = workflow()["jobs"].values()
    assert [step["name"] for step in job["steps"] if "${{" in step.get("run", "")] == []


def scripts() -> list[str]:
    (job,) = workflow()["jobs"].values()
    gitlab = yaml.safe_load((ROOT / "docs/ci/gitlab-ci.yml").read_text())
    found = [step["run"] for step in job["steps"] if "run" in step]
    for entry in gitlab.values():
        found += entry.get("script", []) + entry.get("before_script", [])
    return found


@pytest.mark.parametrize("script", scripts())
def test_every_script_is_valid_shell(script: str) -> None:
    done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.stderr == ""


def test_both_pipelines_run_the_three_commands() -> None:
    text = "\n".join(scripts())
    for command in ("compile --check", "check --format sarif", "check --format junit"):
        assert command in text
    assert text.count("comment.py diff.md") == 2
    assert text.count("--fail-on=blocked,data-loss") == 2


@pytest.mark.parametrize(("status", "fails"), [(0, False), (1, False), (2, True), (3, True)])
def test_the_gitlab_script_goes_by_the_exit_status(
    tmp_path: Path, status: int, fails: bool
) -> None:
    gitlab = yaml.safe_load((ROOT / "docs/ci/gitlab-ci.yml").read_text())
    (script,) = gitlab["stowplan diff"]["script"]
    fake = tmp_path / "stowplan"
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexit {status}\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc",
            "CI_JOB_URL": "https://git.example/job/1",
        },
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode != 0) is fails
    assert "--base abc --head HEAD" in (tmp_path / "arguments").read_text()


@pytest.mark.parametrize(("status", "fails"), [(0, False), (1, False), (2, True), (3, False)])
def test_the_github_step_goes_by_the_exit_status(tmp_path: Path, status: int, fails: bool) -> None:
    """3 fails in a later step, after the comment."""
    (job,) = workflow()["jobs"].values()
    (script,) = [step["run"] for step in job["steps"] if step.get("id") == "diff"]
    fake = tmp_path / ".venv/bin/stowplan"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\necho text > diff.md\nexit {status}\n")
    fake.chmod(0o755)
    output, summary = tmp_path / "output", tmp_path / "summary"
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env={
            "PATH": "/usr/bin:/bin",
            "REPORT_URL": "https://git.example/run/1",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
        },
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode != 0) is fails
    assert output.read_text() == f"status={status}\n"
    assert summary.exists() is not fails


def test_the_gitlab_example_installs_the_version_that_this_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"stowplan=={project['version']}\n" in (ROOT / "docs/ci/gitlab-ci.yml").read_text()
