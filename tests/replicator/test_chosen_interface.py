"""`--bind` chooses the interface for both directions: agents listen on it and connect from it."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest
from agent_lab import Lab, tree

HOSTS = ("127.0.0.66", "127.0.0.77")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on loopback")
def test_every_connection_to_a_peer_leaves_from_the_bound_address(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            for index, host in enumerate(HOSTS):
                lab.gates[index].host = host
                lab.options[index] = {"host": host}
            await lab.start()
            for agent, host in zip(lab.agents, HOSTS, strict=True):
                assert agent.server._listener.getsockname()[0] == host
            await lab.restored()
            saved = await lab.replicate(1)  # control connections, and data both ways
            assert tree(lab.data_of(1, 1, 0)) == saved[0]
            assert tree(lab.data_of(0, 1, 1)) == saved[1]
            await lab.wipe(1)
            await lab.start(1)
            assert await lab.restored() == 1  # and the fetching of a restore
            assert HOSTS[1] in lab.gates[0].callers, "agent 1 has called agent 0"
            assert HOSTS[0] in lab.gates[1].callers, "agent 0 has called agent 1"
            assert lab.gates[0].callers | lab.gates[1].callers == set(HOSTS)

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on loopback")
def test_an_agent_listens_on_its_own_address_only(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            lab.gates[0].host = HOSTS[1]
            lab.options[0] = {"host": HOSTS[1]}
            await lab.start()
            port = lab.gates[0].target
            with socket.create_connection((HOSTS[1], port), timeout=5):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)

    asyncio.run(asyncio.wait_for(scenario(), 60))
