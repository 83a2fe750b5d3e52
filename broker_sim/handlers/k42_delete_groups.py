"""DeleteGroups (42): each group has one result, however often it is named; one that isn't Empty stays."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from broker_sim.common.slices import Pace, counted, listed
from broker_sim.coordinator.outcome import DeleteGroup
from broker_sim.handlers.groups import behind_timers, find_shard
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

_PIECE = 200
"""Groups whose shard is asked before others are served."""


@behind_timers
def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse | None:
    """Ask every shard; the answer goes out with the last result."""
    response: DeleteGroupsResponse | None = ctx.in_pieces(_delete_all(ctx, request))
    return response


def _delete_all(
    ctx: RequestContext, request: DeleteGroupsRequest
) -> Generator[None, None, DeleteGroupsResponse | None]:
    named = yield from counted(request.groups_names)
    results = yield from listed(map(DeletableGroupResult, named))
    waiting = len(results)

    def done(result: DeletableGroupResult, error: Err) -> None:
        nonlocal waiting
        result.error_code = error
        waiting -= 1
        if waiting == 0:
            ctx.reply(DeleteGroupsResponse(results=results))

    if not results:
        return DeleteGroupsResponse()
    pace = Pace(_PIECE)
    for result in results:
        if pace.full():
            yield
        shard = find_shard(ctx, result.group_id, empty_id_is_legal=True)
        if isinstance(shard, Err):
            done(result, shard)
        else:
            ctx.coordinators.groups.ask(shard, ctx, DeleteGroup(result.group_id), partial(done, result))
    return None
