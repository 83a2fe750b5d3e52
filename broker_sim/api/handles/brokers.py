"""A broker in the user's hand: down, up, down and up."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import address, unknown

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["BrokerHandle", "Down"]


class Down:
    """A broker that is down: ``await kafka.broker(2).down()`` for good, ``async with kafka.broker(2).down():`` for a while."""

    def __init__(self, broker: BrokerHandle, graceful: bool) -> None:
        self.broker = broker
        self._done = self._over = False
        # made here, so that Python warns of one that is never awaited
        self._deed: Coroutine[Any, Any, None] | None = broker.cluster.broker_down(broker.node_id, graceful=graceful)

    async def _take(self) -> Down:
        deed, self._deed = self._deed, None
        if deed is not None:
            self._done = True
            await deed
        return self

    def __await__(self) -> Generator[Any, None, Down]:
        return self._take().__await__()

    async def heal(self) -> None:
        """Start the broker; a second call has no effect."""
        if self._done and not self._over:
            self._over = True
            await self.broker.up()

    async def __aenter__(self) -> Down:
        return await self._take()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.heal()

    def __repr__(self) -> str:
        return f"<{self.broker.name} {'up again' if self._over else 'down' if self._done else 'to be taken down'}>"


class BrokerHandle:
    """One broker of ``cluster``. Raises UsageError if there is no broker with that node id."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        known = cluster.state.brokers
        if node_id not in known:
            raise unknown("broker", node_id, map(str, known))
        self.cluster, self.node_id = cluster, node_id
        self.name = f"broker {node_id}"

    @property
    def alive(self) -> bool:
        """Whether it is up, as in Metadata responses."""
        return self.cluster.state.brokers[self.node_id].alive

    @property
    def address(self) -> str:
        """``host:port``; the port is kept while it is down."""
        broker = self.cluster.state.brokers[self.node_id]
        return address(broker.host, broker.port)

    @property
    def leads(self) -> list[str]:
        """The partitions that it leads, as ``orders-0``."""
        return [partition.name for partition in self.cluster.state.partitions() if partition.leader == self.node_id]

    def down(self, *, graceful: bool = False) -> Down:
        """Take it down: connections are reset, other replicas become leaders of its partitions. ``graceful``: a controlled
        shutdown, leaders move first. Await it, or use it with ``async with``."""
        return Down(self, graceful)

    async def up(self, *, elect: str | None = None) -> None:
        """Start it at its old port. ``elect="preferred"``: elect the preferred leader of every partition."""
        await self.cluster.broker_up(self.node_id, elect=elect)

    async def restart(self, *, graceful: bool = True) -> None:
        """Stop and start it; its coordinators load their logs."""
        await self.cluster.restart(self.node_id, graceful=graceful)

    def advertise(self, listener: str) -> None:
        """Advertise another address from now on, as with Kafka's advertised.listeners: ``EXTERNAL://localhost:32768``, or for the
        first listener ``localhost:32768``. Connections stay open; clients learn the address with their next Metadata or FindCoordinator
        response. The broker keeps it when it restarts. Raises UsageError."""
        self.cluster.advertise(self.node_id, listener)

    def __repr__(self) -> str:
        return f"<{self.name} at {self.address}>"
