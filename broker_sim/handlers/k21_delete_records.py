"""DeleteRecords (21), versions 0-2: move a partition's log start forward. Asked of the partition's leader.

Offset -1 means the high watermark. Source: ReplicaManager.deleteRecords, Partition.deleteRecordsOnLeader.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.metadata.topics import INTERNAL_TOPICS, leader_partition
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorTraits, PartialErrors
from broker_sim.storage import StorageError
from kafka_wire.errors import Err
from kafka_wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


_PIECE = 500
"""Partitions that are done before others are served."""


def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse | None:
    response: DeleteRecordsResponse | None = ctx.in_pieces(_delete_all(ctx, request))
    return response


def _delete_all(ctx: RequestContext, request: DeleteRecordsRequest) -> Generator[None, None, DeleteRecordsResponse]:
    # as in the map that Kafka makes of it: of a partition that is named twice the last offset counts
    wanted = {(topic.name, item.partition_index): item for topic in request.topics for item in topic.partitions}
    topics: dict[str, DeleteRecordsTopicResult] = {}
    pace = Pace(_PIECE)
    for (name, _), part in wanted.items():
        if pace.full():
            yield
        topics.setdefault(name, DeleteRecordsTopicResult(name)).partitions.append(_delete(ctx, name, part))
    return DeleteRecordsResponse(0, list(topics.values()))


def _delete(ctx: RequestContext, topic: str, requested: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    state, index = ctx.broker.state, requested.partition_index
    try:
        if state.partition(topic, index) is not None and topic in INTERNAL_TOPICS:
            raise KafkaError(Err.INVALID_TOPIC_EXCEPTION)
        partition = leader_partition(state.partition(topic, index), ctx.broker.node_id)
        if not partition.log.config.deletes:
            raise KafkaError(Err.POLICY_VIOLATION)
        offset = partition.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(Err.OFFSET_OUT_OF_RANGE)
        if offset > partition.log_start_offset:
            partition.log.delete_records(offset)
            partition.wake()
    except (KafkaError, StorageError) as error:
        return DeleteRecordsPartitionResult(index, -1, error.error)
    return DeleteRecordsPartitionResult(index, partition.log_start_offset, Err.NONE)


TRAITS = ErrorTraits(parts=PartialErrors())
