"""The exceptions of a log: each has the Kafka error for the client."""

from __future__ import annotations

from typing import ClassVar

from kafka_wire.errors import Err
from kafka_wire.record_errors import RecordBatchError

FAILURES = (OSError, RecordBatchError)
"""Errors of the disk and of its data, which any call of a log can raise; `PartitionLog.failure` makes a StorageError of them."""


class StorageError(Exception):
    """Base of the log's own refusals; a batch that is bad in itself raises protocol's RecordBatchError instead."""

    error: ClassVar[Err] = Err.UNKNOWN_SERVER_ERROR


class KafkaStorageError(StorageError, OSError):
    """KAFKA_STORAGE_ERROR: the disk failed; nothing of the append stays in the log, which keeps serving."""

    error = Err.KAFKA_STORAGE_ERROR


class CorruptLog(StorageError):
    """CORRUPT_MESSAGE: a segment in use no longer reads as batches; what can be read around it still is."""

    error = Err.CORRUPT_MESSAGE


class OffsetOutOfRange(StorageError):
    """OFFSET_OUT_OF_RANGE: before the log's start or after its end."""

    error = Err.OFFSET_OUT_OF_RANGE


class RecordTooLarge(StorageError):
    """MESSAGE_TOO_LARGE: a batch above max.message.bytes."""

    error = Err.MESSAGE_TOO_LARGE


class RecordListTooLarge(StorageError):
    """RECORD_LIST_TOO_LARGE: one append above segment.bytes."""

    error = Err.RECORD_LIST_TOO_LARGE


class OutOfOrderSequence(StorageError):
    """OUT_OF_ORDER_SEQUENCE_NUMBER: a producer's batch that does not follow its last one."""

    error = Err.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(StorageError):
    """INVALID_PRODUCER_EPOCH: a newer instance of the producer has written already."""

    error = Err.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(StorageError):
    """INVALID_TXN_STATE: a batch outside of the transaction that its producer has open."""

    error = Err.INVALID_TXN_STATE


class TransactionCoordinatorFenced(StorageError):
    """TRANSACTION_COORDINATOR_FENCED: a later coordinator of the producer has written a marker already."""

    error = Err.TRANSACTION_COORDINATOR_FENCED
