"""Records of ``__transaction_state`` as objects, their encoding for the log, and their decoding."""

from __future__ import annotations

from dataclasses import dataclass

from broker_sim.coordinator.shard_loader import OtherRecord
from broker_sim.coordinator.transaction.policy import TransactionPolicy
from broker_sim.coordinator.transaction.transaction import (
    EMPTY,
    NO_PRODUCER_ID,
    State,
    Stored,
)
from kafka_wire.codec import DecodeError
from kafka_wire.transaction_log import TransactionLogValue, decode_key, decode_value, encode_key, transaction_value


@dataclass(slots=True)
class TransactionRecord:
    """A record of a transactional id; ``value`` None: it has expired."""

    transactional_id: str
    value: Stored | None


def encode(record: TransactionRecord, policy: TransactionPolicy) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka writes them."""
    key, stored = encode_key(record.transactional_id), record.value
    if stored is None:
        return key, None
    previous, coming = NO_PRODUCER_ID, NO_PRODUCER_ID
    if policy.other_ids_are_written:
        previous, coming = stored.previous_producer_id, stored.next_producer_id
    return key, transaction_value(
        policy.value_version,
        stored.producer_id,
        stored.epoch,
        stored.timeout_ms,
        stored.state,
        None if stored.state is EMPTY else stored.partitions,
        stored.updated_ms,
        stored.started_ms,
        (stored.client_version, previous, coming),
    )


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """Decode a record of `encode`, or of another release. Raises OtherRecord for records that Kafka skips, DecodeError for records that
    it can't read."""
    if key is None:
        raise OtherRecord("without a key")
    read = decode_key(key)
    if read is None:
        raise OtherRecord(f"type {int.from_bytes(key[:2], 'big', signed=True)}")
    return TransactionRecord(read.transactional_id, None if value is None else _stored(decode_value(value)))


def _stored(v: TransactionLogValue) -> Stored:
    try:
        state = State(v.transaction_status)
    except ValueError:
        raise DecodeError(f"a transaction's status {v.transaction_status}") from None
    return Stored(
        producer_id=v.producer_id,
        epoch=v.producer_epoch,
        timeout_ms=v.transaction_timeout_ms,
        state=state,
        partitions=tuple(
            (topic.topic, index) for topic in v.transaction_partitions or () for index in topic.partition_ids
        ),
        updated_ms=v.transaction_last_update_timestamp_ms,
        started_ms=v.transaction_start_timestamp_ms,
        client_version=v.client_transaction_version,
        previous_producer_id=v.previous_producer_id,
        next_producer_id=v.next_producer_id,
    )
