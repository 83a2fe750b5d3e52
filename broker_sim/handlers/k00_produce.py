"""Produce (0), versions 3-13: appends one record batch per partition, unchanged.

v7 zstd. v8 record errors and an error message. v10 the new leader beside NOT_LEADER_OR_FOLLOWER (KIP-951). v11 knows
TRANSACTION_ABORTABLE, v12 adds its partitions to the transaction (KIP-890). v13 topic ids. With acks=0 there is no response, and an
error closes the connection, so that the producer fetches metadata; acks=1: answered once appended; acks=-1: once the high watermark has
passed the batch, or with REQUEST_TIMED_OUT. Transactional batches may have to wait for their coordinator's answer (`in_transaction`); a
request with transactional batches and without a transactional id is refused as a whole. A batch of many records, or one that unpacks to
much, is checked in pieces, while other clients are served. Source: KafkaApis.handleProduceRequest, ReplicaManager.appendRecords,
DelayedProduce.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from typing import Any, cast

from broker_sim.common.slices import Pace
from broker_sim.handlers.delayed_produce import DelayedProduce, Row
from broker_sim.handlers.in_transaction import ABORTABLE, ADDS, OLD, Writer, ask
from broker_sim.handlers.produce_fast import FAST
from broker_sim.metadata.cluster_state import ClusterState, Partition
from broker_sim.metadata.topics import INTERNAL_TOPICS
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorRequest, ErrorTraits, PartialErrors
from broker_sim.storage import KafkaStorageError, RecordListTooLarge, RecordTooLarge, StorageError
from broker_sim.storage.validation import is_short
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafka_wire.record_batch import (
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    CorruptRecord,
    RecordBatchError,
    ShortBatch,
    UnreadableRecords,
    next_batch_size,
    produce_batch,
)

__all__ = ["FAST", "TRAITS", "handle"]

ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics (AdminUtils.ADMIN_CLIENT_ID)."""

ALL, LEADER, NONE = -1, 1, 0

TRANSACTIONAL_AT = 22
"""Position in a batch of the low byte of its attributes: codec, transactional bit."""

_PIECE = 262_144
"""Bytes of batches that are a piece of work (`slices`); of one batch records and headers are counted as well (`checking`)."""
_PARTITION_COST = 2048
"""Bytes that take as much time as a partition without its bytes."""


Refusals = Mapping[tuple[str, int], Err]
"""Errors of the partitions that the transaction's coordinator rejects, by topic and partition."""

_NOTHING: Refusals = {}


