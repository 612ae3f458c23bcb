"""f18 and more: what comes over the network is hostile until proven otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket

import pytest
from agent_lab import SECRET, Lab, go

from replicator.agent.channel import Channel, Dialer
from replicator.agent.security import KeyFileError, job_key, read_key
from replicator.agent.sockets import AuthenticationError
from replicator.agent.wire import WireError, decode_to_coordinator, decode_to_node, encode
from replicator.core import messages as msg
from replicator.core.model import CheckpointId, Content, Copy, Origin, Run, ShardId, Source


def port_of(lab: Lab, index: int) -> int:
    return lab.gates[index].target


async def send_raw(port: int, content: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(content)
        await writer.drain()
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 12)
    except OSError:
        return b""
    finally:
        writer.close()


def frame(document: object) -> bytes:
    payload = json.dumps(document).encode()
    return len(payload).to_bytes(4, "big") + payload


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "huge length": b"\xff\xff\xff\xff" + b"x" * 100,
    "no json": (5).to_bytes(4, "big") + b"hello",
    "list": frame([1, 2]),
    "deep": (2000).to_bytes(4, "big") + b"[" * 2000,
    "empty": b"",
    "other version": frame({"version": 99, "job": "job", "role": "node", "nonce": "00" * 32}),
    "bad role": frame({"version": 1, "job": "job", "role": "root", "nonce": "00" * 32}),
    "evil job": frame({"version": 1, "job": "../../x", "role": "node", "nonce": "00" * 32}),
    "no nonce": frame({"version": 1, "job": "job", "role": "node"}),
    "noise": random.Random(7).randbytes(4000),
    "wrong proof": frame({"version": 1, "job": "job", "role": "node", "nonce": "00" * 32})
    + frame({"proof": "00" * 32}),
}


def test_f18_garbage_on_the_port_changes_nothing(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            for content in GARBAGE.values():
                await asyncio.gather(*(send_raw(port_of(lab, i), content) for i in range(2)))
            agent = lab.agents[0]
            assert agent is not None
            rejected = agent.metrics.rejected._value.get()
            assert rejected == len(GARBAGE)
            await lab.replicate(1)
            assert not lab.errors(0)

    go(scenario())


def test_a_peer_with_another_key_gets_nowhere(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            lab.options[2] = {"secret": b"x" * 32}
            await lab.start()
            lab.begin()
            await asyncio.sleep(1.0)
            assert all(lab.marker(index) is None for index in range(3))
            address = f"127.0.0.1:{port_of(lab, 0)}"
            for role in ("node", "data"):
                with pytest.raises((AuthenticationError, ConnectionError)):
                    await Dialer(b"y" * 32).connect(address, job="job", role=role, timeout=5)

    go(scenario())


async def intruder(lab: Lab, role: str) -> Channel:
    """Someone who does know the key."""
    address = f"127.0.0.1:{port_of(lab, 0)}"
    return await Dialer(SECRET).connect(address, job=lab.job, role=role, timeout=5)


def test_f18_messages_before_a_hello_are_not_acted_on(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            channel = await intruder(lab, "node")
            await channel.receive()
            content = Content("D" + "0" * 64, "D" + "0" * 64, 1)
            for message in (
                msg.Sealed(CheckpointId(1, 99), (content,)),
                msg.Have(CheckpointId(1, 99), ShardId(1, 0), content),
                msg.Prepared(Run(1, "x")),
            ):
                await channel.send(encode(message))
            await lab.replicate(2)
            assert lab.replicated() == 2
            await channel.finish()

    go(scenario())


BAD_FRAMES = (
    b"not json",
    b"[]",
    b"{}",
    b'{"type": "Hello"}',
    b'{"type": "Plan", "run": [1, "x"]}',
    b'{"type": "Have", "checkpoint": [1, true], "shard": [0, 0], "content": ["", "", 1]}',
    b'{"type": "__class__"}',
    b"[" * 100_000,
)


@pytest.mark.parametrize("payload", BAD_FRAMES)
def test_f18_an_authenticated_peer_that_talks_nonsense_is_cut_off(tmp_path, payload):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            channel = await intruder(lab, "node")
            await channel.receive()
            await channel.send(payload)
            with pytest.raises((ConnectionError, OSError)):
                await asyncio.wait_for(channel.receive(), 5)
            await lab.replicate(1)
            await channel.finish()

    go(scenario())


def test_a_replayed_or_changed_frame_ends_the_connection(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            for change in (False, True):
                channel = await intruder(lab, "node")
                await channel.receive()
                once = channel._framed(encode(msg.Ping()))
                again = bytearray(once)
                if change:
                    again[6] ^= 1
                await channel.connection.send(bytes(again) if change else once + once)
                with pytest.raises((ConnectionError, OSError)):
                    await asyncio.wait_for(channel.receive(), 5)
                await channel.finish()

    go(scenario())


@pytest.mark.parametrize(
    "request_", [b'{"get": "../../../etc/passwd"}', b'{"get": 7}', b'{"put": "x"}', b"\x00" * 100]
)
def test_a_reader_can_ask_for_nothing_but_hashes(tmp_path, request_):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            channel = await intruder(lab, "data")
            await channel.send(request_)
            with pytest.raises((ConnectionError, OSError)):
                await asyncio.wait_for(channel.receive(), 5)
            await channel.finish()
            await lab.replicate(1)

    go(scenario())


def test_many_silent_connections_do_not_keep_others_out(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            silent = []
            for _ in range(100):
                sock = socket.create_connection(("127.0.0.1", port_of(lab, 0)))
                silent.append(sock)
            assert await lab.restored() is None
            await lab.replicate(1)
            for sock in silent:
                sock.close()

    go(scenario())


# ---- the codec ---------------------------------------------------------------------------------


def sample_hello() -> msg.Hello:
    content = Content("a" * 64, "D" + "b" * 64, 5)
    copies = (Copy(CheckpointId(1, 0), ShardId(0, 0), content, 2),)
    return msg.Hello(
        0, 2, 1, (1,), None, "job", "", "a", 0, 1, 2, "h:1", 3, Run(1, "t"), None, None, "",
        copies,
    )  # fmt: skip


def test_messages_survive_the_wire():
    source = Source(Origin.PEER, 1, "127.0.0.1:1")
    content = Content("a" * 64, "D" + "b" * 64, 5)
    fetch = msg.Fetch(CheckpointId(1, 2), ShardId(0, 1), content, 2, source)
    plan = msg.Plan(Run(2, "t"), None, "", "", (ShardId(1, 0),))
    assert decode_to_coordinator(encode(sample_hello())) == sample_hello()
    assert decode_to_node(encode(fetch)) == fetch
    assert decode_to_node(encode(plan)) == plan


def test_a_node_does_not_take_what_only_nodes_may_say():
    with pytest.raises(WireError):
        decode_to_node(encode(sample_hello()))


def mutations(document):
    """The document with one field at a time replaced by something that does not belong there."""
    for key in document:
        for bad in (None, -5, 2**70, "x" * 5000, [], {}, [[[]]], True, 1.5, "\x00"):
            if document[key] != bad:
                yield {**document, key: bad}
    yield {**document, "extra": 1}


def test_no_mutated_hello_raises_anything_but_a_wire_error():
    document = json.loads(encode(sample_hello()))
    accepted = 0
    for changed in mutations(document):
        try:
            decode_to_coordinator(json.dumps(changed).encode())
            accepted += 1
        except WireError:
            pass
    assert accepted < 25  # optional and free-text fields only


def test_random_bytes_raise_nothing_but_wire_errors():
    pick = random.Random(1)
    good = encode(sample_hello())
    for _ in range(2000):
        content = bytearray(good)
        for _ in range(pick.randrange(1, 4)):
            content[pick.randrange(len(content))] = pick.randrange(256)
        with contextlib.suppress(WireError):
            decode_to_coordinator(bytes(content))


# ---- keys --------------------------------------------------------------------------------------


def test_a_key_file_must_be_long_and_private(tmp_path):
    key = tmp_path / "key"
    with pytest.raises(KeyFileError, match="No such file"):
        read_key(key)
    key.write_text("short")
    key.chmod(0o600)
    with pytest.raises(KeyFileError, match="expected 32"):
        read_key(key)
    key.write_text("k" * 40)
    key.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod"):
        read_key(key)
    key.chmod(0o600)
    assert read_key(key) == b"k" * 40


def test_jobs_have_different_keys():
    assert job_key(SECRET, "a") != job_key(SECRET, "b")
