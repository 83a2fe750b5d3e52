"""Keys and values of ``__transaction_state`` records (transaction-coordinator/src/main/resources/common/message).
``kafka_wire.transaction_log`` reads and writes the version number before them."""

from __future__ import annotations

from kafka_wire.schema import array, int8, int16, int32, int64, message, string, struct


@message("0", api_key=0)
class TransactionLogKey:
    transactional_id: str = string("0", default="")


@struct
class PartitionsSchema:
    topic: str = string(default="")
    partition_ids: list[int] = array("int32", default_factory=list)


@message("0-1", flexible="1+", api_key=0)
class TransactionLogValue:
    producer_id: int = int64(default=0)
    previous_producer_id: int = int64("1+", tag=0, tagged="1+", default=-1)
    next_producer_id: int = int64("1+", tag=1, tagged="1+", default=-1)
    producer_epoch: int = int16(default=0)
    next_producer_epoch: int = int16("1+", tag=3, tagged="1+", default=-1)
    transaction_timeout_ms: int = int32(default=0)
    transaction_status: int = int8(default=0)
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+", default_factory=list)
    transaction_last_update_timestamp_ms: int = int64(default=0)
    transaction_start_timestamp_ms: int = int64(default=0)
    client_transaction_version: int = int16("1+", tag=2, tagged="1+", default=0)
