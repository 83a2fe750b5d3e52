"""One record of `__consumer_offsets` as a row of OFFSET_LOG: the plain way, out of protocol's decoders.

Rules:
1. What a row says is decided here. `offset_columns` reads the usual records faster, and gives the same rows to the value.
2. No record is lost: what can't be decoded, or isn't known, is a row of kind `other` with its bytes as they are.
3. Numbers are what Java makes of them: sums of 64 bits wrap.
Source: GroupCoordinatorRecordSerde.java, ControlRecordType.java; protocol/offsets_log.py.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

from kafka_wire import offsets_log
from kafka_wire.codec import DecodeError, decode
from kafka_wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from kafka_wire.record_batch import BatchHeader, ControlType, InvalidRecord, Record, control_type
from kafka_wire.uuids import uuid_text

__all__ = ["FARTHEST_MS", "Row", "row_of", "wrapped"]

Row = dict[str, Any]
"""Column -> value; a column that is missing is null. Moments are in `_ms` columns alone."""

FARTHEST_MS = 253_402_300_799_999
"""The last ms of the year 9999; moments beyond it, and before 1970, are null for people."""

_CONSUMER = "consumer"
_NEWEST_CONSUMER_PROTOCOL = 3
_NO_ID = bytes(16)
_COMMITS = (offsets_log.OFFSET_COMMIT_LEGACY, offsets_log.OFFSET_COMMIT)
_CONTROL_KINDS = {ControlType.COMMIT: "txn_commit", ControlType.ABORT: "txn_abort"}
_EPOCHS = ("epoch", "assignment_epoch", "member_epoch")


def row_of(record: Record, header: BatchHeader) -> tuple[Row, str | None]:
    """The row, and why its content could not be decoded, or None. Columns that a folder or a file gives are not in it."""
    row: Row = {
        "log_offset": wrapped(record.offset),
        "record_ts_ms": wrapped(record.timestamp),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "is_txn": header.is_transactional,
        "key_version": _int16(record.key),
        "value_version": _int16(record.value),
    }
    if header.is_control:
        return _control(row, record), None
    try:
        return _content(row, record), None
    except DecodeError as error:
        return _other(row, record), str(error)


def wrapped(number: int) -> int:
    """A number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def _int16(data: bytes | None) -> int | None:
    return None if data is None or len(data) < 2 else int.from_bytes(data[:2], "big", signed=True)


def _other(row: Row, record: Record) -> Row:
    return row | {"kind": "other", "raw_key": record.key, "raw_value": record.value}


def _control(row: Row, record: Record) -> Row:
    try:
        kind = _CONTROL_KINDS.get(ControlType(control_type(record.key)))
    except (InvalidRecord, ValueError):
        kind = None
    return _other(row, record) if kind is None else row | {"kind": kind}


def _content(row: Row, record: Record) -> Row:
    """Complete the row by the record's decoded key and value. Raises DecodeError."""
    if record.key is None:
        return _other(row, record)
    if row["key_version"] is not None:
        row["record_type"] = offsets_log.kind_name(row["key_version"])
    record_type, key = offsets_log.decode_key(record.key)
    value = offsets_log.decode_value(record_type, record.value)
    version = row["value_version"]
    if record_type in _COMMITS:
        return row | _commit(key, value, version) | {"record_type": None}
    if record_type == offsets_log.GROUP_METADATA:
        return row | {"group": key.group} | _group(value, version) | {"record_type": None}
    return _newer(_other(row, record), key, value)


def _commit(key: OffsetCommitKey, value: OffsetCommitValue | None, version: int) -> Row:
    result: Row = {"kind": "commit_tombstone", "group": key.group, "topic": key.topic, "partition": key.partition}
    if value is None:
        return result
    return result | {
        "kind": "commit",
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch if version >= 3 else None,
        "metadata": value.metadata,
        "commit_ts_ms": value.commit_timestamp,
        "expire_ts_ms": value.expire_timestamp if version == 1 else None,
        "topic_id": topic_id_text(value.topic_id),
    }


def _group(value: GroupMetadataValue | None, version: int) -> Row:
    if value is None:
        return {"kind": "group_tombstone"}
    consumers = value.protocol_type == _CONSUMER
    return {
        "kind": "group",
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_ts_ms": value.current_state_timestamp if version >= 2 else None,
        "members": [_member(member, version, consumers) for member in value.members],
    }


def _member(member: MemberMetadata, version: int, is_consumer: bool) -> Row:
    subscription = assignment = None
    if is_consumer:
        subscription = _consumer_protocol(ConsumerProtocolSubscription, member.subscription)
        assignment = _consumer_protocol(ConsumerProtocolAssignment, member.assignment)
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout if version >= 1 else None,
        "session_timeout_ms": member.session_timeout,
        "subscription": member.subscription,
        "assignment": member.assignment,
        "topics": subscription and subscription.topics,
        "assigned": assignment
        and [{"topic": part.topic, "partitions": part.partitions} for part in assignment.assigned_partitions],
    }


def _consumer_protocol(cls: type, data: bytes) -> Any:
    """A consumer's message, a later version's as far as it is known; None where the bytes are something else."""
    version = _int16(data)
    if version is None or version < 0:
        return None
    try:
        return decode(cls, min(version, _NEWEST_CONSUMER_PROTOCOL), data, 2)
    except DecodeError:
        return None


def _newer(row: Row, key: Any, value: Any) -> Row:
    """A record of a KIP-848 group, or one of a type that is not known."""
    if key is not None:
        row["group"] = key.group_id
        row["member"] = getattr(key, "member_id", None)
    if value is not None:
        row["generation"] = next((getattr(value, name) for name in _EPOCHS if hasattr(value, name)), None)
        row["detail"] = json.dumps(_plain(value), ensure_ascii=False)
    return row


def _plain(value: Any, name: str = "") -> Any:
    """A message as JSON has it, its fields named as in Kafka's schemas; tagged ones unless they are at their default."""
    if dataclasses.is_dataclass(value):
        tagged = {name for name, spec in getattr(value, "__fields__", ()) if spec.tag is not None}
        rows = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {
            _camel(field.name): _plain(value, field.name)
            for field, value in rows
            if field.name not in tagged or value != _default(field)
        }
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, bytes):
        return uuid_text(value) if name.endswith("_id") and len(value) == 16 else base64.b64encode(value).decode()
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def topic_id_text(raw: bytes) -> str | None:
    """The id of a commit's topic; None for zeros."""
    return None if raw == _NO_ID else uuid_text(raw)
