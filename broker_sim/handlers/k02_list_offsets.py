"""ListOffsets (2), versions 0-11: where a partition begins, ends, or passes a timestamp. Asked of the partition's
leader.

v0 old style: the offsets of segments. v1 one offset and its timestamp. v2 isolation level. v4 leader epochs. v7 the
largest timestamp (-3). v8 the start of the local log (-4). v9 the end of tiered storage (-5). v10 a timeout for tiered
storage, which is not simulated. v11 the next offset to be tiered (-6, Kafka 4.2).
Source: KafkaApis.handleListOffsetRequest, ReplicaManager.fetchOffset, Partition.fetchOffsetForTimestamp.
"""

from __future__ import annotations

from collections import Counter

from broker_sim.handlers.context import RequestContext
from broker_sim.metadata import ClusterState, KafkaError, Partition
from broker_sim.topics import leader_partition
from protocol.errors import Err
from protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_NEEDS_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
DEBUGGING_CONSUMER = -2
"""The replica id of a client that asks followers too (ListOffsetsRequest.DEBUGGING_REPLICA_ID)."""

_NOTHING = (-1, -1, -1)  # timestamp, offset, leader epoch of "there is none"


def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    count = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    once = ctx.broker.state.config.release >= (4, 0)
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        told: set[int] = set()
        for asked in topic.partitions:
            index = asked.partition_index
            if count[topic.name, index] > 1:
                if not once or index not in told:
                    answers.append(_refused(index, Err.INVALID_REQUEST))
                    told.add(index)
                continue
            answers.append(_answer(ctx, request, topic.name, asked))
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(0, topics)


def _refused(index: int, error: Err) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, error)


def _answer(
    ctx: RequestContext, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index, timestamp, state = asked.partition_index, asked.timestamp, ctx.broker.state
    if request.isolation_level not in (0, 1):
        return _refused(index, Err.UNKNOWN_SERVER_ERROR)
    if timestamp < 0 and ctx.api_version < _NEEDS_VERSION.get(timestamp, 1 << 15):
        if ctx.api_version == 0 or state.config.release >= (4, 0):
            return _refused(index, Err.UNSUPPORTED_VERSION)
        timestamp = EARLIEST_PENDING_UPLOAD  # 3.x looks for it in vain
    try:
        debugging = request.replica_id == DEBUGGING_CONSUMER
        partition = leader_partition(
            state, ctx.broker.node_id, topic, index, asked.current_leader_epoch, replica=debugging
        )
        if ctx.api_version == 0:
            offsets = _old_style(partition, timestamp, asked.max_num_offsets, request.replica_id)
            return ListOffsetsPartitionResponse(index, Err.NONE, old_style_offsets=offsets)
        found = _find(state, partition, request, timestamp)
    except KafkaError as error:
        return _refused(index, error.error)
    return ListOffsetsPartitionResponse(index, Err.NONE, timestamp=found[0], offset=found[1], leader_epoch=found[2])


def _last_fetchable(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id >= 0:
        return partition.log_end_offset
    return partition.last_stable_offset if request.isolation_level == 1 else partition.high_watermark


def _find(
    state: ClusterState, partition: Partition, request: ListOffsetsRequest, timestamp: int
) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) of the answer."""
    end = _last_fetchable(partition, request)
    log = partition.log
    if timestamp == LATEST:
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        return -1, start, log.epochs.epoch_of(start)
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    elif timestamp < 0:
        return _NOTHING
    else:
        found = log.offset_for_timestamp(timestamp)
    if found is None or (timestamp >= 0 and found[1] >= end):
        return _NOTHING
    return found[0], found[1], found[2]


def _old_style(partition: Partition, timestamp: int, wanted: int, replica_id: int) -> list[int]:
    """v0: the log's end and its segments' first offsets, newest first, of those last written to at `timestamp` or
    before.
    """
    log = partition.log
    end = log.log_end_offset if replica_id >= 0 else partition.high_watermark
    points = [(segment.base_offset, max(segment.max_timestamp, segment.created_ms)) for segment in log.segments]
    if timestamp == EARLIEST:
        offsets = [log.log_start_offset]
    else:
        offsets = [base for base, modified in points if timestamp == LATEST or modified <= timestamp]
        if points and (timestamp == LATEST) and log.log_end_offset > points[-1][0]:
            offsets.append(log.log_end_offset)
        offsets = [max(offset, log.log_start_offset) for offset in reversed(offsets)]
    offsets = offsets[: max(wanted, 0)]
    if replica_id >= 0 or not any(offset > end for offset in offsets):
        return offsets
    rest = [offset for offset in offsets if offset <= end]
    return [end, *rest][: max(wanted, 0)]
