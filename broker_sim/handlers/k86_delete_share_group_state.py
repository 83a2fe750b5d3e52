"""DeleteShareGroupState (86, KIP-932), version 0."""

from __future__ import annotations

from broker_sim.coordinator.share_state.commands import Delete, Result
from broker_sim.handlers import share_states
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k86_delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(ctx: RequestContext, request: DeleteShareGroupStateRequest) -> None:
    """Delete the state of each share partition."""

    def row(index: int, result: Result) -> PartitionResult:
        return PartitionResult(index, result.error, result.words)

    share_states.answer(
        ctx,
        request,
        lambda key, data: Delete(key),
        row,
        lambda topics: DeleteShareGroupStateResponse([DeleteStateResult(*topic) for topic in topics]),
    )
