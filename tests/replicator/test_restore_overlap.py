"""What a restore does not wait for: other ranks, the list of backups, a coordinator to be found."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest
from agent_lab import Lab, go

from replicator.agent import uplink
from replicator.agent.copies import VERIFY_NICE
from replicator.agent.store import LocalStore
from replicator.agent.tier import Tier


def nice_of_this_thread() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.fixture
def hashed(monkeypatch) -> list[str]:
    """The node directories whose data was hashed again, once for each copy."""
    nodes: list[str] = []
    original, usual = LocalStore.verify, nice_of_this_thread()

    def verify(self, key):
        assert nice_of_this_thread() == min(usual + VERIFY_NICE, 19)  # it gives way
        problem = original(self, key)
        nodes.append(self.root.name)
        return problem

    monkeypatch.setattr(LocalStore, "verify", verify)
    return nodes


def begin(lab: Lab, index: int) -> None:
    lab.write_config(index, lab.config(index))


def test_a_rank_that_comes_before_its_coordinator_need_not_ask_again(tmp_path, monkeypatch):
    monkeypatch.setattr(uplink, "FIRST_PAUSE", 1000.0)
    monkeypatch.setattr(uplink, "LONGEST_PAUSE", 1000.0)

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            begin(lab, 1)
            first, second = lab.agents
            await lab.until(
                lambda: first.server._early and second.server._early, "the wait for a coordinator"
            )
            begin(lab, 0)
            assert await lab.wait_restored() is None
            assert not first.server._early
            assert not second.server._early

    go(scenario())


def test_own_data_is_verified_once_and_before_the_others_come(tmp_path, hashed):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            begin(lab, 0)
            await lab.until(lambda: hashed, "the check of node 0")
            assert lab.marker(0) is None
            begin(lab, 1)
            assert await lab.wait_restored() == 1
            assert sorted(hashed) == ["job-node0", "job-node1"]
            assert {index: lab.data(index) for index in range(2)} == saved

    go(scenario())


def test_damage_that_is_found_before_the_others_come_is_made_good_from_a_peer(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            victim = next(lab.data_of(0, 1, 0).glob("*.distcp"))
            victim.write_bytes(b"?" + victim.read_bytes()[1:])
            begin(lab, 0)
            await lab.until(lambda: (1, 0) not in lab.copies(0), "the damaged copy to be put aside")
            begin(lab, 1)
            assert await lab.wait_restored() == 1
            assert {index: lab.data(index) for index in range(2)} == saved

    go(scenario())


def test_data_moves_while_the_backups_are_read_but_nothing_is_promised(
    tmp_path, monkeypatch, hashed
):
    answered = asyncio.Event()
    original = Tier.read

    async def slow(self, skip):
        await answered.wait()
        return await original(self, skip)

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            await lab.wipe(1)
            await lab.start(1)
            monkeypatch.setattr(Tier, "read", slow)
            lab.begin()
            await lab.until(lambda: (1, 1) in lab.copies(1), "node 1 to have its shard again")
            await lab.until(lambda: hashed == ["job-node0"], "node 0 to be verified")
            for index in range(2):
                assert lab.marker(index) is None
                assert not (lab.local(index) / "replicator.prerestore").exists()
            answered.set()
            assert await lab.wait_restored() == 1
            assert {index: lab.data(index) for index in range(2)} == saved
            for index in range(2):
                text = (lab.local(index) / "replicator.prerestore").read_text()
                assert "restore-step: 1" in text

    go(scenario())
