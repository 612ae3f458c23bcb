"""Which agent has the coordinator: after a restart of the job, and when rank 0 has moved away.

The agent that had it may live on and know nothing of that, for example on a node for which a spare
stepped in.
"""

from __future__ import annotations

import asyncio

import pytest
from agent_lab import Lab, go, tree

from replicator.agent import uplink
from replicator.agent.channel import Dialer


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, str]]:
    """Who asked whom for a coordinator: the addresses of both."""
    asked: list[tuple[str, str]] = []
    original = Dialer.connect

    async def connect(self, address, *, job, role, timeout):
        if role == "node":
            asked.append((self.advertised, address))
        return await original(self, address, job=job, role=role, timeout=timeout)

    monkeypatch.setattr(Dialer, "connect", connect)
    return asked


async def start_with_spare(lab: Lab) -> dict[str, bytes]:
    """Nodes 0 and 1 run a job of two; the agent of node 2 waits. Returns what rank 0 saved."""
    await lab.start()
    for index in (0, 1):
        lab.write_config(index, lab.config(index, nodes=2))
    await lab.until(lambda: lab.marker(0) and lab.marker(1), "the first start")
    for index in (0, 1):
        lab.save_on(index, 5)
    await lab.until(lambda: lab.replicated() == 5, "step 5 to be replicated")
    return tree(lab.data_of(0, 5, 0))


async def restart_with_spare_as_rank_0(
    lab: Lab, first: int, saved: dict[str, bytes], pause: float = 0.0
) -> None:
    """Node 0 is told nothing. `first` begins before the other one."""
    texts = {1: lab.config(1, nodes=2), 2: lab.config(0, nodes=2)}
    lab.write_config(first, texts.pop(first))
    await lab.until(lambda: not (lab.local(first) / "replicator.yaml").exists(), "the first one")
    await asyncio.sleep(pause)
    for index, text in texts.items():
        lab.write_config(index, text)
    await lab.until(lambda: lab.marker(1) and lab.marker(2), "the restart", timeout=10)
    assert lab.data(2) == saved  # from its peer's copy, not from the node that had rank 0
    assert not lab.failed(1)
    assert not lab.failed(2)


@pytest.mark.parametrize("at_a_time", [32, 1])  # agents that are asked together
def test_a_rank_that_joined_the_old_coordinator_goes_over_to_a_younger_one(
    tmp_path, monkeypatch, at_a_time
):
    monkeypatch.setattr(uplink, "DOUBT_SECONDS", 0.2)
    monkeypatch.setattr(uplink, "PROBES", at_a_time)

    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            saved = await start_with_spare(lab)
            await restart_with_spare_as_rank_0(lab, 1, saved, pause=0.5)

    go(scenario())


def test_the_coordinator_that_was_left_behind_is_not_taken_for_the_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(uplink, "DOUBT_SECONDS", 1000.0)  # it must not come to that

    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            saved = await start_with_spare(lab)
            await restart_with_spare_as_rank_0(lab, 2, saved)

    go(scenario())


def test_after_a_restart_only_the_agent_that_had_the_coordinator_is_asked(
    tmp_path, monkeypatch, asked
):
    monkeypatch.setattr(uplink, "HEAD_START_SECONDS", 1000.0)  # a slow machine is no silent agent
    monkeypatch.setattr(uplink, "DOUBT_SECONDS", 1000.0)

    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(5)
            asked.clear()
            lab.write_config(0, lab.config(0))
            await lab.until(lambda: not (lab.local(0) / "replicator.yaml").exists(), "rank 0")
            for index in (1, 2):
                lab.write_config(index, lab.config(index))
            assert await lab.wait_restored() == 5
            coordinator = lab.agents[0].address
            assert {address for _, address in asked} == {coordinator}
            assert {who for who, _ in asked} == {agent.address for agent in lab.agents}

    go(scenario())


@pytest.mark.parametrize("mode", ["closed", "stalled"])
def test_the_others_are_asked_where_the_one_that_had_the_coordinator_is_silent(
    tmp_path, monkeypatch, mode
):
    monkeypatch.setattr(uplink, "DOUBT_SECONDS", 1000.0)

    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            saved = await start_with_spare(lab)
            lab.gates[0].set(mode)
            await restart_with_spare_as_rank_0(lab, 2, saved)

    go(scenario())


def test_of_two_runs_of_one_name_the_younger_has_it_and_the_older_says_so(tmp_path, monkeypatch):
    """Their agents are one cluster's, and none knows of namespaces or JobSets."""
    monkeypatch.setattr(uplink, "DOUBT_SECONDS", 0.2)

    async def scenario():
        async with Lab(tmp_path, 4) as lab:
            await start_with_spare(lab)
            for rank, index in enumerate((2, 3)):
                lab.write_config(index, lab.config(rank, nodes=2))
            await lab.until(lambda: lab.marker(2) and lab.marker(3), "the second run's start")
            for gate in lab.gates[:2]:
                gate.set("closed")
            for gate in lab.gates[:2]:
                gate.set("open")
            for index in (0, 1):
                lab.save_on(index, 6)
            said = f"node-rank 0 is taken by the node at {lab.agents[2].address}"
            await lab.until(lambda: said in lab.errors(0), "the refusal of the first run")
            assert not any(lab.failed(index) for index in range(4))  # its training goes on
            younger = lab.agents[2].coordination
            for index in (2, 3):
                lab.save_on(index, 7)
            await lab.until(
                lambda: younger.status()["replicated_step"] == 7, "the second run's step"
            )
            assert not lab.errors(2)

    go(scenario())
