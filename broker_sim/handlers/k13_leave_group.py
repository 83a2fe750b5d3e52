"""LeaveGroup (13). v0-2 name one member and carry its error at the top; v3+ a batch with an error each (KIP-345)."""

from __future__ import annotations

from broker_sim.coordinator.outcome import LeaveGroup, Leaver
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import behind_timers, gate
from kafka_wire.errors import Err
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


@behind_timers
def handle(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | None:
    """The gate, then the group; ids and instance ids come back as they were asked."""
    shard = gate(ctx, request.group_id)
    batch = ctx.api_version >= 3
    if isinstance(shard, Err):
        can_tell = batch or ctx.broker.runtime.settings.policy.old_leave_tells_top_errors
        return LeaveGroupResponse(error_code=shard if can_tell else Err.UNSUPPORTED_VERSION)
    members = request.members if batch else [MemberIdentity(request.member_id)]

    def response(answer: tuple[Err, list[Err]]) -> LeaveGroupResponse:
        error, errors = answer
        if not batch:
            return LeaveGroupResponse(error_code=errors[0] if error is Err.NONE else error)
        results = [MemberResponse(m.member_id, m.group_instance_id, e) for m, e in zip(members, errors, strict=False)]
        return LeaveGroupResponse(error_code=error, members=results)

    leavers = [Leaver(m.member_id, m.group_instance_id) for m in members]
    ctx.broker.runtime.submit(shard, ctx, LeaveGroup(request.group_id, leavers), response)
    return None
