"""``stowplan doctor`` where there is no way to the cluster: one clear line, and nothing judged.

The real kubectl signs in, or fails to; what it says then is turned into that line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from .controlplane.processes import free_port
from .patient import Patient, write_kubeconfig
from .planes import SCENARIO_JOBSET, SCENARIO_KUEUE, Planes

pytestmark = pytest.mark.e2e

Kubeconfig = dict[str, Any]
Change = Callable[[Kubeconfig], object]
INSTALL_HINT = "Install no-such-plugin by following\nhttps://example.com/install"
SIGN_IN = "echo 'ERROR: Reauthentication failed.' >&2; echo 'Run gcloud auth login.' >&2; exit 1"


@pytest.fixture
def reached(planes: Planes, tmp_path: Path) -> Patient:
    """A plane with nothing in it."""
    return Patient(planes.empty(SCENARIO_KUEUE, SCENARIO_JOBSET), tmp_path)


def kubeconfig_of(patient: Patient) -> Kubeconfig:
    return dict(yaml.safe_load(patient.cluster.kubectl.kubeconfig.read_text()))


def signs_in_by(command: str, *arguments: str) -> Change:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "args": list(arguments),
        "installHint": INSTALL_HINT,
        "interactiveMode": "IfAvailable",
    }
    return lambda content: content["users"][0].update(user={"exec": plugin})


CHANGES: dict[str, tuple[Change, str]] = {
    "a context that there is not": (
        lambda content: content["contexts"][0].update(name="prod"),
        "there is no context e2e in {kubeconfig} (kubectl config get-contexts "
        "--kubeconfig={kubeconfig} lists what there is)",
    ),
    "a plug-in that is not installed": (
        signs_in_by("no-such-plugin"),
        "the credential plug-in no-such-plugin of context e2e is not installed: Install "
        "no-such-plugin by following https://example.com/install",
    ),
    "a plug-in that fails": (
        signs_in_by("sh", "-c", SIGN_IN),
        "the credential plug-in sh of context e2e failed: ERROR: Reauthentication failed. Run "
        "gcloud auth login.",
    ),
    "a plug-in that says something else": (
        signs_in_by("echo", "hello"),
        "the credential plug-in of context e2e gives no credentials: decoding stdout: ",
    ),
    "a token that is refused": (
        lambda content: content["users"][0].update(user={"token": "of-another-cluster"}),
        "the API server does not accept the credentials of context e2e (401 Unauthorized): sign "
        "in again, ",
    ),
    "no credentials": (
        lambda content: content["users"][0].update(user={}),
        "context e2e has no credentials in {kubeconfig}: ",
    ),
    "an authority that is not known": (
        lambda content: content["clusters"][0]["cluster"].pop("certificate-authority"),
        "Unable to connect to the server: tls: failed to verify certificate: ",
    ),
    "nobody who listens": (
        lambda content: content["clusters"][0]["cluster"].update(
            server=f"https://127.0.0.1:{free_port()}"
        ),
        "The connection to the server 127.0.0.1:",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_way_that_does_not_lead_there_is_one_line(
    reached: Patient, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    change, expected = CHANGES[name]
    content = kubeconfig_of(reached)
    change(content)
    kubeconfig = write_kubeconfig(reached.folder, content)
    assert replace(reached, kubeconfig=kubeconfig).ask() == 2
    assert the_line(capsys).startswith(expected.format(kubeconfig=kubeconfig))


@pytest.mark.parametrize("context", ["e2e", ""])
def test_a_kubeconfig_that_is_not_there_is_one_line(
    reached: Patient, capsys: pytest.CaptureFixture[str], context: str
) -> None:
    missing = reached.folder / "nowhere"
    assert replace(reached, kubeconfig=missing, context=context).ask() == 2
    assert the_line(capsys) == f"{missing}: there is no such kubeconfig"


def test_a_kubeconfig_without_a_current_context_is_one_line(
    reached: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = write_kubeconfig(reached.folder, {})
    assert replace(reached, kubeconfig=empty, context="").ask() == 2
    assert the_line(capsys).startswith(f"{empty} names no current context: give one with --context")


@pytest.mark.parametrize("status", [200, 403, 502])
def test_a_login_page_in_the_api_servers_place_is_one_line(
    reached: Patient, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    page = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
    with answering(status, page, "text/html") as address:
        assert ask_at(reached, address) == 2
    assert the_line(capsys).startswith("the answer is an HTML page ('Sign in'): a proxy or ")


def test_another_service_in_the_api_servers_place_is_not_an_empty_cluster(
    reached: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(200, b'{"status": "ok"}', "application/json") as address:
        assert ask_at(reached, address) == 2
    assert the_line(capsys) == (
        "what answers at the kubeconfig's address is no Kubernetes API server"
    )


def ask_at(patient: Patient, address: str) -> int:
    """Ask with the plane's kubeconfig but for the server's address."""
    content = kubeconfig_of(patient)
    content["clusters"][0]["cluster"] = {"server": address}
    return replace(patient, kubeconfig=write_kubeconfig(patient.folder, content)).ask()


def the_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of the standard error, without what frames it; nothing else is judged."""
    said = capsys.readouterr()
    assert said.out == ""
    *before, last = said.err.splitlines()
    assert all(line.startswith("stowplan doctor: reading context e2e ") for line in before)
    frame = ("stowplan doctor: ", "; nothing was judged")
    assert last.startswith(frame[0])
    assert last.endswith(frame[1])
    return last.removeprefix(frame[0]).removesuffix(frame[1])


@contextmanager
def answering(status: int, body: bytes, kind: str) -> Iterator[str]:
    """A server on loopback that gives the same answer to everything."""

    class Same(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Same) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
