"""The records of ``__consumer_offsets``: their keys and values as the group coordinator writes and reads them.

A key is an int16 *record type* and a message of that type; a value is an int16 *version* and the message in that
version; no value is a tombstone. Rules:

* Types 0 and 1 are offset commits (same layout), 2 is a classic group, 3-8 and 16 belong to KIP-848 groups, 10-15 to
  share groups (KIP-932), 17 and 19-23 to streams groups (KIP-1071; nothing writes 18). Any other type is unknown:
  ``decode_key`` returns it with None, and the caller keeps or skips the raw record (Kafka 3.5+ skips it with a warning).
* A known type whose value has an unknown version raises :class:`UnknownValueVersionError`: to skip it would lose state.
* Every version that a Kafka has written can be read and written: commits and groups 0-4, those of epoch-based groups 0.

Sources: GroupMetadataManager.scala, CoordinatorRecordSerde.java, GroupCoordinatorRecordSerde.java.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

from kafka_wire.codec import DecodeError, EncodeError, decode, encode, encoding
from kafka_wire.messages import offsets_log as schema
from kafka_wire.messages.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafka_wire.schema import ZERO_UUID
from kafka_wire.wire import ONE_BYTE, string_length

OFFSET_COMMIT_LEGACY = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2
CONSUMER_GROUP_METADATA = 3
CONSUMER_GROUP_PARTITION_METADATA = 4
CONSUMER_GROUP_MEMBER_METADATA = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
SHARE_GROUP_MEMBER_METADATA = 10
SHARE_GROUP_METADATA = 11
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
SHARE_GROUP_STATE_PARTITION_METADATA = 15
CONSUMER_GROUP_REGULAR_EXPRESSION = 16
STREAMS_GROUP_METADATA = 17
STREAMS_GROUP_MEMBER_METADATA = 19
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
STREAMS_GROUP_TOPOLOGY = 23

_KEYS: dict[int, type] = {
    OFFSET_COMMIT_LEGACY: OffsetCommitKey,
    OFFSET_COMMIT: OffsetCommitKey,
    GROUP_METADATA: GroupMetadataKey,
    CONSUMER_GROUP_METADATA: schema.ConsumerGroupMetadataKey,
    CONSUMER_GROUP_PARTITION_METADATA: schema.ConsumerGroupPartitionMetadataKey,
    CONSUMER_GROUP_MEMBER_METADATA: schema.ConsumerGroupMemberMetadataKey,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: schema.ConsumerGroupTargetAssignmentMetadataKey,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: schema.ConsumerGroupTargetAssignmentMemberKey,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: schema.ConsumerGroupCurrentMemberAssignmentKey,
    SHARE_GROUP_MEMBER_METADATA: schema.ShareGroupMemberMetadataKey,
    SHARE_GROUP_METADATA: schema.ShareGroupMetadataKey,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: schema.ShareGroupTargetAssignmentMetadataKey,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: schema.ShareGroupTargetAssignmentMemberKey,
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: schema.ShareGroupCurrentMemberAssignmentKey,
    SHARE_GROUP_STATE_PARTITION_METADATA: schema.ShareGroupStatePartitionMetadataKey,
    CONSUMER_GROUP_REGULAR_EXPRESSION: schema.ConsumerGroupRegularExpressionKey,
    STREAMS_GROUP_METADATA: schema.StreamsGroupMetadataKey,
    STREAMS_GROUP_MEMBER_METADATA: schema.StreamsGroupMemberMetadataKey,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: schema.StreamsGroupTargetAssignmentMetadataKey,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: schema.StreamsGroupTargetAssignmentMemberKey,
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: schema.StreamsGroupCurrentMemberAssignmentKey,
    STREAMS_GROUP_TOPOLOGY: schema.StreamsGroupTopologyKey,
}

# record type: class, newest version
_VALUES: dict[int, tuple[type, int]] = {
    OFFSET_COMMIT_LEGACY: (OffsetCommitValue, 4),
    OFFSET_COMMIT: (OffsetCommitValue, 4),
    GROUP_METADATA: (GroupMetadataValue, 4),
    CONSUMER_GROUP_METADATA: (schema.ConsumerGroupMetadataValue, 0),
    CONSUMER_GROUP_PARTITION_METADATA: (schema.ConsumerGroupPartitionMetadataValue, 0),
    CONSUMER_GROUP_MEMBER_METADATA: (schema.ConsumerGroupMemberMetadataValue, 0),
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (schema.ConsumerGroupTargetAssignmentMetadataValue, 0),
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (schema.ConsumerGroupTargetAssignmentMemberValue, 0),
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (schema.ConsumerGroupCurrentMemberAssignmentValue, 0),
    SHARE_GROUP_MEMBER_METADATA: (schema.ShareGroupMemberMetadataValue, 0),
    SHARE_GROUP_METADATA: (schema.ShareGroupMetadataValue, 0),
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: (schema.ShareGroupTargetAssignmentMetadataValue, 0),
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: (schema.ShareGroupTargetAssignmentMemberValue, 0),
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: (schema.ShareGroupCurrentMemberAssignmentValue, 0),
    SHARE_GROUP_STATE_PARTITION_METADATA: (schema.ShareGroupStatePartitionMetadataValue, 0),
    CONSUMER_GROUP_REGULAR_EXPRESSION: (schema.ConsumerGroupRegularExpressionValue, 0),
    STREAMS_GROUP_METADATA: (schema.StreamsGroupMetadataValue, 0),
    STREAMS_GROUP_MEMBER_METADATA: (schema.StreamsGroupMemberMetadataValue, 0),
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: (schema.StreamsGroupTargetAssignmentMetadataValue, 0),
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: (schema.StreamsGroupTargetAssignmentMemberValue, 0),
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: (schema.StreamsGroupCurrentMemberAssignmentValue, 0),
    STREAMS_GROUP_TOPOLOGY: (schema.StreamsGroupTopologyValue, 0),
}

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_KEY_HEAD = struct.Struct(">hh")
_COMMIT_V3_HEAD = struct.Struct(">hqih")
_COMMIT_V4_HEAD = struct.Struct(">hqi")
_INT64 = struct.Struct(">q")

_NOT_ENCODABLE = (struct.error, AttributeError, UnicodeEncodeError)


class UnknownValueVersionError(DecodeError):
    """A record of a known type whose value has a version that no Kafka we know writes."""


def kind_name(record_type: int) -> str:
    """Return Kafka's name for a type of records; ``type 99`` for a type that Kafka doesn't have."""
    known = _KEYS.get(record_type)
    return known.__name__.removesuffix("Key") if known else f"type {record_type}"


# --- reading ---------------------------------------------------------------------------------------------------------


def decode_key(key: bytes) -> tuple[int, Any]:
    """``(record type, key message)``; the message is None for an unknown type. Raises DecodeError if malformed."""
    try:
        (record_type,) = _INT16.unpack_from(key)
    except struct.error:
        raise DecodeError(f"a record key of {len(key)} bytes has no record type") from None
    cls = _KEYS.get(record_type)
    return record_type, None if cls is None else decode(cls, 0, key, 2)


def decode_value(record_type: int, value: bytes | None) -> Any:
    """The value's message; None for a tombstone and for an unknown record type.

    Raises UnknownValueVersionError, and DecodeError for a malformed value.
    """
    if value is None or record_type not in _VALUES:
        return None
    cls, newest = _VALUES[record_type]
    try:
        (version,) = _INT16.unpack_from(value)
    except struct.error:
        raise DecodeError(f"the value of a {cls.__name__} of {len(value)} bytes has no version") from None
    if not 0 <= version <= newest:
        raise UnknownValueVersionError(f"{cls.__name__} has no version {version} (0-{newest})")
    return decode(cls, version, value, 2)


# --- writing ---------------------------------------------------------------------------------------------------------


def offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    """The key (type 1) under which the offset of one partition of one group is kept. Raises EncodeError."""
    try:
        g, t = group.encode(), topic.encode()
        return _KEY_HEAD.pack(OFFSET_COMMIT, len(g)) + g + _INT16.pack(len(t)) + t + _INT32.pack(partition)
    except _NOT_ENCODABLE as error:
        raise EncodeError(f"OffsetCommitKey: {error}") from None


def offset_commit_value(
    version: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_ts_ms: int,
    expire_ts_ms: int = -1,
    topic_id: bytes = ZERO_UUID,
) -> bytes:
    """The value of an offset commit: its int16 ``version`` (0-4) and the message. Raises EncodeError.

    Leader epochs exist from version 3 on, an expire timestamp in version 1 only, a topic's id from version 4 on; elsewhere they are
    left out.
    """
    try:
        m = metadata.encode()
        if version == 4:
            head = _COMMIT_V4_HEAD.pack(4, offset, leader_epoch)
            size = ONE_BYTE[len(m) + 1] if len(m) < 127 else string_length("metadata", len(m) + 1)
            return head + size + m + _INT64.pack(commit_ts_ms) + offset_commit_tags(topic_id)
        if version == 3:
            return _COMMIT_V3_HEAD.pack(3, offset, leader_epoch, len(m)) + m + _INT64.pack(commit_ts_ms)
    except _NOT_ENCODABLE as error:
        raise EncodeError(f"OffsetCommitValue v{version}: {error}") from None
    return encode_value(version, OffsetCommitValue(offset, leader_epoch, metadata, commit_ts_ms, expire_ts_ms))


def offset_commit_tags(topic_id: bytes) -> bytes:
    """The bytes after the commit timestamp of a version 4 value: the tagged fields, with the topic id as the only one."""
    return b"\0" if topic_id == ZERO_UUID else b"\1\0\x10" + topic_id


def group_key(group: str) -> bytes:
    """The key (type 2) of a classic group. Raises EncodeError."""
    try:
        g = group.encode()
        return _KEY_HEAD.pack(GROUP_METADATA, len(g)) + g
    except _NOT_ENCODABLE as error:
        raise EncodeError(f"GroupMetadataKey: {error}") from None


def group_value(version: int, value: GroupMetadataValue) -> bytes:
    """The value of a classic group: its int16 ``version`` (0-4) and the message. Raises EncodeError."""
    return encode_value(version, value)


def encode_key(record_type: int, key: Any) -> bytes:
    """Any record's key from its type and message. Raises EncodeError."""
    if type(key) is not _KEYS.get(record_type):
        raise EncodeError(f"{type(key).__name__} is not the key of record type {record_type}")
    return _INT16.pack(record_type) + encode(key, 0)


def encode_value(version: int, value: Any) -> bytes:
    """Any record's value: its int16 ``version`` and the message in that version. Raises EncodeError."""
    body = encode(value, version)  # first: it knows which versions there are
    return _INT16.pack(version) + body


def encoding_value(version: int, value: Any) -> Generator[None, None, bytes]:
    """As `encode_value`, encoded in pieces."""
    parts, pieces = [_INT16.pack(version)], []
    for _ in encoding(type(value), version, value, parts.append):
        pieces.append(b"".join(parts))  # a megabyte has a million parts
        parts.clear()
        yield
    return b"".join([*pieces, *parts])
