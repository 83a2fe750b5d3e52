"""The listeners of one broker: they accept connections, end their iterations of the event loop and close idle ones.

A broker may be down for a while: ``pause`` and ``resume``. Its ports stay reserved: a second socket is bound to each from the beginning
and never listens, so that connections are refused and no other process gets the port.

One timer looks for idle connections, whatever their number: each look counts a tick, a connection remembers the tick of its last bytes.
A connection is closed when ``connections.max.idle.ms`` has passed without bytes in either direction, at most a twentieth of that later.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from broker_sim.common.refusals import Refusals
from broker_sim.common.text import UsageError, short
from broker_sim.network.connection import Connection, log
from broker_sim.requests.routes import Listener, LookUp, Routes

if TYPE_CHECKING:
    from broker_sim.common.clock import Clock, Timer
    from broker_sim.metadata.cluster_state import Broker
    from broker_sim.network.connection_limits import ConnectionLimits
    from broker_sim.network.tls import TlsProtocol
    from broker_sim.requests.context import Accepted, Tap
    from broker_sim.runtime.coordinators import Coordinators

__all__ = ["BrokerServer", "bind_error", "listen", "listen_on"]

_LOOKS = 20
"""Looks for idle connections in the time that makes one idle."""

_LIMITS = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")
_UNLIMITED = 2**31 - 1
"""Default of max.connections and max.connections.per.ip: no limit."""

_BACKLOG = 1024
_GRACE_S = 1.0
"""Seconds that a client has to read its last replies when the broker stops."""
_ACCEPTED_AFTER = 4
"""Turns of asyncio's loop in which a socket that it has accepted becomes a connection."""


_ADDRESS = (socket.SO_REUSEADDR, 1)
"""So that a port can be bound again at once."""
if sys.platform == "win32":  # where that would let two brokers have one port, and a port is free at once anyway
    _ADDRESS = (socket.SO_EXCLUSIVEADDRUSE, 1)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, not yet listening; port 0 takes a free one, host "" all addresses. Of a name that has addresses of both kinds,
    such as localhost, IPv4 is taken, as Java does. Raises OSError (port in use, no address)."""
    # Bytes, if it is ASCII, as for a text Python loads the tables of IDNA: 5 million instructions.
    name = (host.encode() if host.isascii() else host) or None
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise OSError("it is not a host name") from None
    found.sort(key=lambda one: one[0] is not socket.AF_INET)  # macOS and Windows have IPv6 first
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, *_ADDRESS)
        sock.bind(address)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def listen_on(addresses: Iterable[tuple[str, int]], bind: Callable[[str, int], socket.socket]) -> list[socket.socket]:
    """A socket for each address, or none. Raises UsageError."""
    sockets: list[socket.socket] = []
    for host, port in addresses:
        try:
            sockets.append(bind(host, port))
        except OSError as error:
            for sock in sockets:
                sock.close()
            raise UsageError(bind_error(host, port, error)) from None
    return sockets


def bind_error(host: str, port: int, error: OSError) -> str:
    """Reason why the broker can't listen on an address, as a message for users."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} may not be used: permission denied"
    reason = error.strerror or str(error)
    return f"can't listen on {host or 'any address'}, port {port}: {reason}"


def _keeper(sock: socket.socket) -> socket.socket | None:
    """A second socket bound as ``sock``, which must not listen yet; None where the system, or a network that is no real one, knows no
    such thing."""
    if not isinstance(sock, socket.socket):
        return None
    other = socket.socket(sock.family, sock.type, sock.proto)
    try:
        other.setsockopt(socket.SOL_SOCKET, *_ADDRESS)
        other.bind(sock.getsockname())
    except OSError:
        other.close()
        return None
    return other


