"""Produce's fast path: one batch for one partition, read from the frame and answered in bytes.

Rules:
1. It answers what `k00_produce.handle` would answer, to the byte, or leaves the request to it: anything but a plain
   success - acks=0, several partitions, tagged fields, a held partition, any error - is left, before anything has
   happened.
2. A batch that the log refuses has left no trace, so the refusal too is left to the general path, which finds it again.
"""

from __future__ import annotations

import struct
from functools import partial

from broker_sim.handlers.context import ConnectionLike, FastHandler
from broker_sim.metadata import Broker, Partition
from broker_sim.storage import StorageError
from broker_sim.topics import INTERNAL_TOPICS
from protocol.record_batch import TRANSACTIONAL_BIT, RecordBatchError, produce_batch
from protocol.wire import read_uvarint

_ACKS = struct.Struct(">hi")  # acks, timeout
_OLD_HEAD = struct.Struct(">hhiih")  # transactional id's length, acks, timeout, number of topics, length of the name
_OLD_PARTITION = struct.Struct(">iii")  # number of partitions, index, length of the records
_INDEX = struct.Struct(">i")
_ONE = struct.pack(">i", 1)

_ALL, _LEADER = -1, 1

_Found = tuple[int, bytes, int, bytes]
"""acks, the topic as it stands in the frame (its name with its length, or its id), partition, records."""


def _compact_request(frame: bytes, at: int, by_id: bool) -> _Found | None:
    """The one batch of a request of version 9 and up; None for any other shape."""
    if frame[at] != 0:
        return None  # a transactional id
    acks, _ = _ACKS.unpack_from(frame, at + 1)
    at += 8
    size = 16 if by_id else frame[at]
    if frame[at - 1] != 2 or not 2 <= size <= 127:
        return None  # not one topic, or a name that is empty or long
    topic = frame[at : at + size]
    at += size
    if frame[at] != 2:
        return None  # not one partition
    (index,) = _INDEX.unpack_from(frame, at + 1)
    length, at = read_uvarint(frame, at + 5)
    end = at + length - 1
    if length == 0 or end + 3 != len(frame) or frame[end:] != b"\0\0\0":
        return None  # null, cut short, or tagged fields
    return acks, topic, index, frame[at:end]


def _old_request(frame: bytes, at: int, _: bool) -> _Found | None:
    """The same for versions 3 to 8."""
    if len(frame) < at + 28:
        return None  # no topic, or none with a partition
    tid, acks, _, topics, size = _OLD_HEAD.unpack_from(frame, at)
    if tid != -1 or topics != 1 or size <= 0:
        return None
    topic = frame[at + 12 : at + 14 + size]
    at += 14 + size
    if len(frame) < at + 12:
        return None
    partitions, index, length = _OLD_PARTITION.unpack_from(frame, at)
    at += 12
    if partitions != 1 or length < 0 or at + length != len(frame):
        return None
    return acks, topic, index, frame[at:]


def _find(broker: Broker, topic: bytes, index: int, version: int) -> Partition | None:
    """The partition, where this broker takes any client's batches for it."""
    state = broker.state
    if version >= 13:
        found = state.topics_by_id.get(topic)
    else:
        found = state.topics.get(str(topic[1 if version >= 9 else 2 :], "utf-8"))
    if found is None or not 0 <= index < len(found.partitions) or found.name in INTERNAL_TOPICS:
        return None
    partition = found.partitions[index]
    return partition if partition.leader == broker.node_id else None


def _answer(version: int, connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | None:
    request = (_compact_request if version >= 9 else _old_request)(frame, body, version >= 13)
    if request is None:
        return None
    acks, topic, index, records = request
    broker = connection.broker
    partition = _find(broker, topic, index, version)
    if partition is None or (acks != _LEADER and (acks != _ALL or partition.held)):
        return None
    state = broker.state
    if acks == _ALL and len(partition.isr) < state.min_isr(partition):
        return None
    try:
        header = produce_batch(records, version)
        if header.attributes & TRANSACTIONAL_BIT:
            return None
        info = partition.append(records, now_ms=state.clock.now_ms(), header=header)
    except (RecordBatchError, StorageError):
        return None
    time_ms = info.max_timestamp if info.duplicate else info.log_append_time_ms
    return _ENCODE[version](topic, index, info.base_offset, time_ms, partition.log.log_start_offset)


_NEW = struct.Struct(">ihqqqbbbbib")
_V8 = struct.Struct(">ihqqqihi")
_V5 = struct.Struct(">ihqqqi")
_V3 = struct.Struct(">ihqqi")


def _encode_new(topic: bytes, index: int, base: int, time_ms: int, start: int) -> bytes:
    """One topic, one partition, no record errors, no message, no tags; throttle time 0."""
    return b"\x02" + topic + b"\x02" + _NEW.pack(index, 0, base, time_ms, start, 1, 0, 0, 0, 0, 0)


def _encode_v8(topic: bytes, index: int, base: int, time_ms: int, start: int) -> bytes:
    return _ONE + topic + _ONE + _V8.pack(index, 0, base, time_ms, start, 0, -1, 0)


def _encode_v5(topic: bytes, index: int, base: int, time_ms: int, start: int) -> bytes:
    return _ONE + topic + _ONE + _V5.pack(index, 0, base, time_ms, start, 0)


def _encode_v3(topic: bytes, index: int, base: int, time_ms: int, _start: int) -> bytes:
    return _ONE + topic + _ONE + _V3.pack(index, 0, base, time_ms, 0)


_ENCODE = {
    version: _encode_new if version >= 9 else _encode_v8 if version == 8 else _encode_v5 if version >= 5 else _encode_v3
    for version in range(3, 14)
}

FAST: dict[int, FastHandler] = {version: partial(_answer, version) for version in _ENCODE}
