"""ShareGroupHeartbeat (76, KIP-932), version 1."""

from __future__ import annotations

from functools import partial

from broker_sim.coordinator.epochs.expected import Expected
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.share.heartbeat import LongShareHeartbeat, Member, check, expecting
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import find_shard, with_names_in_order
from broker_sim.handlers.share_groups import are_off
from kafka_wire.errors import Err
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


@with_names_in_order(expecting)
def handle(
    ctx: RequestContext, request: ShareGroupHeartbeatRequest, expected: Expected[Member] | None
) -> ShareGroupHeartbeatResponse | None:
    """Whether there are share groups, the request's form, the coordinator check; then the group."""
    if are_off(ctx, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION)
    runtime = ctx.broker.runtime
    try:
        check(request, runtime.settings)
    except Refused as refused:
        return ShareGroupHeartbeatResponse(error_code=refused.error, error_message=refused.words)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return ShareGroupHeartbeatResponse(error_code=shard)
    known = shard.groups.get(request.group_id)
    before = None if known is None else known.version

    def response(answer: ShareGroupHeartbeatResponse) -> ShareGroupHeartbeatResponse:
        group = shard.groups.get(request.group_id)
        if (
            isinstance(group, ShareGroup)
            and group.version == before
            and answer.error_code == Err.NONE
            and request.member_epoch > 0
            and group.is_settled
        ):
            ctx.repeats = partial(runtime.unchanged, shard, request.group_id, request.member_id)
        return answer

    runtime.submit(shard, ctx, request if expected is None else LongShareHeartbeat(request, expected), response)
    return None