class BrokerServer:
    """Serves ``broker`` on a socket for each of its ``listeners``. ``routes`` is shared by the brokers of a cluster; ``bind`` binds a
    port again."""

    def __init__(
        self,
        broker: Broker,
        coordinators: Coordinators,
        clock: Clock,
        routes: Routes,
        bind: Callable[[str, int], socket.socket] = listen,
        listeners: Sequence[Listener] = (Listener("PLAINTEXT"),),
    ) -> None:
        config = broker.state.config
        self.broker, self.coordinators, self.clock = broker, coordinators, clock.wire
        self.routes, self.listeners = routes, listeners
        self.max_request_bytes = config.int("socket.request.max.bytes")
        self.tick = 0
        self.refusals = Refusals(log, self.clock.now_ms)
        self.tap: Tap | None = None
        """Observes this broker's requests and injects faults; None without these."""
        self.connections: dict[Connection, None] = {}
        """In the order in which they came: no set, as nothing may depend on addresses."""
        self.handshakes: dict[TlsProtocol, None] = {}
        """TLS handshakes that are going on."""
        self.limits: ConnectionLimits | None = None
        """Limits of accepted connections; None without a limit."""
        config.on_change(self._limit)
        self._limit()
        self.hung_up = False
        """Whether no connection is wanted: it is down, or goes down."""
        self._max_idle_ms = config.int("connections.max.idle.ms")
        self._bind = bind
        self.loop = asyncio.get_running_loop()
        self.call_soon: Callable[..., object] = self.loop.call_soon
        self._servers: list[asyncio.Server] = []
        self._sweep: Timer | None = None
        self._enlisted: list[Connection] = []
        self._all_closed: asyncio.Future[None] | None = None
        self._addresses: list[tuple[str, int]] = []
        self._keepers: list[socket.socket | None] = []

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Listen on sockets that :func:`listen` made, one for each listener; they belong to this server from now on."""
        self._addresses = [sock.getsockname()[:2] for sock in sockets]
        self._keepers = self._keepers or [_keeper(sock) for sock in sockets]
        self.hung_up = False
        servers: list[asyncio.Server] = []
        try:
            for listener, sock in zip(self.listeners, sockets, strict=True):
                accepts = self._accepts(listener)
                servers.append(await self.loop.create_server(accepts, sock=sock, backlog=_BACKLOG))
        except BaseException:
            for server in servers:
                server.close()
            raise
        self._servers = servers

    def _accepts(self, listener: Listener) -> Callable[[], asyncio.BaseProtocol]:
        """Return the function that makes the protocol of a connection that the listener has accepted."""
        make = self._makes(listener)
        protected = listener is self.listeners[0] and len(self.listeners) > 1
        return lambda: make() if self.limits is None else self.limits.incoming(listener.name, make, protected)

    def _limit(self) -> None:
        """Apply the limits of connections as they are now."""
        config = self.broker.state.config
        if self.limits is not None:
            self.limits.read()
        elif any(config[name] not in (_UNLIMITED, "") for name in _LIMITS):
            from broker_sim.network.connection_limits import ConnectionLimits

            self.limits = ConnectionLimits(self)

    def _makes(self, listener: Listener) -> Callable[[], asyncio.BaseProtocol]:
        security = listener.security
        if security is None or security.tls is None:
            return lambda: Connection(self, listener)
        from broker_sim.network.tls import TlsProtocol

        context, protocol = security.tls, security.protocol
        return lambda: TlsProtocol(self, listener, context, protocol)

    @property
    def listening(self) -> bool:
        """Whether the server accepts connections."""
        return bool(self._servers)

    async def pause(self, *, graceful: bool) -> None:
        """The broker goes down: all connections are closed when this returns, and none is accepted. ``graceful``: as ``stop``, else
        connections are reset."""
        await self._hang_up(graceful)

    async def resume(self) -> None:
        """Listen again at the same ports. Raises OSError if another process has one (on systems where a port can't be reserved)."""
        if self._servers:
            return
        sockets: list[socket.socket] = []
        try:
            for host, port in self._addresses:
                sockets.append(self._bind(host, port))
            await self.start(sockets)
        except BaseException:
            for sock in sockets:
                sock.close()
            raise

    async def stop(self) -> None:
        """Stop listening, close every connection: replies on their way are written, pending requests not answered."""
        await self._hang_up(graceful=True)
        self.refusals.end()
        for keeper in self._keepers:
            if keeper is not None:
                keeper.close()
        self._keepers = []

    async def _accept_no_more(self, server: asyncio.Server) -> None:
        """Let what asyncio has accepted become connections, which are closed with the others: where the listener is closed meanwhile
        it fails to make them, and leaves their sockets open for the collector to find."""
        if isinstance(self.loop, asyncio.SelectorEventLoop):
            for listener in server.sockets:
                self.loop.remove_reader(listener.fileno())
            for _ in range(_ACCEPTED_AFTER):
                await asyncio.sleep(0)

    async def _hang_up(self, graceful: bool) -> None:
        self.hung_up = True
        for server in self._servers:
            await self._accept_no_more(server)
            server.close()
        self._servers = []
        if self.limits is not None:
            self.limits.drop_all()
        self.end_iteration()
        if self.connections or self.handshakes:
            self._all_closed = self.loop.create_future()
            for handshake in tuple(self.handshakes):
                handshake.abort()
            for connection in tuple(self.connections):
                if graceful:
                    connection.close()
                else:
                    connection.abort()
            await asyncio.wait([self._all_closed], timeout=_GRACE_S)
            for connection in tuple(self.connections):
                connection.abort()
            await self._all_closed
            self._all_closed = None
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def files(self) -> list[int]:
        """The descriptors of its port and of its connections; for another thread, while the loop is blocked."""
        listening = [sock.fileno() for server in self._servers for sock in server.sockets]
        transports = [connection._transport for connection in tuple(self.connections)]
        sockets = [transport.get_extra_info("socket") for transport in transports if transport is not None]
        return listening + [sock.fileno() for sock in sockets if sock is not None]

    # --- what its connections call ------------------------------------------------------------------------------------

    def admission(self, listener: Listener) -> LookUp:
        """Return the look-up of requests for a new connection of this listener."""
        if listener.security is None or listener.security.sasl is None:
            return self.routes
        from broker_sim.requests.authenticating import AuthenticatingRoutes

        return AuthenticatingRoutes(self.routes, listener.security.sasl)

    def opened(self, connection: Connection) -> None:
        """Add a connection of a client."""
        self.connections[connection] = None
        if self.tap is not None:
            self.tap.opened(connection)
        if self.hung_up:
            # accepted before the port was closed: `_hang_up` waits for it, too, and cancels no timer afterwards
            connection.abort()
        elif self._sweep is None and self._max_idle_ms >= 0:
            self._arm()

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection and report it to the tap, to the broker's callbacks and to a waiting `close`."""
        self.connections.pop(connection, None)
        if self.tap is not None:
            self.tap.closed(connection)
        for callback in self.broker.on_closed:
            callback(self.broker, connection)
        self._one_less()

    def refused(self, connection: Accepted, reason: str) -> None:
        """Report a client that can't be served, in the log and to the tap; ``connection``: also a TLS handshake that failed."""
        connection.reason = reason
        self.refusals.log(connection.client_host, connection.client_id, reason)
        if self.tap is not None:
            self.tap.refused(connection, reason)

    def failed(self, connection: Connection, what: object) -> None:
        """Report an exception of our own that is being handled, with its traceback in the log."""
        host, client_id = connection.client_host, short(str(connection.client_id))
        log.exception("closing the connection of %s (client id %s): %r failed", host, client_id, what)
        connection.reason = "an exception in the broker, whose log has it"
        if self.tap is not None:
            self.tap.refused(connection, connection.reason)

    def handshake_ended(self, handshake: TlsProtocol) -> None:
        """Remove a TLS handshake whose connection has been made, or whose socket is closed."""
        self.handshakes.pop(handshake, None)
        self._one_less()

    def _one_less(self) -> None:
        if self.limits is not None and self.limits.waiting:
            self.call_soon(self.limits.one_less)  # behind the handshake that becomes a connection
        if self._all_closed is not None and not self._all_closed.done() and not (self.connections or self.handshakes):
            self._all_closed.set_result(None)

    def enlist(self, connection: Connection) -> None:
        """The connection has deferred requests: its ``iteration_ended()`` is called at the end of this iteration of the event loop."""
        if not self._enlisted:
            self.call_soon(self.end_iteration)
        self._enlisted.append(connection)

    def end_iteration(self) -> None:
        """Flush the runtime's batches and let the enlisted connections write; without effect if there are none."""
        connections, self._enlisted = self._enlisted, []
        if not connections:
            return
        try:
            self.coordinators.groups.flush_batches()
        except Exception:
            log.exception("flush_batches failed on broker %d", self.broker.node_id)
        for connection in connections:
            connection.iteration_ended()

    # --- idle connections ---------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        pause_ms = max(1, self._max_idle_ms // _LOOKS)
        self._sweep = self.clock.call_at_ms(self.clock.now_ms() + pause_ms, self._look)

    def _look(self) -> None:
        self.tick += 1
        oldest = self.tick - _LOOKS
        for connection in [connection for connection in self.connections if connection.last_active < oldest]:
            connection.reason = f"idle for {self._max_idle_ms} ms"
            log.info("closing the connection of %s: %s", connection.client_host, connection.reason)
            connection.abort()
        self._sweep = None
        if self.connections:
            self._arm()
