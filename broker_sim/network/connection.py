"""One TCP connection: bytes in, frames to handlers, replies out in the order of the requests.

Rules:
1. One request at a time, as Kafka mutes the channel: the next frame is handled when the reply to the last one is there. Early frames
   wait as bytes. (Requests that are deferred to the end of the iteration are the one exception: `context`.)
2. All complete frames of a read whose handlers answer at once are answered with one write.
3. While a request is pending, or the client does not read its replies, later frames wait as `WaitingBytes`; replies go out through a
   `ReplyQueue`.
4. A frame that is no request (a length out of range, a header or body that can't be decoded, an unknown API or version) and a handler
   that raises close the connection, with one log line. The replies to earlier requests are still written. A reply with a text that is
   too long for the wire is UNKNOWN_SERVER_ERROR instead.
5. A reply never starts the next request from within its caller: that goes through the event loop, so that the runtime is never entered
   recursively.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.common.refusals import host_of
from broker_sim.network.repeated_requests import Template
from broker_sim.network.reply_queue import ReplyQueue
from broker_sim.network.reply_writer import WRITE_ALONE, WRITE_CHUNK
from broker_sim.network.request_memo import NoMemo, RequestMemo
from broker_sim.network.waiting_bytes import WaitingBytes
from broker_sim.requests.context import LARGE, InterceptedContext, Later, Owner, RequestContext, Tap
from broker_sim.requests.error_response import too_long
from broker_sim.requests.repeated import Again
from broker_sim.requests.routes import Listener, Route, UnsupportedRequest
from broker_sim.runtime.asking import DEFERRED
from kafka_wire.codec import DecodeError, skip_tagged_fields
from kafka_wire.wire import LENIENT

if TYPE_CHECKING:
    from broker_sim.authentication.authenticator import Authenticator
    from broker_sim.runtime.coordinators import Coordinators

_PREFIX = struct.Struct(">iIih")  # size; api key and version in one; correlation id; length of the client id
_START = struct.Struct(">iIi")  # the same up to the correlation id
_ID = struct.Struct(">i")  # the correlation id
_SMALLEST = 10  # bytes of a frame that holds a request header

_PENDING, _UNREAD, _CLOSING, _MUTED, _PACED, _ENDING = 1, 2, 4, 8, 16, 32  # why no further frame is handled: `_stop`

log = logging.getLogger("broker_sim.server")


class Connection(asyncio.Protocol):
    """See the module's rules; handlers see it as ``context.ConnectionLike``."""

    __slots__ = (
        "_deferring",
        "_handling",
        "_head",
        "_host",
        "_memo",
        "_owner",
        "_replies",
        "_route",
        "_stop",
        "_transport",
        "_waiting",
        "broker",
        "client_id",
        "last_active",
        "listener",
        "number",
        "reason",
        "routes",
        "scratch",
    )

    def __init__(self, owner: Owner, listener: Listener) -> None:
        """``listener``: the one of ``owner`` that has accepted it."""
        self._owner, self.broker, self.listener = owner, owner.broker, listener.name
        self.routes = owner.admission(listener)
        self.client_id: str | None = None
        self.scratch: object | None = None
        self.last_active = owner.tick
        self.number = 0
        self.reason = ""
        self._head = b"\xff\xff"  # of a frame, from its byte 12: the client id with its length
        self._transport: asyncio.Transport | None = None
        self._route: Route | None = None  # of the frame in a fast path
        self._memo = RequestMemo()
        self._stop = 0
        self._deferring = -1  # the API key of this iteration's deferred requests; -1 without any
        self._handling = False  # inside a handler, whose caller looks for the reply
        self._waiting = WaitingBytes()
        self._replies = ReplyQueue()
        self._host: str | None = None

    @property
    def authenticator(self) -> Authenticator | None:
        return self.routes.authenticator

    @property
    def coordinators(self) -> Coordinators:
        return self._owner.coordinators

    @property
    def client_host(self) -> str:
        """``/127.0.0.1``, as Java prints an address without a name."""
        host = self._host
        if host is None:
            peer = None if self._transport is None else self._transport.get_extra_info("peername")
            host = self._host = host_of(peer)
        return host

    # --- what the loop calls ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._waiting.transport = transport  # type: ignore[assignment]
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop |= _CLOSING
        self._waiting.drop()
        self.scratch = None
        for waiting in self._replies.drop():
            try:
                waiting.disconnected()
            except Exception:
                log.exception("the clean-up of %r failed", waiting)
        self._owner.closed(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        owner = self._owner
        self.last_active = owner.tick
        buggify = self.broker.state.buggify
        if buggify is not None and buggify.splits(data, self.data_received):
            return
        waiting = self._waiting
        if waiting.rest is not None:
            waiting.more(data)
        elif waiting.tail is None:
            if self._stop or self._deferring >= 0 or buggify is not None or owner.tap is not None:
                self._run(data, 0)
                return
            memo = self._memo
            if len(data) - 4 <= memo.longest:
                known = memo.replies.get(data[12:])  # one frame alone that came before, as heartbeats do
                if known is not None and data.startswith(known[4]) and known[1]():
                    self._transport.write(known[2] + data[8:12] + known[3])  # type: ignore[union-attr]
                    return
            if memo.repeated is not None:
                template = memo.repeated.get(data[:8])
                if (
                    template is not None
                    and template.state_version == self.broker.state.version
                    and template.again is not None
                    and template.fits(data)
                ):
                    self._repeat(template, template.again, data)
                    return
            if not self._alone(data):
                self._run(data, 0)
        else:
            whole = waiting.whole(data)
            if whole is not None:
                self._run(whole, 0)

    def eof_received(self) -> bool:
        if not self._replies.paced:
            return False  # the transport closes, after what was answered is written
        self.close()
        return True

    def pause_writing(self) -> None:
        self._stop |= _UNREAD
        self._replies.pause()

    def resume_writing(self) -> None:
        self._stop &= ~_UNREAD
        self.last_active = self._owner.tick
        was_paced = self._replies.paced
        if not self._replies.resume():
            return
        if was_paced:
            self._stop &= ~_PACED
            if self._stop & _CLOSING and self._transport is not None:
                self._transport.close()
        self._unblock()

    # --- frames -----------------------------------------------------------------------------------------------------

    def _alone(self, data: bytes) -> bool:
        """Handle one whole frame of a known client while no request waits and no tap is set, the usual case. Returns False and does
        nothing in other cases."""
        owner, head = self._owner, self._head
        body = 12 + len(head)
        if data[12:body] != head:
            return False
        size, code, correlation_id = _START.unpack_from(data)
        if size + 4 != len(data) or size > owner.max_request_bytes:
            return False
        answer: Any = None
        try:
            route = self._route = self.routes[code]
            if route.flexible:
                if data[body]:
                    return False
                body += 1
            fast = route.fast
            if fast is not None:
                answer = fast(self, data, body, correlation_id)
            if answer is None:
                self._handle(route, correlation_id, data, body, None)
        except Exception as error:
            self.broken(error)
        if answer is None or answer is DEFERRED:
            out = self._replies.out
            if not self._stop and len(out) == 1 and self._deferring < 0 and self._replies.small:
                self._transport.write(out.pop())  # type: ignore[union-attr]
            elif self._stop == _PENDING and self._deferring < 0 and not out:
                self._waiting.hold(b"", 0)
            else:
                self._ran(data, size + 4)
        else:
            self._transport.write(route.head_of(correlation_id, len(answer)) + answer)  # type: ignore[union-attr]
        return True

    def _run(self, data: bytes, pos: int) -> None:
        """Handle the frames of ``data`` from ``pos`` on, as far as that goes now, and write what they answered."""
        try:
            pos = self._handle_frames(data, pos)
        except Exception as error:
            self.broken(error)
        self._ran(data, pos)

    def broken(self, error: Exception) -> None:
        """An exception that came out of a frame's handling, and is being handled, costs the connection."""
        if isinstance(error, DecodeError | UnsupportedRequest):
            self.refuse(str(error))
        elif isinstance(error, struct.error | IndexError | UnicodeDecodeError):
            self.refuse(f"a request ends early or is not what it says ({error})")
        else:
            self.failed(self._route)

    def _ran(self, data: bytes, pos: int) -> None:
        """The frames before ``pos`` were handled: write what they answered; what to do about the rest?"""
        if self._stop & _CLOSING:
            return
        if self._replies.out and self._deferring < 0:
            self._write()
        waiting = self._waiting
        if self._stop & (_ENDING | _PENDING) == _ENDING:
            self.close()
        elif self._stop or self._deferring >= 0:
            waiting.hold(data, pos)
        elif pos != len(data) or waiting.tail is not None or not waiting.reading:
            self._keep(data, pos)

    def _handle_frames(self, data: bytes, pos: int) -> int:
        """Handle whole frames; returns the position after the last one. Raises the errors of a malformed frame or a fast path.

        One loop over what was received, with repeated requests and fast paths inline: clients pipeline, and each call costs.
        """
        replies, out = self._replies, self._replies.out
        size_out = 0
        total = len(data)
        unpack, routes, max_size = _PREFIX.unpack_from, self.routes, self._owner.max_request_bytes
        memo, tap, buggify = self._memo, self._owner.tap, self.broker.state.buggify
        short = tap is None and (buggify is None or not buggify.fires("takes no short way"))
        while total - pos >= 14:
            size, code, correlation_id, client_id_size = unpack(data, pos)
            end = pos + 4 + size
            if end > total or not _SMALLEST <= size <= max_size:
                break
            if size <= memo.longest and self._deferring < 0 and short:
                known = memo.replies.get(data[pos + 12 : end])
                if known is not None and known[0] == code and known[1]():
                    out += (known[2], data[pos + 8 : pos + 12], known[3])
                    pos = end
                    size_out += len(known[3])
                    if size_out < WRITE_CHUNK:
                        continue
                    size_out = 0
                    self._write()
                    if self._stop:
                        break
                    continue
            try:
                route = routes[code]
            except UnsupportedRequest:  # reported with the client id, unless that is no more than a guess
                if 0 < client_id_size <= size - _SMALLEST:
                    self._take_client_id(data[pos + 12 : pos + 14 + client_id_size], client_id_size)
                raise
            if self._deferring >= 0 and (self._deferring != route.api_key or tap is not None):
                self._owner.end_iteration()
                if self._stop:
                    break
            frame = data if size + 4 == total else data[pos:end]
            body = 14 + client_id_size if client_id_size > 0 else 14
            if frame[12:body] != self._head:
                self._take_client_id(frame[12:body], client_id_size)
            fast, tagged = route.fast if short else None, False
            if route.flexible:
                if not frame[body]:
                    body += 1
                elif len(frame) < LARGE:
                    body = skip_tagged_fields(frame, body)
                else:  # there may be half as many as bytes
                    fast, tagged = None, True
            answer: Any = None
            if fast is not None:
                self._route = route
                answer = fast(self, frame, body, correlation_id)
            if answer is None:
                size_out += self._handle(route, correlation_id, frame, body, tap, tagged)
            elif answer is not DEFERRED:
                size_out += replies.answered([route.head_of(correlation_id, len(answer)), answer])
            pos = end
            if size_out >= WRITE_CHUNK:
                size_out = 0
                self._write()
            if self._stop:
                break
        return pos

    def _handle(
        self, route: Route, correlation_id: int, frame: bytes, body: int, tap: Tap | None, tagged: bool = False
    ) -> int:
        """The general path of one request; returns the number of bytes that go out now. ``tagged`` as for `Route.decoding`."""
        context = RequestContext(self, route, correlation_id)
        if tap is not None:
            context = InterceptedContext(self, route, correlation_id, tap)
        request = route.decode(frame, body) if len(frame) < LARGE else context.decoded(frame, body, tagged=tagged)
        if request is DEFERRED:
            return self._settle(context)
        self._handling = True
        context.request = request
        try:
            if isinstance(context, InterceptedContext):
                context.tap.receive(context, request)
                return self._settle(context)
            response = route.handle(context, request)
            if response is DEFERRED:
                self._defer(context)
                return 0
            if response is not None:
                context.reply(response)
            if context.repeats is not None and context.frames:
                self._memo.answered(frame, context.frames, context.repeats)
            if route.repeated is not None:
                self._memo.handled(context, frame, body, request)
        except Exception:
            self.failed(context)
            return 0
        finally:
            self._handling = False
        return self._settle(context)

    def _repeat(self, template: Template, again: Again, frame: bytes) -> None:
        """`_alone` for a frame that is not decoded: see ``repeated_requests``."""
        generation = int.from_bytes(frame[template.at : template.at + 4], "big", signed=True)  # 0 of one without
        if again.at_once is not None:
            body = again.at_once(generation)
            if body is not None:
                whole = template.route.head_of(_ID.unpack_from(frame, 8)[0], len(body)) + body
                self._memo.answered(frame, (whole,), again.repeats)  # type: ignore[arg-type]
                self._transport.write(whole)  # type: ignore[union-attr]
                return
        context = RequestContext(self, template.route, _ID.unpack_from(frame, 8)[0], template.client)
        self._handling = True
        try:
            again.handle(context, generation)
            if context.repeats is not None and context.frames:
                self._memo.answered(frame, context.frames, context.repeats)
        except Exception:
            self.failed(context)
            return
        finally:
            self._handling = False
        frames = context.frames
        if frames is None:
            self._stop |= _PENDING
            self._replies.wait(context)
            self._waiting.hold(b"", 0)
        elif len(frames) == 1 and not self._stop and self._deferring < 0 and len(frames[0]) < WRITE_ALONE:
            self._transport.write(frames[0])  # type: ignore[union-attr]
        else:
            self._replies.answered(frames)
            self._ran(frame, len(frame))

    def run_handler(self, context: RequestContext, request: Any) -> None:
        """See ``context``: the handler of a request that the tap lets through, from within ``tap.receive`` or later."""
        handling, self._handling = self._handling, True
        context.request = request
        try:
            response = context.route.handle(context, request)
            if response is DEFERRED:
                self.coordinators.groups.flush_batches()
            elif response is not None:
                context.reply(response)
        except Exception:
            self.failed(context)
        finally:
            self._handling = handling
        if not handling and context.frames is not None:
            self._drain()

    def _settle(self, context: RequestContext) -> int:
        """The reply that is there goes out with its turn, or the request is pending; the number of bytes."""
        frames = context.frames
        if frames is None:
            self._stop |= _PENDING
            self._replies.wait(context)
            return 0
        return self._replies.answered(frames)

    def _take_client_id(self, head: bytes, size: int) -> None:
        raw = head[2:]
        if len(raw) < size:
            raise DecodeError(f"the client id claims {size} bytes, {len(raw)} are left")
        self._head = head
        self.client_id = None if size < 0 else raw.decode("utf-8", LENIENT)

    # --- bytes that wait --------------------------------------------------------------------------------------------

    def _keep(self, data: bytes, pos: int) -> None:
        """No whole frame is left in ``data``: keep the beginning of the next one, or continue with bytes that came meanwhile."""
        waiting, left = self._waiting, len(data) - pos
        tail = waiting.tail
        if tail is not None:
            waiting.tail = None
            self._run(data[pos:] + tail if left else bytes(tail), 0)
            return
        if left:
            need = 4
            if left >= 4:
                size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
                limit = self.routes.longest_frame(self._owner.max_request_bytes)
                if not _SMALLEST <= size <= limit:
                    self.routes.refuse_frame(self, size, f"expected {_SMALLEST} to {limit}")
                    return
                need = size + 4
            waiting.keep(data, pos, need)
        waiting.read(True)

    def _unblock(self) -> None:
        """Continue with the waiting frames in the event loop's next iteration, if nothing blocks them any more."""
        if self._waiting.rest is None or self._stop or self._deferring >= 0:
            return
        if self._waiting.release():  # else nothing waits: spare the loop a callback
            self._owner.call_soon(self._go_on)

    def _go_on(self) -> None:
        waiting = self._waiting
        if waiting.rest is None or self._stop or self._deferring >= 0:
            return
        data, waiting.rest = waiting.rest, None
        self._run(data, waiting.pos)

    # --- replies ----------------------------------------------------------------------------------------------------

    def defer(self, correlation_id: int) -> RequestContext:
        """See ``requests.context``: a fast path answers this frame from ``flush_batches()``."""
        assert self._route is not None
        context = RequestContext(self, self._route, correlation_id)
        self._defer(context)
        return context

    def reserve_reply(self) -> list[bytes]:
        """See ``requests.context``: reserves the place of a reply that is filled in at the end of the iteration."""
        reply = self._replies.place()
        if self._deferring < 0:
            assert self._route is not None
            self._deferring = self._route.api_key
            self._owner.enlist(self)
        return reply

    def write_now(self, data: bytes) -> None:
        """See ``context``: a part of the reply that is waited for."""
        self._replies.out.append(data)
        self._write()

    def mute(self, muted: bool) -> None:
        """As ``ConnectionLike.mute``; unmuting handles the frames that were received meanwhile."""
        if muted:
            self._stop |= _MUTED
        else:
            self._stop &= ~_MUTED
            self._unblock()

    def _defer(self, context: RequestContext) -> None:
        self._replies.wait(context)
        if self._deferring < 0:
            self._deferring = context.route.api_key
            self._owner.enlist(self)

    def replied(self, context: RequestContext | None = None) -> None:
        """A request has its reply: written now, or at the end of the handler or of the turn that this happens in."""
        if self._handling or self._deferring >= 0:
            return
        if context is not None and self._stop == _PENDING and self._waiting.nothing_behind:
            pending, frames = self._replies.pending, context.frames
            if pending is not None and len(pending) == len(frames) == 1:  # type: ignore[arg-type]
                # One request was pending, this is its reply, and nothing waits behind it: the usual case.
                pending.clear()
                self._stop, self._waiting.rest = 0, None
                self.last_active = self._owner.tick
                self._transport.write(frames[0])  # type: ignore[index, union-attr]
                return
        self._drain()

    def iteration_ended(self) -> None:
        """The batches were flushed: every deferred request has its reply, or waits from now on."""
        self._deferring = -1
        waiting, pending = self._waiting, self._replies.pending
        alone = pending is not None and len(pending) == 1 and not self._replies.out and not self._stop
        if pending is not None and alone and waiting.nothing_behind and waiting.reading:
            only = pending[0]  # one request, one reply, and nothing waits: the usual case of many connections
            if isinstance(only, list) and only and self._transport is not None:
                pending.clear()
                waiting.rest = None
                self.last_active = self._owner.tick
                self._transport.write(b"".join(only))
                return
        self._drain()
        if self._replies.pending:
            self._stop |= _PENDING

    def _drain(self) -> None:
        """Write the replies that are complete, in the order of the requests; after the last one the connection continues."""
        all_answered = self._replies.take_answered()
        self.last_active = self._owner.tick
        self._write()
        if all_answered:
            self._stop &= ~_PENDING
            if self._stop & (_ENDING | _MUTED) == _ENDING:
                self.close()
            self._unblock()

    def _write(self) -> None:
        if self._stop & _CLOSING:
            self._replies.out.clear()
            return
        if self._transport is not None:
            self._replies.write(self._transport)
            if self._replies.paced:
                self._stop |= _PACED

    # --- the end ----------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Close, with one log line; earlier replies are still written."""
        self.end(reason)
        self.close()

    def end(self, reason: str) -> None:
        """As `refuse`, once the request that is being handled is answered; no further one is handled."""
        self._owner.refused(self, reason)
        self._stop |= _ENDING

    def forget_repeats(self) -> None:
        """Each request is looked up in ``routes`` from now on, which may refuse it."""
        self._memo = NoMemo()

    def read_tokens(self, authenticate: Callable[[bytes], bytes], later: Later) -> asyncio.Protocol:
        """See ``context``: until the client is authenticated it sends tokens with a size and no header."""
        from broker_sim.network.sasl_tokens import SaslTokens

        return SaslTokens.put_before(self, self._transport, authenticate, later)  # type: ignore[arg-type]

    def failed(self, what: object) -> None:
        """Close after an exception in our own code, which goes into the log."""
        self._owner.failed(self, what)
        self.close()

    def unencodable(self, context: RequestContext, response: object) -> list[bytes]:
        """The reply in place of one with a text that is too long. Any other failure to encode is our bug and closes the connection."""
        frames = too_long(context, response)
        if frames is None:
            self.failed(context)
        return frames or []

    def close(self) -> None:
        """Close once everything answered is written."""
        if self._stop & _CLOSING:
            return
        if self._deferring >= 0:
            self._owner.end_iteration()
        self._write()
        self._stop |= _CLOSING
        if self._transport is not None and not self._stop & _PACED:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, unread replies or not."""
        self._stop |= _CLOSING
        if self._transport is not None:
            self._transport.abort()
