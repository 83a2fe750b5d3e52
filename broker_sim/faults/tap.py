"""The tap, through which each request passes: it is numbered and journalled, held back by an order, broken by a rule.

    client -> receive: number, journal -> order: waits? -> faults: which verdict? -> handler -> send: verdict on the answer -> client

Rules:

1. One tap for all brokers of a cluster; requests and connections are numbered from 1 across them.
2. A request that the tap keeps - held, delayed, hung, half answered - is in ``_open`` and nowhere else for ever: when its client
   disappears ``dropped`` cancels its timer and takes it out of every waiting list.
3. Whatever is kept goes on from the clock or the event loop, never from inside the handling of another request.
4. Every request has one response event. ``action`` says what became of an answer that did not go out whole: ``dropped``,
   ``truncated``, ``not answered`` (the connection ended first).
5. Without a journal the rules and the order work all the same.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import short
from broker_sim.faults.rules import ActionKind, Verdict
from broker_sim.faults.selectors import Asked
from broker_sim.requests.bodies import to_json
from broker_sim.requests.error_response import error_response, first_error
from broker_sim.requests.facts import facts_of
from broker_sim.requests.partial_error import merged, named_in, split

if TYPE_CHECKING:
    from broker_sim.common.clock import Clock, Timer
    from broker_sim.faults.order import Order
    from broker_sim.faults.registry import EventWriter, Fault, Faults
    from broker_sim.metadata.cluster_state import ClusterState
    from broker_sim.requests.context import Accepted, ConnectionLike, InterceptedContext
    from broker_sim.requests.traits import SessionPartitions

__all__ = ["RequestInterceptor"]

_MOST_TOPICS = 1000
"""So many partitions of a request are named in its event."""
_LONGEST_REASON = 500
"""Characters of why a client can't be served, which may have a text of the client's; as in the log (`Refusals`)."""


class _Open:
    """A request that has no answer yet."""

    __slots__ = ("asked", "ctx", "failed", "fault", "request", "started_ms", "timer")

    def __init__(self, ctx: InterceptedContext, request: object, asked: Asked, started_ms: int) -> None:
        self.ctx, self.request, self.asked, self.started_ms = ctx, request, asked, started_ms
        self.fault: Fault | None = None
        self.timer: Timer | None = None
        self.failed: Any = None
        """The answer to those partitions that a rule lets fail, while the handler has the others."""


class RequestInterceptor:
    """The Tap of a cluster (``requests.context.Tap``); attach it to each server's ``tap``."""

    def __init__(
        self, state: ClusterState, clock: Clock, journal: EventWriter | None, faults: Faults, order: Order | None = None
    ) -> None:
        self.state, self.clock, self.journal, self.faults, self.order = state, clock, journal, faults, order
        self._requests = count(1)
        self._connections = count(1)
        self._open: dict[int, _Open] = {}
        self._handled: list[_Open] = []  # whose handlers run now, the innermost last
        self._muted: dict[int, Timer] = {}  # by the connection's number
        self.bodies: frozenset[str] | None = None
        """APIs whose requests and responses are recorded with their bodies; None: all. Most of a journal's time goes into them."""
        self.host_of: Callable[[str], str | None] = lambda peer: None
        """The name of a client's host by its address, where there are names: in simulations."""

    def follows(self, earlier: RequestInterceptor) -> None:
        """Count on from where another one ended: its brokers are no more, these are their next ones."""
        self._requests, self._connections = earlier._requests, earlier._connections
        self.bodies = earlier.bodies

    def end(self, connections: Iterable[Any]) -> None:
        """The brokers stopped: open requests get no response, their connections are closed."""
        for opened in list(self._open.values()):
            self._close(opened)
            self._write_response(opened, None, "not answered")
        for connection in connections:
            self.closed(connection)

    # --- what the connections call ------------------------------------------------------------------------------------

    def opened(self, connection: Accepted) -> None:
        """A client connected, or is seen for the first time: it was there before the tap."""
        connection.number = next(self._connections)
        self._write_connection(connection, "opened")

    def refused(self, connection: Accepted, reason: str) -> None:
        """Journal why a client can't be served, and who it is as far as it has said so."""
        if not connection.number:
            self.opened(connection)
        if self.journal is not None:
            self._write_connection(connection, "refused", reason, **_client_of(connection))

    def closed(self, connection: Accepted) -> None:
        """Journal that a connection was closed, and cancel its throttling."""
        if connection.number:
            timer = self._muted.pop(connection.number, None)
            if timer is not None:
                timer.cancel()
            self._write_connection(connection, "closed", connection.reason)

    def receive(self, ctx: InterceptedContext, request: object) -> None:
        """Handle a request that has arrived: record it, hold it, or apply a rule."""
        request_id = ctx.request_id = next(self._requests)
        if not ctx.connection.number:
            self.opened(ctx.connection)
        route, broker = ctx.route, ctx.broker
        facts = facts_of(request, route.api_version, names=self._topic_name, held=self._held(ctx, request))
        asked = Asked(route.api_key, route.api_version, ctx.client_id, broker.node_id, facts)
        opened = self._open[request_id] = _Open(ctx, request, asked, self.clock.now_ms())
        if self.journal is not None:
            self._write_request(opened)
        if self.order is not None and self.order.must_wait(request_id, asked, partial(self._judge, opened)):
            return
        self._judge(opened)

    @contextmanager
    def handling(self, ctx: InterceptedContext) -> Iterator[None]:
        """While its handler runs, or a piece of it: what happens meanwhile is done by this request."""
        opened = self._open.get(ctx.request_id)
        if opened is None:
            yield
            return
        self._handled.append(opened)
        try:
            yield
        finally:
            self._handled.remove(opened)

    def send(self, ctx: InterceptedContext, response: object | None) -> None:
        """Process the answer of a request's handler; None if nothing is to be written."""
        opened = self._open.get(ctx.request_id)
        if opened is None:
            return
        fault = opened.fault
        if opened.failed is not None:
            self._answer_both(opened, response)
        elif fault is None or not fault.rule.verdict.kind.handles:
            self._finish(opened, response)
        else:
            _AFTER[fault.rule.verdict.kind](self, opened, response, fault.rule.verdict)

    def dropped(self, ctx: InterceptedContext) -> None:
        """Forget a request whose connection was closed before it was answered."""
        opened = self._open.get(ctx.request_id)
        if opened is not None:
            self._close(opened)
            self._write_response(opened, None, "not answered")

    # --- for the journal ----------------------------------------------------------------------------------------------

    @property
    def unanswered(self) -> list[str]:
        """The requests that have no answer yet, in words, the oldest first."""
        return [opened.asked.text() for opened in self._open.values()]

    @property
    def handled(self) -> dict[str, object]:
        """The request whose handler runs now, or a piece of it: the fields ``request``, ``api`` and ``client_id`` of its events; {}
        outside of a handler."""
        if not self._handled:
            return {}
        ctx, asked = self._handled[-1].ctx, self._handled[-1].asked
        return {"request": ctx.request_id, "api": asked.api, "client_id": asked.client_id}

    # --- on the way in ------------------------------------------------------------------------------------------------

    def _judge(self, opened: _Open) -> None:
        """Past the order: the first rule that takes it, or its handler."""
        if opened.ctx.request_id not in self._open:
            return
        fault = opened.fault = self.faults.match(opened.asked)
        if fault is None:
            opened.ctx.run(opened.request)
            return
        verdict = fault.rule.verdict
        if self.journal is not None:
            self.journal.write(
                "fault", fault=fault.id, rule=fault.rule.text(), request=opened.ctx.request_id, verdict=verdict.text()
            )
        match verdict.kind:
            case ActionKind.ERROR:
                self._answer_error(opened, verdict)
            case ActionKind.DROP:
                self._drop(opened)
            case ActionKind.HANG:
                self._keep(opened, partial(self._run, opened))
            case ActionKind.DELAY:
                self._keep(opened, partial(self._run, opened), verdict.number)
            case _:
                opened.ctx.run(opened.request)

    def _run(self, opened: _Open) -> None:
        opened.ctx.run(opened.request)

    # --- on the way out -----------------------------------------------------------------------------------------------

    def _answer_error(self, opened: _Open, verdict: Verdict) -> None:
        """Answer with the rule's error instead of handling the request: only for the partitions that the rule names, if the error is
        one of partitions."""
        parts = self._parts(opened, verdict)
        if parts is None:
            self._finish_error(opened, self._error_response(opened, opened.request, verdict))
        else:
            failing, rest = parts
            opened.failed = self._error_response(opened, failing, verdict)
            if opened.failed is None:
                self._drop(opened)
            else:
                opened.ctx.run(rest)

    def _error_after(self, opened: _Open, response: object, verdict: Verdict) -> None:
        """Answer with the rule's error in place of the answer, or of the rows of the partitions that the rule names."""
        parts = self._parts(opened, verdict)
        if parts is None or response is None:
            self._finish_error(opened, self._error_response(opened, opened.request, verdict))
        else:
            opened.failed = self._error_response(opened, parts[0], verdict)
            self._answer_both(opened, response)

    def _answer_both(self, opened: _Open, response: object) -> None:
        asked, failed = opened.asked, opened.failed
        if asked.facts.every_topic:
            assert opened.fault is not None
            failing = named_in(response, opened.request, partial(self._is_chosen, opened))
            failed = self._error_response(opened, failing, opened.fault.rule.verdict)
        self._finish(opened, merged(response, failed))

    def _finish_error(self, opened: _Open, response: object | None) -> None:
        """Send an error response; without one (acks=0) close the connection, as Kafka does."""
        if response is None:
            self._drop(opened)
        else:
            self._finish(opened, response)

    def _error_response(self, opened: _Open, request: object, verdict: Verdict) -> Any | None:
        asked = opened.asked
        held = self._held(opened.ctx, request)
        well = partial(self._offsets_of_others, opened)
        return error_response(
            request, asked.api_key, asked.version, verdict.error, session_partitions=held, healthy_row=well
        )

    def _parts(self, opened: _Open, verdict: Verdict) -> tuple[Any, Any] | None:
        """Return the part of a request that fails and the part that is handled; None if all of it fails."""
        assert opened.fault is not None
        if opened.fault.rule.selector.topic is None:
            return None
        asked = opened.asked
        return split(opened.request, asked.api_key, asked.version, verdict.error, partial(self._is_chosen, opened))

    def _is_chosen(self, opened: _Open, name: str, topic_id: bytes, index: int) -> bool:
        assert opened.fault is not None
        return opened.fault.rule.selector.takes(name or self._topic_name(topic_id) or "", index)

    def _offsets_of_others(self, opened: _Open, name: str, topic_id: bytes, index: int) -> tuple[int, int] | None:
        """Log start offset and high watermark of a partition that the rule does not name."""
        name = name or self._topic_name(topic_id) or ""
        partition = None if self._is_chosen(opened, name, topic_id, index) else self.state.partition(name, index)
        return None if partition is None else (partition.log_start_offset, partition.high_watermark)

    def _reply_late(self, opened: _Open, response: object, verdict: Verdict) -> None:
        self._keep(opened, partial(self._finish, opened, response), verdict.number)

    def _drop_after(self, opened: _Open, response: object, verdict: Verdict) -> None:
        self._drop(opened)

    def _truncate(self, opened: _Open, response: object, verdict: Verdict) -> None:
        ctx = opened.ctx
        data = b"" if response is None else b"".join(ctx.frames_of(response))[: verdict.number]
        self._close(opened)
        self._write_response(opened, response, "truncated")
        if data:
            ctx.write_part(data)
        ctx.connection.close()

    def _split(self, opened: _Open, response: object, verdict: Verdict) -> None:
        data = b"" if response is None else b"".join(opened.ctx.frames_of(response))
        if len(data) <= verdict.number:
            self._finish(opened, response)
            return
        opened.ctx.write_part(data[: verdict.number])
        self._keep(opened, partial(self._finish_split, opened, response, data[verdict.number :]), verdict.gap_ms)

    def _finish_split(self, opened: _Open, response: object, rest: bytes) -> None:
        self._close(opened)
        self._write_response(opened, response)
        opened.ctx.finish_frames([rest])

    def _throttle(self, opened: _Open, response: Any, verdict: Verdict) -> None:
        """KIP-219: the reply goes out at once and says how long; then the connection is muted so long."""
        connection = opened.ctx.connection
        if response is not None and hasattr(response, "throttle_time_ms"):
            response = dataclasses.replace(response, throttle_time_ms=verdict.number)  # a handler may keep its own
        opened.ctx.mute()  # before the reply: it lets the next request come
        until_ms = self.clock.now_ms() + verdict.number
        self._muted[connection.number] = self.clock.call_at_ms(until_ms, self._unmute, connection)
        self._finish(opened, response)

    def _unmute(self, connection: ConnectionLike) -> None:
        self._muted.pop(connection.number, None)
        connection.mute(False)

    def _finish(self, opened: _Open, response: object | None) -> None:
        self._close(opened)
        self._write_response(opened, response)
        opened.ctx.finish(response)

    def _drop(self, opened: _Open) -> None:
        self._close(opened)
        self._write_response(opened, None, "dropped")
        opened.ctx.drop()

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _keep(self, opened: _Open, go: Callable[[], object], delay_ms: int | None = None) -> None:
        """The request waits: for the clock, or until its rule releases it, whichever comes first; for ever without a delay."""
        assert opened.fault is not None
        opened.fault.hold(opened.ctx.request_id, opened.asked, partial(self._release, opened, go))
        if delay_ms is not None:
            opened.timer = self.clock.call_at_ms(self.clock.now_ms() + delay_ms, self._go_on, opened, go)

    def _release(self, opened: _Open, go: Callable[[], object]) -> None:
        """Let a request go on that its rule has released, in a turn of the loop of its own."""
        asyncio.get_running_loop().call_soon(self._go_on, opened, go)

    def _go_on(self, opened: _Open, go: Callable[[], object]) -> None:
        if opened.ctx.request_id in self._open:
            self._forget(opened)
            go()

    def _forget(self, opened: _Open) -> None:
        timer, opened.timer = opened.timer, None
        if timer is not None:
            timer.cancel()
        if opened.fault is not None:
            opened.fault.let_go(opened.ctx.request_id)

    def _close(self, opened: _Open) -> None:
        """The request is over, for the tap: nothing keeps it any more."""
        self._forget(opened)
        self._open.pop(opened.ctx.request_id, None)
        if self.order is not None:
            self.order.client_disconnected(opened.ctx.request_id)

    # --- what is known ------------------------------------------------------------------------------------------------

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self.state.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _held(self, ctx: InterceptedContext, request: object) -> SessionPartitions:
        """The partitions that a request is about by its session."""
        held = ctx.route.traits.session_partitions
        return () if held is None or request is None else held(ctx.broker, request)

    # --- journal events------------------------------------------------------------------------------------------------

    def _write_connection(self, connection: Accepted, action: str, reason: str = "", **client: str) -> None:
        if self.journal is not None:
            host = self.host_of(connection.client_host)
            self.journal.write(
                "connection",
                broker=connection.broker.node_id,
                connection=connection.number,
                peer=connection.client_host,
                action=action,
                **({} if host is None else {"host": host}),
                **client,
                **({"reason": short(reason, _LONGEST_REASON)} if reason else {}),
            )

    def _in_full(self, api: str) -> bool:
        return self.bodies is None or api in self.bodies

    def _write_request(self, opened: _Open) -> None:
        assert self.journal is not None
        ctx, asked = opened.ctx, opened.asked
        facts = asked.facts
        about: dict[str, Any] = {}
        if facts.group is not None:
            about["group"] = facts.group
        member = facts.member or facts.instance
        if member is not None:
            about["member"] = member
        if facts.transactional_ids:
            about["transactional_id"] = facts.transactional_ids[0]
        if facts.topics:
            named = facts.topics[:_MOST_TOPICS]
            about["topics"] = [topic if index < 0 else f"{topic}-{index}" for topic, index in named]
        self.journal.write(
            "request",
            request=ctx.request_id,
            broker=asked.broker,
            connection=ctx.connection.number,
            api=asked.api,
            version=asked.version,
            correlation_id=ctx.correlation_id,
            client_id=asked.client_id,
            client_host=ctx.client_host,
            **about,
            body=to_json(opened.request, asked.version) if self._in_full(asked.api) else None,
        )

    def _write_response(self, opened: _Open, response: object | None, action: str | None = None) -> None:
        if self.journal is None:
            return
        error = first_error(response)
        more: dict[str, Any] = {} if error is None else {"error": error.name}
        if action is not None:
            more["action"] = action
        self.journal.write(
            "response",
            request=opened.ctx.request_id,
            api=opened.asked.api,
            took_ms=self.clock.now_ms() - opened.started_ms,
            body=to_json(response, opened.asked.version) if self._in_full(opened.asked.api) else None,
            **more,
        )


_After = Callable[[RequestInterceptor, _Open, Any, Verdict], None]

_AFTER: dict[ActionKind, _After] = {
    ActionKind.ERROR_AFTER: RequestInterceptor._error_after,
    ActionKind.REPLY_DELAY: RequestInterceptor._reply_late,
    ActionKind.DROP_AFTER: RequestInterceptor._drop_after,
    ActionKind.TRUNCATE: RequestInterceptor._truncate,
    ActionKind.SPLIT: RequestInterceptor._split,
    ActionKind.THROTTLE: RequestInterceptor._throttle,
}
"""Functions of the actions on an answer."""


def _client_of(connection: Accepted) -> dict[str, str]:
    """The fields of a refused client."""
    fields = {"listener": connection.listener}
    if connection.client_id is not None:
        fields["client_id"] = connection.client_id
    authenticator = connection.authenticator
    if authenticator is not None:
        if authenticator.mechanism:
            fields["mechanism"] = short(authenticator.mechanism)
        if authenticator.claimed:
            fields["user"] = short(authenticator.claimed)
    return fields
