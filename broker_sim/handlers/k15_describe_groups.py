"""DescribeGroups (15). v3 authorized operations; v4 static members; v6 returns GROUP_ID_NOT_FOUND, earlier versions the state
"Dead"."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator import queries
from broker_sim.handlers.groups import behind_timers, find_shard
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.group_states import GroupState
from kafka_wire.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_ALL_GROUP_OPERATIONS = (
    (1 << 3) | (1 << 6) | (1 << 8)
)  # READ, DELETE, DESCRIBE: what a broker without an authorizer grants


_TELLS_ERRORS_SINCE = 6
"""The version from which on a missing or non-classic group has an error; before, its state is "Dead"."""

_PIECE = 200
"""Groups that are described before others are served."""


@behind_timers
def handle(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse | None:
    """Each group in the order asked."""
    response: DescribeGroupsResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(ctx: RequestContext, request: DescribeGroupsRequest) -> Generator[None, None, DescribeGroupsResponse]:
    groups: list[DescribedGroup] = []
    pace = Pace(_PIECE)
    for group_id in request.groups:
        if pace.full():
            yield
        groups.append(_describe(ctx, group_id))
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == Err.NONE:
                group.authorized_operations = ctx.coordinators.groups.settings.policy.group_operations
    return DescribeGroupsResponse(groups=groups)


def _describe(ctx: RequestContext, group_id: str) -> DescribedGroup:
    shard = find_shard(ctx, group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        return DescribedGroup(error_code=shard, group_id=group_id)
    described = queries.describe(shard, group_id)
    if described is not None and (ctx.api_version >= _TELLS_ERRORS_SINCE or described.error_code == Err.NONE):
        return described
    if ctx.api_version >= _TELLS_ERRORS_SINCE:
        message = f"Group {group_id} not found."
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, message, group_id, GroupState.DEAD.value)
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
