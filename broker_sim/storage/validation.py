"""What the log checks of a batch that a client sends, in Kafka's order.

Source: UnifiedLog.analyzeAndValidateRecords, LogValidator (storage).
"""

from __future__ import annotations

import contextlib

from broker_sim.storage.errors import RecordTooLarge
from broker_sim.storage.log_config import LogConfig
from kafka_wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    InvalidRecord,
    InvalidTimestamp,
    RecordBatchError,
    check_crc,
    records,
)
from kafka_wire.record_checks import check_packed_records, check_record_lengths

UNPACKED_BYTES = 4 * 1024 * 1024


def check_client_batch(data: bytes, pos: int, header: BatchHeader, config: LogConfig, now_ms: int, name: str) -> None:
    """Raises what Kafka answers for a batch that may not be appended to the log `name`: RecordBatchError, RecordTooLarge.

    Compressed records are unpacked as Kafka does, but only up to UNPACKED_BYTES and where the codec's library is there:
    what can't be looked into is believed. Offsets inside a compressed batch are not compared with their places.
    """
    if header.base_offset != 0:
        raise InvalidRecord(
            f"The baseOffset of the record batch in the append to {name} should be 0, but it is {header.base_offset}"
        )
    check_size(header, config, name)
    check_crc(data, pos, header)
    count = header.record_count
    if header.last_offset_delta + 1 <= 0:
        raise InvalidRecord(f"Batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {count}")
    if header.last_offset_delta + 1 != count:
        raise InvalidRecord(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}"
        )
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        raise InvalidRecord("Clients are not allowed to write control records.")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
        )
    _check_timestamps(data, pos, header, config, now_ms)
    if attributes & CODEC_MASK:
        check_packed_records(data, pos, header, UNPACKED_BYTES)
    else:
        check_record_lengths(data, pos, header)
    if config.compacts:
        _check_keys(data, pos, header, config, name)


def check_size(header: BatchHeader, config: LogConfig, name: str) -> None:
    """Raises RecordTooLarge for a batch above max.message.bytes."""
    if header.size > config.max_message_bytes:
        raise RecordTooLarge(
            f"The record batch size in the append to {name} is {header.size} bytes which exceeds the maximum configured value "
            f"of {config.max_message_bytes}."
        )


def _check_timestamps(data: bytes, pos: int, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """By the header, which holds the largest; only for a batch that fails the records are read, to name the first."""
    if header.attributes & TIMESTAMP_TYPE_BIT and (
        config.is_log_append_time or config.strict_timestamp_type or header.max_timestamp == NO_TIMESTAMP
    ):
        raise InvalidTimestamp.of_record(
            0, "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
        )
    if config.is_log_append_time:
        return
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms

    base, largest = header.base_timestamp, header.max_timestamp
    if (earliest <= base <= latest or base == NO_TIMESTAMP) and (
        earliest <= largest <= latest or largest == NO_TIMESTAMP
    ):
        return

    def bad(timestamp: int) -> bool:
        return timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest

    index, timestamp = 0, header.max_timestamp
    with contextlib.suppress(RecordBatchError):
        rows = records(data, pos, header, max_bytes=config.compression_max_bytes)
        index, timestamp = next(
            ((i, row.timestamp) for i, row in enumerate(rows) if bad(row.timestamp)), (0, timestamp)
        )
    raise InvalidTimestamp.of_record(
        index,
        f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within "
        f"[{earliest}, {latest}]",
    )


def _check_keys(data: bytes, pos: int, header: BatchHeader, config: LogConfig, name: str) -> None:
    for index, record in enumerate(records(data, pos, header, max_bytes=config.compression_max_bytes)):
        if record.key is None:
            raise InvalidRecord.of_record(
                index, f"Compacted topic cannot accept message without key in topic partition {name}"
            )
