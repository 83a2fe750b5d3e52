"""A broker without a cluster behind it, and a transport without a socket: what the server's tests stand on.

The handlers are the tests' own, put into the routes by `answer`; all else is real: connection, server, routes, codec.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker_sim.common.clock import ManualClock
from broker_sim.config.settings import BrokerConfig
from broker_sim.network.connection import Connection
from broker_sim.network.server import BrokerServer
from broker_sim.requests.context import FastHandler, RequestContext
from broker_sim.requests.routes import Route, Routes
from kafka_wire.codec import decode_from, encode
from kafka_wire.frame import encode_request_header, frame, response_is_tagged
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse


class FakeRuntime:
    """Collects deferred contexts; `flush_batches` answers them, unless they are held."""

    def __init__(self) -> None:
        self.open: list[RequestContext] = []
        self.held: list[RequestContext] = []
        self.hold = False
        self.flushes: list[int] = []

    def flush_batches(self) -> None:
        contexts, self.open = self.open, []
        self.flushes.append(len(contexts))
        if self.hold:
            self.held += contexts
            return
        for context in contexts:
            context.reply(HeartbeatResponse())


class FakeTransport(asyncio.Transport):
    """Keeps what is written; `pause_after` bytes unread pause the writer as a full socket does."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 4242)})
        self.written = bytearray()
        self.writes = 0
        self.reading = True
        self.closed = False
        self.aborted = False
        self.pause_after: int | None = None
        self.connection: Connection | None = None

    def write(self, data: Any) -> None:
        assert not self.closed, "written after close"
        self.written += data
        self.writes += 1
        if self.pause_after is not None and len(self.written) > self.pause_after:
            assert self.connection is not None
            self.connection.pause_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def replies(self) -> list[tuple[int, bytes]]:
        """(correlation id, rest) of every whole frame written so far, which are taken out."""
        found = []
        while len(self.written) >= 4:
            (size,) = struct.unpack_from(">i", self.written)
            if len(self.written) < size + 4:
                break
            payload = bytes(self.written[4 : size + 4])
            del self.written[: size + 4]
            found.append((int.from_bytes(payload[:4], "big", signed=True), payload[4:]))
        return found

    def ids(self) -> list[int]:
        """The correlation ids of the replies written so far."""
        return [correlation_id for correlation_id, _ in self.replies()]


class Bench:
    """One server, its clock, its routes; connections to it on fake transports."""

    def __init__(self, as_version: str = "4.1", **config: object) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        state = SimpleNamespace(config=BrokerConfig(settings), as_version=as_version, buggify=None)
        self.runtime = FakeRuntime()
        self.broker: Any = SimpleNamespace(node_id=1, state=state, on_closed=[])
        coordinators: Any = SimpleNamespace(groups=self.runtime)
        self.clock = ManualClock()
        self.routes = Routes(as_version)
        self.server = BrokerServer(self.broker, coordinators, self.clock, self.routes)
        self.handled: list[int] = []
        self.parked: list[RequestContext] = []

    def connect(self) -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self.server, self.server.listeners[0]), FakeTransport()
        transport.connection = connection
        connection.connection_made(transport)
        return connection, transport

    def answer(
        self, handler: Callable[[RequestContext, Any], Any], fast: FastHandler | None = None, *, other: bool = False
    ) -> None:
        """Let `handler` answer Heartbeat v4 (`other`: ListGroups v4)."""
        key, version = (16, 4) if other else (12, 4)
        request, response = (ListGroupsRequest, ListGroupsResponse) if other else (HeartbeatRequest, HeartbeatResponse)
        name = "ListGroups" if other else "Heartbeat"

        def handle(context: RequestContext, message: Any) -> Any:
            self.handled.append(context.correlation_id)
            return handler(context, message)

        self.routes.supported[key] = (0, version)
        self.routes[(key << 16) + version] = Route(
            key, version, name, handle, request_class=request, response_class=response, fast=fast
        )

    def park(self, context: RequestContext, request: Any) -> None:
        """A handler that answers later: by hand."""
        self.parked.append(context)


def heartbeat(correlation_id: int, group: str = "g", client_id: str | None = "me", more: int = 0) -> bytes:
    """A whole frame: Heartbeat v4, and `more` bytes behind it that nobody reads."""
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    return frame(encode_request_header(12, 4, correlation_id, client_id) + encode(request, 4) + bytes(more))


def request_frame(request: Any, version: int, correlation_id: int, client_id: str | None = "me") -> bytes:
    """A whole frame with `request`."""
    key = type(request).__spec__.api_key
    return frame(encode_request_header(key, version, correlation_id, client_id) + encode(request, version))


def response_in(response_class: type[Any], version: int, rest: bytes, key: int) -> Any:
    """The response behind a correlation id; its bytes must end with it."""
    start = 1 if response_is_tagged(key, version) else 0
    response, end = decode_from(response_class, version, rest, start)
    assert end == len(rest)
    return response
