"""WriteTxnMarkers (27), versions 0-2: a coordinator ends transactions in the logs of the partitions that this broker leads.

The coordinators here append their markers themselves; this is for clients that act as one, as `kafka-transactions abort` does. v2 has
the transaction version (KIP-1228): with 2 an epoch ends with its marker, so that the marker of an open transaction must have a later
one. Answered when every marker is committed, or with REQUEST_TIMED_OUT after request.timeout.ms. Source:
KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.handlers.delayed_produce import DelayedProduce, Row
from broker_sim.metadata.cluster_state import KafkaError, Partition
from broker_sim.metadata.topics import leader_partition
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorTraits
from broker_sim.storage import Origin, StorageError
from kafka_wire.errors import Err
from kafka_wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_wire.record_batch import ControlType, control_batch

_EPOCHS_END = 2
"""The version of transactions from which on each has an epoch of its own."""

_UNKNOWN = -1
"""No version of transactions."""

_PIECE = 100
"""Markers that are written before others are served."""


class _NoRecordError(Exception):
    """A marker of no producer, or of no epoch: Kafka's record builder throws, and the whole request fails with it, those behind it
    unwritten."""


def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
    response: WriteTxnMarkersResponse | None = ctx.in_pieces(_written(ctx, request))
    return response


def _written(
    ctx: RequestContext, request: WriteTxnMarkersRequest
) -> Generator[None, None, WriteTxnMarkersResponse | None]:
    answers: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    waiting: list[tuple[Partition, int, Row]] = []
    pace = Pace(_PIECE)
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                if pace.full():
                    yield
                row = WritableTxnMarkerPartitionResult(index)
                answers.setdefault(marker.producer_id, {}).setdefault(topic.name, {})[index] = row
                try:
                    partition, offset = _write(ctx, marker, topic.name, index)
                except _NoRecordError:
                    return (yield from _all_failed(request))
                except (KafkaError, StorageError) as refused:
                    row.error_code = refused.error
                    continue
                if offset >= partition.high_watermark:
                    waiting.append((partition, offset + 1, row))
            if pace.full():
                yield
    response = yield from _response(answers)
    if waiting:
        return DelayedProduce(ctx, response, waiting).start(ctx.broker.state.config.int("request.timeout.ms"))
    return response


def _all_failed(request: WriteTxnMarkersRequest) -> Generator[None, None, WriteTxnMarkersResponse]:
    """The response if the whole request fails: the last of several markers of a producer, also one without topics
    (WriteTxnMarkersRequest.getErrorResponse)."""
    answers: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    pace = Pace(_PIECE)
    for marker in request.markers:
        topics = answers[marker.producer_id] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                if pace.full():
                    yield
                row = WritableTxnMarkerPartitionResult(index, Err.UNKNOWN_SERVER_ERROR)
                topics.setdefault(topic.name, {})[index] = row
    return (yield from _response(answers))


def _response(
    answers: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]],
) -> Generator[None, None, WriteTxnMarkersResponse]:
    """The response. Kafka collects errors by producer id and partition: of a duplicate the last one counts, a marker without
    partitions has no row."""
    response = WriteTxnMarkersResponse()
    pace = Pace(_PIECE)
    for producer_id, topics in answers.items():
        rows: list[WritableTxnMarkerTopicResult] = []
        response.markers.append(WritableTxnMarkerResult(producer_id, rows))
        for name, partitions in topics.items():
            if pace.full():
                yield
            rows.append(WritableTxnMarkerTopicResult(name, list(partitions.values())))
    return response


def _write(ctx: RequestContext, marker: WritableTxnMarker, topic: str, index: int) -> tuple[Partition, int]:
    """Append a marker; where, and its offset. Raises KafkaError, StorageError, _NoRecordError."""
    state = ctx.broker.state
    partition = leader_partition(state.partition(topic, index), ctx.broker.node_id)
    if -1 in (marker.producer_id, marker.producer_epoch):
        raise _NoRecordError
    if len(partition.isr) < state.min_isr(partition):
        raise KafkaError(Err.NOT_ENOUGH_REPLICAS)
    _check(partition, marker)
    now_ms = state.clock.now_ms()
    batch = control_batch(
        ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
        now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
    )
    return partition, partition.append(batch, now_ms=now_ms, origin=Origin.COORDINATOR).last_offset


def _check(partition: Partition, marker: WritableTxnMarker) -> None:
    """Raises KafkaError for an epoch that is over and for a version that no request may have (ProducerAppendInfo.appendEndTxnMarker).
    Without an open transaction the epoch may be the last one: it is the same marker once more, whose answer was lost."""
    known = partition.log.producers.entries.get(marker.producer_id)
    if known is not None:
        ends_epoch = marker.transaction_version >= _EPOCHS_END and known.transaction_start >= 0
        if marker.producer_epoch < known.epoch + ends_epoch:
            raise KafkaError(Err.INVALID_PRODUCER_EPOCH)
    if marker.transaction_version == _UNKNOWN:
        raise KafkaError(Err.UNKNOWN_SERVER_ERROR)


TRAITS = ErrorTraits()
