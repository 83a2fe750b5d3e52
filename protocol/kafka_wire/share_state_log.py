"""The records of ``__share_group_state``: how far share groups are in partitions, as the share coordinator writes and reads it.

A key is an int16 *record type* and the message of that type: 0 a snapshot, 1 an update of the snapshot before it. A value is an int16
*version* (0 alone) and the message; no value is a tombstone.

Sources: ShareSnapshotKey.json and its siblings, ShareCoordinatorRecordSerde.java.
"""

from __future__ import annotations

from kafka_wire.codec import DecodeError, decode, encode
from kafka_wire.messages.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from kafka_wire.record_head import INT16, first

__all__ = [
    "SNAPSHOT",
    "UPDATE",
    "Key",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "StateBatch",
    "Value",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]

SNAPSHOT, UPDATE = 0, 1

Key = ShareSnapshotKey | ShareUpdateKey
Value = ShareSnapshotValue | ShareUpdateValue

_KEYS: dict[int, type[Key]] = {SNAPSHOT: ShareSnapshotKey, UPDATE: ShareUpdateKey}
_VALUES: dict[type, type[Value]] = {ShareSnapshotKey: ShareSnapshotValue, ShareUpdateKey: ShareUpdateValue}
_TYPES: dict[type, int] = {cls: kind for kind, cls in _KEYS.items()}


def encode_key(key: Key) -> bytes:
    """A record's key. Raises EncodeError."""
    return INT16.pack(_TYPES[type(key)]) + encode(key, 0)


def encode_value(value: Value) -> bytes:
    """A record's value. Raises EncodeError."""
    return INT16.pack(0) + encode(value, 0)


def decode_key(key: bytes) -> Key | None:
    """A record's key; None for a record type that isn't known. Raises DecodeError."""
    cls = _KEYS.get(first(key, "key"))
    if cls is None:
        return None
    read: Key = decode(cls, 0, key, 2)
    return read


def decode_value(key: Key, value: bytes) -> Value:
    """The value that goes with a key. Raises DecodeError, for a version that isn't known, too."""
    version = first(value, "value")
    if version != 0:
        raise DecodeError(f"a share group's state of version {version}")
    read: Value = decode(_VALUES[type(key)], version, value, 2)
    return read
