"""A broker as the cluster's state knows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker_sim.handlers.fetch_session import FetchSessions
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = ["Broker", "Endpoint"]


class Endpoint(NamedTuple):
    """A listener of a broker: its advertised host and port, its security protocol, and where it listens if that is another address."""

    host: str
    port: int
    protocol: str = "PLAINTEXT"
    bound: tuple[str, int] | None = None


@dataclasses.dataclass(eq=False, slots=True)
class Broker:
    """One broker of the cluster."""

    node_id: int
    endpoints: dict[str, Endpoint]
    """By the name of the listener, its first one first."""
    state: ClusterState = dataclasses.field(repr=False)
    rack: str | None = None
    alive: bool = True
    """Whether the controller takes it for alive: it notices later that a broker has stopped."""
    running: bool = True
    """Whether its process runs."""
    on_closed: list[Callable[[Broker, object], object]] = dataclasses.field(default_factory=list, repr=False)
    """Called when a connection is closed."""
    on_stopped: list[Callable[[Broker], object]] = dataclasses.field(default_factory=list, repr=False)
    """Called when its process has stopped, with all connections closed."""
    fetch_sessions: FetchSessions | None = dataclasses.field(default=None, repr=False)
    """Made by the first Fetch that wants a session."""

    @property
    def host(self) -> str:
        """The advertised host of its first listener."""
        return next(iter(self.endpoints.values())).host

    @property
    def port(self) -> int:
        """The advertised port of its first listener."""
        return next(iter(self.endpoints.values())).port

    def endpoint(self, listener: str) -> tuple[int, str, int, str | None]:
        """Node id, rack, and the host and port that the listener with this name advertises (BrokerRegistration.node)."""
        endpoint = self.endpoints[listener]
        return self.node_id, endpoint.host, endpoint.port, self.rack

    def protocol(self, listener: str) -> str:
        """The security protocol of the listener with this name (listener.security.protocol.map)."""
        return self.endpoints[listener].protocol

    def advertise(self, listener: str, host: str, port: int) -> None:
        """Advertise another address of this listener from now on."""
        self.endpoints[listener] = self.endpoints[listener]._replace(host=host, port=port)
        self.state.lapse()
