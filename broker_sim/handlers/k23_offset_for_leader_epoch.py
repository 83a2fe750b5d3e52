"""OffsetForLeaderEpoch (23), versions 0-4: where an epoch of a partition's leader ended. Asked of its leader.

v2 the client's current leader epoch, v3 the replica id. An epoch that was never known, or is newer than the leader's,
has the epoch -1 and the offset -1. Source: Partition.lastOffsetForLeaderEpoch, KIP-320.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.metadata.topics import leader_partition
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorTraits, PartialErrors
from kafka_wire.errors import Err
from kafka_wire.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

_PIECE = 1000
"""Partitions and topics that are looked at before others are served."""


def handle(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse | None:
    response: OffsetForLeaderEpochResponse | None = ctx.in_pieces(_answers(ctx, request))
    return response


def _answers(
    ctx: RequestContext, request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    topics: list[OffsetForLeaderTopicResult] = []
    pace = Pace(_PIECE)
    for topic in request.topics:
        answered = OffsetForLeaderTopicResult(topic.topic, [])
        topics.append(answered)
        for part in topic.partitions:
            answered.partitions.append(_answer(ctx, topic.topic, part))
            if pace.full():
                yield
        if pace.full():
            yield
    return OffsetForLeaderEpochResponse(0, topics)


def _answer(ctx: RequestContext, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = leader_partition(
            ctx.broker.state.partition(topic, requested.partition), ctx.broker.node_id, requested.current_leader_epoch
        )
    except KafkaError as error:
        return EpochEndOffset(error.error, requested.partition, -1, -1)
    return EpochEndOffset(Err.NONE, requested.partition, *partition.log.end_offset_for_epoch(requested.leader_epoch))


TRAITS = ErrorTraits(parts=PartialErrors())
