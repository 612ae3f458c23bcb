"""Where a job's coordinator is found: a static file, or a Lease on an API server (a small fake)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agent_lab import Lab

from replicator.agent.channel import split_address
from replicator.platform import kubernetes
from replicator.platform.base import PlatformError
from replicator.platform.kubernetes import SINCE, KubernetesPlatform, lease_name
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
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
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
            known = stored.get("metadata") if stored is not None else None
            version = known.get("resourceVersion") if isinstance(known, dict) else None
            if stored is None or given != version:
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


def test_a_lease_that_nobody_renews_is_taken_even_if_its_holders_clock_was_ahead(
    api, tmp_path, monkeypatch
):
    """The holder is dead, and what it wrote lies in the future of everybody else."""

    async def scenario():
        ahead = {"renewTime": "2999-01-01T00:00:00.000000Z"}
        await platform(api, tmp_path).publish("llama", "10.0.0.2:4242", 4e9)
        lease = api.leases[lease_name("llama")]
        lease["spec"].update(ahead)
        heir = platform(api, tmp_path)
        monkeypatch.setattr(kubernetes, "LEASE_SECONDS", 0.4)
        for _ in range(6):  # while it is renewed it is not taken, whatever the clocks say
            with pytest.raises(PlatformError, match="younger agent"):
                await heir.publish("llama", "10.0.0.1:4242", 100.0)
            lease["metadata"]["resourceVersion"] += "0"
            await asyncio.sleep(0.1)
        with pytest.raises(PlatformError, match="younger agent"):
            await heir.publish("llama", "10.0.0.1:4242", 100.0)
        await asyncio.sleep(0.5)
        await heir.publish("llama", "10.0.0.1:4242", 100.0)
        assert await heir.coordinators("llama") == ["10.0.0.1:4242"]

    run(scenario())


def test_the_token_does_not_follow_a_redirection(api, tmp_path):
    async def scenario():
        target = f"{api.url}{PREFIX}/{lease_name('job')}"
        elsewhere = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
        server, url = await odd_server(elsewhere.encode())
        token = tmp_path / "token"
        token.write_text("abc")
        async with server:
            asked = KubernetesPlatform(url, "training", token_file=token)
            with pytest.raises(PlatformError, match="HTTP 302"):
                await asked.coordinators("job")
        assert not api.calls

    run(scenario())


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
        ("agents: []", r"agents: expected a list of host:port, found \[\]"),
        ("agents: h:1", "expected a list of host:port, found 'h:1'"),
        ("agents: [nowhere]", "no address"),
        ("agents: ['h:0']", "no address"),
        ("agents: ['h:1']\npeers: 2", "expected a mapping"),
        ("agents: ['h:1']\njob-uid: ../x", "job-uid"),
        ("agents: [", r"peers\.yaml:\d+:\d+: not valid YAML: did not find expected node content"),
        ("agents: ['h:1']\n\tx", r"peers\.yaml:2:1: not valid YAML: found character"),
        ("agents: ['a b:1']", "no address"),
        ("agents: ['a..b:1']", "no address"),
        ('agents: ["a\\nb:1"]', "no address"),
        ("agents: ['h\u00f6st:1']", "no address"),
        ("agents: ['h:\uff11']", "no address"),
        (f"agents: ['h:{'1' * 5000}']", "no address"),
        ("agents: ['h:1']\njob-uid: 2026-99-99", "month must be"),
        ("[" * 5000, "peers.yaml"),
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


def test_addresses_are_names_and_ip_addresses():
    for address, host in {
        "node-1.svc_x.example:80": "node-1.svc_x.example",
        "host.:80": "host.",
        "10.0.0.7:4242": "10.0.0.7",
        "[fe80::1%eth0]:1": "fe80::1%eth0",
        "::1:65535": "::1",
    }.items():
        assert split_address(address) == (host, int(address.rpartition(":")[2]))


def test_the_peers_file_may_be_a_link_as_a_mounted_configmap_is(tmp_path):
    data = tmp_path / "..data"
    data.mkdir()
    (data / "peers.yaml").write_text("agents: ['a:1']")
    (tmp_path / "peers.yaml").symlink_to("..data/peers.yaml")
    assert StaticPlatform(tmp_path / "peers.yaml").agents() == ["a:1"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PlatformError, match="pipe, a device"):
        StaticPlatform(tmp_path / "pipe")


def test_while_the_peers_file_is_being_written_agents_go_on(tmp_path, caplog):
    async def scenario():
        async with Lab(tmp_path) as lab:
            good = lab.peers_file.read_text() + "job-uid: run-1\n"
            lab.peers_file.write_text(good)
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.peers_file.write_text("")
            lab.begin()
            await lab.until(lambda: "the job cannot start yet" in caplog.text, "the report")
            lab.peers_file.write_text(good.replace("run-1", "run-2"))
            assert await lab.wait_restored() == 1
            assert {agent.node.state.job.uid for agent in lab.agents} == {"run-2"}
            await lab.replicate(2)

    asyncio.run(asyncio.wait_for(scenario(), 60))


ODD_ANSWERS = {
    "truncated chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{",
    "garbage": b"\x16\x03\x01garbage\r\n\r\n",
    "long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
    "short body": b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"spec":',
    "nothing": b"",
    "a list": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "deep": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
}


async def odd_server(answer):
    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS.keys())
def test_an_odd_answer_of_the_api_server_is_a_platform_error(answer):
    async def scenario():
        server, url = await odd_server(answer)
        async with server:
            platform = KubernetesPlatform(url, "training")
            with pytest.raises(PlatformError, match="API server: GET lease") as caught:
                await platform.coordinators("job")
            assert len(str(caught.value)) < 400
            with pytest.raises(PlatformError, match="API server: GET lease"):
                await platform.publish("job", "h:1", 1.0)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_an_agent_outlives_an_api_server_that_answers_garbage(tmp_path):
    async def scenario():
        server, url = await odd_server(ODD_ANSWERS["truncated chunk"])
        async with server, Lab(tmp_path, 1) as lab:
            lab.options[0] = {"platform": KubernetesPlatform(url, "training")}
            await lab.start()
            lab.begin()
            await asyncio.sleep(1.5)
            assert not lab.tasks[0].done()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": [1]},
        {"spec": "x", "metadata": None},
        {"metadata": None},
        {"metadata": "x", "spec": {"holderIdentity": ["a:1"]}},
        {"metadata": {"annotations": 7}, "spec": {"renewTime": 5, "holderIdentity": "old:1"}},
        {
            "metadata": {"annotations": {SINCE: "inf"}},
            "spec": {"holderIdentity": "old:1", "renewTime": "2999-01-01T00:00:00.0Z"},
        },
        {
            "metadata": {"annotations": {SINCE: "1e99"}},
            "spec": {
                "holderIdentity": "old:1",
                "renewTime": "2999-01-01T00:00:00.0Z",
                "leaseDurationSeconds": 1e300,
            },
        },
    ],
)
def test_an_odd_lease_is_taken_over(api, odd):
    api.leases[lease_name("job")] = json.loads(json.dumps(odd))
    platform = KubernetesPlatform(api.url, "training")
    if "old:1" in str(odd):
        assert run(platform.coordinators("job")) == ["old:1"]
    else:
        with pytest.raises(PlatformError, match="no agent coordinates"):
            run(platform.coordinators("job"))
    run(platform.publish("job", "new:1", 2.0))
    assert run(platform.coordinators("job")) == ["new:1"]
    run(platform.withdraw("job"))


def test_a_token_that_is_none_is_not_shown(api, tmp_path):
    token = tmp_path / "token"
    token.write_text("topsecret\nX: y")
    platform = KubernetesPlatform(api.url, "training", token_file=token)
    with pytest.raises(PlatformError, match="no token") as caught:
        run(platform.coordinators("job"))
    assert "topsecret" not in str(caught.value)


def test_a_missing_authority_is_a_platform_error(api, tmp_path):
    platform = KubernetesPlatform(api.url, "training", ca_file=tmp_path / "none.crt")
    with pytest.raises(PlatformError, match="No such file"):
        run(platform.coordinators("job"))


class BrokenPlatform(StaticPlatform):
    """Breaks its promise about errors."""

    async def publish(self, job, address, since):
        raise AttributeError("not foreseen")

    async def withdraw(self, job):
        raise AttributeError("not foreseen either")


def test_an_unforeseen_error_while_publishing_ends_the_agent_and_not_the_publishing(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            lab.options[0] = {"platform": BrokenPlatform(lab.peers_file)}
            await lab.start()
            lab.begin()
            with pytest.raises(AttributeError, match=r"not foreseen$"):
                await asyncio.wait_for(lab.tasks[0], 10)
            lab.tasks[0] = None

    asyncio.run(asyncio.wait_for(scenario(), 30))
