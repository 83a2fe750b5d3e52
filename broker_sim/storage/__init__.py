"""Partition logs in Kafka's on-disk format, or in memory; and a group's partition of `__consumer_offsets`."""

from __future__ import annotations

from broker_sim.storage.errors import (
    CorruptLog,
    InvalidProducerEpoch,
    KafkaStorageError,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordListTooLarge,
    RecordTooLarge,
    StorageError,
)
from broker_sim.storage.log import PartitionLog
from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.partition_for import java_hash, partition_for
from broker_sim.storage.results import AppendInfo, LogBatch, Origin, TimestampOffset

__all__ = [
    "AppendInfo",
    "CorruptLog",
    "InvalidProducerEpoch",
    "KafkaStorageError",
    "LogBatch",
    "LogConfig",
    "OffsetOutOfRange",
    "Origin",
    "OutOfOrderSequence",
    "PartitionLog",
    "RecordListTooLarge",
    "RecordTooLarge",
    "StorageError",
    "TimestampOffset",
    "java_hash",
    "partition_for",
]
