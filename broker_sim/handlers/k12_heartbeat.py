"""Heartbeat (12). v3 static members. A coordinator that still loads answers NONE: the member is to stay calm."""

from __future__ import annotations

from functools import partial

from broker_sim.coordinator.outcome import Heartbeat
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import gate
from kafka_wire.errors import Err
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

_OF_THE_LIVING = (Err.NONE, Err.REBALANCE_IN_PROGRESS)
"""The answers with which a session begins anew."""


def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | None:
    """The gate, then the group."""
    group_id, member_id = request.group_id, request.member_id
    shard = gate(ctx, group_id)
    if isinstance(shard, Err):
        return HeartbeatResponse(error_code=Err.NONE if shard is Err.COORDINATOR_LOAD_IN_PROGRESS else shard)
    runtime = ctx.broker.runtime

    def response(error: Err) -> HeartbeatResponse:
        if error in _OF_THE_LIVING:
            ctx.repeats = partial(runtime.unchanged, shard, group_id, member_id)
        return HeartbeatResponse(error_code=error)

    command = Heartbeat(group_id, request.generation_id, member_id, request.group_instance_id)
    runtime.submit(shard, ctx, command, response)
    return None
