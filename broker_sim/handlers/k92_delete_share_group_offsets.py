"""DeleteShareGroupOffsets (92, KIP-932), version 0."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.coordinator.share.offsets import forgetting
from broker_sim.handlers.groups import find_shard, waits_for_timers
from broker_sim.handlers.share_groups import NO_SUCH_VERSION, are_off
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


def handle(ctx: RequestContext, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse | None:
    """The coordinator check; then the group."""
    response: DeleteShareGroupOffsetsResponse | None = ctx.in_pieces(_delete(ctx, request))
    return response


def _delete(
    ctx: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Generator[None, None, DeleteShareGroupOffsetsResponse | None]:
    if waits_for_timers(ctx, request):
        return None
    if are_off(ctx, request.group_id):
        return DeleteShareGroupOffsetsResponse(error_code=Err.UNSUPPORTED_VERSION, error_message=NO_SUCH_VERSION)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return DeleteShareGroupOffsetsResponse(error_code=shard, error_message=shard.text)
    body = yield from forgetting(shard, request)
    shard = find_shard(ctx, request.group_id)  # it may have moved meanwhile
    if isinstance(shard, Err):
        return DeleteShareGroupOffsetsResponse(error_code=shard, error_message=shard.text)
    ctx.coordinators.groups.submit(shard, ctx, body)
    return None
