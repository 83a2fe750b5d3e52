"""ShareGroupDescribe (77, KIP-932), version 1."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.coordinator.share.describing import describe
from broker_sim.handlers.groups import behind_timers, describe_all
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k77_share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@behind_timers
def handle(ctx: RequestContext, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse | None:
    """Each group in the order asked."""
    response: ShareGroupDescribeResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: ShareGroupDescribeRequest
) -> Generator[None, None, ShareGroupDescribeResponse]:
    def refused(error: Err, group_id: str) -> DescribedGroup:
        return DescribedGroup(error_code=error, group_id=group_id)

    off = not ctx.broker.state.config.has_share_groups
    return ShareGroupDescribeResponse(groups=(yield from describe_all(ctx, request, describe, refused, off=off)))
