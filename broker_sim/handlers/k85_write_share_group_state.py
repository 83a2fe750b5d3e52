"""WriteShareGroupState (85, KIP-932), versions 0 and 1. v1 has the number of completed records from the start offset on."""

from __future__ import annotations

from broker_sim.coordinator.share_state.batches import StateBatch
from broker_sim.coordinator.share_state.commands import Result, Write
from broker_sim.coordinator.share_state.state import ShareKey
from broker_sim.handlers import share_states
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k85_write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(ctx: RequestContext, request: WriteShareGroupStateRequest) -> None:
    """Store the changes of each share partition."""

    def command(key: ShareKey, data: PartitionData) -> Write:
        batches = [
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in data.state_batches
        ]
        return Write(key, data.state_epoch, data.leader_epoch, data.start_offset, batches, data.delivery_complete_count)

    def row(index: int, result: Result) -> PartitionResult:
        return PartitionResult(index, result.error, result.words)

    share_states.answer(
        ctx,
        request,
        command,
        row,
        lambda topics: WriteShareGroupStateResponse([WriteStateResult(*topic) for topic in topics]),
    )
