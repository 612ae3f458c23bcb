"""Real agents in one event loop, each behind a gate that can partition or stall it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replicator.agent.agent import Agent
from replicator.agent.settings import AgentSettings
from replicator.core.model import Timing
from replicator.demo.cluster import finish_save, prepare_save
from replicator.platform.static import StaticPlatform
from replicator.storage import ObjectStorage

SECRET = b"0123456789abcdef0123456789abcdef"
QUICK = Timing(
    heartbeat=0.3,
    silence=1.5,
    join=4.0,
    restore=15.0,
    round=1.5,
    transfer=10.0,
    retry=0.1,
    retry_cap=0.4,
    backup=15.0,
)
SIZE = 256 * 1024


def go(scenario):
    """Play a scenario; none takes a minute."""
    asyncio.run(asyncio.wait_for(scenario, 60))


class Gate:
    """A TCP proxy in front of one agent: `open`, `closed` (cuts all), or `stalled` (moves none)."""

    def __init__(self) -> None:
        self.host = "127.0.0.1"
        self.target = 0
        self.port = 0
        self.callers: set[str] = set()
        self.mode = "open"
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def set(self, mode: str) -> None:
        self.mode = mode
        if mode == "closed":
            for writer in list(self._writers):
                writer.transport.abort()

    async def stop(self) -> None:
        self.set("closed")
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "closed" or not self.target:
            writer.transport.abort()
            return
        self.callers.add(writer.get_extra_info("peername")[0])
        try:
            inner_reader, inner_writer = await asyncio.open_connection(self.host, self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, inner_writer}
        with contextlib.suppress(OSError):
            await asyncio.gather(self._pump(reader, inner_writer), self._pump(inner_reader, writer))
        self._writers -= {writer, inner_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                while self.mode == "stalled":
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
        finally:
            writer.transport.abort() if self.mode == "closed" else writer.close()


class Lab:
    """A small cluster. Agents are addressed by index; ranks come from `begin`."""

    def __init__(self, root: Path, size: int = 2, *, job: str = "job", timing: Timing = QUICK):
        self.root = root
        self.size = size
        self.job = job
        self.timing = timing
        self.framework = "pytorch.distributed"
        self.backup_dir = root / "backup"
        self.gates = [Gate() for _ in range(size)]
        self.agents: list[Agent | None] = [None] * size
        self.tasks: list[asyncio.Task[None] | None] = [None] * size
        self.options: list[dict[str, Any]] = [{} for _ in range(size)]

    async def __aenter__(self) -> Lab:
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        for index, gate in enumerate(self.gates):
            await gate.start()
            self.local(index).mkdir(exist_ok=True)
        self.peers_file = self.root / f"peers-{self.job}.yaml"
        self.write_peers([f"127.0.0.1:{gate.port}" for gate in self.gates])
        return self

    async def __aexit__(self, *_: object) -> None:
        for index in range(self.size):
            await self.kill(index)
        for gate in self.gates:
            await gate.stop()

    def write_peers(self, addresses: list[str]) -> None:
        self.peers_file.write_text(f"agents: {json.dumps(addresses)}\n")

    def local(self, index: int) -> Path:
        return self.root / f"{self.job}-node{index}"

    # ---- agents ---------------------------------------------------------------------------------

    async def start(self, *indices: int) -> None:
        for index in indices or range(self.size):
            values: dict[str, Any] = {
                "local_dir": self.local(index),
                "secret": SECRET,
                "platform": StaticPlatform(self.peers_file),
                "storage": ObjectStorage.open(f"file://{self.backup_dir}"),
                "port": 0,
                "advertise": f"127.0.0.1:{self.gates[index].port}",
                "timing": self.timing,
                "tick": 0.1,
                **self.options[index],
            }
            agent = Agent(AgentSettings(**values))
            up = asyncio.Event()
            task = asyncio.create_task(agent.run(up.set))
            self.agents[index], self.tasks[index] = agent, task
            waiter = asyncio.create_task(up.wait())
            await asyncio.wait({waiter, task}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            assert agent.server._listener is not None
            self.gates[index].target = agent.server._listener.getsockname()[1]

    async def kill(self, index: int) -> None:
        """As abrupt as one event loop allows: nothing is told to anyone, nothing is written."""
        task = self.tasks[index]
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.tasks[index] = self.agents[index] = None
        self.gates[index].target = 0

    async def wipe(self, index: int) -> None:
        await self.kill(index)
        shutil.rmtree(self.local(index))
        self.local(index).mkdir()

    # ---- the job --------------------------------------------------------------------------------

    def config(self, rank: int, **keys: Any) -> str:
        values: dict[str, Any] = {
            "job-name": self.job,
            "framework": self.framework,
            "node-rank": rank,
            "nodes": self.size,
            "peers-per-node": min(self.size - 1, 1),
            "backup-interval-minutes": 30,
        }
        values.update({key.replace("_", "-"): value for key, value in keys.items()})
        return "".join(f"{k}: {json.dumps(v)}\n" for k, v in values.items() if v is not None)

    def write_config(self, index: int, text: str | bytes) -> None:
        local = self.local(index)
        for name in ("replicator.failed", "replicator.errors"):
            (local / name).unlink(missing_ok=True)
        temporary = local / "replicator.yaml.tmp"
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        temporary.rename(local / "replicator.yaml")

    def begin(self, **keys: Any) -> None:
        for index in range(self.size):
            self.write_config(index, self.config(index, **keys))

    def marker(self, index: int) -> Path | None:
        return next(iter(self.local(index).glob("*.restore")), None)

    async def restored(self, **keys: Any) -> int | None:
        """Start the job and wait for its restore; returns the step (None: from nothing)."""
        self.begin(**keys)
        return await self.wait_restored()

    async def wait_restored(self) -> int | None:
        nodes = range(self.size)
        configs = [self.local(index) / "replicator.yaml" for index in nodes]
        await self.until(lambda: not any(c.exists() for c in configs), "consumption")
        await self.until(lambda: all(self.marker(index) for index in nodes), "restore markers")
        steps = set()
        for index in range(self.size):
            marker = self.marker(index)
            assert marker is not None
            if marker.is_symlink():
                assert marker.exists(), f"dangling {marker}"
                steps.add(int(marker.name.rpartition("-s")[2].partition("-")[0]))
            else:
                assert marker.read_bytes() == b""
                steps.add(None)
        assert len(steps) == 1, steps
        return steps.pop()

    def save_on(self, index: int, step: int, size: int = SIZE) -> None:
        prepare_save(self.local(index), index, step, size, 3)
        finish_save(self.local(index), step)

    def save(self, step: int, size: int = SIZE) -> None:
        for index in range(self.size):
            self.save_on(index, step, size)

    def replicated(self) -> int | None:
        for agent in self.agents:
            status = agent.coordination.status() if agent is not None else None
            if status is not None:
                return status["replicated_step"]
        return None

    async def replicate(self, step: int, size: int = SIZE) -> dict[int, dict[str, bytes]]:
        """Save a step everywhere and wait until it is replicated; returns what was saved."""
        saved = {}
        for index in range(self.size):
            prepare_save(self.local(index), index, step, size, 3)
            saved[index] = tree(self.local(index) / f"{step}.tmp")
        for index in range(self.size):
            finish_save(self.local(index), step)
        await self.until(lambda: self.replicated() == step, f"step {step} to be replicated")
        return saved

    def data(self, index: int) -> dict[str, bytes]:
        """What the restore marker of a node points at."""
        marker = self.marker(index)
        assert marker is not None
        return tree(marker.resolve())

    def copies(self, index: int) -> set[tuple[int, int]]:
        """(step, rank) of the copies whose record and data a node's volume holds."""
        agent = self.agents[index]
        assert agent is not None
        return {
            (key.checkpoint.step, key.shard.rank)
            for key, manifest in agent.store.records.items()
            if agent.store.data_path(manifest).exists()
        }

    def data_of(self, index: int, step: int, rank: int) -> Path:
        """Where a node keeps the data of a shard."""
        agent = self.agents[index]
        assert agent is not None
        for key, manifest in agent.store.records.items():
            if (key.checkpoint.step, key.shard.rank) == (step, rank):
                return agent.store.data_path(manifest)
        raise AssertionError(f"node {index} has no copy of step {step} rank {rank}")

    def errors(self, index: int) -> str:
        path = self.local(index) / "replicator.errors"
        return path.read_text() if path.exists() else ""

    def failed(self, index: int) -> str:
        path = self.local(index) / "replicator.failed"
        return path.read_text() if path.exists() else ""

    async def until(self, condition: Callable[[], Any], what: str, timeout: float = 20.0) -> None:
        deadline = asyncio.get_running_loop().time() + timeout
        while not condition():
            for task in self.tasks:
                if task is not None and task.done():
                    task.result()
            if asyncio.get_running_loop().time() > deadline:
                seen = [agent.status() if agent is not None else None for agent in self.agents]
                raise AssertionError(f"waited {timeout} s for {what}: {seen}")
            await asyncio.sleep(0.01)


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }
