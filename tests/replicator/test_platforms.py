"""Where a job's coordinator is found: a static file, or a Lease on an API server (a small fake)."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agent_lab import Lab

from replicator.platform.base import PlatformError
from replicator.platform.kubernetes import KubernetesPlatform, lease_name
from replicator.platform.static import StaticPlatform

PREFIX = "/apis/coordination.k8s.io/v1/namespaces/training/leases"


class FakeApiServer:
    """Leases with resourceVersion conflicts, as a real API server keeps them."""

    def __init__(self) -> None:
        self.leases: dict[str, dict] = {}
        self.version = 0
        self.forbidden = False
        self.tokens: set[str] = set()
        self.calls: list[tuple[str, str]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, code, document):
                body = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def handle_one(self, method):
                fake.calls.append((method, self.path))
                fake.tokens.add(self.headers.get("Authorization", ""))
                if fake.forbidden:
                    return self.answer(403, {})
                assert self.path.startswith(PREFIX)
                name = self.path.removeprefix(PREFIX).removeprefix("/")
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                return self.answer(*fake.apply(method, name, body))

            def do_GET(self):
                self.handle_one("GET")

            def do_POST(self):
                self.handle_one("POST")

            def do_PUT(self):
                self.handle_one("PUT")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def apply(self, method, name, body):
        if method == "GET":
            return (200, self.leases[name]) if name in self.leases else (404, {})
        name = name or body["metadata"]["name"]
        stored = self.leases.get(name)
        if method == "POST" and stored is not None:
            return 409, {}
        if method == "PUT":
            given = body["metadata"].get("resourceVersion")
            if stored is None or given != stored["metadata"]["resourceVersion"]:
                return 409, {}
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.leases[name] = body
        return 200, body


@pytest.fixture
def api():
    fake = FakeApiServer()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def platform(api, tmp_path, **keys) -> KubernetesPlatform:
    token = tmp_path / "token"
    token.write_text("abc\n")
    return KubernetesPlatform(api.url, "training", token_file=token, **keys)


def run(coroutine):
    return asyncio.run(coroutine)


def test_the_lease_names_the_coordinator(api, tmp_path):
    one = platform(api, tmp_path)
    with pytest.raises(PlatformError, match="no agent coordinates job llama"):
        run(one.coordinators("llama"))
    run(one.publish("llama", "10.0.0.1:4242", 100.0))
    assert run(one.coordinators("llama")) == ["10.0.0.1:4242"]
    assert api.tokens == {"Bearer abc"}


def test_renewing_does_not_ask_the_server_each_time(api, tmp_path):
    async def scenario():
        one = platform(api, tmp_path)
        for _ in range(5):
            await one.publish("llama", "10.0.0.1:4242", 100.0)

    run(scenario())
    assert [method for method, _ in api.calls] == ["GET", "POST"]


def test_the_younger_agent_takes_the_lease_and_keeps_it(api, tmp_path):
    run(platform(api, tmp_path).publish("llama", "10.0.0.1:4242", 100.0))
    run(platform(api, tmp_path).publish("llama", "10.0.0.2:4242", 200.0))
    with pytest.raises(PlatformError, match=r"younger agent at 10\.0\.0\.2:4242"):
        run(platform(api, tmp_path).publish("llama", "10.0.0.1:4242", 100.0))
    assert run(platform(api, tmp_path).coordinators("llama")) == ["10.0.0.2:4242"]


def test_an_expired_lease_may_be_taken_by_an_older_agent(api, tmp_path):
    run(platform(api, tmp_path).publish("llama", "10.0.0.2:4242", 200.0))
    api.leases[lease_name("llama")]["spec"]["renewTime"] = "2020-01-01T00:00:00.000000Z"
    run(platform(api, tmp_path).publish("llama", "10.0.0.1:4242", 100.0))
    assert run(platform(api, tmp_path).coordinators("llama")) == ["10.0.0.1:4242"]


def test_withdrawing_leaves_nobody(api, tmp_path):
    async def scenario():
        one = platform(api, tmp_path)
        await one.publish("llama", "10.0.0.1:4242", 100.0)
        await one.withdraw("llama")
        with pytest.raises(PlatformError):
            await one.coordinators("llama")

    run(scenario())


def test_withdrawing_does_not_take_the_lease_from_a_younger_agent(api, tmp_path):
    async def scenario():
        old, young = platform(api, tmp_path), platform(api, tmp_path)
        await old.publish("llama", "10.0.0.1:4242", 100.0)
        await young.publish("llama", "10.0.0.2:4242", 200.0)
        await old.withdraw("llama")
        assert await old.coordinators("llama") == ["10.0.0.2:4242"]

    run(scenario())


def test_missing_rights_are_told_with_what_is_needed(api, tmp_path):
    api.forbidden = True
    with pytest.raises(PlatformError, match="get, create and update on leases"):
        run(platform(api, tmp_path).publish("llama", "10.0.0.1:4242", 100.0))


@pytest.mark.parametrize("holder", ["", None, 7, "no address", "host:99999", "../x:1:2:3/"])
def test_a_lease_with_a_strange_holder_names_nobody(api, tmp_path, holder):
    run(platform(api, tmp_path).publish("llama", "10.0.0.1:4242", 100.0))
    api.leases[lease_name("llama")]["spec"]["holderIdentity"] = holder
    with pytest.raises(PlatformError):
        run(platform(api, tmp_path).coordinators("llama"))


def test_without_the_lease_the_service_gives_all_agents(api, tmp_path):
    api.forbidden = True
    one = platform(api, tmp_path, service="localhost:4242")
    assert "127.0.0.1:4242" in run(one.coordinators("llama"))


def test_lease_names_are_valid_and_differ():
    names = [lease_name(job) for job in ("Llama_3.1", "llama-3-1", "x" * 180, "...")]
    assert len(set(names)) == 4
    for name in names:
        assert len(name) <= 63 + 20
        assert name == name.lower()
        assert all(c.isalnum() or c == "-" for c in name)
        assert name[-1].isalnum()


def test_outside_a_cluster_it_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(PlatformError, match="only in a pod"):
        KubernetesPlatform.in_cluster()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(PlatformError, match="is the account mounted"):
        KubernetesPlatform.in_cluster(account=tmp_path)


def test_agents_find_one_another_through_a_lease(api, tmp_path):
    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            for index in range(3):
                lab.options[index] = {"platform": platform(api, tmp_path)}
            await lab.start()
            assert await lab.restored() is None
            await lab.replicate(1)
            # Rank 0 moves to another node; the Lease follows.
            for index in range(3):
                lab.write_config(index, lab.config((index + 1) % 3))
            assert await lab.wait_restored() == 1
            await lab.replicate(2)

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a mapping"),
        ("agents: []", "expected a list of host:port"),
        ("agents: [nowhere]", "no address"),
        ("agents: ['h:0']", "no address"),
        ("agents: ['h:1']\npeers: 2", "expected a mapping"),
        ("agents: ['h:1']\njob-uid: ../x", "job-uid"),
        ("agents: [", "while parsing"),
    ],
)
def test_a_bad_peers_file_is_an_error_with_its_name(tmp_path, text, words):
    path = tmp_path / "peers.yaml"
    path.write_text(text)
    with pytest.raises(PlatformError, match=words) as caught:
        StaticPlatform(path)
    assert str(caught.value).startswith(str(path))


def test_the_peers_file_is_read_anew(tmp_path):
    path = tmp_path / "peers.yaml"
    path.write_text("agents: ['a:1']")
    static = StaticPlatform(path)
    path.write_text("agents: ['b:1', 'c:2']\njob-uid: run-1")
    assert run(static.coordinators("x")) == ["b:1", "c:2"]
    assert static.job_uid == "run-1"
