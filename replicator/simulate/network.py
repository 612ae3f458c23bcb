"""Simulated connections between nodes and the coordinator: ordered, delayed, breakable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replicator.core.messages import ToCoordinator, ToNode

if TYPE_CHECKING:
    from replicator.simulate.world import World

STRANGER = 1_000_000
"""Connections from here on belong to nobody who has said a valid hello."""


@dataclass(slots=True)
class _Connection:
    client: int
    server: int
    ready_up: float = 0.0  # when the last message sent will have arrived
    ready_down: float = 0.0
    broken_at: float | None = field(default=None)


class Network:
    """All connections; a partition makes machines unreachable and breaks what crosses it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._connections: dict[int, _Connection] = {}
        self._next = 1
        self._cut: set[int] = set()
        self._silent = False
        self.latency = 0.02

    def reachable(self, a: int, b: int) -> bool:
        """Whether two machines can talk now."""
        return not self._silent and (a == b or (a in self._cut) == (b in self._cut))

    def cut(self, machines: set[int]) -> None:
        """Separate these machines from the others; an empty set heals."""
        self._cut = machines
        for number, connection in list(self._connections.items()):
            if not self.reachable(connection.client, connection.server):
                self.close(number, by=-1)

    def silence(self, *, silent: bool) -> None:
        """Nobody reaches anybody, not even the coordinator of the same machine; or all again."""
        self._silent = silent
        self.cut(self._cut)

    def open(self, client: int) -> int | None:
        """Connect to the coordinator, or None."""
        node = self._world.machines[client].node
        assert node is not None
        for machine in self._world.machines:
            serving = machine.coordinator is not None and machine.node is not None
            if serving and self.reachable(client, machine.index):
                number, self._next = self._next, self._next + 1
                self._connections[number] = _Connection(client, machine.index)
                return number
        return None

    def _arrival(self, ready: float) -> float:
        delay = self.latency * (0.5 + self._world.random.random())
        return max(ready, self._world.now + delay)

    def send_up(self, number: int, message: ToCoordinator) -> None:
        """From the node to the coordinator."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.ready_up = self._arrival(connection.ready_up)
            self._world.at(connection.ready_up, self._deliver_up, number, message)

    def send_down(self, number: int, message: ToNode) -> None:
        """From the coordinator to the node."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.ready_down = self._arrival(connection.ready_down)
            self._world.at(connection.ready_down, self._deliver_down, number, message)

    def _deliver_up(self, number: int, message: ToCoordinator) -> None:
        connection = self._connections.get(number)
        if connection is None:
            return
        machine = self._world.machines[connection.server]
        if machine.coordinator is not None:
            self._world.note(machine.index, message)
            machine.decide(machine.coordinator.received(number, message, self._world.now))

    def _deliver_down(self, number: int, message: ToNode) -> None:
        connection = self._connections.get(number)
        if connection is None:
            return
        machine = self._world.machines[connection.client]
        if machine.node is not None and machine.connection == number:
            machine.apply(machine.node.received(message, self._world.now))

    def close(self, number: int, by: int) -> None:
        """End a connection; the other end learns of it a little later."""
        connection = self._connections.pop(number, None)
        if connection is None:
            return
        delay = self.latency * (1 + self._world.random.random())
        if by != connection.client:
            self._world.schedule(delay, self._client_lost, connection.client, number)
        if by != connection.server:
            self._world.schedule(delay, self._server_lost, connection.server, number)

    def _client_lost(self, machine: int, number: int) -> None:
        client = self._world.machines[machine]
        if client.node is not None and client.connection == number:
            client.connection = None
            client.apply(client.node.link_down(self._world.now))

    def _server_lost(self, machine: int, number: int) -> None:
        server = self._world.machines[machine]
        if server.coordinator is not None:
            server.decide(server.coordinator.lost(number, self._world.now))

    def machine_down(self, machine: int) -> None:
        """An agent died: its ends are gone at once."""
        for number, connection in list(self._connections.items()):
            if machine in (connection.client, connection.server):
                self.close(number, by=machine)

    def drop_all_to(self, server: int) -> None:
        """A new coordinator serves on this machine: old connections end."""
        for number, connection in list(self._connections.items()):
            if connection.server == server:
                self.close(number, by=server)

    def break_one(self) -> None:
        """A random connection breaks."""
        if self._connections:
            self.close(self._world.random.choice(sorted(self._connections)), by=-1)

    def intrude(self, server: int, message: ToCoordinator) -> None:
        """Invariant 7: a message on a connection that is no member's must change nothing."""
        machine = self._world.machines[server]
        if machine.coordinator is None:
            return
        if machine.coordinator.received(STRANGER, message, self._world.now):
            self._world.violated(f"7: a stranger's {type(message).__name__} was acted on")
