"""The records of ``__transaction_state``: what becomes of transactional ids, as the transaction coordinator writes and reads it.

A key is an int16 *record type* (0 alone) and the transactional id; a value is an int16 *version* and the message in that version: 0
until 3.9, 1 (flexible: KIP-915, KIP-890) since ``transaction.version`` 1; no value is a tombstone.

Sources: TransactionLog.scala, TransactionLogValue.json.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from kafka_wire.codec import DecodeError, EncodeError, decode, encode
from kafka_wire.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kafka_wire.record_head import INT16, first
from kafka_wire.remembered import remembered

__all__ = [
    "TransactionLogKey",
    "TransactionLogValue",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
    "transaction_value",
]

TRANSACTION = 0
_NEWEST_VALUE = 1
_HEAD = struct.Struct(">hqhib")
"""Version, producer id, epoch, timeout, status: the fields before the partitions."""
_TIMES = struct.Struct(">qq")
_NO_PARTITIONS = (4, 1)
"""Bytes of null in their place, by version."""
_REMEMBERED = 16
"""So many partitions at most are remembered with their bytes."""

Partitions = tuple[tuple[str, int], ...]


@remembered(entries=1024)
def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    return INT16.pack(TRANSACTION) + encode(TransactionLogKey(transactional_id), 0)


def encode_value(version: int, value: TransactionLogValue) -> bytes:
    """A value in one of its versions."""
    return INT16.pack(version) + encode(value, version)


def transaction_value(
    version: int,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    status: int,
    partitions: Partitions | None,
    updated_ms: int,
    started_ms: int,
    tags: tuple[int, int, int] = (0, -1, -1),
) -> bytes:
    """A value in one of its versions, as `encode_value` makes it of a `TransactionLogValue`: what its transactions have in common is
    encoded once. ``partitions``: (topic, index), None for null; ``tags``: client version, previous and next producer id, which version
    0 leaves out. Raises EncodeError.
    """
    if partitions is None:
        between = b"\0" if version else b"\xff\xff\xff\xff"
    else:
        between = (_partitions if len(partitions) <= _REMEMBERED else _encode_partitions)(version, partitions)
    try:
        head = _HEAD.pack(version, producer_id, epoch, timeout_ms, status)
        return head + between + _TIMES.pack(updated_ms, started_ms) + _tags(version, *tags)
    except struct.error as error:
        raise EncodeError(f"TransactionLogValue v{version}: {error}") from None


def _encode_partitions(version: int, partitions: Partitions) -> bytes:
    topics: dict[str, PartitionsSchema] = {}
    for topic, index in partitions:
        topics.setdefault(topic, PartitionsSchema(topic)).partition_ids.append(index)
    whole = encode_value(version, TransactionLogValue(transaction_partitions=list(topics.values())))
    return whole[_HEAD.size : len(whole) - _TIMES.size - version]  # version 1 ends with the number of tags: 0


_partitions = lru_cache(maxsize=1024)(_encode_partitions)


@lru_cache(maxsize=1024)
def _tags(version: int, client_version: int, previous: int, following: int) -> bytes:
    value = TransactionLogValue(
        transaction_partitions=None,
        client_transaction_version=client_version,
        previous_producer_id=previous,
        next_producer_id=following,
    )
    return encode_value(version, value)[_HEAD.size + _NO_PARTITIONS[version] + _TIMES.size :]


def decode_key(key: bytes) -> TransactionLogKey | None:
    """A record's key; None for a record type that isn't known. Raises DecodeError."""
    kind = first(key, "key")
    if kind != TRANSACTION:
        return None
    read: TransactionLogKey = decode(TransactionLogKey, 0, key, 2)
    return read


def decode_value(value: bytes) -> TransactionLogValue:
    """A record's value. Raises DecodeError, for a version that isn't known, too."""
    version = first(value, "value")
    if not 0 <= version <= _NEWEST_VALUE:
        raise DecodeError(f"a transaction's value of version {version}")
    read: TransactionLogValue = decode(TransactionLogValue, version, value, 2)
    return read
