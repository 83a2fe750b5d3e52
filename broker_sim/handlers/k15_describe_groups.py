"""DescribeGroups (15). v3 authorized operations; v4 static members; v6 says GROUP_ID_NOT_FOUND where older ones show "Dead"."""

from __future__ import annotations

from broker_sim.coordinator import queries
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import behind_timers, gate
from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_ALL_GROUP_OPERATIONS = (
    (1 << 3) | (1 << 6) | (1 << 8)
)  # READ, DELETE, DESCRIBE: what a broker without an authorizer grants


@behind_timers
def handle(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Each group in the order asked."""
    groups = [_describe(ctx, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == Err.NONE:
                group.authorized_operations = ctx.broker.runtime.settings.policy.group_operations
    return DescribeGroupsResponse(groups=groups)


def _describe(ctx: RequestContext, group_id: str) -> DescribedGroup:
    shard = gate(ctx, group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        return DescribedGroup(error_code=shard, group_id=group_id)
    found = queries.describe(shard, group_id)
    if found is not None:
        return found
    if ctx.api_version >= 6:
        message = f"Group {group_id} not found."
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, message, group_id, "Dead")
    return DescribedGroup(group_id=group_id, group_state="Dead")
