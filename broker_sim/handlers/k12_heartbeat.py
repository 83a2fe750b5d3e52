"""Heartbeat (12). v3 static members. A coordinator that still loads answers NONE: the member is to stay calm."""

from __future__ import annotations

from broker_sim.coordinator.group import HEARTBEAT_ANSWER
from broker_sim.coordinator.outcome import Heartbeat
from broker_sim.handlers.context import ConnectionLike, FastHandler, RequestContext
from broker_sim.handlers.groups import gate
from broker_sim.handlers.scratch import learn, scratch_of
from broker_sim.runtime.repeated_requests import beat
from kafka_wire.api_keys import ApiKey, is_flexible
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | None:
    """The gate, then the group."""
    shard = gate(ctx, request.group_id)
    if isinstance(shard, Err):
        return _response(_calm(shard))
    ctx.broker.runtime.submit(shard, ctx, _command(request), _response)
    return None


def _command(request: HeartbeatRequest) -> Heartbeat:
    return Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)


def _calm(error: Err) -> Err:
    return Err.NONE if error is Err.COORDINATOR_LOAD_IN_PROGRESS else error


def _response(error: Err) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def _fast(version: int) -> FastHandler:
    """The same without a context, and remembered: the next heartbeats of the member are the same bytes."""

    replies = {error: encode(_response(error), version) for error in (Err.NONE, *HEARTBEAT_ANSWER.values())}
    flexible = is_flexible(ApiKey.HEARTBEAT, version)

    def fast(connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | None:
        scratch = scratch_of(connection)
        known = scratch.beat
        generation = None if known is None else known.generation(frame, body)
        if known is not None and generation is not None:
            answer = beat(known.place, generation)
            if answer is not None and (answer is not Err.NONE or not connection.seen(frame)):
                return replies[answer]
        request = decode(HeartbeatRequest, version, frame, body)
        shard = gate(connection, request.group_id)
        if isinstance(shard, Err):
            return encode(_response(_calm(shard)), version)
        broker = connection.broker
        command = _command(request)
        error = broker.runtime.heartbeat(shard, command)
        if error is None:
            return None
        reply = replies.get(error)
        if reply is None:
            reply = replies[error] = encode(_response(error), version)
        if connection.seen(frame) and error in (Err.NONE, Err.REBALANCE_IN_PROGRESS):
            again = broker.runtime.heartbeat_again(shard, broker.node_id, command)
            if again is not None:
                connection.remember(frame, reply, again)
        elif generation is None and error in (Err.NONE, Err.REBALANCE_IN_PROGRESS):
            scratch.beat = learn(scratch, connection, frame[body:], request, flexible=flexible)
        return reply

    return fast


FAST: dict[int, FastHandler] = {version: _fast(version) for version in range(5)}
