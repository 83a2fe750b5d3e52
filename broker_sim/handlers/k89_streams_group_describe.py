"""StreamsGroupDescribe (89, KIP-1071). v1 returns the assignor; the topology description that it may ask for (KIP-1331) is kept by
a plugin of the broker, which the simulator does not have."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.coordinator.streams.describing import describing
from broker_sim.handlers.groups import behind_timers, describe_all
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k89_streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

_NOT_STORED = 1
"""The status of a description that was asked for and that the broker doesn't have."""


@behind_timers
def handle(ctx: RequestContext, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse | None:
    """Each group in the order asked."""
    response: StreamsGroupDescribeResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: StreamsGroupDescribeRequest
) -> Generator[None, None, StreamsGroupDescribeResponse]:
    def refused(error: Err, group_id: str) -> DescribedGroup:
        return DescribedGroup(error_code=error, group_id=group_id)

    off = not ctx.broker.state.config.has_streams_groups
    groups = yield from describe_all(ctx, request, describing, refused, off=off)
    for group in groups if request.include_topology_description else ():
        if group.error_code == Err.NONE:
            group.topology_description_status = _NOT_STORED
    return StreamsGroupDescribeResponse(groups=groups)
