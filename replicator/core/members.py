"""Which ranks are connected to a coordinator, and whether a hello fits the job."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replicator.core import effects as fx
from replicator.core.messages import Hello, Ping, ToNode
from replicator.core.model import CheckpointId, Job, Run, Timing


@dataclass(slots=True)
class Member:
    """A rank with a live connection."""

    connection: int
    hello: Hello
    heard: float
    sent: float
    started: float  # when its replicator.yaml was accepted


class Members:
    """The connected ranks of one job; every message to a node goes through here."""

    def __init__(self, job: Job, timing: Timing) -> None:
        self.by_rank: dict[int, Member] = {}
        self._job = job
        self._timing = timing
        self._by_connection: dict[int, int] = {}

    @property
    def everyone(self) -> bool:
        """Whether all ranks of the job are connected."""
        return len(self.by_rank) == self._job.world

    def rank_of(self, connection: int) -> int | None:
        """The rank that a connection belongs to, or None for strangers and replaced ones."""
        return self._by_connection.get(connection)

    def heard(self, rank: int, now: float) -> None:
        """The rank has said something."""
        self.by_rank[rank].heard = now

    def problem(self, connection: int, hello: Hello, now: float) -> str:
        """Why a hello cannot be used now; empty when it fits."""
        job = self._job
        if hello.job != job.name:
            return f"this coordinator serves job {job.name!r}, not {hello.job!r}"
        if hello.uid != job.uid:
            return (
                f"another run of job {job.name!r} (uid {job.uid or 'not set'}) uses this "
                f"coordinator; the uid of node {hello.rank} is {hello.uid or 'not set'}"
            )
        if hello.world != job.world or hello.workers != job.workers:
            return (
                f"node {hello.rank} expects {hello.world} nodes x {hello.workers} workers, the "
                f"coordinator {job.world} x {job.workers}; waiting for equal replicator.yaml files"
            )
        if not 0 <= hello.rank < job.world:
            return f"node-rank {hello.rank} is outside 0..{job.world - 1}"
        if hello.data_parallelism != job.data_parallelism:
            return (
                f"assume-data-parallelism of node {hello.rank} is "
                f"{hello.data_parallelism or 'not set'}, the coordinator's is "
                f"{job.data_parallelism or 'not set'}; waiting for equal replicator.yaml files"
            )
        if any(not 0 <= peer < job.world or peer == hello.rank for peer in hello.peers):
            return f"node {hello.rank} names peers outside the job or itself: {hello.peers}"
        old = self.by_rank.get(hello.rank)
        if old is None or old.connection == connection or old.hello.address == hello.address:
            return ""
        if now - old.heard >= self._timing.silence:
            return ""
        return f"node-rank {hello.rank} is taken by the node at {old.hello.address}"

    def admit(
        self, connection: int, hello: Hello, now: float
    ) -> tuple[list[fx.CoordinatorEffect], int | None]:
        """Take a hello that fits; returns effects, and a rank that this connection had before."""
        effects: list[fx.CoordinatorEffect] = []
        old = self.by_rank.get(hello.rank)
        if old is not None and old.connection != connection:
            effects.append(fx.Drop(old.connection))
            del self._by_connection[old.connection]
        before = self._by_connection.get(connection)
        if before == hello.rank:
            before = None
        if before is not None:
            del self.by_rank[before]
        self.by_rank[hello.rank] = Member(connection, hello, now, now, now - hello.age / 1000)
        self._by_connection[connection] = hello.rank
        return effects, before

    def committed(self, rank: int, run: Run, checkpoint: CheckpointId | None, forced: str) -> None:
        """The rank was told to link: from now on it is in this run, until it says otherwise."""
        member = self.by_rank[rank]
        member.hello = replace(
            member.hello, linked=run, prepared=run, checkpoint=checkpoint, forced=forced
        )

    def remove(self, connection: int) -> int | None:
        """A connection is closed; returns the rank that is gone with it."""
        rank = self._by_connection.pop(connection, None)
        if rank is not None:
            del self.by_rank[rank]
        return rank

    def unsettled(self, now: float) -> bool:
        """Whether the job is being restarted as a whole and some ranks are still to follow.

        A rank that was started anew before it was restored gives that away. Who has been started
        less often, and nearer to its earlier start than to its new one, may be about to be started
        anew as well: restored with the others it would leave them in a run that its own new start
        could not join. Where only that rank was started anew, nobody follows.
        """
        members = self.by_rank.values()
        quiet = min(self._timing.settle, self._timing.join / 4)
        if now - max(member.started for member in members) >= quiet:
            return False
        most = max(member.hello.in_vain for member in members)
        if most == 0:
            return False
        latest = [member for member in members if member.hello.in_vain == most]
        began = min(member.started - member.hello.waited / 2000 for member in latest)
        return any(m.started < began for m in members if m.hello.in_vain < most)

    def absence(self) -> tuple[str, set[int]]:
        """Which ranks did not come in time, as a report; and those that still run as before."""
        missing = sorted(set(range(self._job.world)) - self.by_rank.keys())
        stale = {r for r, m in self.by_rank.items() if m.hello.linked is not None}
        why = [f"missing {missing[:16]}"] if missing else []
        if stale and len(stale) < len(self.by_rank):
            why.append(f"still in the previous run: {sorted(stale)[:16]}")
        return f"not all nodes came within {self._timing.join:.0f} s: {'; '.join(why)}", stale

    def silent(self, now: float) -> list[int]:
        """Connections on which nothing came for too long."""
        limit = self._timing.silence
        return [m.connection for m in self.by_rank.values() if now - m.heard > limit]

    def pings(self, now: float) -> list[fx.CoordinatorEffect]:
        """Signs of life for ranks that have heard nothing for a while."""
        effects: list[fx.CoordinatorEffect] = []
        for rank, member in self.by_rank.items():
            if now - member.sent >= self._timing.heartbeat:
                effects += self.to(rank, Ping(), now)
        return effects

    def to(self, rank: int, message: ToNode, now: float) -> list[fx.CoordinatorEffect]:
        """A message to one rank; nothing when it is not connected."""
        member = self.by_rank.get(rank)
        if member is None:
            return []
        member.sent = now
        return [fx.SendTo(rank, message)]

    def broadcast(self, message: ToNode, now: float) -> list[fx.CoordinatorEffect]:
        """The same message to every connected rank."""
        effects: list[fx.CoordinatorEffect] = []
        for rank in sorted(self.by_rank):
            effects += self.to(rank, message, now)
        return effects
