"""ReadShareGroupState (84, KIP-932), version 0."""

from __future__ import annotations

from broker_sim.coordinator.share_state.commands import Found, Read
from broker_sim.handlers import share_states
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k84_read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


def handle(ctx: RequestContext, request: ReadShareGroupStateRequest) -> None:
    """Return the state of each share partition."""

    def row(index: int, state: Found) -> PartitionResult:
        batches = [StateBatch(*batch) for batch in state.batches]
        return PartitionResult(index, state.error, state.words, state.state_epoch, state.start_offset, batches)

    share_states.answer(
        ctx,
        request,
        lambda key, data: Read(key, data.leader_epoch),
        row,
        lambda topics: ReadShareGroupStateResponse([ReadStateResult(*topic) for topic in topics]),
    )
