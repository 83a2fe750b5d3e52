"""The coordinator's records in ``__consumer_offsets``: as objects, and their encoding (``encode``) and decoding (``decode``). Their
effects are in ``store``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_sim.coordinator.outcome import Offset
from broker_sim.coordinator.shard_loader import OtherRecord
from kafka_wire.codec import DecodeError
from kafka_wire.messages.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kafka_wire.offsets_log import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_key,
    group_value,
    kind_name,
    offset_commit_key,
    offset_commit_value,
)

T = TypeVar("T")

_GROUP_VALUE_VERSION = 3  # both of Kafka's coordinators write it
_LAST_INFLEXIBLE = 3


@dataclass(slots=True)
class OffsetRecord:
    """A committed offset, or its removal (``value`` None)."""

    group_id: str
    topic: str
    partition: int
    value: Offset | None


@dataclass(slots=True)
class GroupRecord:
    """A group's generation, protocol, leader, members and assignments, or its removal (``value`` None)."""

    group_id: str
    value: GroupMetadataValue | None


@dataclass(slots=True)
class EpochRecord:
    """A record of an epoch-based group, as messages of ``kafka_wire``, or its tombstone (``value`` None). ``type`` is the record type
    of the key; the messages are never changed. ``encoded``: a long value as bytes, if it was encoded in pieces before. Its value
    as the group has it is computed once (`parsed`), though ``latest`` and ``stored`` both apply it."""

    type: int
    key: Any
    value: Any | None
    encoded: bytes | None = field(default=None, repr=False, compare=False)
    _parsed: Any = field(default=None, repr=False, compare=False)

    def parsed(self, read: Callable[[Any], T]) -> T | None:
        """The value as the group has it, by ``read``, always the same function for a type of record; None of a tombstone."""
        if self._parsed is None and self.value is not None:
            self._parsed = read(self.value)
        parsed: T | None = self._parsed
        return parsed

    @property
    def group_id(self) -> str:
        """The group that a key belongs to."""
        group_id: str = self.key.group_id
        return group_id


Record = OffsetRecord | GroupRecord | EpochRecord


def encode(record: Record, commit_value_version: int) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka writes them; a commit with its own expiry needs value version 1."""
    if isinstance(record, EpochRecord):
        epoch_value, record.encoded = record.encoded, None  # not kept while the log is waited for
        if epoch_value is None and record.value is not None:
            epoch_value = encode_value(0, record.value)
        return encode_key(record.type, record.key), epoch_value
    if isinstance(record, GroupRecord):
        value = None if record.value is None else group_value(_GROUP_VALUE_VERSION, record.value)
        return group_key(record.group_id), value
    key = offset_commit_key(record.group_id, record.topic, record.partition)
    o = record.value
    if o is None:
        return key, None
    version = commit_value_version if o.expire_ts_ms == -1 else 1
    return key, offset_commit_value(
        version, o.offset, o.leader_epoch, o.metadata, o.commit_ts_ms, o.expire_ts_ms, o.topic_id
    )


def decode(key: bytes | None, value: bytes | None, *, later: bool, epochs: Collection[int] = ()) -> Record:
    """Decode a record of `encode`, or of another release. ``later``: the release (KIP-915, 3.5) skips unknown records and reads
    flexible values; ``epochs``: its record types of epoch-based groups. Raises OtherRecord for skipped records, DecodeError for records
    that it can't read."""
    if key is None:
        raise OtherRecord("without a key")
    kind, decoded = decode_key(key)
    if isinstance(decoded, OffsetCommitKey):
        return OffsetRecord(
            decoded.group, decoded.topic, decoded.partition, None if value is None else _offset(value, later)
        )
    if isinstance(decoded, GroupMetadataKey):
        return GroupRecord(decoded.group, None if value is None else _group(value, later))
    if kind in epochs:
        return EpochRecord(kind, decoded, decode_value(kind, value))
    if later:
        raise OtherRecord(kind_name(kind))
    raise DecodeError(f"a record of type {kind}")


def _offset(value: bytes, later: bool) -> Offset:
    _version(value, later)
    v = decode_value(OFFSET_COMMIT, value)
    return Offset(v.offset, v.leader_epoch, v.metadata, v.commit_timestamp, v.expire_timestamp, v.topic_id)


def _group(value: bytes, later: bool) -> GroupMetadataValue:
    stored = decode_value(GROUP_METADATA, value)
    assert isinstance(stored, GroupMetadataValue)
    if _version(value, later) == 0:  # it had no rebalance timeout: the session timeout served for both
        for member in stored.members:
            member.rebalance_timeout = member.session_timeout
    return stored


def _version(value: bytes, later: bool) -> int:
    version = int.from_bytes(value[:2], "big")
    if version > _LAST_INFLEXIBLE and not later:
        raise DecodeError(f"a value of version {version}")
    return version
