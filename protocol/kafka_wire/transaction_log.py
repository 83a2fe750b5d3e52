"""The records of ``__transaction_state``: what becomes of transactional ids, as the transaction coordinator writes and reads it.

A key is an int16 *record type* (0 alone) and the transactional id; a value is an int16 *version* and the message in that version: 0
until 3.9, 1 (flexible: KIP-915, KIP-890) since ``transaction.version`` 1; no value is a tombstone.

Sources: TransactionLog.scala, TransactionLogValue.json.
"""

from __future__ import annotations

from functools import lru_cache

from kafka_wire.codec import DecodeError, decode, encode
from kafka_wire.messages.transaction_log import TransactionLogKey, TransactionLogValue
from kafka_wire.record_head import INT16, first

__all__ = ["TransactionLogKey", "TransactionLogValue", "decode_key", "decode_value", "encode_key", "encode_value"]

TRANSACTION = 0
_NEWEST_VALUE = 1


@lru_cache(maxsize=1024)
def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    return INT16.pack(TRANSACTION) + encode(TransactionLogKey(transactional_id), 0)


def encode_value(version: int, value: TransactionLogValue) -> bytes:
    """A value in one of its versions."""
    return INT16.pack(version) + encode(value, version)


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
