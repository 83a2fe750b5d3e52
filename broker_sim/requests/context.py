"""The context of a request: a handler's means to answer it.

A handler is one synchronous function, in the file of its API (``kNN_name.py``)::

    def handle(ctx: RequestContext, request: XRequest) -> XResponse | None | Deferred

It answers in one of five ways, and exactly once:

1. *Now*: it returns the response.
2. *Later*: it returns None, and ``ctx.reply(response)`` is called later. The request is *pending*: the connection
   handles nothing else until then (Kafka mutes the channel), so replies leave in the order of the requests without
   any book-keeping. ``ctx.on_disconnect(callback)`` is called if the client disconnects instead; ``ctx.reply`` has no
   effect from then on.
3. *Never*: it calls ``ctx.no_reply()`` and returns None (Produce with acks=0); the next request is handled.
4. *At the end of this iteration of the event loop*: it returns ``DEFERRED`` after it passed ``ctx`` to the runtime, which
   calls ``ctx.reply`` from ``flush_batches()``.
5. *In pieces*: work that may take more than some milliseconds is a generator that yields between its pieces (``slices``),
   and the handler returns ``ctx.in_pieces(generator)``: the response if one piece was enough, else None, and the request
   is pending as in 2. Leaders and topics may have changed at each yield. A frame of `LARGE` bytes or more is read in pieces, too, and
   its response, as that of every generator of more than a piece, is written in pieces: ``ctx.long``.

Batches. One iteration of the event loop reads many frames from many connections. Work that is cheaper in bulk, the append of
many OffsetCommits to one offsets partition, is collected during the iteration and done at its end by
``coordinators.groups.flush_batches()``:

* After DEFERRED a connection continues with its following frames *of the same API* only. Before a frame of another API
  is handled the batches are flushed, so no later request of the connection overtakes the commit.
* At the end of the iteration, at the latest in the next one, the server calls ``flush_batches()`` once,
  then writes each connection's replies in request order with one write.
* ``flush_batches()`` is synchronous and may be called at any time, also without open batches.
* A reply that does not come out of ``flush_batches()`` leaves its request pending as in 2, and those deferred behind it
  with it. A handler that knows that its append will not be committed at once returns None instead, so that the
  connection's next request waits unhandled.

Fast paths. A handler module may export ``FAST = {version: function}`` for frequent requests::

    def fast_v4(connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | None | Deferred

``frame`` is one whole frame, size field included (the header starts at 4); ``body`` is the offset of the request's
body. It returns the encoded response *body*, from which the server makes the frame; or None, *before any effect*, to
leave the request to ``handle``; or ``DEFERRED`` after it took a context for the reply with
``connection.defer(correlation_id)``. With a malformed request it may read beyond the body, but not beyond ``frame``:
struct.error, IndexError and DecodeError count as a malformed request.

Repeats. Some requests are repeated with the same bytes, except for the correlation id: a member's heartbeats. A handler that
answers one at once may set ``ctx.repeats`` to a function that makes ``again()``; it is called if the same frame has come twice.
For the next one the connection calls ``again()``, which does what the handler would do and returns True if the answer is the
same, or returns False, *before any effect*, if it may differ: then the frame is handled as a new one.

Repeated requests. A member's JoinGroup, SyncGroup and Heartbeat often differ from its last one in the generation alone, and have
another answer. A handler module may export ``REPEATED`` (``repeated``): the remaining part of its handler for such a request.

The tap. To observe requests or to inject faults the server has a ``Tap``: every frame takes the general path then, through
``Tap.receive`` in place of its handler and ``Tap.send`` in place of its reply, with an ``InterceptedContext``. Fast paths, repeats and
shared batches are off. Without a tap it costs one check per read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from broker_sim.common.slices import Job
from broker_sim.coordinator.client import Client
from broker_sim.runtime.asking import DEFERRED, Deferred
from kafka_wire.codec import EncodeError
from kafka_wire.remembered import remembered

if TYPE_CHECKING:
    from broker_sim.authentication.authenticator import Authenticator
    from broker_sim.common.clock import Timer
    from broker_sim.metadata.cluster_state import Broker
    from broker_sim.requests.routes import Listener, LookUp, Route, Routes
    from broker_sim.runtime.coordinators import Coordinators

__all__ = [
    "LARGE",
    "Accepted",
    "ConnectionLike",
    "FastHandler",
    "InterceptedContext",
    "Later",
    "Owner",
    "RequestContext",
    "Tap",
]


LARGE = 65_536
"""Bytes of a frame that is read and answered in pieces, should it take more than one; fast paths don't decode such a frame."""

