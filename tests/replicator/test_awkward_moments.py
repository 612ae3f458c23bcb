"""A `replicator.yaml` that comes, or an agent that ends, at an awkward moment."""

from __future__ import annotations

import asyncio
import errno
import urllib.error
import urllib.request

import pytest
from agent_lab import Lab, go

from replicator.agent.uplink import Uplink
from replicator.core.effects import WriteError


def test_an_agent_that_cannot_end_does_not_say_that_it_is_well(tmp_path, monkeypatch):
    """A part of it hangs, say in a call that never returns: its supervisor has to kill it."""

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            lab.options[0] = {"http_port": 0}
            await lab.start()
            agent, task, hung, stop = lab.agents[0], lab.tasks[0], asyncio.Event(), Uplink.stop

            async def hanging(self):
                await hung.wait()
                await stop(self)

            monkeypatch.setattr(Uplink, "stop", hanging)

            def health():
                url = f"http://127.0.0.1:{agent.http_port}/healthz"
                try:
                    return urllib.request.urlopen(url, timeout=5).status
                except urllib.error.HTTPError as error:
                    return error.code

            assert await asyncio.to_thread(health) == 200
            agent.die(OSError("the volume failed"))
            await asyncio.sleep(0.1)
            assert await asyncio.to_thread(health) == 503
            assert not task.done()
            hung.set()
            await asyncio.wait({task}, timeout=10)
            lab.tasks[0] = None

    go(scenario())


def test_a_job_that_cannot_be_written_down_is_not_consumed(tmp_path, monkeypatch):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            agent, task = lab.agents[1], lab.tasks[1]

            def failing(*_):
                raise OSError(errno.EIO, "the volume failed once")

            monkeypatch.setattr(agent.markers, "save_state", failing)
            lab.begin()
            await asyncio.wait({task}, timeout=10)
            assert "failed once" in str(task.exception())
            assert (lab.local(1) / "replicator.yaml").exists()
            lab.tasks[1] = None
            await lab.start(1)
            assert await lab.wait_restored() == 1
            await lab.replicate(2)

    go(scenario())


def test_nothing_builds_on_what_could_not_be_written_down(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            agent, task = lab.agents[0], lab.tasks[0]
            agent.die(OSError("the volume failed"))
            assert not agent.apply([WriteError("too late")])
            assert "too late" not in lab.errors(0)
            await asyncio.wait({task}, timeout=10)
            lab.tasks[0] = None

    go(scenario())


@pytest.mark.parametrize("first", ["valid", "not: [valid"])
def test_a_config_that_is_written_while_the_one_before_is_taken_is_not_lost(
    tmp_path, monkeypatch, first
):
    """A job that is restarted at once need not wait for the file's absence to be noticed."""

    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            agent = lab.agents[0]
            parse, second = agent.markers.read_config, [lab.config(0, job_name="second")]

            def read_config(environ):
                try:
                    return parse(environ)
                finally:
                    if second:
                        lab.write_config(0, second.pop())

            monkeypatch.setattr(agent.markers, "read_config", read_config)
            lab.write_config(0, lab.config(0) if first == "valid" else first)
            marker = lab.local(0) / "second-s0-n0-w0.restore"
            await lab.until(marker.exists, "the second job's marker")
            assert not (lab.local(0) / "replicator.yaml").exists()
            assert agent.config.job_name == "second"

    go(scenario())


def test_an_agents_next_life_knows_how_many_peers_the_job_has(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            for _ in range(2):
                assert b"stowplan_replicator_peers 1.0" in lab.agents[1].metrics.render()
                await lab.kill(1)
                await lab.start(1)

    go(scenario())


def test_the_steps_in_the_metrics_are_of_this_start_whatever_happens_to_the_agent(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:

            def shows(kind, step):
                text = f"stowplan_replicator_{kind}_step {step:.1f}\n"
                return text.encode() in lab.agents[1].metrics.render()

            await lab.start()
            await lab.restored()
            await lab.replicate(7)
            await lab.until(lambda: shows("replicated", 7), "the metric")
            await lab.kill(1)
            await lab.start(1)
            assert shows("saved", 7)
            await lab.until(lambda: shows("replicated", 7), "the metric")
            await lab.restored()
            assert shows("saved", 0)
            await lab.until(lambda: shows("replicated", 7), "what was restored")

    go(scenario())


def test_steps_that_were_overtaken_leave_nothing_behind(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            for step in range(1, 30):
                lab.save(step, size=100)
            await lab.until(lambda: lab.replicated() == 29, "the last step")
            await lab.until(lambda: not lab.agents[1].saves._seen_at, "the times to be forgotten")

    go(scenario())
