"""ListGroups (16). v4 filters by state (KIP-518), v5 by type (KIP-848). A broker lists the groups it coordinates."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator import queries
from broker_sim.handlers.groups import behind_timers
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_PIECE = 5000
"""Groups that are listed before others are served; those of one shard are listed at once."""


@behind_timers
def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | None:
    """All groups that pass the filters; while a partition loads, the Scala coordinator lists those it knows, the Java one none."""
    response: ListGroupsResponse | None = ctx.in_pieces(_list_all(ctx, request))
    return response


def _list_all(ctx: RequestContext, request: ListGroupsRequest) -> Generator[None, None, ListGroupsResponse]:
    groups: list[ListedGroup] = []
    error = Err.NONE
    runtime = ctx.coordinators.groups
    filters = queries.filters_of(runtime.settings.policy, request.states_filter, request.types_filter)
    pace = Pace(_PIECE)
    for shard in list(runtime.shards(ctx.broker)):
        if isinstance(shard, Err):
            error = shard
        else:
            if pace.full(len(shard.groups)):
                yield
            groups += queries.listed(shard, *filters)
    if error is not Err.NONE and runtime.settings.policy.name == "java":
        groups = []
    return ListGroupsResponse(error_code=error, groups=groups)
