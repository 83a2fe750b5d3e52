"""ShareGroupHeartbeat (76, KIP-932), version 1."""

from __future__ import annotations

from broker_sim.coordinator.epochs.expected import Expected
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.share.heartbeat import LongShareHeartbeat, Member, check, expecting
from broker_sim.handlers.groups import find_shard, repeatable, with_names_in_order
from broker_sim.handlers.share_groups import are_off
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


@with_names_in_order(expecting)
def handle(
    ctx: RequestContext, request: ShareGroupHeartbeatRequest, expected: Expected[Member] | None
) -> ShareGroupHeartbeatResponse | None:
    """Whether there are share groups, the request's form, the coordinator check; then the group."""
    if are_off(ctx, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION)
    runtime = ctx.coordinators.groups
    try:
        check(request, runtime.settings)
    except Refused as refused:
        return ShareGroupHeartbeatResponse(error_code=refused.error, error_message=refused.words)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return ShareGroupHeartbeatResponse(error_code=shard)
    body = request if expected is None else LongShareHeartbeat(request, expected)
    runtime.submit(shard, ctx, body, repeatable(ctx, shard, request))
    return None