def handle(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    response: ProduceResponse | None = ctx.in_pieces(
        _produce(ctx, request) if request.transactional_id is None else _in_transaction(ctx, request)
    )
    return response


_KNOWS_CODECS_SINCE, _ABORTABLE_SINCE, _ADDS_SINCE = 7, 11, 12
_SHORT_FALL_SINCE = (3, 5)


def _in_transaction(ctx: RequestContext, request: ProduceRequest) -> Generator[None, None, ProduceResponse | None]:
    """The same, behind the word of the transaction's coordinator, where it has to be asked."""
    state, by_id, version = ctx.broker.state, ctx.api_version >= 13, ctx.api_version
    sequences: dict[tuple[str, int], int] = {}
    writers: dict[Writer, None] = {}
    header: BatchHeader | None = None
    pace = Pace(_PIECE // _PARTITION_COST * 20)
    for topic in request.topic_data:
        for part in topic.partition_data:
            if pace.full():
                yield
            partition, _ = _find(ctx, topic, part.index, by_id)
            if partition is None:
                continue
            producer = None
            try:
                header = produce_batch(part.records or b"", version)
                if header.is_transactional and header.producer_id >= 0:
                    producer = header.producer_id, header.producer_epoch, header.base_sequence
            except ShortBatch:
                if state.config.release < _SHORT_FALL_SINCE:
                    continue
                try:
                    producer = _producer_of_short(part.records or b"")
                except struct.error:
                    return _all_refused(ctx, request.acks, request.topic_data, Err.UNKNOWN_SERVER_ERROR, None)
            except RecordBatchError:
                continue
            if producer is not None:
                sequences[partition.topic.name, part.index] = producer[2]
                writers[request.transactional_id or "", producer[0], producer[1]] = None
    if len(writers) > 1 and state.config.release >= (3, 5):
        return _all_refused(ctx, request.acks, request.topic_data, Err.INVALID_PRODUCER_ID_MAPPING, None)
    single = len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1
    only = header if single and version >= _KNOWS_CODECS_SINCE else None
    flow = ADDS if version >= _ADDS_SINCE else ABORTABLE if version >= _ABORTABLE_SINCE else OLD
    for writer in writers:
        if ask(ctx, writer, sequences, flow, lambda refused: ctx.reply_made(_produce(ctx, request, refused, only))):
            return None
    return (yield from _produce(ctx, request, only=only))


_PRODUCER = struct.Struct(">qhi")
"""Producer id, producer epoch and base sequence of a batch, at `_PRODUCER_AT`."""
_PRODUCER_AT, _PRODUCER_ID_END = 43, 51


def _producer_of_short(records: bytes) -> tuple[int, int, int] | None:
    """Producer id, epoch and sequence of a transactional batch that is too short for its header; None for another one. Raises
    struct.error if it ends before them: Kafka, which reads them of all batches before any is appended, fails with an exception."""
    batch = records[: next_batch_size(records)]
    if len(batch) < _PRODUCER_ID_END:
        raise struct.error("a batch that ends before its producer id")
    if (
        not batch[TRANSACTIONAL_AT] & TRANSACTIONAL_BIT
        or int.from_bytes(batch[_PRODUCER_AT:_PRODUCER_ID_END], signed=True) < 0
    ):
        return None
    producer_id, epoch, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
    return producer_id, epoch, sequence


def _produce(
    ctx: RequestContext, request: ProduceRequest, refused: Refusals = _NOTHING, only: BatchHeader | None = None
) -> Generator[None, None, ProduceResponse | None]:
    """``only``: the header of the request's one batch, if it is known and valid."""
    state = ctx.broker.state
    by_id = ctx.api_version >= 13
    acks = request.acks
    data_of = request.topic_data
    refusal = None if only is not None else (yield from _refusal_of_all(ctx, request, by_id))
    broken: dict[Place, RecordBatchError] = {}
    if len(data_of) != 1 or len(data_of[0].partition_data) != 1:
        broken = yield from _once_each(data_of, ctx.api_version)
    if refusal is not None:
        return _all_refused(ctx, acks, data_of, *refusal)
    waiting: list[tuple[Partition, int, Row]] = []
    topics: list[TopicProduceResponse] = []
    failed = False
    pace = Pace(_PIECE)
    for data in data_of:
        answers: list[PartitionProduceResponse] = []
        topics.append(TopicProduceResponse(data.name, data.topic_id, answers))
        for part in data.partition_data:
            if pace.full(len(part.records or b"") + _PARTITION_COST):
                yield
            partition, error = _find(ctx, data, part.index, by_id)
            if partition is None:
                answer = PartitionProduceResponse(part.index, error, -1)
            elif refused and (partition.topic.name, part.index) in refused:
                answer = _transaction_refused(part.index, refused[partition.topic.name, part.index], ctx.api_version)
            else:
                answer = yield from _append(ctx, partition, part, request, only)
                if answer.error_code == NO_ERROR and acks == ALL:
                    end = partition.log_end_offset
                    if partition.high_watermark < end:
                        waiting.append((partition, end, answer))
            doubled = broken.get((data.name, data.topic_id, part.index)) if broken else None
            if doubled is not None and answer.error_code not in _NOWHERE:
                answer = PartitionProduceResponse(part.index, doubled.error, -1)
            failed = failed or answer.error_code != NO_ERROR
            answers.append(answer)
    response = ProduceResponse(topics)
    if acks == NONE:
        _unanswered(ctx, failed)
        return None
    if failed and ctx.api_version >= 10:
        response.node_endpoints = _endpoints(state, topics, ctx.connection.listener)
    if waiting:
        return DelayedProduce(ctx, response, waiting).start(request.timeout_ms)
    return response


def _unanswered(ctx: RequestContext, failed: bool) -> None:
    """acks=0: no answer, and where something failed no connection either."""
    ctx.no_reply()
    if failed:
        cast(Any, ctx.connection).close()


def _refusal_of_all(
    ctx: RequestContext, request: ProduceRequest, by_id: bool
) -> Generator[None, None, tuple[Err, str | None] | None]:
    """The error for which Kafka refuses the whole request before any append: it checks the headers of all batches first.

    An invalid header, a transactional batch in a request without a transactional id (the first of them counts), and before v7, which
    checks the codec there, an unknown codec.
    """
    pace = Pace(_PIECE // _PARTITION_COST * 20)
    short: list[tuple[TopicProduceData, PartitionProduceData]] = []
    for topic in request.topic_data:
        for part in topic.partition_data:
            if pace.full():
                yield
            try:
                size = next_batch_size(part.records or b"")
                if request.transactional_id is not None:
                    continue
                if 0 < size < HEADER_BYTES:
                    short.append((topic, part))
                if size <= TRANSACTIONAL_AT:
                    continue
            except CorruptRecord as problem:
                return problem.error, str(problem)
            except UnreadableRecords as problem:
                return problem.error, None
            if (part.records or b"")[16] == 2 and (part.records or b"")[TRANSACTIONAL_AT] & TRANSACTIONAL_BIT:
                return Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
    if any(_fails_in_kafka(ctx, topic, part, by_id) for topic, part in short):
        return Err.UNKNOWN_SERVER_ERROR, None
    if ctx.api_version < _KNOWS_CODECS_SINCE:
        for topic in request.topic_data:
            for part in topic.partition_data:
                batch = part.records or b""
                if (
                    next_batch_size(batch) > TRANSACTIONAL_AT
                    and batch[16] == 2
                    and batch[TRANSACTIONAL_AT] & 7 > Codec.ZSTD
                ) and _find(ctx, topic, part.index, by_id)[0] is not None:
                    return Err.UNKNOWN_SERVER_ERROR, None
    return None


def _fails_in_kafka(ctx: RequestContext, topic: TopicProduceData, part: PartitionProduceData, by_id: bool) -> bool:
    """Whether Kafka fails with an exception at a short batch when it reads its producer, in a request without a transactional id."""
    if ctx.broker.state.config.release < _SHORT_FALL_SINCE or _find(ctx, topic, part.index, by_id)[0] is None:
        return False
    try:
        produce_batch(part.records or b"", ctx.api_version)
    except ShortBatch:
        return next_batch_size(part.records or b"") < _PRODUCER_ID_END
    except RecordBatchError:
        pass
    return False


def _all_refused(
    ctx: RequestContext, acks: int, data: list[TopicProduceData], error: Err, text: str | None
) -> ProduceResponse | None:
    if acks == NONE:
        _unanswered(ctx, True)
        return None
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(part.index, error, -1, error_message=text) for part in topic.partition_data],
            )
            for topic in data
        ]
    )


