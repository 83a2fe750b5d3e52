"""Heartbeat (12). v3 static members. A coordinator that still loads answers NONE: the member is to stay calm."""

from __future__ import annotations

from broker_sim.coordinator.outcome import Heartbeat
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import gate
from protocol.errors import Err
from protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | None:
    """The gate, then the group."""
    shard = gate(ctx, request.group_id)
    if isinstance(shard, Err):
        return HeartbeatResponse(error_code=Err.NONE if shard is Err.COORDINATOR_LOAD_IN_PROGRESS else shard)
    body = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    ctx.broker.runtime.submit(shard, ctx, body, _response)
    return None


def _response(error: Err) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)
