"""InitializeShareGroupState (83, KIP-932), version 0."""

from __future__ import annotations

from broker_sim.coordinator.share_state.commands import Initialize, Result
from broker_sim.handlers import share_states
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k83_initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)


def handle(ctx: RequestContext, request: InitializeShareGroupStateRequest) -> None:
    """Initialize the state of each share partition."""

    def row(index: int, result: Result) -> PartitionResult:
        return PartitionResult(index, result.error, result.words)

    share_states.answer(
        ctx,
        request,
        lambda key, data: Initialize(key, data.state_epoch, data.start_offset),
        row,
        lambda topics: InitializeShareGroupStateResponse([InitializeStateResult(*topic) for topic in topics]),
        takes_empty_topics=True,
    )
