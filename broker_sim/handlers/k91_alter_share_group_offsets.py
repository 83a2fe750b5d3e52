"""AlterShareGroupOffsets (91, KIP-932), version 0."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.coordinator.share.offsets import altering
from broker_sim.handlers.groups import find_shard, waits_for_timers
from broker_sim.handlers.share_groups import NO_SUCH_VERSION, are_off
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


def handle(ctx: RequestContext, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse | None:
    """The coordinator check; then the group."""
    response: AlterShareGroupOffsetsResponse | None = ctx.in_pieces(_alter(ctx, request))
    return response


def _alter(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Generator[None, None, AlterShareGroupOffsetsResponse | None]:
    if waits_for_timers(ctx, request):
        return None
    if are_off(ctx, request.group_id):
        return AlterShareGroupOffsetsResponse(error_code=Err.UNSUPPORTED_VERSION, error_message=NO_SUCH_VERSION)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return AlterShareGroupOffsetsResponse(error_code=shard, error_message=shard.text)
    body = yield from altering(shard.topics, request)
    shard = find_shard(ctx, request.group_id)  # it may have moved meanwhile
    if isinstance(shard, Err):
        return AlterShareGroupOffsetsResponse(error_code=shard, error_message=shard.text)
    ctx.coordinators.groups.submit(shard, ctx, body)
    return None
