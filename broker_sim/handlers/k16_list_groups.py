"""ListGroups (16). v4 filters by state (KIP-518), v5 by type (KIP-848). A broker lists the groups it coordinates."""

from __future__ import annotations

from broker_sim.coordinator import queries
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import behind_timers
from kafka_wire.errors import Err
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@behind_timers
def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """All groups that pass the filters; while a partition loads, the Scala coordinator lists those it knows, the Java one none."""
    groups: list[ListedGroup] = []
    error = Err.NONE
    for shard in ctx.broker.runtime.shards(ctx.broker):
        if isinstance(shard, Err):
            error = shard
        else:
            groups += queries.listed(shard, request.states_filter, request.types_filter)
    if error is not Err.NONE and ctx.broker.runtime.settings.policy.name == "java":
        groups = []
    return ListGroupsResponse(error_code=error, groups=groups)