_GONE: list[bytes] = []
"""The reply of a request whose connection is lost."""


class Accepted(Protocol):
    """An accepted socket: a connection, or one whose TLS handshake is not done."""

    broker: Broker
    client_id: str | None
    number: int
    """The tap's number for it; 0 before a tap has seen it."""

    reason: str
    """Reason why the broker closed it, if it did."""

    @property
    def listener(self) -> str:
        """The name of the listener that has accepted it, as Kafka's listener.name."""

    @property
    def client_host(self) -> str: ...

    @property
    def authenticator(self) -> Authenticator | None:
        """Authenticator of its client; None if the listener has no SASL, or authentication has not begun."""


class ConnectionLike(Accepted, Protocol):
    """A connection, as far as handlers may use it."""

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators of its cluster."""

    scratch: object | None
    """For the fast path of OffsetCommit: the layouts that have come on this connection; None at first."""

    def defer(self, correlation_id: int) -> RequestContext:
        """For fast paths: the context with which ``flush_batches()`` answers this frame; return DEFERRED after it."""

    def reserve_reply(self) -> list[bytes]:
        """For fast paths: ``flush_batches()`` will put the whole reply, size and header included, in pieces into this list; return
        DEFERRED after it. The code that fills the list then calls :meth:`replied`."""

    def replied(self, context: RequestContext | None = None) -> None:
        """For RequestContext: the reply is complete."""

    def run_handler(self, context: RequestContext, request: object) -> None:
        """For InterceptedContext: handle a request, now or long after it came."""

    def write_now(self, data: bytes) -> None:
        """For InterceptedContext: bytes that go out before the reply that is waited for."""

    def abort(self) -> None:
        """Reset the connection (RST); replies that are not written yet are lost."""

    def close(self) -> None:
        """Close once everything answered is written."""

    def refuse(self, reason: str) -> None:
        """Close the connection as after a frame that is no request, with one log line."""

    def end(self, reason: str) -> None:
        """As `refuse`, once the request that is being handled is answered."""

    def forget_repeats(self) -> None:
        """Handle no request as a repeated one: each may be refused from now on."""

    def read_tokens(self, authenticate: Callable[[bytes], bytes], later: Later) -> asyncio.Protocol:
        """After this request SASL tokens come without headers; ``authenticate`` answers one, or raises AuthenticationFailed, and then
        the connection is closed ``later``."""

    def mute(self, muted: bool) -> None:
        """Handle no further request until it is unmuted; replies go out."""

    def failed(self, what: object) -> None:
        """For RequestContext: an exception of our own is being handled."""

    def unencodable(self, context: RequestContext, response: object) -> list[bytes]:
        """For RequestContext, with the EncodeError being handled: the reply instead, [] for none."""

    def broken(self, error: Exception) -> None:
        """For RequestContext: a request can't be read, and this exception is being handled."""


class Owner(Protocol):
    """For the server: what a connection belongs to."""

    broker: Broker
    coordinators: Coordinators
    routes: Routes
    max_request_bytes: int
    tick: int
    """Counts the looks for idle connections."""
    call_soon: Callable[..., object]
    tap: Tap | None

    def refused(self, connection: Any, reason: str) -> None:
        """Report a client that can't be served, in the log and to the tap."""

    def failed(self, connection: Any, what: object) -> None:
        """Report an exception of our own that is being handled, with its traceback in the log."""

    def admission(self, listener: Listener) -> LookUp:
        """Return the look-up of requests for a new connection of this listener."""

    def opened(self, connection: Any) -> None: ...

    def closed(self, connection: Any) -> None: ...

    def enlist(self, connection: Any) -> None:
        """Call ``connection.iteration_ended()`` after the flush at the end of this iteration."""

    def end_iteration(self) -> None:
        """Flush the open batches now, if there are any."""


Later = Callable[[Callable[[], object]], "Timer"]
"""Calls a function after a while, unless the timer is cancelled."""

FastHandler = Callable[[ConnectionLike, bytes, int, int], "bytes | Deferred | None"]


_client = remembered(entries=4096)(Client)  # a client sends many requests of one version


