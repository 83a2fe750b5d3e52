"""LeaveGroup (13). v0-2 name one member and carry its error at the top; v3+ a batch with an error each (KIP-345)."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator.outcome import LeaveGroup, Leaver
from broker_sim.handlers.groups import behind_timers, find_shard
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

_PIECE = 1000
"""Members that are asked about, or answered, before others are served; the group looks at all of them at once."""


@behind_timers
def handle(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | None:
    """The coordinator check, then the group; ids and instance ids come back as they were asked."""
    response: LeaveGroupResponse | None = ctx.in_pieces(_leave(ctx, request))
    return response


def _leave(ctx: RequestContext, request: LeaveGroupRequest) -> Generator[None, None, LeaveGroupResponse | None]:
    members = request.members if ctx.api_version >= 3 else [MemberIdentity(request.member_id)]
    leavers: list[Leaver] = []
    pace = Pace(_PIECE)
    for member in members:
        if pace.full():
            yield
        leavers.append(Leaver(member.member_id, member.group_instance_id))
    shard = find_shard(ctx, request.group_id)
    batch = ctx.api_version >= 3
    if isinstance(shard, Err):
        has_top_error = batch or ctx.coordinators.groups.settings.policy.old_leave_returns_top_errors
        return LeaveGroupResponse(error_code=shard if has_top_error else Err.UNSUPPORTED_VERSION)

    def response(answer: tuple[Err, list[Err]]) -> Generator[None, None, LeaveGroupResponse]:
        error, errors = answer
        if not batch:
            return LeaveGroupResponse(error_code=errors[0] if error is Err.NONE else error)
        results: list[MemberResponse] = []
        pace = Pace(_PIECE)
        for member, member_error in zip(members, errors, strict=False):
            if pace.full():
                yield
            results.append(MemberResponse(member.member_id, member.group_instance_id, member_error))
        return LeaveGroupResponse(error_code=error, members=results)

    ctx.coordinators.groups.submit(shard, ctx, LeaveGroup(request.group_id, leavers), response)
    return None
