"""The limits of the port that peers connect to, and what it outlives."""

from __future__ import annotations

import asyncio
import errno
import json
import os

from agent_lab import SECRET, Lab, go

from replicator.agent import server
from replicator.agent.channel import Dialer
from replicator.agent.sockets import AuthenticationError
from replicator.agent.wire import WireError


async def silent(lab: Lab) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", lab.gates[0].target)


async def talk(lab: Lab, secret: bytes = SECRET, role: str = "data") -> None:
    """A whole handshake as a peer, then the end."""
    address = f"127.0.0.1:{lab.gates[0].target}"
    channel = await Dialer(secret).connect(address, job="job", role=role, timeout=10)
    await channel.finish()


def test_no_more_than_so_many_may_be_proving_themselves_and_each_gives_its_place_back(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "MAX_HANDSHAKES", 2)

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            for _ in range(4):  # one after the other, each ends
                reader, writer = await silent(lab)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                assert await asyncio.wait_for(reader.read(), 5) == b""
                writer.close()
                await talk(lab)
            first, second = await silent(lab), await silent(lab)
            agent = lab.agents[0]
            assert agent is not None
            await lab.until(lambda: agent.server._handshakes == 2, "both to be let in")
            reader, writer = await silent(lab)
            assert await asyncio.wait_for(reader.read(), 5) == b""  # closed at once
            for _, open_writer in (first, second, (reader, writer)):
                open_writer.close()
            await lab.until(lambda: agent.server._handshakes == 0, "both places to be free")
            await talk(lab)

    go(scenario())


def test_a_port_that_is_out_of_descriptors_for_a_moment_serves_again(tmp_path, monkeypatch):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            loop = asyncio.get_running_loop()
            accept, failures = loop.sock_accept, []

            async def starved(listener):
                if len(failures) < 2:
                    failures.append(errno.EMFILE)
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                return await accept(listener)

            monkeypatch.setattr(loop, "sock_accept", starved)
            await lab.start()
            await talk(lab)
            assert len(failures) == 2

    go(scenario())


def test_more_readers_than_may_wait_are_sent_away(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MAX_WAITING_READERS", 1)

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            address = f"127.0.0.1:{lab.gates[0].target}"
            first = await Dialer(SECRET).connect(address, job="job", role="data", timeout=10)
            agent = lab.agents[0]
            assert agent is not None
            await lab.until(lambda: agent.server._readers, "the first to be served")
            second = await Dialer(SECRET).connect(address, job="job", role="data", timeout=10)
            try:
                await asyncio.wait_for(second.receive(), 5)
            except ConnectionError:
                pass
            else:
                raise AssertionError("it was served")
            await first.send(json.dumps({"get": "0" * 64}).encode())
            assert json.loads(await first.receive()) == {"answer": "missing"}
            await first.finish()
            await second.finish()
            await lab.until(lambda: not agent.server._readers, "its place to be free")
            await talk(lab)

    go(scenario())


def test_a_job_that_is_not_here_has_no_coordinator_here(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            address = f"127.0.0.1:{lab.gates[0].target}"
            for job, here in (("job", True), ("other", False)):
                channel = await Dialer(SECRET).connect(address, job=job, role="node", timeout=10)
                assert json.loads(await channel.receive())["coordinator"] is here
                await channel.finish()

    go(scenario())


def test_the_wrong_key_is_no_key(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            for secret in (b"", SECRET[:-1], SECRET + b"x"):
                try:
                    await talk(lab, secret)
                except (AuthenticationError, ConnectionError, WireError):
                    continue
                raise AssertionError(f"{secret!r} was taken")

    go(scenario())