class RequestContext:
    """One request: its client, and the ways to answer it. Valid until it is answered or its connection is closed."""

    __slots__ = (
        "_client",
        "_on_disconnect",
        "api_version",
        "broker",
        "client_id",
        "connection",
        "coordinators",
        "correlation_id",
        "frames",
        "long",
        "repeats",
        "request",
        "route",
    )

    request_id = 0
    """The tap's number for it; 0 without a tap."""

    def __init__(
        self, connection: ConnectionLike, route: Route, correlation_id: int, client: Client | None = None
    ) -> None:
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.broker = connection.broker
        """The broker that was asked."""
        self.coordinators = connection.coordinators
        """The coordinators of its cluster."""
        self.api_version = route.api_version
        self.client_id: str | None = connection.client_id
        self.frames: list[bytes] | None = None
        """For the server: the encoded reply, in pieces; None before the reply, [] if none is sent."""
        self.long = False
        """Whether the answer may be long as well: it is encoded in pieces."""
        self.request: object | None = None
        """The decoded request; None on a fast path."""
        self.repeats: Callable[[], Callable[[], bool] | None] | None = None
        """Set by a handler whose answer would be the same again: makes ``again()``, or None. See above."""
        self._on_disconnect: Callable[[], object] | None = None
        self._client = client

    @property
    def api_key(self) -> int:
        return self.route.api_key

    @property
    def name(self) -> str:
        """The name of its API."""
        return self.route.name

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it in group descriptions: ``/127.0.0.1``."""
        return self.connection.client_host

    @property
    def client(self) -> Client:
        """The client that asks, as an event of a coordinator names it."""
        known = self._client
        if known is None:
            known = self._client = _client(self.client_id or "", self.connection.client_host, self.api_version)
        return known

    def reply(self, response: object) -> None:
        """Answer. Without effect once the connection is closed. Raises RuntimeError on a second answer.

        A response that can't be encoded raises nothing here: see ``ConnectionLike.unencodable``.
        """
        if self.frames is None or self._open():
            if self.long:
                self._encode_in_pieces(response)
                return
            try:
                self.frames = self.route.frames_of(self.correlation_id, response)
            except EncodeError:
                self.frames = self.connection.unencodable(self, response)
            self.connection.replied(self)

    def _encode_in_pieces(self, response: object) -> None:
        self._on_disconnect = None  # the waiting code has answered
        job = self.route.encoding(self.correlation_id, response)
        encode_piece = partial(self._encode_piece, response)
        if not encode_piece(job):
            self.broker.state.slices.add(job, encode_piece)

    def _encode_piece(self, response: object, job: Job) -> bool:
        """One piece of an answer; whether it was the last."""
        if self.frames is _GONE:
            job.close()
            return True
        try:
            next(job)
            return False
        except StopIteration as done:
            self.frames = done.value
        except EncodeError:
            self.frames = self.connection.unencodable(self, response)
        self.connection.replied(self)
        return True

    def no_reply(self) -> None:
        """No reply is written; the connection continues with its next request."""
        if self._open():
            self.frames = []
            self.connection.replied(self)

    def reply_made(self, made: object) -> None:
        """Answer with a response, or with that of a job that makes it, now where its first piece is all of it."""
        response = self.in_pieces(made) if type(made) is GeneratorType else made
        if response is not None:
            self.reply(response)

    def in_pieces(self, job: Job) -> Any:
        """The result of ``job``, where its first piece is all of it; else None, and the result is the reply when it is there."""
        try:
            next(job)
        except StopIteration as done:
            return done.value
        self.long = True
        self.broker.state.slices.add(job, self._piece)
        return None

    def _piece(self, job: Job) -> bool:
        """Run one piece of a job; returns whether it was the last. An exception closes the connection, as in a handler."""
        try:
            next(job)
        except StopIteration as done:
            if done.value is DEFERRED:
                self.coordinators.groups.flush_batches()
            elif done.value is not None:
                self.reply(done.value)
        except Exception:
            self.connection.failed(self)
        else:
            return False
        return True

    def decoded(self, frame: bytes, body: int, *, tagged: bool) -> Any:
        """For the server: a large request, where its first piece is all of it; else DEFERRED, and it is handled when it is read."""
        self.long = True
        job = self.route.decoding(frame, body, tagged=tagged)
        try:
            next(job)
        except StopIteration as done:
            return done.value
        self.broker.state.slices.add(job, self._decode_piece)
        return DEFERRED

    def _decode_piece(self, job: Job) -> bool:
        if self.frames is _GONE:
            job.close()
            return True
        try:
            next(job)
            return False
        except StopIteration as done:
            self._take(done.value)
        except Exception as error:
            self.connection.broken(error)
        return True

    def _take(self, request: object) -> None:
        self.connection.run_handler(self, request)

    def _open(self) -> bool:
        if self.frames is None:
            return True
        if self.frames is _GONE:
            return False
        raise RuntimeError(f"{self!r} was answered twice")

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Call ``callback()`` once if the connection is lost while this is unanswered. One callback per request."""
        self._on_disconnect = callback

    def disconnected(self) -> None:
        """For the server: the connection is lost."""
        callback, self._on_disconnect = self._on_disconnect, None
        if self.frames is None:
            self.frames = _GONE
            if callback is not None:
                callback()

    def __repr__(self) -> str:
        return f"{self.route.name} v{self.route.api_version} (correlation id {self.correlation_id})"