def _find(ctx: RequestContext, data: TopicProduceData, index: int, by_id: bool) -> tuple[Partition | None, Err]:
    state = ctx.broker.state
    if by_id:
        topic = state.topics_by_id.get(data.topic_id)
        if topic is None:
            return None, Err.UNKNOWN_TOPIC_ID
    else:
        topic = state.topics.get(data.name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return None, Err.UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions[index], NO_ERROR


def _append(
    ctx: RequestContext,
    partition: Partition,
    data: PartitionProduceData,
    request: ProduceRequest,
    header: BatchHeader | None,
) -> Generator[None, None, PartitionProduceResponse]:
    """Every check in Kafka's order, then the append; the answer carries the error or the offsets. ``header``: the batch's, if it is
    known and valid."""
    index, now_ms = data.index, ctx.broker.state.clock.now_ms()
    if data.records is None and ctx.broker.state.config.release < (4, 0):  # Kafka 3 falls over them, 4 never answers
        fallen = PartitionProduceResponse(
            index, Err.UNKNOWN_SERVER_ERROR, -1, log_start_offset=partition.log_start_offset
        )
        return _refused(ctx, partition, index, request.acks) or fallen
    try:
        if header is None:
            header = produce_batch(data.records or b"", ctx.api_version)
    except ShortBatch as problem:  # the log sees it
        return _refused(ctx, partition, index, request.acks) or PartitionProduceResponse(index, problem.error, -1)
    except RecordBatchError as problem:
        return PartitionProduceResponse(index, problem.error, -1)
    refused = _refused(ctx, partition, index, request.acks)
    if refused is not None:
        return refused
    batch = cast(bytes, data.records)
    if len(batch) != header.size:
        batch = batch[: header.size]  # the bytes after it are no batch, which Kafka ignores
    try:
        checked = None
        if not is_short(header):
            checked = yield from partition.checking(batch, now_ms=now_ms, header=header)
            refused = _refused(ctx, partition, index, request.acks)
            if refused is not None:
                return refused
        info = partition.append(batch, now_ms=now_ms, header=header, checked=checked)
    except (RecordBatchError, StorageError) as problem:
        return _rejected(partition, index, problem)
    time_ms = info.max_timestamp if info.duplicate else info.log_append_time_ms
    return PartitionProduceResponse(index, NO_ERROR, info.base_offset, time_ms, partition.log.log_start_offset)


_NOT_ASKED = (Err.COORDINATOR_LOAD_IN_PROGRESS, Err.COORDINATOR_NOT_AVAILABLE, Err.NOT_COORDINATOR)
"""Errors after which the coordinator has not verified the transaction."""


def _transaction_refused(index: int, error: Err, version: int) -> PartitionProduceResponse:
    """The response for a batch that the coordinator refuses. Errors of the coordinator itself become an error after which all producers
    retry without fetching metadata."""
    text: str | None = None
    if error is Err.INVALID_TXN_STATE:
        text = "Partition was not added to the transaction"
    elif error in _NOT_ASKED or (error is Err.CONCURRENT_TRANSACTIONS and version < _ADDS_SINCE):
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        error = Err.NOT_ENOUGH_REPLICAS
    return PartitionProduceResponse(index, error, -1, error_message=text)


def _refused(ctx: RequestContext, partition: Partition, index: int, acks: int) -> PartitionProduceResponse | None:
    """The response if this broker refuses every batch for the partition."""
    error = _refusal(ctx, partition, acks)
    if error is NO_ERROR:
        return None
    answer = PartitionProduceResponse(index, error, -1)
    if error is Err.NOT_ENOUGH_REPLICAS:
        answer.log_start_offset = partition.log_start_offset
    if error is Err.NOT_LEADER_OR_FOLLOWER:
        answer.current_leader = LeaderIdAndEpoch(partition.leader, partition.leader_epoch)
    return answer


def _refusal(ctx: RequestContext, partition: Partition, acks: int) -> Err:
    if partition.deleted:
        return Err.UNKNOWN_TOPIC_OR_PARTITION
    if acks not in (ALL, LEADER, NONE):
        return Err.INVALID_REQUIRED_ACKS
    if partition.topic.name in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT:
        return Err.INVALID_TOPIC_EXCEPTION
    if partition.leader != ctx.broker.node_id:
        return Err.NOT_LEADER_OR_FOLLOWER
    if acks == ALL and len(partition.isr) < ctx.broker.state.min_isr(partition):
        return Err.NOT_ENOUGH_REPLICAS
    return NO_ERROR


def _rejected(partition: Partition, index: int, problem: RecordBatchError | StorageError) -> PartitionProduceResponse:
    """The response for a batch that the log refuses, with the invalid record, if it is known, and a message."""
    answer = PartitionProduceResponse(index, problem.error, -1)
    if not isinstance(problem, CorruptRecord | RecordTooLarge | RecordListTooLarge | KafkaStorageError):
        answer.log_start_offset = partition.log_start_offset
    if isinstance(problem, RecordBatchError) and problem.record_errors:
        answer.record_errors = [BatchIndexAndErrorMessage(*error) for error in problem.record_errors]
        answer.error_message = str(problem)
    return answer


_NOWHERE = (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_TOPIC_ID)
"""Nothing is read of what comes for a partition that isn't there."""
Place = tuple[str, bytes, int]
"""A partition in a request: topic's name, topic's id, index."""


def _once_each(topics: list[TopicProduceData], version: int) -> Generator[None, None, dict[Place, RecordBatchError]]:
    """Remove duplicates as the maps do that Kafka makes of a request: of a partition named twice the last batch counts, a
    topic has one row in the response, and one without partitions none.

    Invalid records go into a map of their own, which has priority in the response: such a partition gets its error, although
    its last valid batch is appended. Returns these errors.
    """
    last: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    broken: dict[Place, RecordBatchError] = {}
    pace = Pace(_PIECE // _PARTITION_COST * 20)
    for topic in topics:
        for part in topic.partition_data:
            if pace.full():
                yield
            by_partition = last.setdefault((topic.name, topic.topic_id), {})
            earlier = by_partition.pop(part.index, None)
            by_partition[part.index] = part
            if earlier is None:
                continue
            before, now = (_unsound(data, version) for data in (earlier, part))
            if (before is None) != (now is None):
                by_partition[part.index] = part if now is None else earlier
                broken[topic.name, topic.topic_id, part.index] = cast(RecordBatchError, now or before)
    topics[:] = [TopicProduceData(name, topic_id, list(of.values())) for (name, topic_id), of in last.items()]
    return broken


def _unsound(data: PartitionProduceData, version: int) -> RecordBatchError | None:
    try:
        produce_batch(data.records or b"", version)
    except RecordBatchError as problem:
        return problem
    return None


def _endpoints(state: ClusterState, topics: list[TopicProduceResponse], listener: str) -> list[NodeEndpoint]:
    """The brokers that the answers name as leaders, with their addresses for this listener."""
    leaders = (part.current_leader.leader_id for topic in topics for part in topic.partition_responses)
    nodes = (state.brokers.get(node) for node in dict.fromkeys(leaders) if node >= 0)
    return [NodeEndpoint(*b.endpoint(listener)) for b in nodes if b is not None]


def _failure(error_request: ErrorRequest) -> ProduceResponse | None:
    request: ProduceRequest = error_request.request
    if request.acks == NONE:
        return None
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionProduceResponse(part.index, error_request.err, base_offset=-1)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


TRAITS = ErrorTraits(failed=_failure, parts=PartialErrors())
