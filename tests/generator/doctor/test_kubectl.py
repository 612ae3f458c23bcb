"""The client of a cluster, with another program in kubectl's place: requests, pages, faults."""

from __future__ import annotations

import fcntl
import json
import stat
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import pytest

from generator.cli.main import main
from generator.doctor.kubectl import Kubectl, NoClusterError, RefusedError
from generator.doctor.snapshot import load

FAKE = """#!{python}
import json, sys
from pathlib import Path
folder = Path({folder!r})
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
answer = json.loads((folder / "answer.json").read_text())
sys.stdout.write(answer["out"])
sys.stderr.write(answer["err"])
sys.exit(answer["code"])
"""


class FakeKubectl:
    """A program in kubectl's place that says what it is told to say, and keeps its arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.program = folder / "kubectl"
        self.program.write_text(FAKE.format(python=sys.executable, folder=str(folder)))
        self.program.chmod(0o700)

    def says(self, out: str = "", err: str = "", code: int = 0) -> Kubectl:
        answer = {"out": out, "err": err, "code": code}
        (self._folder / "answer.json").write_text(json.dumps(answer))
        return Kubectl("prod", "", str(self.program), 5)

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self._folder / "calls").read_text().splitlines()]


@pytest.fixture
def fake(tmp_path: Path) -> FakeKubectl:
    return FakeKubectl(tmp_path)


def test_every_call_is_a_get_with_an_explicit_context(fake: FakeKubectl) -> None:
    assert fake.says('{"kind": "PodList"}').get("/api/v1/pods") == {"kind": "PodList"}
    (call,) = fake.calls()
    assert call == ["--request-timeout=5s", "--context=prod", "get", "--raw", "/api/v1/pods"]


def test_the_current_context_is_bound_by_name(fake: FakeKubectl, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    client = Kubectl("", str(kubeconfig), fake.says("prod\n").program)
    assert client.bound().context == "prod"
    assert fake.calls() == [
        ["--request-timeout=30s", f"--kubeconfig={kubeconfig}", "config", "current-context"]
    ]


@pytest.mark.parametrize("context", ["", "prod"])
def test_a_kubeconfig_that_is_not_there_is_named(context: str, tmp_path: Path) -> None:
    """kubectl would take it for an empty one, and miss the context in it."""
    with pytest.raises(NoClusterError, match="nowhere: there is no such kubeconfig"):
        Kubectl(context, str(tmp_path / "nowhere")).bound()
    with pytest.raises(NoClusterError, match="there is no such kubeconfig"):
        Kubectl(context, str(tmp_path)).bound()


def test_the_kubeconfig_of_the_environment_is_named(
    fake: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = fake.says(err="error: current-context is not set", code=1)
    monkeypatch.setenv("KUBECONFIG", "/etc/kube")
    with pytest.raises(NoClusterError, match=r"^/etc/kube \(KUBECONFIG\) names no current context"):
        client.get("/version")
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(NoClusterError, match=r"^~/\.kube/config names no current context"):
        client.get("/version")


@pytest.mark.parametrize(
    ("err", "reason"),
    [
        ("Error from server (Forbidden): pods is forbidden: User x cannot list", "Forbidden"),
        ("Error from server (NotFound): the server could not find it", "NotFound"),
    ],
)
def test_a_refusal_carries_the_servers_reason(fake: FakeKubectl, err: str, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        fake.says(err=err, code=1).get("/api/v1/pods")
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("err", "said"),
    [
        ("The connection to the server 127.0.0.1:9 was refused - did you", "was refused"),
        ('error: context "x" does not exist', "get-contexts lists what there is"),
        ("error: You must be logged in to the server (Unauthorized)", "401 Unauthorized"),
        ("Error from server (Forbidden): <html>\n</html>", "is an HTML page"),
        ("", "ended with 1"),
    ],
)
def test_no_cluster_is_said_in_one_line(fake: FakeKubectl, err: str, said: str) -> None:
    with pytest.raises(NoClusterError, match=said) as caught:
        fake.says(err=err, code=1).get("/version")
    assert "\n" not in str(caught.value)


def test_an_answer_that_breaks_off_is_no_cluster(fake: FakeKubectl) -> None:
    with pytest.raises(NoClusterError, match="no JSON"):
        fake.says('{"items": [').get("/api/v1/pods")


def test_a_login_page_is_no_cluster(fake: FakeKubectl) -> None:
    with pytest.raises(
        NoClusterError, match=r"an HTML page \('Sign in'\): a proxy or a login page"
    ):
        fake.says("<html><title>Sign in</title></html>").get("/version")


@pytest.mark.parametrize("answer", ["{}", '{"kind": "Status"}'])
def test_a_list_without_items_is_not_taken_for_an_empty_one(fake: FakeKubectl, answer: str) -> None:
    with pytest.raises(NoClusterError, match="/api/v1/pods: the answer is no list"):
        list(fake.says(answer).items("/api/v1/pods", {}))
    assert list(fake.says('{"items": null}').items("/api/v1/pods", {})) == []


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "train", "name": name}}


def paged(pages: dict[str, tuple[str, str] | RefusedError]) -> tuple[Kubectl, list[str]]:
    """Answers each path with pods, one for each letter, and where the next page is.

    Also returns the paths as they are asked for.
    """
    asked: list[str] = []

    class Paged(Kubectl):
        def get(self, path: str) -> dict[str, Any]:
            asked.append(path)
            page = pages[path]
            if isinstance(page, RefusedError):
                raise page
            return {"items": [pod(name) for name in page[0]], "metadata": {"continue": page[1]}}

    return Paged("prod"), asked


def test_a_long_list_is_read_page_by_page_and_a_page_at_a_time_is_held() -> None:
    pages = {
        "/api/v1/pods?labelSelector=job&limit=500": ("ab", "more/1"),
        "/api/v1/pods?labelSelector=job&limit=500&continue=more%2F1": ("c", ""),
    }
    kubectl, asked = paged({**pages})
    found = kubectl.items("/api/v1/pods", {"labelSelector": "job"})
    assert next(found) == pod("a")
    assert len(asked) == 1
    assert list(found) == [pod("b"), pod("c")]
    assert asked == list(pages)


def test_a_list_whose_next_page_has_expired_is_read_in_one_piece() -> None:
    pages = {
        "/api/v1/pods?labelSelector=job&limit=500": ("ab", "old"),
        "/api/v1/pods?labelSelector=job&limit=500&continue=old": RefusedError("Expired", "too old"),
        "/api/v1/pods?labelSelector=job": ("bcd", ""),  # a has ended meanwhile
    }
    kubectl, asked = paged(pages)
    found = kubectl.items("/api/v1/pods", {"labelSelector": "job"})
    assert list(found) == [pod(name) for name in "abcd"]
    assert asked == list(pages)


@pytest.mark.parametrize("refused", ["Expired", "Forbidden"])
def test_a_list_that_is_refused_from_the_start_is_not_asked_for_twice(refused: str) -> None:
    kubectl, asked = paged({"/api/v1/pods?limit=500": RefusedError(refused, "no")})
    with pytest.raises(RefusedError, match=refused):
        list(kubectl.items("/api/v1/pods", {}))
    assert len(asked) == 1


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NoClusterError, match="no-such-kubectl cannot be run"):
        Kubectl("a", program="no-such-kubectl").get("/version")


HANGS = """#!{python}
import subprocess, sys
plugin = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); time.sleep(60)"
subprocess.run([sys.executable, "-c", plugin, {held!r}])
"""
"""A kubectl whose sign-in plug-in hangs, holding the lock of a file."""


def is_free(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_a_program_that_hangs_is_ended_with_its_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("generator.doctor.kubectl._GRACE_S", 0.0)
    slow, held = tmp_path / "kubectl", tmp_path / "held"
    slow.write_text(HANGS.format(python=sys.executable, held=str(held)))
    slow.chmod(0o700)
    with pytest.raises(NoClusterError, match="no answer within"):
        Kubectl("a", program=str(slow), timeout_s=2).get("/version")
    with held.open() as file:  # there is such a file: the plug-in had begun
        deadline = time.monotonic() + 5
        while not is_free(file):
            assert time.monotonic() < deadline, "the plug-in lives on"
            time.sleep(0.01)


def test_a_saved_file_is_readable_by_its_owner_only(tmp_path: Path, fake: FakeKubectl) -> None:
    fake.says('{"gitVersion": "v1.36.3", "groups": [], "items": [], "metadata": {}}')
    target = tmp_path / "seen.json"
    main(["doctor", "--context=prod", f"--kubectl={fake.program}", f"--save={target}"])
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert load(target).context == "prod"


DYING = """#!{python}
import json, sys
from pathlib import Path
path = sys.argv[-1]
if "nodes" in path:
    sys.stderr.write("The connection to the server was refused - did you specify the right port?\\n")
    sys.exit(1)
print(json.dumps({{"gitVersion": "v1.36.3", "groups": [], "items": [], "metadata": {{}}}}))
"""


def test_a_server_that_dies_half_way_is_one_line_and_saves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "kubectl"
    program.write_text(DYING.format(python=sys.executable))
    program.chmod(0o700)
    target = tmp_path / "seen.json"
    code = main(["doctor", "--context=prod", f"--kubectl={program}", f"--save={target}"])
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert not target.exists()
    last = said.err.splitlines()[-1]
    assert "the API server stopped answering on the read of nodes" in last
    assert last.endswith("nothing was judged")