class Tap(Protocol):
    """Intercepts requests to observe or fail them; see the module. One for all brokers of a cluster."""

    def opened(self, connection: Accepted) -> None:
        """Called when a client has connected, before its first request."""

    def refused(self, connection: Accepted, reason: str) -> None:
        """The client can't be served: invalid bytes, a failed authentication or TLS handshake. Also of a socket whose TLS handshake
        failed, which was never reported as opened."""

    def closed(self, connection: Accepted) -> None:
        """A connection was closed; ``connection.reason`` is the reason if the broker closed it."""

    def receive(self, ctx: InterceptedContext, request: object) -> None:
        """In place of the handler. Sooner or later one of ``ctx.run(request)``, ``ctx.finish(response)``, ``ctx.drop()``, or never
        anything. ``request`` is None for an ApiVersions of a version that is not known."""

    def handling(self, ctx: InterceptedContext) -> AbstractContextManager[None]:
        """While the handler of the request runs, or a piece of it."""

    def send(self, ctx: InterceptedContext, response: object | None) -> None:
        """In place of the reply; None where Kafka sends none (acks=0). Sooner or later one of ``ctx.finish(response)``,
        ``ctx.finish_frames(pieces)``, ``ctx.drop()``, or never anything."""

    def dropped(self, ctx: InterceptedContext) -> None:
        """Called when the connection is closed while the request is unanswered."""


class InterceptedContext(RequestContext):
    """A request that a tap intercepts. Later calls of ``run`` and the like come from the event loop, never from within the handling of
    another request."""

    __slots__ = ("_answered", "request_id", "tap")

    def __init__(self, connection: ConnectionLike, route: Route, correlation_id: int, tap: Tap) -> None:
        super().__init__(connection, route, correlation_id)
        self.tap = tap
        self.request_id = 0
        """The tap's number for it."""
        self._answered = False

    @property
    def closed(self) -> bool:
        """Whether its connection is closed."""
        return self.frames is _GONE

    def _take(self, request: object) -> None:
        self.tap.receive(self, request)

    def run(self, request: object) -> None:
        """Let the handler have it."""
        if self.frames is None:
            with self.tap.handling(self):
                self.connection.run_handler(self, request)

    def _piece(self, job: Job) -> bool:
        with self.tap.handling(self):
            return super()._piece(job)

    def reply(self, response: object) -> None:
        """The handler's answer goes to the tap."""
        if self.frames is _GONE:
            return
        if self._answered:
            raise RuntimeError(f"{self!r} was answered twice")
        self._answered = True
        self.tap.send(self, response)

    def no_reply(self) -> None:
        self.reply(None)

    def finish(self, response: object | None) -> None:
        """Answer past the tap; None sends nothing."""
        if response is None:
            super().no_reply()
        else:
            super().reply(response)

    def finish_frames(self, frames: list[bytes]) -> None:
        """Answer past the tap with encoded frames, size prefix included, unless the connection is closed."""
        if self._open():
            self.frames = frames
            self.connection.replied(self)

    def frames_of(self, response: object) -> list[bytes]:
        """The reply as it would be written, in pieces. Raises EncodeError."""
        return self.route.frames_of(self.correlation_id, response)

    def write_part(self, data: bytes) -> None:
        """Write a part of the reply at once; ``finish_frames`` sends the rest."""
        if self.frames is None:
            self.connection.write_now(data)

    def drop(self) -> None:
        """Reset the connection, with all its pending requests."""
        self.connection.abort()

    def mute(self, muted: bool = True) -> None:
        """Handle nothing more of this connection until it is unmuted (KIP-219)."""
        self.connection.mute(muted)

    def disconnected(self) -> None:
        unanswered = self.frames is None
        super().disconnected()
        if unanswered:
            self.tap.dropped(self)
