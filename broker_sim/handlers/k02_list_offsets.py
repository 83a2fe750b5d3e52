"""ListOffsets (2), versions 0-11: where a partition begins, ends, or passes a timestamp. Asked of the partition's
leader.

v0 old style: the offsets of segments. v1 one offset and its timestamp. v2 isolation level. v4 leader epochs. v7 the
largest timestamp (-3). v8 the start of the local log (-4). v9 the end of tiered storage (-5). v10 a timeout for tiered
storage, which is not simulated. v11 the next offset to be tiered (-6, Kafka 4.2).
Source: KafkaApis.handleListOffsetRequest, ReplicaManager.fetchOffset, Partition.fetchOffsetForTimestamp.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace, counted
from broker_sim.metadata.cluster_state import KafkaError, Partition
from broker_sim.metadata.topics import leader_partition
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorTraits, PartialErrors
from broker_sim.storage import StorageError
from kafka_wire.errors import Err
from kafka_wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_wire.record_batch import RecordBatchError

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_NEEDS_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
CONSUMER = -1
DEBUGGING_CONSUMER = -2
"""The replica id of a client that asks followers too (ListOffsetsRequest.DEBUGGING_REPLICA_ID)."""

_NOTHING = (-1, -1, -1)  # timestamp, offset, leader epoch of a missing offset


_PIECE = 1000
"""Partitions and topics that are looked at before others are served."""


def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse | None:
    response: ListOffsetsResponse | None = ctx.in_pieces(_answers(ctx, request))
    return response


def _answers(ctx: RequestContext, request: ListOffsetsRequest) -> Generator[None, None, ListOffsetsResponse]:
    count = yield from counted(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    once = ctx.broker.state.config.release >= (4, 0)
    if once and request.isolation_level not in (0, 1):
        return _all_refused(request)
    topics: dict[str, ListOffsetsTopicResponse] = {}
    shown: list[ListOffsetsTopicResponse] = []
    pace = Pace(_PIECE)
    for topic in request.topics:
        if pace.full():
            yield
        if once and not topic.partitions:
            continue
        # Kafka 4 answers a topic that is named twice once
        answered = topics.get(topic.name) if once else None
        if answered is None:
            answered = topics[topic.name] = ListOffsetsTopicResponse(topic.name)
            shown.append(answered)
        answers = answered.partitions
        indexes = {answer.partition_index for answer in answers}
        for requested in topic.partitions:
            if pace.full():
                yield
            index = requested.partition_index
            if count[topic.name, index] > 1 and ctx.api_version > 0:
                if not once or index not in indexes:
                    answers.append(_refused(index, Err.INVALID_REQUEST))
                    indexes.add(index)
                continue
            answers.append((yield from _answer(ctx, request, topic.name, requested)))
    return ListOffsetsResponse(0, shown)


def _all_refused(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """The response for an unknown isolation level, for which Kafka 4 fails the request before any look-up."""
    topics = [
        ListOffsetsTopicResponse(
            topic.name, [_refused(part.partition_index, Err.UNKNOWN_SERVER_ERROR) for part in topic.partitions]
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(0, topics)


def _refused(index: int, error: Err) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, error)


def _answer(
    ctx: RequestContext, request: ListOffsetsRequest, topic: str, requested: ListOffsetsPartition
) -> Generator[None, None, ListOffsetsPartitionResponse]:
    index, timestamp, state = requested.partition_index, requested.timestamp, ctx.broker.state
    special = timestamp < 0 and ctx.api_version >= _NEEDS_VERSION.get(timestamp, 1 << 15)
    if timestamp < 0 and not special:
        if state.config.release >= (3, 9):
            return _refused(index, Err.UNSUPPORTED_VERSION)
        special = timestamp == MAX_TIMESTAMP  # earlier ones look at no version
    if request.isolation_level not in (0, 1) and request.replica_id == CONSUMER:
        return _refused(index, Err.UNKNOWN_SERVER_ERROR)
    try:
        debugging = request.replica_id == DEBUGGING_CONSUMER
        partition = leader_partition(
            state.partition(topic, index), ctx.broker.node_id, requested.current_leader_epoch, replica=debugging
        )
        if ctx.api_version == 0:
            if requested.max_num_offsets < 0:
                return _refused(index, Err.UNKNOWN_SERVER_ERROR)
            now_ms = state.clock.now_ms()
            offsets = _old_style(partition, timestamp, requested.max_num_offsets, request.replica_id, now_ms)
            return ListOffsetsPartitionResponse(index, Err.NONE, old_style_offsets=offsets)
        located = yield from _find(partition, request, timestamp, special)
    except KafkaError as error:
        return _refused(index, error.error)
    except StorageError as problem:
        cause = problem.__cause__  # a record that can't be read has its own error here
        return _refused(index, cause.error if isinstance(cause, RecordBatchError) else problem.error)
    return ListOffsetsPartitionResponse(
        index, Err.NONE, timestamp=located[0], offset=located[1], leader_epoch=located[2]
    )


def _last_fetchable(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id >= 0:
        return partition.log_end_offset
    return partition.last_stable_offset if request.isolation_level == 1 else partition.high_watermark


def _find(
    partition: Partition, request: ListOffsetsRequest, timestamp: int, special: bool
) -> Generator[None, None, tuple[int, int, int]]:
    """(timestamp, offset, leader epoch) of the answer; 3.x takes a negative timestamp that it doesn't know for a
    time.
    """
    end = _last_fetchable(partition, request)
    log = partition.log
    if special and timestamp == LATEST:
        return -1, end, partition.leader_epoch
    if special and timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        return -1, start, log.epochs.epoch_of(start)
    if special and timestamp != MAX_TIMESTAMP:
        return _NOTHING
    by_time = log.finding_max_timestamp() if special else log.finding_timestamp(timestamp, log.log_start_offset)
    located = yield from by_time
    return _NOTHING if located is None or located.offset >= end else located


def _old_style(partition: Partition, timestamp: int, wanted: int, replica_id: int, now_ms: int) -> list[int]:
    """v0: where segments begin and the log ends, newest first, as far as they were written at `timestamp` or before.

    Source: UnifiedLog.legacyFetchOffsetsBefore, ReplicaManager.legacyFetchOffsetsForTimestamp.
    """
    log = partition.log
    start, end = log.log_start_offset, log.log_end_offset
    points = [
        (max(segment.base_offset, start), max(segment.max_timestamp, segment.created_ms)) for segment in log.segments
    ]
    if log.segments[-1].size:
        points.append((end, now_ms))
    if timestamp == LATEST:
        newest = len(points)
    elif timestamp == EARLIEST:
        newest = 1
    else:
        newest = max((number for number, (_, written) in enumerate(points, 1) if written <= timestamp), default=0)
    offsets = [offset for offset, _ in reversed(points[:newest])][: max(wanted, 0)]
    visible = end if replica_id >= 0 else partition.high_watermark
    if any(offset > visible for offset in offsets):
        return [visible, *(offset for offset in offsets if offset < visible)]
    return offsets


TRAITS = ErrorTraits(parts=PartialErrors())
