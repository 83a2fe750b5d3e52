"""ReadShareGroupStateSummary (87, KIP-932), versions 0 and 1. v1 has the number of completed records from the start offset on."""

from __future__ import annotations

from broker_sim.coordinator.share_state.commands import Summarize, Summary
from broker_sim.handlers import share_states
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k87_read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def handle(ctx: RequestContext, request: ReadShareGroupStateSummaryRequest) -> None:
    """Return the start offset of each share partition."""

    def row(index: int, summary: Summary) -> PartitionResult:
        return PartitionResult(
            index,
            summary.error,
            summary.words,
            summary.state_epoch,
            summary.leader_epoch,
            summary.start_offset,
            summary.complete_count,
        )

    share_states.answer(
        ctx,
        request,
        lambda key, data: Summarize(key, data.leader_epoch),
        row,
        lambda topics: ReadShareGroupStateSummaryResponse([ReadStateSummaryResult(*topic) for topic in topics]),
    )
