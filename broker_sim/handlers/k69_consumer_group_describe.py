"""ConsumerGroupDescribe (69, KIP-848). v1 has each member's protocol."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.coordinator.consumer.describing import describe
from broker_sim.handlers.groups import behind_timers, describe_all
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@behind_timers
def handle(ctx: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse | None:
    """Each group in the order asked."""
    response: ConsumerGroupDescribeResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> Generator[None, None, ConsumerGroupDescribeResponse]:
    def refused(error: Err, group_id: str) -> DescribedGroup:
        return DescribedGroup(error_code=error, group_id=group_id)

    off = not ctx.broker.state.config.has_consumer_protocol
    return ConsumerGroupDescribeResponse(groups=(yield from describe_all(ctx, request, describe, refused, off=off)))
