"""Limits of a broker's connections: max.connections.per.ip, max.connections.per.ip.overrides, max.connections.

Rules, as Kafka's:
1. A connection above the limit of its address is closed at once, before a TLS handshake, with a line in the log.
2. While the broker has max.connections the next ones wait in their order, as those in the backlog of the port: they are connected, and
   nothing that they send is read until another connection ends.
3. Where there are several listeners the first, which brokers use among themselves (inter.broker.listener.name), takes connections
   above max.connections; then the least recently active connection of another listener is closed.
4. The settings act when they are altered, on connections that come afterwards.

Source: SocketServer: ConnectionQuotas (inc, waitForConnectionSlot, protectedListener), Acceptor, Processor.closeExcessConnections.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker_sim.common.refusals import host_of
from broker_sim.config.settings import per_address

if TYPE_CHECKING:
    from broker_sim.authentication.authenticator import Authenticator
    from broker_sim.network.server import BrokerServer

__all__ = ["ConnectionLimits"]

log = logging.getLogger("broker_sim.server")


class ConnectionLimits:
    """Limits of one broker's connections."""

    def __init__(self, owner: BrokerServer) -> None:
        self._owner = owner
        self.waiting: deque[Incoming] = deque()
        """Connections above max.connections, in their order."""
        self.read()

    def read(self) -> None:
        """Take the settings as they are now."""
        config = self._owner.broker.state.config
        self.total = config.int("max.connections")
        self._of_each = config.int("max.connections.per.ip")
        self._of_some = per_address(config.str("max.connections.per.ip.overrides"))
        self.one_less()

    def most_of(self, host: str) -> int:
        """Maximum number of connections of an address; ``host``: as Kafka shows it, ``/127.0.0.1``."""
        return self._of_some.get(host.removeprefix("/"), self._of_each)

    def incoming(self, listener: str, make: Callable[[], asyncio.BaseProtocol], protected: bool) -> Incoming:
        """The protocol of a connection that a listener has accepted; ``make`` makes the one that it gets when it may begin.
        ``protected``: the listener is the brokers' own, and not the only one."""
        return Incoming(self._owner, self, listener, make, protected)

    def arrived(self, incoming: Incoming) -> None:
        """A connection was accepted: let it begin, wait, or close it."""
        if self._has_room(incoming) and (incoming.protected or not self.waiting):
            self._begin(incoming)
        else:
            if not self.waiting:
                log.warning(
                    "connections wait: broker %d has max.connections=%d", self._owner.broker.node_id, self.total
                )
            incoming.pause()
            self.waiting.append(incoming)

    def lost(self, incoming: Incoming) -> None:
        """A connection that waited was closed."""
        if incoming in self.waiting:
            self.waiting.remove(incoming)

    def one_less(self) -> None:
        """A connection has ended, or a limit was raised: those that wait go on, while there is room."""
        while self.waiting and self._has_room(self.waiting[0]):
            self._begin(self.waiting.popleft())

    def drop_all(self) -> None:
        """The broker goes down."""
        while self.waiting:
            self.waiting.popleft().transport.abort()

    def _has_room(self, incoming: Incoming) -> bool:
        owner = self._owner
        return incoming.protected or len(owner.connections) + len(owner.handshakes) < self.total

    def _begin(self, incoming: Incoming) -> None:
        owner, host = self._owner, incoming.client_host
        most = self.most_of(host)
        there = [one.client_host for one in owner.connections] + [one.client_host for one in owner.handshakes]
        if there.count(host) >= most:
            owner.refused(incoming, f"its address already has the configured maximum of {most} connections")
            incoming.transport.abort()
            return
        incoming.begin()
        if incoming.protected and len(owner.connections) + len(owner.handshakes) > self.total:
            first = owner.listeners[0].name
            others = [one for one in owner.connections if one.listener != first]
            if others:
                least = min(others, key=lambda one: one.last_active)
                least.reason = f"the broker has the configured maximum of {self.total} connections"
                least.abort()


class Incoming(asyncio.Protocol):
    """A connection until it begins; ``make`` makes the protocol that it then has. It is also what a refusal is reported of
    (``context.Accepted``)."""

    client_id: str | None = None
    authenticator: Authenticator | None = None
    number = 0

    def __init__(
        self,
        owner: BrokerServer,
        limits: ConnectionLimits,
        listener: str,
        make: Callable[[], asyncio.BaseProtocol],
        protected: bool,
    ) -> None:
        self._owner, self._limits, self._make, self.protected = owner, limits, make, protected
        self.broker, self.listener, self.reason = owner.broker, listener, ""
        self._paused = False
        self.client_host = host_of(None)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.client_host = host_of(transport.get_extra_info("peername"))
        self._limits.arrived(self)

    def pause(self) -> None:
        """Read nothing of it."""
        self._paused = True
        self.transport.pause_reading()

    def begin(self) -> None:
        """Let it be a client's connection."""
        protocol = self._make()
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if self._paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.lost(self)
        if self.number and self._owner.tap is not None:
            self._owner.tap.closed(self)
